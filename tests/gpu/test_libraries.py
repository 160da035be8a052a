"""Arrays and memory of other libraries on a GPU: subclasses, JAX without 8 bytes, caches that hold memory, captures."""

import os

import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu


def test_a_subclass_of_a_tensor_is_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    kind = type("Image", (torch.Tensor,), {"__module__": "somewhere.tensors"})
    keys = torch.tensor([3, 1, 3], device="cuda").as_subclass(kind)
    values = keys.float()
    for found in (
        gh.unique(keys),
        *gh.value_counts(keys),
        *gh.factorize(keys),
        *gh.group_reduce(keys, values, "mean"),
        *gh.group_reduce(keys, values, "min"),
        gh.isin(keys, keys),
    ):
        assert isinstance(found, torch.Tensor)
    with gh.Table("linear_probe", key_dtype="int64", value_dtype="float32", device="cuda") as table:
        assert type(table.insert(keys, values)) is torch.Tensor
        assert type(table.find(keys)[0]) is torch.Tensor


def test_calls_on_a_subclass_are_on_the_current_stream() -> None:
    torch = pytest.importorskip("torch")
    kind = type("Image", (torch.Tensor,), {"__module__": "somewhere.tensors"})
    n = 1 << 22
    with gh.Table("linear_probe", key_dtype="int64", value_dtype="int64", capacity=2 * n, device="cuda") as table:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(20):
                keys = torch.arange(n, device="cuda")
                late = (keys.sort(descending=True).values + i).as_subclass(kind)
                table.insert(late, late)
                assert bool(table.contains(late).all())


def test_jax_without_8_bytes() -> None:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax = pytest.importorskip("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("jax_enable_x64 is set")
    keys = jax.numpy.array([5, -1, 5, 7], dtype="int32")
    for call in (
        gh.value_counts,
        gh.factorize,
        lambda k: gh.group_reduce(k, k),
        lambda k: gh.group_reduce(k, k, "mean"),
        lambda k: gh.group_reduce(k, k, "count"),
    ):
        with pytest.raises(TypeError, match="jax_enable_x64"):
            call(keys)
    with pytest.raises(TypeError, match="pass dtype='int32'"):
        gh.group_reduce(keys, keys)
    distinct, sums = gh.group_reduce(keys, keys, dtype="int32")
    assert dict(zip(distinct.tolist(), sums.tolist(), strict=True)) == {5: 10, -1: -1, 7: 7}
    assert sorted(gh.unique(keys).tolist()) == [-1, 5, 7]


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_memory_that_a_cache_holds(name: str) -> None:
    library = pytest.importorskip(name)
    if name == "torch":
        keys = library.arange(1 << 24, device="cuda")
        held = library.empty(library.cuda.mem_get_info()[0] - (40 << 20), dtype=library.uint8, device="cuda")
        words, give_up = r"call torch.cuda.empty_cache\(\), or pass memory='torch'", library.cuda.empty_cache
    else:
        keys = library.arange(1 << 24)
        held = library.empty(library.cuda.runtime.memGetInfo()[0] - (40 << 20), "u1")
        words, give_up = r"or pass memory='cupy'", library.get_default_memory_pool().free_all_blocks
    del held
    tables: list[gh.Table] = []

    def use_up() -> None:  # the library's own pool, too
        while len(tables) < 1000:
            tables.append(gh.Table(key_dtype="i8", capacity=1 << 24, device="cuda"))

    try:
        with pytest.raises(gh.NoMemory, match=words):
            use_up()
        tables.clear()
        assert len(gh.unique(keys, memory=name)) == 1 << 24
    finally:
        give_up()
    assert len(gh.unique(keys)) == 1 << 24


def test_a_verb_in_a_capture() -> None:
    torch = pytest.importorskip("torch")
    keys = torch.arange(512, device="cuda")
    gh.unique(keys)
    graph, out = torch.cuda.CUDAGraph(), torch.zeros(512, dtype=torch.int64, device="cuda")
    with torch.cuda.graph(graph):
        with pytest.raises(gh.InvalidArgument, match="a verb gives results of a size"):
            gh.unique(keys)
        out.add_(keys)
    graph.replay()  # the capture went on
    torch.cuda.synchronize()
    assert bool((out == keys).all())
