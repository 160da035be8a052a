# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""DLPack capsules: arrays of other libraries read, and memory of this package given to them."""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from pygpuhash._core.process cimport is_ending

__all__ = ["dlpack_read", "dlpack_write"]


cdef class DlpackOwner:
    """Keeps an imported DLPack tensor until the last view of it is gone."""
    cdef gh_dl_managed *managed

    def __dealloc__(self):
        if self.managed != NULL:
            gh_dl_delete(self.managed)


def dlpack_read(capsule):
    """(address, shape, strides in elements or None, dtype code, bits, device kind, device ordinal, owner)."""
    if not PyCapsule_IsValid(capsule, "dltensor"):
        raise TypeError("__dlpack__() did not return a fresh DLPack capsule: export the array again")
    cdef gh_dl_managed *managed = <gh_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor")
    PyCapsule_SetName(capsule, "used_dltensor")
    cdef DlpackOwner owner = DlpackOwner()
    owner.managed = managed
    cdef gh_dl_tensor *t = &managed.tensor
    if t.dtype.lanes != 1:
        raise TypeError(f"DLPack elements of {t.dtype.lanes} lanes are not supported: pass an array of scalars")
    shape = tuple([t.shape[i] for i in range(t.ndim)])
    strides = None if t.strides == NULL else tuple([t.strides[i] for i in range(t.ndim)])
    return (<uintptr_t>t.data + t.byte_offset, shape, strides, t.dtype.code, t.dtype.bits, t.device.type, t.device.id,
            owner)


cdef void dlpack_delete_now(gh_dl_managed *managed) noexcept with gil:
    if managed.context != NULL:
        Py_DECREF(<object>managed.context)
    free(managed.tensor.shape)
    free(managed)


cdef void dlpack_delete(gh_dl_managed *managed) noexcept nogil:
    if not is_ending():  # the interpreter may be gone
        dlpack_delete_now(managed)


cdef void dlpack_drop(object capsule) noexcept:
    if PyCapsule_IsValid(capsule, "dltensor"):
        gh_dl_delete(<gh_dl_managed *>PyCapsule_GetPointer(capsule, "dltensor"))


def dlpack_write(owner, uintptr_t data, tuple shape, int code, int bits, int kind, int ordinal):
    """A DLPack capsule over C-contiguous memory that `owner` keeps alive."""
    cdef gh_dl_managed *managed = <gh_dl_managed *>calloc(1, sizeof(gh_dl_managed))
    cdef int64_t *sizes = <int64_t *>calloc(len(shape) or 1, sizeof(int64_t))
    if managed == NULL or sizes == NULL:
        free(managed)
        free(sizes)
        raise MemoryError("no memory for a DLPack capsule")
    for i, size in enumerate(shape):
        sizes[i] = size
    managed.tensor.data = <void *>data
    managed.tensor.device.type = kind
    managed.tensor.device.id = ordinal
    managed.tensor.ndim = len(shape)
    managed.tensor.dtype.code = code
    managed.tensor.dtype.bits = bits
    managed.tensor.dtype.lanes = 1
    managed.tensor.shape = sizes
    managed.context = <void *>owner
    managed.deleter = dlpack_delete
    Py_INCREF(owner)
    return PyCapsule_New(managed, "dltensor", dlpack_drop)
