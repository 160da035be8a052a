"""torch.distributed among threads of one process, as much as `sharded.Torch` asks for: ranks meet at a barrier."""

from __future__ import annotations

import threading
from types import ModuleType, SimpleNamespace

import numpy as np


class Tensor(np.ndarray):
    """Memory of the host."""

    def to(self, device):
        """Here."""
        return self

    def cpu(self):
        """Here."""
        return self

    def numpy(self):
        """Numpy's."""
        return np.asarray(self)


def tensor(given):
    return np.asarray(given).view(Tensor)


class Group:
    """A process group of `size` ranks; `of(rank)` is what one of them passes as its group."""

    def __init__(self, size):
        self.size, self.given, self.barrier = size, [None] * size, threading.Barrier(size, timeout=60)
        self.fails = None  # of the next exchange

    def of(self, rank):
        """The group, in the process of a rank."""
        return SimpleNamespace(group=self, rank=rank)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """The i-th part of the input goes to rank i."""
    shared, rank = group.group, group.rank
    if shared.fails:
        raise RuntimeError(shared.fails)
    sent = input_split_sizes or [len(input) // shared.size] * shared.size
    assert sum(sent) == len(input)
    shared.given[rank] = np.split(np.asarray(input), np.cumsum(sent)[:-1])
    shared.barrier.wait()
    parts = [shared.given[i][rank] for i in range(shared.size)]
    if output_split_sizes is not None:
        assert [len(part) for part in parts] == list(output_split_sizes)
    assert all(part.dtype == output.dtype for part in parts)
    output[:] = np.concatenate(parts)
    shared.barrier.wait()  # before the next exchange, nothing that was given changes


def frombuffer(memory, dtype):
    """Of at least one element, as torch's."""
    if not len(memory):
        raise ValueError("both buffer length (0) and count (-1) must not be 0")
    return tensor(np.frombuffer(memory, dtype))


def module(initialized=True):
    """What is imported as torch."""
    torch = ModuleType("torch")
    torch.int64, torch.uint8 = np.dtype("i8"), np.dtype("u1")
    torch.tensor = lambda given, dtype, device: tensor(np.array(given, dtype))
    torch.empty = lambda n, dtype, device: tensor(np.empty(n, dtype))
    torch.empty_like = lambda like: tensor(np.empty_like(like))
    torch.frombuffer = frombuffer
    torch.from_numpy = tensor
    torch.distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: initialized,
        get_rank=lambda group: group.rank,
        get_world_size=lambda group: group.group.size,
        get_backend=lambda group: "gloo",
        all_to_all_single=all_to_all_single,
    )
    return torch
