# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""The library as a whole: its version, devices, backends and codes, and its ceilings."""
from cpython.buffer cimport PyBUF_WRITABLE
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pygpuhash.gpuhash cimport *
from pygpuhash._core.host_arrays cimport address
from pygpuhash._core.status cimport check, encode, exception, start_error, text

import numpy

from pygpuhash import errors

OP_INSERT = GPUHASH_OP_INSERT
OP_ASSIGN = GPUHASH_OP_ASSIGN
OP_ACCUMULATE = GPUHASH_OP_ACCUMULATE
OP_FIND = GPUHASH_OP_FIND
OP_ERASE = GPUHASH_OP_ERASE
OP_INSERT_MULTI = GPUHASH_OP_INSERT_MULTI
OP_COUNT = GPUHASH_OP_COUNT
OP_ERASE_ALL = GPUHASH_OP_ERASE_ALL
OP_EXECUTE = GPUHASH_OP_EXECUTE
DEDUP_LAST = GPUHASH_DEDUP_LAST
CPU = GPUHASH_CPU
CUDA = GPUHASH_CUDA

TRAITS = {
    "insert": GPUHASH_TRAIT_INSERT,
    "accumulate": GPUHASH_TRAIT_ACCUMULATE,
    "multi": GPUHASH_TRAIT_MULTI,
    "ordered": GPUHASH_TRAIT_ORDERED,
    "grow": GPUHASH_TRAIT_GROW,
    "wide": GPUHASH_TRAIT_WIDE,
    "flush": GPUHASH_TRAIT_FLUSH,
    "answers": GPUHASH_TRAIT_ANSWERS,
}
FACTS = {
    "adds": GPUHASH_FACT_ADDS,
    "erases": GPUHASH_FACT_ERASES,
    "changes": GPUHASH_FACT_CHANGES,
    "takes_values": GPUHASH_FACT_TAKES_VALUES,
    "answers_values": GPUHASH_FACT_ANSWERS_VALUES,
    "answers_counts": GPUHASH_FACT_ANSWERS_COUNTS,
    "in_execute": GPUHASH_FACT_IN_EXECUTE,
}


def _operation(op, trait, facts):
    """(op code, name of its trait, names of its facts). A newer library may have a trait without a name here."""
    named = next((name for name, bit in TRAITS.items() if trait & bit), f"trait {trait:#x}")
    return op, named, frozenset([name for name, bit in FACTS.items() if facts & bit])


def _operations():
    """Every operation of the library by the name of its function: (op code, name of its trait, names of its facts)."""
    cdef gpuhash_error err
    cdef gpuhash_op_info info
    cdef uint32_t op = 1
    found = {}
    while True:
        start_error(&err)
        memset(&info, 0, sizeof(info))
        info.struct_size = sizeof(info)
        if gpuhash_op_get_info(op, &info, &err) != GPUHASH_OK:
            return found
        found[text(info.name)] = _operation(op, info.trait, info.facts)
        op += 1


OPERATIONS = _operations()
ADDING = frozenset([op for op, _, facts in OPERATIONS.values() if "adds" in facts])


def version():
    """Version of the loaded libgpuhash, for example "0.1.0"."""
    cdef uint32_t major, minor, patch
    gpuhash_version(&major, &minor, &patch)
    return f"{major}.{minor}.{patch}"


def set_threads(uint32_t threads):
    """Set the number of threads that calls of this process use by default; 0: no number."""
    cdef gpuhash_error err
    start_error(&err)
    check(gpuhash_set_threads(threads, &err), &err)


def build_info():
    """Compiler, instruction sets and CUDA architectures of the loaded libgpuhash: one line."""
    return text(gpuhash_build_info())


def device_count(int kind):
    """Number of devices of a kind, and, when there is none, the reason (else an empty string)."""
    cdef gpuhash_error err
    cdef int32_t n
    start_error(&err)
    with nogil:
        n = gpuhash_device_count(kind, &err)
    return n, text(err.message)


def device_info(int kind, int ordinal):
    """Name, memory, compute capability, units and driver version of one device, as a dict."""
    cdef gpuhash_error err
    cdef gpuhash_device device
    cdef gpuhash_device_info info
    start_error(&err)
    memset(&info, 0, sizeof(info))
    info.struct_size = sizeof(info)
    device.kind = kind
    device.ordinal = ordinal
    check(gpuhash_device_get_info(device, &info, &err), &err)
    return {
        "name": text(info.name),
        "memory_bytes": info.memory_bytes,
        "compute_capability": (info.compute_major, info.compute_minor),
        "units": info.units,
        "driver_version": info.driver_version,
    }


def pointer_device(uintptr_t p):
    """(kind, ordinal) of the memory at an address."""
    cdef gpuhash_device device = gpuhash_pointer_device(<void *>p)
    return device.kind, device.ordinal


cdef dict describe(gpuhash_backend_info *info):
    return {
        "name": text(info.name),
        "version": text(info.version),
        "summary": text(info.summary),
        "path": text(info.path),
        "error": text(info.error),
        "traits": frozenset([name for name, bit in TRAITS.items() if info.traits & bit]),
        "loaded": bool(info.loaded),
        "key_widths": tuple([b for b in range(32) if info.key_widths >> b & 1]),
        "value_widths": tuple([b for b in range(32) if info.value_widths >> b & 1]),
        "devices": tuple([kind for kind in (GPUHASH_CPU, GPUHASH_CUDA) if info.devices >> kind & 1]),
        "origin": ("built in", "on the path", "opened")[info.origin],
        "options": tuple([
            (text(info.options[i].key), text(info.options[i].choices) or "", text(info.options[i].help) or "")
            for i in range(info.n_options)
        ]),
    }


cdef void start_backend_info(gpuhash_backend_info *info) noexcept:
    memset(info, 0, sizeof(gpuhash_backend_info))
    info.struct_size = sizeof(gpuhash_backend_info)


def backend_list():
    """What the library's registry knows, one dict per backend."""
    cdef gpuhash_error err
    cdef gpuhash_backend_info info
    rows = []
    for i in range(gpuhash_backend_count()):
        start_error(&err)
        start_backend_info(&info)
        check(gpuhash_backend_get(i, &info, &err), &err)
        rows.append(describe(&info))
    return rows


def backend_load(str name):
    """Load a backend by name and describe it."""
    cdef gpuhash_error err
    cdef gpuhash_backend_info info
    cdef gpuhash_status status
    cdef bytes encoded = encode(name, "the backend's name")
    start_error(&err)
    start_backend_info(&info)
    status = gpuhash_backend_load(encoded, &info, &err)
    if status == GPUHASH_NOT_FOUND:
        raise errors.BackendNotFound(text(err.message))
    check(status, &err)
    return describe(&info)


def backend_open(str path):
    """Load the module at an absolute path and describe the backend in it."""
    cdef gpuhash_error err
    cdef gpuhash_backend_info info
    cdef gpuhash_status status
    cdef bytes encoded = encode(path, "the module's path")
    start_error(&err)
    start_backend_info(&info)
    status = gpuhash_backend_open(encoded, &info, &err)
    if status == GPUHASH_NOT_FOUND:
        raise errors.PluginError(text(err.message))
    check(status, &err)
    return describe(&info)


def backend_probe(str name, int kind, int ordinal):
    """None when the backend is usable on the device, else the library's reason."""
    cdef gpuhash_error err
    cdef gpuhash_device device
    cdef gpuhash_status status
    cdef bytes encoded = encode(name, "the backend's name")
    cdef const char *c_name = encoded
    device.kind = kind
    device.ordinal = ordinal
    start_error(&err)
    with nogil:
        status = gpuhash_backend_probe(c_name, device, &err)
    return None if status == GPUHASH_OK else str(exception(status, &err))


def measure_ceiling(int kind, int ordinal, str what, uint64_t table_bytes, size_t n, size_t repeats, uint32_t threads):
    """Seconds of each of `repeats` runs, as a float64 array."""
    cdef gpuhash_error err
    cdef gpuhash_device device
    cdef gpuhash_status status
    cdef bytes encoded = encode(what, "the ceiling's name")
    cdef const char *name = encoded
    seconds = numpy.empty(repeats, numpy.float64)
    cdef double *p = <double *>address(seconds, PyBUF_WRITABLE)
    device.kind = kind
    device.ordinal = ordinal
    start_error(&err)
    with nogil:
        status = gpuhash_measure_ceiling(device, name, table_bytes, n, repeats, threads, p, &err)
    check(status, &err)
    return seconds
