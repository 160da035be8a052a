"""The published hash compiles for a GPU as it is, without a call and without local memory."""

from __future__ import annotations

import os

import pytest

from . import lint

KERNELS = """
#include "libgpuhash/columns/contract.hpp"
using namespace gpuhash;

__global__ void numbers(const int64_t* cells, const double* floats, u32 n, uint64_t seed, uint64_t* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint64_t root = contract::root(seed, 0), key = contract::key_of(root, contract::integer);
  out[5 * i] = contract::of_word(key, uint64_t(cells[i]));
  out[5 * i + 1] = contract::of_float(key, contract::key_of(root, contract::fraction), floats[i]);
  out[5 * i + 2] = contract::of_ticks(contract::key_of(root, contract::instant), cells[i], 1000);
  out[5 * i + 3] = contract::of_decimal(contract::key_of(root, contract::decimal), cells[i], 2);
  out[5 * i + 4] = contract::next_field(contract::key_of(root, contract::row), contract::of_null(root));
}
__global__ void text(const u8* cells, const u32* offsets, u32 n, uint64_t seed, uint64_t* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const contract::bytes_keys keys = contract::keys_of_bytes(contract::root(seed, 1), contract::text);
  out[i] = contract::of_bytes(keys, cells + offsets[i], offsets[i + 1] - offsets[i]);
}
"""


def test_the_published_hash_compiles_for_a_gpu(tmp_path):
    try:
        nvcc = lint.find_nvcc()
    except lint.NoCompilerError as error:
        pytest.skip(str(error))
    source, ptx = tmp_path / "contract.cu", tmp_path / "contract.ptx"
    source.write_text(KERNELS)
    lint.run(
        nvcc, "-std=c++20", "-Werror=all-warnings", f"-I{lint.ROOT}", "-arch=compute_90", "-ptx", source, "-o", ptx
    )
    assert "call" not in ptx.read_text()
    report = lint.run(nvcc.with_name("ptxas"), "--verbose", "--gpu-name=sm_90", ptx, "-o", os.devnull)
    assert report.count("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == 2
