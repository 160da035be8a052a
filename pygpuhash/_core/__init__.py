"""The library for Python, in Cython: all names of the modules here, of which each is one idea.

==================  ====================================================================================
`process`           forks, and the end of the process
`status`            status codes as exceptions, text
`host_arrays`       numpy's arrays that are passed on as they are
`scalars`           single numbers that are passed on without an array (a `.pxd` alone)
`dlpack`            DLPack's structs and capsules
`device_arrays`     streams, and the short path of arrays of CuPy and PyTorch
`memory`            memory resources
`library`           version, devices, backends, codes, ceilings
`copies`            copies of host memory on several threads, for staging
`handle`            one table: made, asked, called on addresses, destroyed
`table`             batches of a table
`staging`           batches of host arrays on a CUDA table
`slab`              SlabAlloc
`results`           arrays of results that have an element for each group
`groups`            verbs on a column on a CUDA device
`bytes_on_device`   columns of bytes on a CUDA device
`shards`            rows by shard on a CUDA device
==================  ====================================================================================

A module uses those above it in this list. The modules above `_core` hand in what these call back:
`explain_no_memory`, `own_arrays`, `tell_progress_to`, and the methods of `Table` that `CoreTable` names.
"""

from pygpuhash._core.bytes_on_device import BytesCall, bytes_scratch
from pygpuhash._core.copies import COPY_LOOK, COPY_STREAM, COPY_TOUCH, Copies
from pygpuhash._core.device_arrays import own_arrays, stream_handle
from pygpuhash._core.dlpack import dlpack_read, dlpack_write
from pygpuhash._core.groups import (
    Grouping,
    Join,
    group,
    isin,
    isin_scratch,
    join_scratch,
    plain_groups,
    ready,
    result_of,
)
from pygpuhash._core.handle import VALUE_TYPE, ExportCursor, stats_raw
from pygpuhash._core.host_arrays import check_ops, refuse_overlaps
from pygpuhash._core.library import (
    ADDING,
    CPU,
    CUDA,
    DEDUP_LAST,
    OP_ACCUMULATE,
    OP_ASSIGN,
    OP_COUNT,
    OP_ERASE,
    OP_ERASE_ALL,
    OP_EXECUTE,
    OP_FIND,
    OP_INSERT,
    OP_INSERT_MULTI,
    OPERATIONS,
    TRAITS,
    backend_list,
    backend_load,
    backend_open,
    backend_probe,
    build_info,
    device_count,
    device_info,
    measure_ceiling,
    pointer_device,
    set_threads,
    version,
)
from pygpuhash._core.process import abandoned, forks, keep
from pygpuhash._core.results import Maker, maker_like, part, pointer
from pygpuhash._core.shards import MOST_SPREAD, collect, partition, ungroup
from pygpuhash._core.slab import CoreSlabAllocator
from pygpuhash._core.staging import STAGING_NEW_STATUS, STAGING_NEW_VALUES, STAGING_PAST_CACHES, run_staged
from pygpuhash._core.status import exception_of, explain_no_memory
from pygpuhash._core.table import CoreTable, piece, run_counted, tell_progress_to, watched

__all__ = [
    "ADDING",
    "COPY_LOOK",
    "COPY_STREAM",
    "COPY_TOUCH",
    "CPU",
    "CUDA",
    "DEDUP_LAST",
    "MOST_SPREAD",
    "OPERATIONS",
    "OP_ACCUMULATE",
    "OP_ASSIGN",
    "OP_COUNT",
    "OP_ERASE",
    "OP_ERASE_ALL",
    "OP_EXECUTE",
    "OP_FIND",
    "OP_INSERT",
    "OP_INSERT_MULTI",
    "STAGING_NEW_STATUS",
    "STAGING_NEW_VALUES",
    "STAGING_PAST_CACHES",
    "TRAITS",
    "VALUE_TYPE",
    "BytesCall",
    "Copies",
    "CoreSlabAllocator",
    "CoreTable",
    "ExportCursor",
    "Grouping",
    "Join",
    "Maker",
    "abandoned",
    "backend_list",
    "backend_load",
    "backend_open",
    "backend_probe",
    "build_info",
    "bytes_scratch",
    "check_ops",
    "collect",
    "device_count",
    "device_info",
    "dlpack_read",
    "dlpack_write",
    "exception_of",
    "explain_no_memory",
    "forks",
    "group",
    "isin",
    "isin_scratch",
    "join_scratch",
    "keep",
    "maker_like",
    "measure_ceiling",
    "own_arrays",
    "part",
    "partition",
    "piece",
    "plain_groups",
    "pointer",
    "pointer_device",
    "ready",
    "refuse_overlaps",
    "result_of",
    "run_counted",
    "run_staged",
    "set_threads",
    "stats_raw",
    "stream_handle",
    "tell_progress_to",
    "ungroup",
    "version",
    "watched",
]
