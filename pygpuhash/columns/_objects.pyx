# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, freethreading_compatible=True
"""The strict pass over a list of Python objects: one kind of elements, and their numbers in numpy's arrays."""
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong
from libc.stdint cimport int64_t, uint8_t, uint64_t
from numpy cimport PyArray_BYTES, PyArray_ScalarAsCtype, import_array, ndarray

from pygpuhash.columns._buffers cimport mask_of
from pygpuhash.columns.list_item cimport item

import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy

__all__ = ["booleans", "classify", "days", "floats", "integers", "microseconds", "ticks"]

import_array()

cdef object empty = numpy.empty
cdef object generic = numpy.generic
cdef object BOOL = numpy.dtype(bool)
cdef object INT64 = numpy.dtype("i8")
cdef object UINT64 = numpy.dtype("u8")
cdef object FLOAT64 = numpy.dtype("f8")

# Kinds of elements. Those up to FIXED follow from the element's type alone.
cdef enum Kind:
    BOOLEAN
    INTEGER
    TEXT
    BYTES
    DATE
    TIME
    TIMEDELTA
    DECIMAL
    COMPLEX
    TUPLE
    FIXED
    FLOAT
    DATETIME
    AWARE
    DATETIME64
    TIMEDELTA64
    NOTHING
    OTHER
    KINDS

cdef tuple NAMES = (
    "bool", "int", "str", "bytes", "date", "time", "timedelta", "Decimal", "complex", "tuple", "", "float",
    "datetime", "datetime with a time zone", "datetime64", "timedelta64", "None", "",
)
# By the name of a type, or of one that it derives from.
cdef dict WAYS_OUT = {
    "list": "pass tuples for rows, or numpy's array for a column of two dimensions",
    "ndarray": "pass tuples for rows, or numpy's array for a column of two dimensions",
    "dict": "pass tuples of its values",
    "set": "pass tuples, sorted",
    "frozenset": "pass tuples, sorted",
    "UUID": "pass x.bytes of each, or str(x)",
    "Period": "pass x.to_timestamp() of each, or x.ordinal",
    "Interval": "pass tuples (x.left, x.right)",
    "Fraction": "pass tuples (x.numerator, x.denominator)",
    "PurePath": "pass str(x) of each",
    "_IPAddressBase": "pass x.packed of each, or str(x)",
    "range": "pass tuple(x) of each",
    "memoryview": "pass bytes(x) of each",
    "type": "pass x.__name__ of each",
    "longdouble": "pass np.float64 where no digit is lost, or str(x)",
    "clongdouble": "pass complex where no digit is lost",
    "Series": "pass a tuple of columns",
    "bytearray": "pass bytes(x) of each",
}


cdef dict OF_NUMPY = {
    "b": BOOLEAN, "i": INTEGER, "u": INTEGER, "f2": FLOAT, "f4": FLOAT, "f8": FLOAT, "c8": COMPLEX, "c16": COMPLEX,
    "U": TEXT, "S": BYTES, "M": DATETIME64, "m": TIMEDELTA64,
}
cdef object DATE_TYPE = date
cdef object DATETIME_TYPE = datetime
cdef object TIMEDELTA_TYPE = timedelta
cdef object DECIMAL_TYPE = Decimal
cdef object DATETIME64_TYPE = numpy.datetime64
cdef object TIMEDELTA64_TYPE = numpy.timedelta64


cdef int64_t NAT = (<int64_t>1) << 63


cdef inline int64_t raw_time(object x):
    """The number in a datetime64 or timedelta64."""
    cdef int64_t raw
    PyArray_ScalarAsCtype(x, &raw)
    return raw


cdef bint is_missing(object x):
    """pandas' NA and NaT."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and (x is getattr(pandas, "NA", pandas) or x is getattr(pandas, "NaT", pandas))


cdef int slow_kind(object x) except -1:
    """The kind of an object whose type is none of Python's own."""
    if x is None or is_missing(x):
        return NOTHING
    if isinstance(x, generic):
        code = OF_NUMPY.get(x.dtype.kind + str(x.dtype.itemsize), OF_NUMPY.get(x.dtype.kind, OTHER))
        return NOTHING if (code == DATETIME64 or code == TIMEDELTA64) and raw_time(x) == NAT else code
    if isinstance(x, int):
        return INTEGER
    if isinstance(x, float):
        return FLOAT
    if isinstance(x, str):
        return TEXT
    if isinstance(x, bytes):
        return BYTES
    if isinstance(x, datetime):
        return DATETIME if x.tzinfo is None else AWARE if x.utcoffset() is not None else OTHER
    if isinstance(x, date):
        return DATE
    if isinstance(x, time):
        return OTHER if x.tzinfo is not None else TIME
    if isinstance(x, timedelta):
        return TIMEDELTA
    if isinstance(x, Decimal):
        return DECIMAL
    if isinstance(x, tuple):
        return TUPLE
    return COMPLEX if isinstance(x, complex) else OTHER


cdef inline int kind_of(object x) except -1:
    cdef object sort = type(x)
    if sort is int:
        return INTEGER
    if sort is str:
        return TEXT
    if sort is float:
        return FLOAT
    if sort is bool:
        return BOOLEAN
    if sort is bytes:
        return BYTES
    if sort is tuple:
        return TUPLE
    if x is None:
        return NOTHING
    if sort is DATETIME_TYPE:
        return DATETIME if x.tzinfo is None else AWARE if x.utcoffset() is not None else OTHER
    if sort is DATE_TYPE:
        return DATE
    if sort is TIMEDELTA_TYPE:
        return TIMEDELTA
    if sort is DECIMAL_TYPE:
        return DECIMAL
    if sort is DATETIME64_TYPE:
        return NOTHING if raw_time(x) == NAT else DATETIME64
    if sort is TIMEDELTA64_TYPE:
        return NOTHING if raw_time(x) == NAT else TIMEDELTA64
    return slow_kind(x)


def classify(list values not None, bint nan_is_null, str what not None):
    """(kind, nulls, the first null) of a list: "int", "float", "str", ..., "None" of a list without an element.

    nulls is None or a bool array. None, pandas' NA and NaT, and numpy's NaT are null, with `nan_is_null` NaN, too.
    Integers among floats are "float". Raises TypeError for two kinds, and for objects that are of no kind.
    """
    cdef int64_t n = len(values), i
    cdef int64_t first[KINDS]
    cdef int kind, found = NOTHING
    cdef object x, sort, last = None, null = None
    cdef uint8_t *is_null = NULL
    nulls = None
    for kind in range(KINDS):
        first[kind] = -1
    for i in range(n):
        x = item(values, i)
        sort = type(x)
        if sort is last:
            continue
        kind = kind_of(x)
        if nan_is_null and kind == FLOAT and x != x:
            kind = NOTHING
        if kind == NOTHING:
            if nulls is None:
                nulls, null = numpy.zeros(n, BOOL), x
                is_null = <uint8_t *>PyArray_BYTES(<ndarray>nulls)
            is_null[i] = 1
            continue
        if kind < FIXED or (kind == FLOAT and not nan_is_null):
            last = sort
        if first[kind] < 0:
            first[kind] = i
        if kind == OTHER:
            raise no_kind(x, what, i)
        if kind == found:
            continue
        if found == NOTHING:
            found = kind
        elif (kind == INTEGER and found == FLOAT) or (kind == FLOAT and found == INTEGER):
            found = FLOAT
        else:
            before = first[found] if first[found] >= 0 else first[<int>INTEGER]
            raise two_kinds(what, i, NAMES[kind], before, NAMES[found])
    return NAMES[found], nulls, null


cdef object no_kind(object x, str what, int64_t i):
    name = type(x).__name__
    ways_out = [WAYS_OUT[base.__name__] for base in type(x).__mro__ if base.__name__ in WAYS_OUT]
    way_out = ways_out[0] if ways_out else "pass numbers, text, bytes, times, or tuples of these"
    if name == "time":
        name, way_out = "time with a time zone", "pass times without one"
    if isinstance(x, datetime):
        name, way_out = "datetime with a time zone that has no offset", "pass x.replace(tzinfo=None) of each"
    if hasattr(x, "name") and hasattr(x, "value"):
        way_out = "pass x.value of each, or x.name"
    return TypeError(f"{what}[{i}] is a {name}, which has no equality here: {way_out}")


cdef object two_kinds(str what, int64_t i, str kind, int64_t j, str other):
    way_out = "convert them, or pass tuples (type(x).__name__, str(x)), which differ"
    if kind.startswith("date") and other.startswith("date"):
        way_out = "pass all of them with a time zone, or none, as datetimes"
    elif {kind, other} <= {"str", "bytes"}:
        way_out = "encode the text, or decode the bytes"
    return TypeError(
        f"{what}[{j}] is of kind {other}, {what}[{i}] of kind {kind}, and a column has one kind: {way_out}"
    )


def integers(list values not None, nulls, str what not None):
    """Integers as int64, or as uint64 where one needs that and none is negative; else OverflowError names one."""
    cdef int64_t n = len(values), i, first = -1
    cdef int overflow = 0
    cdef bint negative = False
    cdef uint8_t *null = mask_of(nulls)
    out = numpy.zeros(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        if null != NULL and null[i]:
            continue
        x = item(values, i)
        if not isinstance(x, int):
            x = x.item()
        at[i] = PyLong_AsLongLongAndOverflow(x, &overflow)
        if overflow == 0:
            negative |= at[i] < 0
        elif overflow < 0 or negative or x >= 2 ** 64:
            raise OverflowError(too_large(what, i, x))
        else:
            (<uint64_t *>at)[i] = PyLong_AsUnsignedLongLong(x)
            first = i if first < 0 else first
    if first < 0:
        return out
    if negative:
        raise OverflowError(too_large(what, first, values[first]))
    return out.view(UINT64)


cdef str too_large(str what, int64_t i, object x):
    return (
        f"{what}[{i}] is {x}, which int64 lacks, and uint64 where a number is negative or this one is 2^64 or more: "
        f"pass text, [str(x) for x in {what}]"
    )


def floats(list values not None, nulls, str what not None):
    """Floats as float64, integers among them if they are exact; TypeError names the first that is not."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = numpy.zeros(n, FLOAT64)
    cdef double *at = <double *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        if null != NULL and null[i]:
            continue
        x = item(values, i)
        if type(x) is not float:
            if isinstance(x, generic):
                x = x.item()
            try:
                exact = float(x) == x or x != x
            except OverflowError:
                exact = False
            if not exact:
                raise OverflowError(
                    f"{what}[{i}] is {x}, which float64 lacks, and there are floats: pass integers alone, or text"
                )
        at[i] = x
    return out


def booleans(list values not None, nulls):
    """Booleans as an array of bool."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = numpy.zeros(n, BOOL)
    cdef uint8_t *at = <uint8_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        if null == NULL or not null[i]:
            at[i] = bool(item(values, i))
    return out


def microseconds(list values not None, nulls, epoch, str what not None):
    """Timedeltas, or datetimes since an epoch, in microseconds: int64, NaT where null; OverflowError names one."""
    cdef int64_t n = len(values), i, days
    cdef uint8_t *null = mask_of(nulls)
    out = empty(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        at[i] = NAT
        if null != NULL and null[i]:
            continue
        x = item(values, i)
        passed = x if epoch is None else x - epoch
        days = passed.days
        if not -106_751_991 < days < 106_751_991:
            raise OverflowError(
                f"{what}[{i}] is {x!r}, of more microseconds than int64 has: pass numpy's timedelta64[s], or numbers"
            )
        at[i] = days * 86_400_000_000 + <int64_t>passed.seconds * 1_000_000 + <int64_t>passed.microseconds
    return out


def days(list values not None, nulls):
    """Dates in days since 1970: int64, NaT where null."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = empty(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        at[i] = NAT if null != NULL and null[i] else <int64_t>item(values, i).toordinal() - 719_163
    return out


def ticks(list values not None, nulls):
    """The numbers in datetime64 or timedelta64 of one unit: int64, NaT where null."""
    cdef int64_t n = len(values), i
    cdef uint8_t *null = mask_of(nulls)
    out = empty(n, INT64)
    cdef int64_t *at = <int64_t *>PyArray_BYTES(<ndarray>out)
    for i in range(n):
        at[i] = NAT if null != NULL and null[i] else raw_time(item(values, i))
    return out
