"""A fake cuda-python over host memory, which shows where no driver is whether work is done in the right order.

Nothing that is queued on a stream is done before something makes it so: a wait of the host, or work that was told to
follow it. So a copy that was not told to wait for the kernel before it copies what was there before.

`install(monkeypatch)` puts it in the place of `cuda.core` and `cuda.bindings.driver`.
"""

import contextlib
import ctypes
from types import SimpleNamespace

import fake_staging
import numpy as np

DEFAULT_STREAMS = (0, 1)
FREED = 0xDD
RELAXED = 2


class CUDAError(Exception):
    """As cuda.core's: the driver's name of the error is in its text."""


class Event:
    def __init__(self, cuda):
        self.cuda, self.ticket, self.after, self.asked = cuda, (0, 0), {}, 0
        self.handle = 1000 + len(cuda.events)
        cuda.events.append(self)

    def sync(self):
        self.cuda.bring(*self.ticket)

    @property
    def is_done(self):
        """The third question is answered with yes: then the device has come so far."""
        self.asked += 1
        if self.asked % 3 == 0:
            self.sync()
        return self.asked % 3 == 0


class Stream:
    cuda = None

    def __init__(self, handle, is_closed=False):
        self.handle, self.is_closed = handle, is_closed

    @classmethod
    def from_handle(cls, handle):
        return cls(handle)

    def __cuda_stream__(self):
        return 0, self.handle

    def __int__(self):
        return self.handle

    def record(self, event=None):
        event = event or Event(self.cuda)
        event.ticket = self.handle, self.cuda.end_of(self.handle)
        own = self.cuda.same(self.handle)
        event.after = self.cuda.after.get(own, {}) | {own: event.ticket[1]}
        return event

    def wait(self, other):
        event = other if isinstance(other, Event) else other.record()
        ticket = event.ticket
        after = self.cuda.after.setdefault(self.cuda.same(self.handle), {})
        for handle, end in event.after.items():
            after[handle] = max(after.get(handle, 0), end)
        self.cuda.queue(self.handle, lambda: self.cuda.bring(*ticket))

    def sync(self):
        self.cuda.bring(self.handle)
        self.cuda.seen[self.cuda.same(self.handle)] = self.cuda.end_of(self.handle)


def stream(handle):
    """An object that has this handle; None for None."""
    return None if handle is None else Stream(handle)


class Buffer:
    def __init__(self, cuda, array, kind, address=None, owner=None):
        self.cuda, self.array, self.kind, self.owner = cuda, array, kind, owner
        self.handle = array.ctypes.data if array is not None else address
        self.size = 0 if array is None else array.nbytes

    @staticmethod
    def from_handle(address, size, mr=None, owner=None):
        return Buffer(None, None, "foreign", address, owner)

    def __del__(self):
        self.close()

    def close(self, stream=None):
        if self.array is not None:
            if stream is not None and self.cuda.capturing and self.cuda.mode != RELAXED:
                raise CUDAError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a capture of another stream forbids it")
            assert stream is None or self.cuda.contexts, "no context is current"
            array, self.array = self.array, None
            self.cuda.room[self.kind] += array.nbytes
            self.cuda.freed.append((self.handle, None if stream is None else stream.handle))
            if stream is not None:
                self.cuda.queue(stream.handle, lambda: array.fill(FREED))
            else:
                array.fill(FREED)


class Resource:
    def __init__(self, cuda, kind, device=0):
        self.cuda, self.kind, self.device = cuda, kind, device

    def allocate(self, size, *, stream=None):
        room = self.cuda.room[self.kind]
        if size > room:
            raise CUDAError("CUDA_ERROR_OUT_OF_MEMORY: there is no memory")
        assert stream is not None
        assert self.cuda.contexts, "no context is current"
        self.cuda.room[self.kind] = room - size
        array = np.full(size, 0xCC, np.uint8)
        self.cuda.allocated.append((self.kind, array))
        if stream is not None and self.cuda.allocates_late:
            self.cuda.queue(stream.handle, lambda: array.fill(0xCC))
        return Buffer(self.cuda, array, self.kind)

    def deallocate(self, ptr, size, *, stream=None):
        self.cuda.freed.append((ptr, stream.handle))


class Cuda:
    """The state of all devices."""

    def __init__(self):
        self.streams = {0: []}
        self.done = {}
        self.contexts = []
        self.room = {"device": 1 << 40, "pinned": 1 << 40}
        self.allocated, self.freed = [], []
        self.gone = set()  # handles at which there is no memory
        self.destroyed, self.capturing, self.device_of = set(), set(), lambda stream: 0
        self.next_handle, self.events = 100, []
        self.staged, self.watch_staged = [], lambda batch, name, arguments: None  # batches of host arrays
        self.reach = True  # devices read each other's memory
        self.with_host = []  # bytes of copies from or to pageable memory of the host
        self.opened, self.between = [], []  # (pool's device, who may use it), (from, to, bytes) of copies
        self.pooled, self.on = {}, {}  # memory of pools that is in use, and on which device memory lies
        self.registered, self.hosted = {}, {}  # pinned memory, and what of it the driver has allocated
        self.registers = True  # memory of others is pinned, too
        self.mode = 0  # what captures forbid this thread
        self.allocates_late = (
            False  # memory is there when its stream has come to it, and what was written before is lost
        )
        self.after = {}  # of each stream: how much of each other one it follows
        self.seen = {}  # of each stream: how much of it the host has waited for
        self.used = {}  # pool memory: the work that uses it, as (stream, how much of it)
        self.awaited = set()  # memory of pools whose stream has not come to it
        cuda = self

        class Device:
            def __init__(self, ordinal=0):
                self.device_id = ordinal

            def set_current(self):
                cuda.contexts[-1] = self.device_id

            def create_stream(self):
                cuda.next_handle += 1
                return stream_class(cuda.next_handle)

        stream_class = type("Stream", (Stream,), {"cuda": self})
        self.core = SimpleNamespace(
            Device=Device,
            Stream=stream_class,
            Buffer=Buffer,
            MemoryResource=Resource,
            DeviceMemoryResource=lambda ordinal: Resource(self, "device", ordinal),
        )
        ok = 0

        def push(context):
            self.contexts.append(context)
            return (ok,)

        def exchange(mode):
            before, self.mode = self.mode, mode
            return ok, before

        def copy(to, source, nbytes, stream):
            to, source, handle = int(to), int(source), self.same(int(stream))
            self.check_ends(to, nbytes)
            self.check_ends(source, nbytes)
            if self.holder(to) is None or self.holder(source) is None:
                self.with_host.append(nbytes)
            if not self.pinned(source):  # the driver takes pageable memory at once
                held = ctypes.string_at(source, nbytes)
                self.queue(handle, lambda: ctypes.memmove(to, held, nbytes))
            else:
                self.queue(handle, lambda: ctypes.memmove(to, source, nbytes))
            return (ok,)

        def pin(address, nbytes):
            if self.capturing and self.mode != RELAXED:
                return 900  # a capture of another stream forbids it
            if nbytes > self.room["pinned"]:
                return 2
            self.room["pinned"] -= nbytes
            array = np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)
            self.allocated.append(("pinned", array))
            self.registered[address] = array
            return ok

        def register(address, nbytes, flags):
            return (pin(address, nbytes) if self.registers else 801,)

        def allocate_host(nbytes):
            array = np.full(nbytes, 0xCC, np.uint8)
            code = pin(array.ctypes.data, nbytes)
            self.hosted[array.ctypes.data] = array
            return code, array.ctypes.data

        def unregister(address):
            array = self.registered.pop(address)
            self.room["pinned"] += array.nbytes
            self.freed.append((address, None))
            array.fill(FREED)
            return (ok,)

        def free_host(address):
            assert address in self.hosted
            return unregister(address)

        def copy_between(to, there, source, here, nbytes, stream):
            assert there != here, "both are on one device"
            for address, device in ((to, there), (source, here)):
                assert self.on.get(self.start(int(address)), device) == device, "an address of another device"
            self.between.append((here, there, nbytes))
            return copy(to, source, nbytes, stream)

        def allocate_from(nbytes, pool, stream):
            assert self.contexts[-1] == pool.location.id, "another device is current"
            array = np.full(nbytes, 0xCC, np.uint8)
            self.allocated.append(("device", array))
            if self.allocates_late:
                self.awaited.add(array.ctypes.data)
                self.queue(int(stream), lambda: (array.fill(0xCC), self.awaited.discard(array.ctypes.data)))
            self.pooled[array.ctypes.data], self.on[array.ctypes.data] = array, pool.location.id
            return ok, array.ctypes.data

        def let(pool, access, n):
            assert n == len(access) == 1
            self.opened.append((pool.location.id, access[0].location.id))
            return (ok,)

        def free(address, stream):
            array = self.pooled.pop(int(address))
            own = self.same(self.read(stream))
            for handle, end in self.used.pop(int(address), []):
                follows = (
                    handle == own or self.after.get(own, {}).get(handle, 0) >= end or self.seen.get(handle, 0) >= end
                )
                assert follows, f"memory is given back on stream {own} before stream {handle} has used it"
            self.queue(int(stream), lambda: array.fill(FREED))
            return (ok,)

        def fill(address, byte, nbytes, stream):
            self.check_ends(int(address), nbytes)
            self.queue(int(stream), lambda: ctypes.memset(int(address), byte, nbytes))
            return (ok,)

        def synchronize():
            for handle in list(self.streams):
                self.bring(handle)
            return (ok,)

        self.driver = SimpleNamespace(
            cuMemHostRegister=register,
            cuMemHostUnregister=unregister,
            cuMemAllocHost=allocate_host,
            cuMemFreeHost=free_host,
            cuCtxSynchronize=synchronize,
            CUresult=SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=2),
            cuDeviceGet=lambda ordinal: (ok, ordinal),
            cuDevicePrimaryCtxRetain=lambda device: (ok, device),
            cuCtxPushCurrent=push,
            cuCtxPopCurrent=lambda: (ok, self.contexts.pop()),
            cuMemcpyAsync=copy,
            cuMemcpyDtoH=lambda to, source, nbytes: (
                ok,
                self.bring(0),
                self.with_host.append(nbytes),
                ctypes.memmove(to, source, nbytes),
            )[:1],
            cuMemcpyPeerAsync=copy_between,
            cuDeviceCanAccessPeer=lambda one, other: (ok, int(self.reach)),
            cuMemPoolCreate=lambda kind: (ok, kind),
            cuMemPoolSetAttribute=lambda pool, what, value: (ok,),
            cuMemPoolSetAccess=lambda pool, access, n: (
                ok,
                self.opened.append((pool.location.id, access[0].location.id)),
            )[:1],
            cuMemPoolTrimTo=lambda pool, nbytes: (ok,),
            cuMemAllocFromPoolAsync=allocate_from,
            cuMemFreeAsync=free,
            cuMemsetD8Async=fill,
            cuuint64_t=int,
            CUmemLocation=SimpleNamespace,
            CUmemPoolProps=SimpleNamespace,
            CUmemAccessDesc=SimpleNamespace,
            CUmemLocationType=SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1),
            CUmemAllocationType=SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1),
            CUmemAllocationHandleType=SimpleNamespace(CU_MEM_HANDLE_TYPE_NONE=0),
            CUmemPool_attribute=SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4),
            CUmemAccess_flags=SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3),
            cuStreamSynchronize=lambda stream: (ok, self.bring(self.read(stream)))[:1],
            cuGetErrorString=lambda code: (ok, b"an error"),
            CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=RELAXED),
            cuThreadExchangeStreamCaptureMode=exchange,
            cuStreamIsCapturing=lambda stream: (ok, int(self.read(stream) in self.capturing)),
            cuStreamGetDevice=lambda stream: (
                (400, None) if self.read(stream) in self.destroyed else (ok, self.device_of(stream))
            ),
        )

    def read(self, handle):
        """The driver reads the memory at a handle."""
        assert handle not in self.gone, f"SIGSEGV: {handle} is no stream"
        return handle

    @staticmethod
    def same(handle):
        return 0 if handle in DEFAULT_STREAMS else handle

    def pinned(self, address):
        """Is this memory that was allocated here, on the device or pinned?"""
        return self.holder(address) is not None

    def holder(self, address):
        arrays = [array for kind, array in self.allocated if kind == "device"] + list(self.registered.values())
        return next((a for a in arrays if a.ctypes.data <= address < a.ctypes.data + a.nbytes), None)

    def start(self, address):
        """Where the memory of an address begins."""
        array = self.holder(address)
        return None if array is None else array.ctypes.data

    def uses(self, address, handle):
        """Note that what is on a stream so far uses the memory of an address."""
        if (start := self.start(address)) in self.pooled:
            self.used.setdefault(start, []).append((self.same(handle), self.end_of(handle)))

    def check_ends(self, address, nbytes):
        """A copy ends where the memory does, or before."""
        array = self.holder(address)
        assert array is None or address + nbytes <= array.ctypes.data + array.nbytes, "a copy runs over its memory"

    def kernel(self, handle, run, outputs):
        """Call a function now, for its answer; what it writes to outputs (address, bytes) is there in its turn.

        What was queued on the stream before is done first.
        """
        self.bring(handle)
        before = [ctypes.string_at(address, nbytes) for address, nbytes in outputs]
        answer = run()
        after = [ctypes.string_at(address, nbytes) for address, nbytes in outputs]
        for (address, nbytes), old, new in zip(outputs, before, after, strict=True):
            ctypes.memmove(address, old, nbytes)
            self.queue(handle, lambda a=address, b=new, n=nbytes: ctypes.memmove(a, b, n))
        return answer

    def queue(self, handle, work):
        self.streams.setdefault(self.same(handle), []).append(work)

    def end_of(self, handle):
        return self.done.get(self.same(handle), 0) + len(self.streams.get(self.same(handle), []))

    def bring(self, handle, end=None):
        """Do the work of a stream up to a point."""
        handle = self.same(handle)
        end = self.end_of(handle) if end is None else end
        while self.done.get(handle, 0) < end:
            work = self.streams[handle].pop(0)
            self.done[handle] = self.done.get(handle, 0) + 1
            work()


def install(monkeypatch):
    from pygpuhash import _core, _cuda, _host, _peers

    cuda = Cuda()
    for function in (_cuda._primary_context, _cuda._working_calls, _cuda.memory_of, _peers.reaches):
        function.cache_clear()
    monkeypatch.setattr(_cuda, "core", lambda: cuda.core)
    monkeypatch.setattr(_cuda, "driver", lambda: cuda.driver)
    monkeypatch.setattr(_core, "run_staged", fake_staging.over(cuda, _core.run_staged))
    monkeypatch.setattr(_host, "_idle", {})
    monkeypatch.setattr(_peers, "_pools", {})
    return cuda


def uninstall():
    from pygpuhash import _cuda, _peers

    for function in (_cuda._primary_context, _cuda._working_calls, _cuda.memory_of, _peers.reaches):
        function.cache_clear()


@contextlib.contextmanager
def installed(monkeypatch):
    cuda = install(monkeypatch)
    try:
        yield cuda
    finally:
        uninstall()
