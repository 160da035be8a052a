"""Keys of a table whose figures are published, by the kind of device."""

SIZES = {"cpu": 1 << 24, "cuda": 1 << 27}
