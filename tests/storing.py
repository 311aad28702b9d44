"""A stored scorer whose arrays do not fit together is refused: kernels read without bounds checks.

`benchmarks/torture` tries the same at random, with bounds checks (target `fitted`).
"""

import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from corpusfit.core.errors import ModelError
from corpusfit.core.types import text_array
from corpusfit.kernels.cynical import number_features
from corpusfit.scoring import registry
from corpusfit.scoring.rounds import RoundScorer

TEXTS = text_array([f"the kinase {i} binds the receptor of growth" for i in range(40)])
OTHERS = text_array([f"shares of the market {i} fell before the results" for i in range(40)])
ROWS = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)


def fitted(name, options):
    if name == "cynical":
        table = number_features(np.arange(5, 9, dtype=np.uint64))
        one = np.ones(1)
        rounds = (np.ones((1, 4)), one, np.ones(1, np.int64), one, one)
        return RoundScorer(table, np.ones(4), False, *rounds, table.copy(), np.ones(4), 0.0)
    method = registry.build(name, options)
    texts = (TEXTS, OTHERS) if method.reads == "text" else (ROWS[:6], ROWS)
    return method.fit(*texts, seed=0)


def changed(stored, name, change):
    """The stored scorer with another array, or another plain value, of a name."""
    data = stored.tobytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    arrays, about = load(data), json.loads(header["__metadata__"]["json"])
    if name in arrays:
        arrays[name] = change(arrays[name].copy())
    else:
        about["fields"][name] = change(about["fields"][name])
    arrays = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    return np.frombuffer(save(arrays, {"json": json.dumps(about)}), np.uint8)


def full(table):
    """A hash table without a free slot, in which a search does not end."""
    table[table == 0] = 7
    return table


def more(array):
    return array + 1000


def half(array):
    return array[: len(array) // 2]


def other_type(array):
    return array.astype(np.float64 if array.dtype != np.float64 else np.float32)


def refuse(name, options, changes):
    """Every change of a stored scorer is refused."""
    stored = registry.pack_scorer(name, fitted(name, options))
    registry.unpack_scorer(stored)
    for field, each in changes.items():
        for change in each:
            with pytest.raises(ModelError):
                registry.unpack_scorer(changed(stored, field, change))
