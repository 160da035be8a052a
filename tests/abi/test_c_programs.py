"""C programs against the installed library: use, refusals, faults, fork. Each program prints what did not hold."""

from pathlib import Path

import pytest

from .conftest import ROOT, STRICT, must, require, run

PLUGINS = sorted(p.parent.name for p in (ROOT / "plugins").glob("*/plugin.cpp"))
BACKENDS = ["toy", *PLUGINS]
REFUSALS = [
    "configuration",
    "memory_and_options",
    "newer_callers",
    "batches",
    "spelled_out",
    "queries",
    "whole_table",
    "backends",
    "operations",
    "devices",
    "slab_allocator",
    "short_errors",
]


def passes(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = run(*command, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("backend", BACKENDS)
def test_strict_c11_program_uses_a_table(program, backends, backend):
    assert " 0 failed" in passes(program("use_table"), backend, backends[backend])


@pytest.mark.parametrize("backend", PLUGINS)
def test_installed_backend_is_found_by_name(program, backend):
    assert " 0 failed" in passes(program("use_table"), backend)


def test_defaults_for_languages_without_macros(program):
    assert " 0 failed" in passes(program("defaults"))


def test_the_program_of_the_documentation(prefix, tmp_path):
    text = (ROOT / "docs" / "c.md").read_text().partition("```c\n")[2].partition("```")[0]
    source, binary = tmp_path / "numbers.c", tmp_path / "numbers"
    source.write_text(text)
    must("cc", *STRICT, source, "-o", binary, *prefix.flags("--cflags", "--libs"), f"-Wl,-rpath,{prefix.libdir}")
    assert passes(binary) == "4: found 40\n5: absent 0\n"


@pytest.mark.parametrize("how", [[], ["-DGPUHASH_EXPECTED", "-fno-exceptions"]])
def test_a_program_in_cpp_uses_tables(prefix, tmp_path, how):
    binary = tmp_path / "table"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", *how]
    link = [*prefix.flags("--cflags", "--libs"), f"-Wl,-rpath,{prefix.libdir}"]
    must(require("c++"), *flags, ROOT / "tests" / "abi" / "programs" / "table.cpp", "-o", binary, *link)
    assert passes(binary) == "0 failed\n"


def test_words_are_counted_by_an_index_of_columns(program, tmp_path):
    assert "8 words, 4 distinct" in passes(program("words"))
    text = tmp_path / "text"
    text.write_text("b a\n\tb  ccc b a " * 1000)
    assert passes(program("words"), text).splitlines()[:4] == [
        "6000 words, 3 distinct",
        "      3000  b",
        "      2000  a",
        "      1000  ccc",
    ]


@pytest.mark.parametrize("most", ["baseline", "avx2", "avx512"])
def test_hashes_of_rows_are_the_published_ones(program, most):
    vectors = ROOT / "tests" / "columns" / "hash_vectors.tsv"
    assert " 0 failed" in passes(program("hash_vectors"), vectors, env={"GPUHASH_ISA": most})


@pytest.mark.parametrize("most", ["baseline", "avx2", "avx512"])
def test_rows_are_partitioned_as_the_contract_says(program, most):
    assert " 0 failed" in passes(program("partition"), env={"GPUHASH_ISA": most})


@pytest.mark.parametrize("group", REFUSALS)
def test_bad_arguments_are_refused(program, toy, echo, slab_echo, group):
    assert " 0 failed" in passes(program("refusals"), group, toy, echo, slab_echo)


@pytest.mark.parametrize("backend", BACKENDS)
def test_op_codes_that_execute_does_not_have(program, backends, backend):
    assert " 0 failed" in passes(program("ops"), backend, backends[backend])


@pytest.mark.parametrize("backend", PLUGINS)
def test_a_table_is_exported_in_parts(program, backends, backend):
    assert " 0 failed" in passes(program("export_parts"), backend, backends[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_failing_allocation_of_a_table(program, backends, backend):
    assert " 0 failed" in passes(program("faults"), backend, backends[backend])


def test_every_failing_allocation_of_the_library(program, toy):
    env = {"GPUHASH_PLUGIN_PATH": str(toy.parent)}
    assert "allocations failed in turn" in passes(program("host_faults"), env=env)


def test_long_ranges_without_memory_for_their_parts(program, backends):
    assert " 0 failed" in passes(program("long_ranges"), "skiplist", backends["skiplist"])


@pytest.mark.parametrize("backend", [name for name in PLUGINS if name != "stadium"])  # which sorts nothing
def test_a_mixed_batch_without_memory_for_sorting(program, backends, backend):
    assert " 0 failed" in passes(program("mixed"), backend, backends[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_forked_child(program, backends, slab_echo, backend):
    allocator = backends.get("slab_hash", slab_echo)
    assert " 0 failed" in passes(program("fork"), backend, backends[backend], allocator)


@pytest.mark.parametrize("backend", PLUGINS)
def test_fork_amid_calls_of_other_threads(program, backends, backend):
    assert " 0 failed" in passes(program("fork_amid"), backend, backends[backend])


@pytest.mark.parametrize("join", ["always", "blocks", "never"])
@pytest.mark.parametrize("backend", PLUGINS)
def test_equal_keys_of_accumulate(program, backends, backend, join):
    env = {"GPUHASH_TEST_JOIN": join}
    assert " 0 failed" in passes(program("joined"), backend, backends[backend], env=env)


@pytest.mark.parametrize("offers", ["1.0", "1.1"])
@pytest.mark.parametrize("backend", PLUGINS)
def test_module_of_the_kit_in_hosts_of_both_versions(program, backends, backend, offers):
    assert " 0 failed" in passes(program("old_host"), backends[backend], offers)


@pytest.mark.gpu
def test_pointers_of_other_devices(program, toy, backends):
    command = [program("cuda_pointers"), "toy", toy]
    if "linear_probe" in backends:
        command += ["linear_probe", backends["linear_probe"]]
    done = run(*command)
    if done.returncode == 77:
        pytest.skip(f"needs a CUDA device: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
