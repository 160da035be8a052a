"""The numbers of keys that published figures are measured with, for each kind of device."""

SIZES = {"cpu": 1 << 24, "cuda": 1 << 27}
