// A table of uint64 -> uint64 over the C ABI of libgpuhash, which is in gpuhash.h.
package main

// #cgo pkg-config: gpuhash
// #include <gpuhash/gpuhash.h>
// #include <stdlib.h>
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// Table is a table of uint64 -> uint64 on the CPU. Calls of several goroutines may run at the same time.
type Table struct{ table *C.gpuhash_table }

// call makes a call with a place for its error, whose sentence it returns.
func call(function func(err *C.gpuhash_error) C.gpuhash_status) error {
	var err C.gpuhash_error
	err.struct_size = C.size_t(unsafe.Sizeof(err))
	if function(&err) == C.GPUHASH_OK {
		return nil
	}
	return errors.New(C.GoString(&err.message[0]))
}

// NewTable makes a table of a structure in which capacity keys fit before it grows.
func NewTable(backend string, capacity uint64) (*Table, error) {
	name := C.CString(backend)
	defer C.free(unsafe.Pointer(name))
	var config C.gpuhash_config
	C.gpuhash_config_init(&config, C.size_t(unsafe.Sizeof(config)))
	config.backend = name
	config.capacity = C.uint64_t(capacity)

	t := new(Table)
	if err := call(func(err *C.gpuhash_error) C.gpuhash_status {
		return C.gpuhash_table_create(&config, &t.table, err)
	}); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(t, (*Table).Close)
	return t, nil
}

// Close frees the table; a second call does nothing.
func (t *Table) Close() {
	C.gpuhash_table_destroy(t.table)
	t.table = nil
}

// Count adds one to the value of each of these keys; a key that is not there begins with one.
func (t *Table) Count(keys []uint64) error {
	if len(keys) == 0 {
		return nil
	}
	ones := make([]uint64, len(keys))
	for i := range ones {
		ones[i] = 1
	}
	return call(func(err *C.gpuhash_error) C.gpuhash_status {
		return C.gpuhash_accumulate(t.table, C.size_t(len(keys)), unsafe.Pointer(&keys[0]), unsafe.Pointer(&ones[0]),
			C.GPUHASH_ADD, C.GPUHASH_UINT, nil, nil, err)
	})
}

// Find returns the value of each key, and whether it is there.
func (t *Table) Find(keys []uint64) (values []uint64, found []bool, err error) {
	values, found = make([]uint64, len(keys)), make([]bool, len(keys))
	if len(keys) == 0 {
		return
	}
	mask := make([]byte, len(keys))
	err = call(func(err *C.gpuhash_error) C.gpuhash_status {
		return C.gpuhash_find(t.table, C.size_t(len(keys)), unsafe.Pointer(&keys[0]), unsafe.Pointer(&values[0]),
			(*C.uint8_t)(&mask[0]), nil, err)
	})
	for i, status := range mask {
		found[i] = status == C.GPUHASH_YES
	}
	return
}

// Len is the number of keys in the table.
func (t *Table) Len() (uint64, error) {
	var size C.uint64_t
	err := call(func(err *C.gpuhash_error) C.gpuhash_status { return C.gpuhash_size(t.table, &size, err) })
	return uint64(size), err
}
