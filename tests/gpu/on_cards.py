"""CuPy and PyTorch with arrays on one of several cards, for tests that are run with both."""

import numpy as np
import pytest


class Cupy:
    def __init__(self):
        self.module = pytest.importorskip("cupy")

    def put(self, array, card=0):
        with self.module.cuda.Device(card):
            return self.module.asarray(array)

    def get(self, array):
        return self.module.asnumpy(array)

    def card(self, array):
        return array.device.id


class Torch:
    def __init__(self):
        self.module = pytest.importorskip("torch")

    def put(self, array, card=0):
        return self.module.from_numpy(np.ascontiguousarray(array)).to(f"cuda:{card}")

    def get(self, array):
        return array.cpu().numpy()

    def card(self, array):
        return array.device.index
