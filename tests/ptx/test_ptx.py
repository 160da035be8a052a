"""The PTX lint over every plugin, and proof that the lint notices what it is for."""

import json
import os
import re

import pytest

from . import lint

LAYOUT = {120: frozenset({24, 32, 40, 48, 56, 64, 80})}  # a request as test programs of this file have it
TABLE, REQUEST = 0, 1


@pytest.fixture(scope="session")
def nvcc():
    try:
        return lint.find_nvcc()
    except lint.NoCompilerError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("plugin", lint.plugins())
def test_kernels(plugin, nvcc):
    """What it finds has to stop a merge: .ci/run has it in a phase of its own."""
    result = lint.lint(plugin, nvcc=nvcc)
    print(result.line())
    assert result.problems == []
    assert result.accesses > 5 * result.kernels


def test_allowances_name_plugins_and_bytes():
    allowances = json.loads(lint.ALLOWANCES.read_text())
    assert set(allowances) <= set(lint.plugins())
    assert all(type(n) is int and n > 0 for kernels in allowances.values() for n in kernels.values())


def test_ptx_of_the_build_is_read_until_a_source_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    source = tmp_path / "plugins" / "some" / "plugin_cuda.cu"
    kept = tmp_path / "build" / "meson-linux-cuda" / "plugins" / "gpuhash_some.so.p" / "plugin_cuda.ptx"
    for path in (source, tmp_path / "plugins" / "meson.build", kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    kept.with_suffix(".cubin").touch()
    (kept.parents[2] / "gpuhash-settings").write_text("-Dcuda=enabled\n-Dgpu_archs=90\n")
    now = source.stat().st_mtime
    os.utime(kept, (now + 5, now + 5))
    assert lint.ptx_of_the_build(source, "90", [source]) == kept
    assert lint.ptx_of_the_build(source, "9", [source]) is None
    os.utime(source, (now + 9, now + 9))
    assert lint.ptx_of_the_build(source, "90", [source]) is None


# ---- the lint itself -------------------------------------------------------------------------------------------------


def kernel(*body, name="serve"):
    """A kernel with a table of 56 bytes, a request and a plain pointer, as ptxas would get it."""
    lines = "".join(f"\t{line}\n" for line in body)
    p = f"{name}_param"
    return (
        f".visible .entry {name}(\n\t.param .align 8 .b8 {p}_0[56],\n\t.param .align 8 .b8 {p}_1[120],\n"
        f"\t.param .u64 .ptr .align 1 {p}_2\n)\n.maxntid 256, 1, 1\n{{\n\t.reg .b64 \t%rd<9>;\n\n{lines}\tret;\n}}\n"
    )


# %rd1: a slot of the table, found as compiled code finds it. %rd5: the key of an element.
SLOT = (
    "mov.b64 %rd7, serve_param_0;",
    "add.s64 %rd8, %rd7, 16;",
    "ld.param.u64 %rd2, [%rd8+-16];",
    "mul.wide.u32 %rd3, %r1, 64;",
    "add.s64 %rd1, %rd2, %rd3;",
)
KEY = (
    "mov.b64 %rd17, serve_param_1;",
    "ld.param.u64 %rd14, [%rd17+32];",
    "cvta.to.global.u64 %rd15, %rd14;",
    "shl.b64 %rd6, %rd3, 3;",
    "add.s64 %rd5, %rd15, %rd6;",
)
USED = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info : Used 40 registers"


def problems(ptx, used=USED, allowed=None, names=("serve",)):
    report = "".join(f"ptxas info : Compiling entry function '{name}' for 'sm_90'\n{used}\n" for name in names)
    return lint.lint_ptx("test", ptx, lint.resources_of(report), LAYOUT, allowed or {}).problems


def test_legal_accesses():
    relaxed = [
        "ld.relaxed.gpu.global.v2.u64 {%rd2,%rd3},[%rd1];",
        "atom.relaxed.gpu.global.cas.b64 %rd3,[%rd1],%rd2,%rd3;",
        "st.release.gpu.global.u64 [%rd1],%rd2;",
    ]
    plain = ["ld.global.u64 %rd2, [%rd5];", "st.global.u32 [%rd5+8], %r1;", "st.global.u8 [%rd5], %rs1;"]
    assert problems(kernel(*SLOT, *relaxed, *KEY, *plain)) == []


@pytest.mark.parametrize(
    ("access", "sentence"),
    [
        ("ld.global.u64 %rd3, [%rd1];", "weak access to table memory"),
        ("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1+16];", "weak access to table memory"),
        ("st.global.u64 [%rd1], %rd3;", "weak access to table memory"),
        ("ld.u64 %rd3, [%rd1];", "weak access to table memory"),
        ("ld.weak.global.u64 %rd3, [%rd1];", "weak access to table memory"),
        ("ld.global.nc.u64 %rd3, [%rd1];", ".nc access"),
        ("ld.global.nc.u64 %rd3, [%rd5];", ".nc access"),
        ("ld.global.u64 %rd3, [%rd6];", "unknown origin"),
        ("@%p1 ld.global.u64 %rd3, [%rd1];", "weak access to table memory"),
        ("{.reg .b128 x; ld.global.b128 x,[%rd1]; mov.b128 {%rd2,%rd3},x;}", "weak access to table memory"),
        ("ld.local.u64 %rd3, [%rd6];", "variables in memory"),
        ("call.uni (r), other, (p);", "calls a function"),
    ],
)
def test_illegal_access(access, sentence):
    (problem,) = problems(kernel(*SLOT, *KEY, access))
    assert sentence in problem


def test_mixed_sizes():
    narrow = "ld.relaxed.gpu.global.u32 %r1,[%rd1];"
    wide = "atom.relaxed.gpu.global.cas.b64 %rd3,[%rd1],%rd2,%rd3;"
    assert problems(kernel(*SLOT, narrow)) == []
    (problem,) = problems(kernel(*SLOT, narrow, wide))
    assert "mixed sizes, 4 and 8 bytes, through the pointer at byte 0 of parameter 0" in problem


def test_half_of_a_slot_may_be_added_to_and_no_more():
    slot = "atom.relaxed.gpu.global.cas.b128 r,[%rd1],e,d;"
    assert problems(kernel(*SLOT, slot, "red.relaxed.gpu.global.add.u64 [%rd1],%rd3;")) == []
    for other in ("atom.relaxed.gpu.global.add.u64 %rd3,[%rd1],%rd3;", "st.relaxed.gpu.global.u64 [%rd1],%rd3;"):
        (problem,) = problems(kernel(*SLOT, slot, other))
        assert "mixed sizes, 8 and 16 bytes" in problem


def test_origins_join_over_all_paths():
    # A slot or an element, depending on a predicate: weak is wrong for one of them.
    (problem,) = problems(kernel(*SLOT, *KEY, "selp.b64 %rd9, %rd5, %rd1, %p1;", "ld.global.u64 %rd3, [%rd9];"))
    assert "weak access to table memory" in problem


def test_pointers_survive_halves_and_shuffles():
    halves = ["mov.b64 {%r1, %r2}, %rd1;", "shfl.sync.idx.b32 %r3|%p1, %r1, 0, 31, -1;", "mov.b64 %rd9, {%r3, %r2};"]
    (problem,) = problems(kernel(*SLOT, *halves, "ld.global.u64 %rd3, [%rd9];"))
    assert "weak access to table memory" in problem


def test_scalars_of_the_request_are_no_pointers():
    # byte 16 of a request is its length
    body = ["mov.b64 %rd7, serve_param_1;", "ld.param.u64 %rd4, [%rd7+16];", "ld.global.u64 %rd3, [%rd4];"]
    (problem,) = problems(kernel(*body))
    assert "unknown origin" in problem


def test_types_of_parameters():
    name = "void g::serve<g::op<g::tile<g::(g::kind)3>, 2>(g::op<g::tile<g::pair, 8>>::table, g::request, int*)"
    assert lint.parameter_types(name) == ["g::op<g::tile<g::pair, 8>>::table", "g::request", "int*"]
    assert lint.parameter_types("serve") == []


def test_a_table_of_the_size_of_a_request_is_no_request():
    one = lint.kernels_of(kernel("ld.param.u64 %rd1, [serve_param_0+8];"))[0]
    one.sizes = [120, 120]
    field = lint.Origin(0, 8)
    assert lint.Flow(one, LAYOUT).is_request(field)
    one.types = ["g::table<g::pair32>", "g::request"]
    assert not lint.Flow(one, LAYOUT).is_request(field)


def test_kernels_that_read_alone():
    name = "_ZN7gpuhash6device5serveINS0_9cuda_tileINS0_6pair32ELi8ELi4ELb1EEEEEvv"
    if "cuda_tile<" not in lint.demangle([name])[name]:
        pytest.skip("c++filt is not installed")
    load, store = "ld.global.v2.u64 {%rd2,%rd3},[%rd1];", "st.global.u64 [%rd1], %rd3;"
    slot = [line.replace("serve_", f"{name}_") for line in SLOT]
    assert problems(kernel(*slot, load, name=name), names=[name]) == []
    (problem,) = problems(kernel(*slot, load, store, name=name), names=[name])
    assert "weak access to table memory: st.global" in problem


def test_lanes_that_read_and_write_rows_together_are_ordered():
    read = ["ld.acquire.sys.global.u64 %rd2,[%rd1];", "ld.relaxed.sys.global.v2.u64 {%rd2,%rd3},[%rd9];"]
    write = ["st.relaxed.sys.global.v2.u64 [%rd9],{%rd2,%rd3};", "atom.release.sys.global.or.b64 %rd2,[%rd1],%rd3;"]
    row = ["add.s64 %rd9, %rd2, 64;"]
    slot = [*SLOT, *row]
    sync, vote = "bar.warp.sync -1;", "vote.sync.ballot.b32 %r1, %p1, -1;"
    for first, then in (read, write):
        assert problems(kernel(*slot, first, vote, sync, then)) == []
        for between in ([], [vote]):
            (problem,) = problems(kernel(*slot, first, *between, then))
            assert "no bar.warp.sync between" in problem
        (problem,) = problems(kernel(*slot, sync, first, then, sync))
        assert "no bar.warp.sync between" in problem
    of_one_lane = ["st.relaxed.sys.global.u64 [%rd1],%rd3;", "st.release.sys.global.u64 [%rd9],%rd2;"]
    assert problems(kernel(*slot, *of_one_lane)) == []
    slot = [line.replace("serve_", "collect_") for line in slot]
    assert problems(kernel(*slot, *read, name="collect"), names=["collect"]) == []


def test_spills_and_stack():
    used = "8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads\nptxas info : Used 40 registers"
    (problem,) = problems(kernel(), used)
    assert problem == "serve: 8 bytes of stack and 16 bytes of spills, 0 are allowed"
    assert problems(kernel(), used, {"serve": 24}) == []
    assert len(problems(kernel(), used, {"serve": 23})) == 1


def test_machine_code_says_what_ptxas_said(nvcc, tmp_path):
    """Of a kernel that spills, one with an array in its frame and one that needs neither."""
    ptx, cubin = tmp_path / "some.ptx", tmp_path / "some.cubin"
    source = tmp_path / "some.cu"
    source.write_text(
        "__global__ void plain(int* p) { p[threadIdx.x] += 1; }\n"
        "__global__ void frame(int* p, int n) { int a[40]; for (int i = 0; i < 40; ++i) a[i] = p[i] * n;"
        " for (int i = 0; i < n; ++i) a[p[i] & 31] += i; p[n] = a[n]; }\n"
        "__global__ void __maxnreg__(24) spills(double* p) { double a[40];\n"
        "#pragma unroll\n"
        "for (int i = 0; i < 40; ++i) a[i] = p[i * 32];\n"
        "__syncthreads();\n"
        "#pragma unroll\n"
        "for (int i = 0; i < 40; ++i) p[i * 64] = a[39 - i] * a[i]; }\n"
    )
    lint.run(nvcc, "-std=c++20", "-gencode=arch=compute_90,code=compute_90", "-ptx", source, "-o", ptx)
    ptxas = nvcc.with_name("ptxas")
    report = lint.resources_of(lint.run(ptxas, "--verbose", "--gpu-name=sm_90", ptx, "-o", cubin))
    read = lint.resources_of_machine_code(cubin.read_bytes())
    assert {name: (r.registers, r.stack) for name, r in read.items()} == {
        name: (r.registers, r.stack) for name, r in report.items()
    }
    assert sorted(r.stack > 0 for r in read.values()) == [False, True, True]
    assert any(r.spills and r.stack for r in report.values())  # what is spilled lies in the frame


def test_functions_and_empty_files():
    with pytest.raises(ValueError, match="not inlined"):
        problems(".func helper(\n)\n{\n\tret;\n}\n" + kernel())
    assert problems("") == ["there is no kernel in it"]


@pytest.mark.slow
@pytest.mark.parametrize("plugin", lint.plugins())
def test_planted_faults_in_real_kernels(plugin, nvcc):
    """Relaxed accesses of table memory, made weak, are noticed, but for loads of kernels that read alone."""
    ptx = lint.compile_plugin(lint.ROOT / "plugins" / plugin / "plugin_cuda.cu", "90", nvcc).ptx
    layout = lint.request_layout()
    seen = 0
    for name, one in list(lint.named_kernels_of(ptx).items())[::7]:
        flow = lint.Flow(one, layout)
        for i, statement in enumerate(one.body):
            if not re.match(r"(ld|st)\.relaxed\.gpu\.global", statement):
                continue
            planted = [*one.body[:i], statement.replace(".relaxed.gpu", ""), *one.body[i + 1 :]]
            broken = lint.broken_rules(lint.Kernel(one.name, one.sizes, one.types, planted), name, flow)
            origins = flow.of(re.search(r"\[(.*?)\]", statement)[1])
            of_table = any(re.search(r"(table|slab_heap)(<|$)", one.types[origin.parameter]) for origin in origins)
            allowed = not of_table or (lint.reads_alone(name) and statement.startswith("ld"))
            assert allowed != any("weak access to table memory" in problem for problem in broken), statement
            seen += not allowed
    assert seen > 20
