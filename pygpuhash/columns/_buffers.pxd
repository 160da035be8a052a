# Arrays over memory of structs, and masks of nulls.
from libc.stdint cimport int64_t, uint8_t

cdef object over_memory(const void *at, int64_t bytes, object owner)
cdef uint8_t *mask_of(object nulls)
