"""SlabAlloc against the allocators that a machine has, on its CPU and on its GPU.

All allocate the same number of units of the same size by as many threads as the device uses, and free them again. On
the CPU the peers are the platform's malloc and, where they are installed, jemalloc and mimalloc; each thread allocates
its share in a loop of C, compiled here on first use. On CUDA it is the malloc of device code, one call per thread.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .devices import Device, Unavailable

UNITS_PER_SUPER_BLOCK = 256 * 1024

C_LOOP = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
typedef void *(*allocate_function)(size_t alignment, size_t bytes);
typedef void (*free_function)(void *);

enum { most_threads = 1024 };
struct share {
  allocate_function allocate; /* NULL: free */
  free_function release;
  size_t begin, end, unit, failed;
  void **p;
};

static void *work(void *argument) {
  struct share *s = argument;
  for (size_t i = s->begin; i < s->end; ++i) {
    if (s->allocate == NULL) {
      s->release(s->p[i]);
      continue;
    }
    s->p[i] = s->allocate(s->unit, s->unit);
    if (s->p[i] == NULL) ++s->failed;
    else *(volatile uint32_t *)s->p[i] = (uint32_t)i; /* the unit is there */
  }
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for all shares, one thread each. */
static double all(struct share *shares, size_t threads) {
  pthread_t thread[most_threads];
  int started[most_threads];
  const double start = now();
  for (size_t i = 1; i < threads; ++i) started[i] = pthread_create(thread + i, NULL, work, shares + i) == 0;
  work(shares);
  for (size_t i = 1; i < threads; ++i) {
    if (started[i]) pthread_join(thread[i], NULL);
    else work(shares + i);
  }
  return now() - start;
}

/* seconds[0]: all allocations, seconds[1]: all frees. Returns how many allocations failed. */
size_t loop(allocate_function allocate, free_function release, size_t n, size_t unit, void **p, double *seconds) {
  static struct share shares[most_threads];
  cpu_set_t cpus;
  size_t threads = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1, failed = 0;
  if (threads > most_threads) threads = most_threads;
  for (size_t i = 0; i < threads; ++i)
    shares[i] = (struct share){allocate, release, n * i / threads, n * (i + 1) / threads, unit, 0, p};
  seconds[0] = all(shares, threads);
  for (size_t i = 0; i < threads; ++i) failed += shares[i].failed, shares[i].allocate = NULL;
  seconds[1] = all(shares, threads);
  return failed;
}
"""

CUDA_LOOP = r"""
extern "C" __global__ void allocate(void **p, size_t n, size_t unit) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  p[i] = malloc(unit);
  if (p[i]) *(volatile unsigned *)p[i] = unsigned(i);
}
extern "C" __global__ void release(void **p, size_t n) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) free(p[i]);
}
"""

Seconds = dict[str, list[float]]


def measure_slab_allocator(device: Device, kind: str, n: int, unit: int, repeats: int) -> Seconds:
    """Seconds of each repeat of "allocate" and "free" of n units, after one that does not count."""
    super_blocks = -(-n // UNITS_PER_SUPER_BLOCK) + 1
    seconds: Seconds = {"allocate": [], "free": []}
    allocator = gh.SlabAllocator(kind, device=device.name, unit_bytes=unit, super_blocks=super_blocks, seed=1)
    call = _batch_calls(allocator, device, n)
    for repeat in range(repeats + 1):
        taken = {"allocate": device.time(call["allocate"]), "free": None}
        handles = call["handles"]()
        if len(np.unique(handles)) != n:
            raise AssertionError(f"{kind} on {device.name} handed a unit out twice")
        taken["free"] = device.time(call["free"])
        if repeat:
            for step, value in taken.items():
                seconds[step].append(value)
    return seconds


def _batch_calls(allocator: gh.SlabAllocator, device: Device, n: int) -> dict[str, Callable[[], Any]]:
    """The batch calls on handles that stay on the device, without the copies that the numpy methods make."""
    units = device.xp.empty(n, np.uint32)
    pointer = units.ctypes.data if device.name == "cpu" else units.data.ptr

    def refuse(failure: Exception | None) -> None:
        if failure is not None:
            raise failure

    return {
        "allocate": lambda: refuse(allocator._call("allocate", n, pointer, 0, 0)),
        "free": lambda: refuse(allocator._call("free", n, pointer, 0, 0)),
        "handles": lambda: np.asarray(units if device.name == "cpu" else units.get()),
    }


@cache
def _c_loop() -> Any:
    folder = Path(tempfile.mkdtemp(prefix="gpuhash-malloc-"))
    (folder / "loop.c").write_text(C_LOOP)
    command = ["cc", "-O2", "-pthread", "-fPIC", "-shared", "-o", str(folder / "loop.so"), str(folder / "loop.c")]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"the C loop over malloc could not be compiled: {error}") from error
    loop = ctypes.CDLL(str(folder / "loop.so")).loop
    loop.restype = ctypes.c_size_t
    loop.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2 + [ctypes.c_void_p] * 2
    return loop


def host_allocators() -> dict[str, tuple[Any, Any] | str]:
    """Name -> (aligned allocate, free), or why there is none."""
    found: dict[str, tuple[Any, Any] | str] = {}
    for name, library, allocate, release in (
        ("malloc of the platform", "c", "aligned_alloc", "free"),
        ("jemalloc", "jemalloc", "aligned_alloc", "free"),
        ("mimalloc", "mimalloc", "mi_aligned_alloc", "mi_free"),
    ):
        path = ctypes.util.find_library(library)
        if path is None:
            found[name] = "not installed"
            continue
        try:
            module = ctypes.CDLL(path)
        except OSError as error:  # no static thread-local storage is left for a library that is loaded late
            found[name] = f"{error}; try again with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384"
            continue
        found[name] = (getattr(module, allocate), getattr(module, release))
    return found


def measure_host_allocator(functions: tuple[Any, Any], n: int, unit: int, repeats: int) -> Seconds:
    """The same for one of `host_allocators`."""
    pointers, pair = np.empty(n, np.uintp), np.empty(2)
    addresses = [ctypes.cast(function, ctypes.c_void_p) for function in functions]
    seconds: Seconds = {"allocate": [], "free": []}
    for repeat in range(repeats + 1):
        failed = _c_loop()(*addresses, n, unit, pointers.ctypes.data, pair.ctypes.data)
        if failed:
            raise MemoryError(f"{failed} of {n} allocations failed")
        if repeat:
            seconds["allocate"].append(float(pair[0]))
            seconds["free"].append(float(pair[1]))
    return seconds


def measure_cuda_malloc(device: Any, n: int, unit: int, repeats: int) -> Seconds:
    """The same for the malloc of device code. Sets the device's heap to four times what is asked of it."""
    xp = device.xp
    limit_malloc_heap_size = 2
    try:
        xp.cuda.runtime.deviceSetLimit(limit_malloc_heap_size, 4 * n * unit)
    except xp.cuda.runtime.CUDARuntimeError as error:
        raise Unavailable(f"the heap of device code cannot be set in this process any more: {error}") from error
    module = xp.RawModule(code=CUDA_LOOP)
    allocate, release = module.get_function("allocate"), module.get_function("release")
    pointers = xp.zeros(n, np.uint64)
    blocks, size = ((n + 255) // 256,), np.uint64(n)
    seconds: Seconds = {"allocate": [], "free": []}
    for repeat in range(repeats + 1):
        taken = device.time(lambda: allocate(blocks, (256,), (pointers, size, np.uint64(unit))))
        if not bool((pointers != 0).all()):
            raise MemoryError(f"{int((pointers == 0).sum())} of {n} allocations of device code failed")
        freed = device.time(lambda: release(blocks, (256,), (pointers, size)))
        if repeat:
            seconds["allocate"].append(taken)
            seconds["free"].append(freed)
    return seconds
