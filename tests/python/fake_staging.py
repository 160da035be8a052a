"""What a staged batch of <gpuhash/staging.h> calls, over the fake driver of fake_cuda.py.

The library gets functions of Python where those of the driver would be. None of them may raise, so what one raises is
kept: KeyboardInterrupt until the library next handles signals, all else until the batch has ended.
"""

import ctypes

from pygpuhash import errors

NOT_READY, FAILED = 600, 999
CODES = [(errors.HeapFull, 3), (errors.TableFull, 4), (errors.DeviceError, 6), (errors.GpuHashError, 11)]


class Batch(ctypes.Structure):
    """gpuhash_batch."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("op", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("n", ctypes.c_size_t),
        *((name, ctypes.c_size_t) for name in ("keys", "values", "out_values", "out_status", "ops")),
        ("combine", ctypes.c_uint32),
        ("value_type", ctypes.c_uint32),
        ("stream", ctypes.c_size_t),
        ("counts", ctypes.c_size_t),
    )


class Error(ctypes.Structure):
    """gpuhash_error."""

    _fields_ = (("struct_size", ctypes.c_size_t), ("code", ctypes.c_int32), ("message", ctypes.c_char * 512))


address = ctypes.c_size_t


def function(*arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)


class Calls(ctypes.Structure):
    """gpuhash_staging_calls."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("memcpy_async", function(address, address, address, address)),
        ("memset_async", function(address, ctypes.c_ubyte, address, address)),
        ("event_record", function(address, address)),
        ("event_query", function(address)),
        ("event_synchronize", function(address)),
        ("stream_wait_event", function(address, address, ctypes.c_uint)),
        ("stream_synchronize", function(address)),
        ("stream_is_capturing", function(address, ctypes.POINTER(ctypes.c_int))),
        ("run", function(address, ctypes.POINTER(Batch), ctypes.POINTER(Error))),
    )


class Staged:
    """One batch of `table`.

    `cuda.watch_staged(batch, name, arguments)` is called before each call; unless it answers None, the library gets its
    answer instead.
    """

    def __init__(self, cuda, table):
        self.cuda, self.table, self.signals, self.raised = cuda, table, [], []
        cuda.staged.append(self)

    def calls(self):
        kinds = dict(Calls._fields_)
        del kinds["struct_size"]
        return Calls(ctypes.sizeof(Calls), *(kind(self.kept(getattr(self, name))) for name, kind in kinds.items()))

    def kept(self, call):
        def answer(*arguments):
            try:
                answer = self.cuda.watch_staged(self, call.__name__, arguments)
                return (call(*arguments) if answer is None else answer) or 0
            except KeyboardInterrupt as signal:
                self.signals.append(signal)
                return 0
            except BaseException as error:
                self.raised.append(error)
                return FAILED

        return answer

    def event(self, handle):
        return next(event for event in self.cuda.events if event.handle == handle)

    def stream(self, handle):
        return self.cuda.core.Stream.from_handle(handle)

    # ---- the driver's

    def memcpy_async(self, to, source, nbytes, stream):
        return self.cuda.driver.cuMemcpyAsync(to, source, nbytes, stream)[0]

    def memset_async(self, to, byte, nbytes, stream):
        return self.cuda.driver.cuMemsetD8Async(to, byte, nbytes, stream)[0]

    def event_record(self, event, stream):
        self.stream(stream).record(self.event(event))

    def event_query(self, event):
        return 0 if self.event(event).is_done else NOT_READY

    def event_synchronize(self, event):
        self.event(event).sync()

    def stream_wait_event(self, stream, event, flags):
        assert flags == 0
        self.stream(stream).wait(self.event(event))

    def stream_synchronize(self, stream):
        self.stream(stream).sync()

    def stream_is_capturing(self, stream, answer):
        answer[0] = int(stream in self.cuda.capturing)

    # ---- the table's

    def run(self, handle, batch, error):
        b = batch[0]
        assert handle
        assert not b.counts
        if self.table.value_dtype is not None:
            assert b.value_type == "uif".index(self.table._value_store.kind)
        more = {name: getattr(b, name) for name in ("values", "ops", "out_values", "out_status", "flags", "combine")}
        if hasattr(self.table, "before"):  # a table of staged.py
            more |= {"signals": self.signals, "stream": b.stream}
        else:
            self.stream(b.stream).sync()
        failure = self.table._raw(b.op, b.n, b.keys, **more)
        if failure is None:
            return 0
        error[0].code = next(code for kind, code in CODES if isinstance(failure, kind))
        error[0].message = str(failure).encode()
        return error[0].code


def over(cuda, run_staged):
    """`_core.run_staged` over this driver."""

    def run(table, *arguments):
        *rest, tell = arguments
        staged = Staged(cuda, table)
        staged.arguments = arguments
        calls = staged.calls()

        def told(done, n):
            if staged.signals:
                raise staged.signals.pop()
            tell(done, n)

        answer = run_staged(table, *rest, told, ctypes.addressof(calls))
        if staged.raised:
            raise staged.raised[0]
        if staged.signals:  # after the last chunk
            raise staged.signals.pop()
        return answer

    return run
