"""The stand-alone allocator through the C ABI: what Python does not show, and memory that runs out."""

import ctypes as c
from pathlib import Path

import pytest

import pygpuhash

OK, INVALID_ARGUMENT, NO_MEMORY = 0, 1, 3
NO_UNIT = 0xFFFFFFFF
TAKE = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t, c.c_size_t, c.c_void_p)
GIVE = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_size_t, c.c_size_t, c.c_void_p)


class Error(c.Structure):
    _fields_ = (("struct_size", c.c_size_t), ("code", c.c_int32), ("message", c.c_char * 512))


class Memory(c.Structure):
    _fields_ = (("struct_size", c.c_size_t), ("context", c.c_void_p), ("allocate", TAKE), ("deallocate", GIVE))


class Config(c.Structure):
    _fields_ = (
        ("struct_size", c.c_size_t),
        ("kind", c.c_char_p),
        ("device_kind", c.c_int32),
        ("device_ordinal", c.c_int32),
        ("unit_bytes", c.c_uint32),
        ("super_blocks", c.c_uint32),
        ("max_super_blocks", c.c_uint32),
        ("memory_blocks", c.c_uint32),
        ("seed", c.c_uint64),
        ("threads", c.c_uint32),
        ("wipe", c.c_uint32),
        ("memory", c.POINTER(Memory)),
        ("stream", c.c_void_p),
    )


class Stats(c.Structure):
    _fields_ = (
        ("struct_size", c.c_size_t),
        ("units", c.c_uint64),
        ("allocated", c.c_uint64),
        ("bytes", c.c_uint64),
        ("super_blocks", c.c_uint32),
        ("full_blocks", c.c_uint32),
    )


class Allocator:
    """gpuhash_slab_allocator with a memory resource that refuses after `budget` allocations."""

    def __init__(self, budget, **fields):
        self.lib = c.CDLL(str(Path(pygpuhash.__file__).parent / "libgpuhash.so.0"))
        self.lib.gpuhash_slab_allocator_destroy.restype = None
        self.budget, self.held, self.blocks = budget, 0, {}
        self.memory = Memory(c.sizeof(Memory), None, TAKE(self.take), GIVE(self.give))
        config = Config(c.sizeof(Config), b"slab_alloc", 1, 0, 128, 1, 0, 1, 5, 1, 0, c.pointer(self.memory))
        for name, value in fields.items():
            setattr(config, name, value)
        self.handle = c.c_void_p()
        self.error = Error(c.sizeof(Error))
        self.code = self.lib.gpuhash_slab_allocator_create(c.byref(config), c.byref(self.handle), c.byref(self.error))

    def take(self, context, nbytes, alignment, stream):
        if self.budget == 0:
            return None
        self.budget -= 1
        block = c.create_string_buffer(nbytes + alignment)
        address = -(-c.addressof(block) // alignment) * alignment
        self.blocks[address] = block
        self.held += nbytes
        return address

    def give(self, context, address, nbytes, alignment, stream):
        del self.blocks[address]
        self.held -= nbytes

    def allocate(self, n):
        units = (c.c_uint32 * n)()
        code = self.lib.gpuhash_slab_allocate(self.handle, c.c_size_t(n), units, None, c.byref(self.error))
        return code, list(units)

    def free(self, handles):
        n, status = len(handles), (c.c_uint8 * len(handles))()
        units = (c.c_uint32 * n)(*handles)
        code = self.lib.gpuhash_slab_free(self.handle, c.c_size_t(n), units, status, None, c.byref(self.error))
        return code, list(status)

    def stats(self):
        out = Stats(c.sizeof(Stats))
        assert self.lib.gpuhash_slab_get_stats(self.handle, c.byref(out), None) == OK
        return out

    def destroy(self):
        self.lib.gpuhash_slab_allocator_destroy(self.handle)
        assert self.held == 0


@pytest.mark.parametrize("kind", [b"slab_alloc", b"slab_alloc_light"])
def test_no_memory_for_the_first_super_block(kind):
    allocator = Allocator(0, kind=kind)
    assert allocator.code == NO_MEMORY
    assert b"memory" in allocator.error.message
    assert allocator.handle.value is None
    assert allocator.held == 0


def test_the_most_memory_blocks():
    assert Allocator(0, memory_blocks=16384).code == NO_MEMORY
    assert Allocator(0, memory_blocks=16385).code == INVALID_ARGUMENT


def test_no_memory_for_the_second_of_three_super_blocks():
    allocator = Allocator(1, super_blocks=3)
    assert (allocator.code, allocator.handle.value, allocator.held) == (NO_MEMORY, None, 0)


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_a_super_block_that_cannot_be_added(budget):
    """What there is is handed out, the rest is NO_UNIT, and the handles are good: each can be freed once."""
    allocator = Allocator(budget)
    code, units = allocator.allocate(5000)
    assert code == NO_MEMORY
    had = [u for u in units if u != NO_UNIT]
    assert len(set(had)) == len(had) == allocator.stats().allocated == budget * 1024
    assert allocator.stats().super_blocks == budget
    assert allocator.free(had) == (OK, [1] * len(had))
    assert allocator.stats().allocated == 0
    allocator.budget = 10
    code, units = allocator.allocate(5000)
    assert code == OK
    assert len(set(units)) == 5000
    allocator.destroy()


def test_status_may_be_null_and_refusals_name_the_handle():
    allocator = Allocator(10)
    _, units = allocator.allocate(3)
    assert allocator.free([units[0], NO_UNIT, units[1], units[0]])[0] == INVALID_ARGUMENT
    assert b"2 of 4 handles were refused, the first 0xffffffff at index 1" in allocator.error.message
    array = (c.c_uint32 * 1)(units[2])
    assert allocator.lib.gpuhash_slab_free(allocator.handle, c.c_size_t(1), array, None, None, None) == OK
    assert allocator.stats().allocated == 0
    allocator.destroy()


def test_no_elements_and_no_arrays():
    allocator = Allocator(10)
    lib, handle, none = allocator.lib, allocator.handle, c.c_size_t(0)
    assert lib.gpuhash_slab_allocate(handle, none, None, None, None) == OK
    assert lib.gpuhash_slab_free(handle, none, None, None, None, None) == OK
    assert lib.gpuhash_slab_translate(handle, none, None, None, None, None) == OK
    assert lib.gpuhash_slab_allocate(handle, c.c_size_t(1), None, None, c.byref(allocator.error)) == INVALID_ARGUMENT
    assert b"units" in allocator.error.message
    allocator.destroy()
