"""`Table`: one table in shards, of which each is a table of its own: on another device, or for another thread.

    from pygpuhash import sharded

    table = sharded.Table("linear_probe", key_dtype="uint64", shards=4)
    table.accumulate(keys, 1)
    table.save("counts/")
    table = sharded.load("counts/", shards=8)

Keys go to shards as `gh.partition` has it, so that a key is in one shard only. A batch is grouped by shard, each shard
serves its part, and results come back in the order of the batch.

What is promised of failures:

- A batch is atomic for each shard: the part of a shard is carried out or refused by itself, one part after the other.
- A shard that is lost, as the memory of a device that failed, is lost with its keys. Every call then raises
  `ShardLost`, which names the shard and the last snapshot. Nothing resumes by itself, and nothing answers for a part
  of the keys.
- A batch with a tag is carried out once: a shard that has the tag leaves the part out. So a caller who does not know
  whether a batch was carried out repeats it. Tags are kept by the shards, and saved with the table.

Shards are reached by a transport: `Local` in this process, `Torch` in the processes of torch.distributed, `Dask` in its
workers. Where keys travel to other processes, equal keys of `accumulate` are combined first; on a GPU, if most repeat.

`Local` takes batches that lie on a GPU as well, and gives results there: rows go from card to card, see `_routes`.

`table` has the table, `replica` a copy of all its keys on each device, `snapshot` a table from files, and `manifest`
what a folder says of these files.
"""

from pygpuhash.sharded.replica import Replica
from pygpuhash.sharded.snapshot import load
from pygpuhash.sharded.table import Table
from pygpuhash.transports import Dask, Local, Torch, Transport

__all__ = ["Dask", "Local", "Replica", "Table", "Torch", "Transport", "load"]
