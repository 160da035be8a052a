"""Plugins of other authors: each mistake that a host can see has its own sentence, which names the module."""

import shutil
import sys
from pathlib import Path

import pytest

from .conftest import HERE, Prefix, must, require

NEEDED = ["probe", "create", "destroy", "run", "info", "export_pairs", "clear", "reserve", "shrink", "check", "stats",
          "histogram"]  # fmt: skip
PROMISED = ["flush", "find_all", "lower_bound", "range"]

# Mistakes of the description: the module is refused.
REFUSED = {
    "size_zero": "sets struct_size to 0; between",
    "size_huge": "sets struct_size to 100000; between",
    "size_short": "bytes of gpuhash_backend_v1 are needed",
    "init_status": "init answered with the status 77, which gpuhash.h does not have",
    "init_negative": "init answered with the status -1, which gpuhash.h does not have",
    "init_fills_nothing": "init answered OK, but has filled nothing in",
    "init_control_message": "refuses this host (plugin ABI 1.6): bad?news",
    "trait_unknown": "announces trait bit 40, which plugin ABI 1.6 does not have",
    "key_width_3": "announces keys of 3 bytes; 4 and 8 are possible",
    "key_width_16": "announces keys of 16 bytes; 4 and 8 are possible",
    "value_width_2": "announces values of 2 bytes; 0, 4 and 8 are possible",
    "wide_width_6": "announces keys of 6 bytes; multiples of 4 are possible",
    "no_key_width": "announces no key or no value width",
    "no_value_width": "announces no key or no value width",
    "no_device": "announces no device",
    "device_5": "announces device kind 5; 1 (CPU) and 2 (CUDA) are known",
    "device_0": "announces device kind 0; 1 (CPU) and 2 (CUDA) are known",
    "name_null": "calls its backend '(NULL)'",
    "name_empty": "calls its backend ''",
    "name_words": "calls its backend 'Two Words'",
    "name_control": "calls its backend 'a?b'",
    "name_long": "calls its backend 'aaaa",
    "name_other": "contains the backend 'other'; its file must be named gpuhash_other.so",
    "options_null": "announces 3 options, but options is NULL",
    "options_many": "announces 1000000 options; at most 256 are taken",
    "options_same": "announces the option 'one' twice",
    "options_odd": "the key of option 0 is 'two words'",
    "slab_short": "sets struct_size of its slab allocator to 16",
    "slab_hole": "leaves the entry 'translate' of its slab allocator NULL",
    "slab_last": "leaves the entry 'stats' of its slab allocator NULL",
    **{f"no_{entry}": f"leaves the entry '{entry}' NULL, which every plugin has to have" for entry in NEEDED},
    **{f"no_{entry}": f"leaves the entry '{entry}' NULL, though its traits promise it" for entry in PROMISED},
}

# Mistakes of an answer: the call that fails, its status, and words of its message.
ANSWERED = {
    "probe_status": ("probe", "PLUGIN_ERROR", "probe answered with the status 1000"),
    "create_null": ("create", "PLUGIN_ERROR", "create answered OK, but made no table (NULL)"),
    "create_status": ("create", "PLUGIN_ERROR", "create answered with the status 99, which gpuhash.h does not have"),
    "create_silent": ("create", "NO_MEMORY", "backend 'mistaken': create failed with NO_MEMORY and gave no reason"),
    "run_status": ("run", "PLUGIN_ERROR", "insert answered with the status 77, which gpuhash.h does not have"),
    "run_negative": ("run", "PLUGIN_ERROR", "insert answered with the status -5, which gpuhash.h does not have"),
    "run_silent": ("run", "FULL", "backend 'mistaken': insert failed with FULL and gave no reason"),
    "run_endless_message": ("run", "FULL", 500 * "A"),
    "run_control_message": ("run", "FULL", "no room [2J"),
    "run_lost_element": ("run", "PLUGIN_ERROR", "insert set out_status[39] to 2, which has no meaning"),
    "run_status_byte": ("run", "PLUGIN_ERROR", "insert set out_status[0] to 9, which has no meaning"),
    "counts_unset": ("counted", "PLUGIN_ERROR", "insert left counts unset"),
    "counts_many": ("counted", "PLUGIN_ERROR", "insert counted 40 successes and 1 failures in a batch of 40 elements"),
    "counts_wrap": ("counted", "PLUGIN_ERROR", "failures in a batch of 40 elements"),
    "counts_failed": ("counted", "PLUGIN_ERROR", "insert answered OK, but counted 1 elements that failed"),
    "info_used": ("info", "PLUGIN_ERROR", "info said that 65 of 64 slots are used"),
    "info_size": ("size", "PLUGIN_ERROR", "info said that 18446744073709551615 keys are in 10 used slots"),
    "info_slots": ("info", "PLUGIN_ERROR", "info said 18446744073709551615 slots"),
    "info_bytes": ("info", "PLUGIN_ERROR", "in 1152921504606846976 bytes, more than memory holds"),
    "info_capacity": ("info", "PLUGIN_ERROR", "info said that 1099511627776 keys fit into 64 slots"),
    "info_load": ("info", "PLUGIN_ERROR", "info said a max_load_factor of nan"),
    "info_traits": ("info", "PLUGIN_ERROR", "info said traits 0x100000"),
    "info_struct": ("info", "PLUGIN_ERROR", "info set struct_size to 100000"),
    "export_absurd": ("pairs", "PLUGIN_ERROR", "export said that there are 1125899906842624 pairs"),
    "export_more": ("export", "PLUGIN_ERROR", "export answered OK with 41 pairs, but the arrays have room for 40"),
    "part_more": ("part", "PLUGIN_ERROR", "export_part answered OK with 41 pairs, but the arrays have room for 40"),
    "part_none": ("part", "PLUGIN_ERROR", "export_part answered OK without a pair, though it says that there are more"),
    "part_state": ("part", "PLUGIN_ERROR", "export_part answered OK, and set the cursor's state to 7"),
    "stats_many": ("stats", "PLUGIN_ERROR", "stats said that there are 1099511627776 figures"),
    "stats_endless": ("stats", "PLUGIN_ERROR", "stats gave a figure a name without an end"),
    "stats_nameless": ("stats", "PLUGIN_ERROR", "stats left the name of a figure empty"),
    "stats_control": ("stats", "PLUGIN_ERROR", "stats gave figure 0 a name that cannot be printed"),
    "find_all_unset": ("find_all", "PLUGIN_ERROR", "find_all did not fill offsets with ascending numbers from 0 on"),
    "find_all_falls": ("find_all", "PLUGIN_ERROR", "find_all did not fill offsets with ascending numbers"),
    "find_all_starts_late": ("find_all", "PLUGIN_ERROR", "find_all did not fill offsets with ascending numbers"),
    "find_all_more": ("find_all", "PLUGIN_ERROR", "find_all answered OK with 41 values, but the array has room for 40"),
    "lower_bound_byte": ("lower_bound", "PLUGIN_ERROR", "lower_bound set found[0] to 7"),
    "range_more": ("range", "PLUGIN_ERROR", "range counted 2 pairs in a range that takes 1"),
}
WHOLE = ["clear", "reserve", "shrink", "flush", "flush_range", "check", "histogram"]
CALLS = ["create", "run", "info", "export", "stats", "find_all", "lower_bound", "range", *WHOLE]


@pytest.fixture(scope="session")
def mistaken(compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_plugin(tmp_path_factory.mktemp("mistaken"), "mistaken.c", "mistaken", '-DNAME="mistaken"')


@pytest.fixture
def answer(program):
    """Run programs/answers.c; returns the fields of its first line, and the other lines."""

    def ask(module: Path, call: str, **env: str) -> tuple[list[str], list[str]]:
        lines = must(program("answers"), module, call, env=env).splitlines()
        return lines[0].split("\t"), lines[1:]

    return ask


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_module_with_a_wrong_description_is_refused(answer, mistaken, mistake):
    (status, code, message), _ = answer(mistaken, "open", MISTAKE=mistake)
    assert status == code == "PLUGIN_ERROR"
    assert message.startswith(f"module '{mistaken}'")
    assert REFUSED[mistake] in message


@pytest.mark.parametrize("mistake", ANSWERED)
def test_a_wrong_answer_is_an_error(answer, mistaken, mistake):
    call, wanted, words = ANSWERED[mistake]
    (status, code, message), rest = answer(mistaken, call, MISTAKE=mistake)
    assert status == code == wanted
    assert words in message
    if wanted == "PLUGIN_ERROR":
        assert message.startswith(f"backend 'mistaken' ('{mistaken}'): ")
    assert rest == (["destroyed"] if call not in ("probe", "create") else [])


def test_a_lost_element_at_the_end_of_a_large_batch(answer, mistaken):
    """The statuses of a large batch are looked at by several threads."""
    (status, _, message), _ = answer(mistaken, "large", MISTAKE="run_lost_element")
    assert status == "PLUGIN_ERROR"
    assert "insert set out_status[300000] to 2, which has no meaning" in message


@pytest.mark.parametrize("call", WHOLE)
def test_an_unknown_status_names_the_operation(answer, mistaken, call):
    (status, _, message), rest = answer(mistaken, call, MISTAKE="whole_status")
    assert status == "PLUGIN_ERROR"
    assert f"'{mistaken}'): {call} answered with the status 12, which gpuhash.h does not have" in message
    assert rest == ["destroyed"]


@pytest.mark.parametrize("mistake", ["", "size_untouched", "version_null", "summary_control"])
def test_what_is_no_mistake_is_taken(answer, mistaken, mistake):
    first, rest = answer(mistaken, "open", MISTAKE=mistake)
    assert first == ["OK", "OK", ""]
    summary = {"version_null": "", "summary_control": "two?lines"}.get(mistake, "agrees to everything")
    assert rest == [f"mistaken\t{'' if mistake == 'version_null' else '1.0'}\t{summary}"]


@pytest.mark.parametrize("call", CALLS)
def test_a_good_call_leaves_the_error_empty(answer, mistaken, call):
    mistake = "run_ok_with_error" if call == "run" else ""
    assert answer(mistaken, call, MISTAKE=mistake) == (["OK", "OK", ""], ["destroyed"])


@pytest.fixture(scope="session", params=["a std::exception", "something else"])
def throwing(request, prefix, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A module in C++, and what its exceptions are called."""
    require("c++")
    other = request.param == "something else"
    module = tmp_path_factory.mktemp("throws") / "gpuhash_throws.so"
    flags = ["-std=c++20", "-shared", "-fPIC", *(["-DOTHER"] if other else []), *prefix.flags("--cflags")]
    must("c++", *flags, HERE / "plugins" / "throws.cpp", "-o", module)
    return module, "not a std::exception" if other else "a bad day"


@pytest.mark.parametrize("call", CALLS)
def test_an_exception_of_an_entry_is_an_error(answer, throwing, call):
    module, words = throwing
    (status, _, message), _ = answer(module, call, THROWS=call)
    operation = "insert" if call == "run" else call
    assert status == "PLUGIN_ERROR"
    assert message.startswith(f"backend 'throws' ('{module}'): {operation} threw an exception through the C ABI")
    assert words in message


def test_an_exception_of_init_of_probe_and_of_destroy(answer, throwing):
    module, words = throwing
    (status, _, message), _ = answer(module, "open", THROWS="init")
    assert status == "PLUGIN_ERROR"
    assert message == f"module '{module}': init threw an exception through the C ABI ({words})"
    assert "probe threw an exception" in answer(module, "probe", THROWS="probe")[0][2]
    assert answer(module, "clear", THROWS="destroy") == (["OK", "OK", ""], ["destroyed"])


# ---- the stand-alone allocator, of a copy of the library beside which a mistaken slab_hash lies


@pytest.fixture(scope="session")
def library_with_mistaken_slab_hash(prefix: Prefix, compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    shutil.copy(prefix.shared_object, folder)
    compile_plugin(folder / "gpuhash" / "plugins-v1", "mistaken.c", "slab_hash", '-DNAME="slab_hash"')
    return folder


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("slab_create_null", "slab create answered OK, but made no allocator (NULL)"),
        ("slab_allocate_status", "slab allocate answered with the status 77"),
        ("slab_stats", "slab stats said that 9 of 8 units in 0 bytes are allocated"),
        ("", None),
    ],
)
def test_wrong_answers_of_an_allocator(program, library_with_mistaken_slab_hash, mistake, words):
    env = {"LD_LIBRARY_PATH": str(library_with_mistaken_slab_hash), "MISTAKE": mistake}
    *before, last = must(program("answers"), "/", "slab", env=env).splitlines()
    assert all(line == "OK\tOK\t" for line in before)
    if words is None:
        assert last == "OK\tOK\t"
    else:
        assert last.startswith("PLUGIN_ERROR\tPLUGIN_ERROR\tbackend 'slab_hash'")
        assert words in last


@pytest.mark.parametrize("mistake", ["run_lost_element", "run_status_byte"])
def test_a_wrong_status_byte_is_found_in_batches_of_any_length(mistaken, mistake):
    """The first or the last byte of n, which a check of several bytes at a time may pass over."""
    code = f"""
import numpy as np, pygpuhash as gh
with gh.Table({str(mistaken)!r}, device="cpu", capacity=100) as t:
    missed = []
    for n in range(1, 100):
        try:
            t.insert(np.arange(n, dtype="u8"), 1)
            missed.append(n)
        except gh.PluginError as error:
            assert "which has no meaning" in str(error), error
print(missed)
"""
    assert must(sys.executable, "-P", "-c", code, env={"MISTAKE": mistake}) == "[]\n"
