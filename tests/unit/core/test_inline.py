"""The engine without workers: what those of workers do, in this process."""

import os

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from answers import Answer
from corpusfit.core.engine import InlineEngine
from corpusfit.core.errors import ModelError, StorageError, UsageError


def threads(size):
    """The most threads of a library for linear algebra."""
    np.ones((size, size)) @ np.ones((size, size))
    return max(library["num_threads"] for library in threadpool_info())


def test_pieces_are_done_here_in_order_and_told():
    told = []
    with InlineEngine(4) as engine:
        found = list(engine.map(Answer(100), range(5), lambda *of: told.append(of)))
        assert engine.workers == 1
        assert {pid for pid, _ in engine.map(Answer(1), ["where"] * 3)} == {os.getpid()}
        assert len({opened for _, opened in engine.map(Answer(1), ["where"] * 3)}) == 1
        assert list(engine.map(Answer(), [])) == []
    assert found == [100, 101, 102, 103, 104]
    assert told == [(number, 1.0) for number in range(5)]


def test_a_piece_has_one_thread_and_the_caller_all_of_them():
    with threadpool_limits(2), InlineEngine() as engine:
        for most in engine.map(threads, [3, 3]):
            assert most == 1
            assert max(library["num_threads"] for library in threadpool_info()) == 2
        with pytest.raises(StorageError):
            list(engine.map(Answer(), ["full"]))
        assert max(library["num_threads"] for library in threadpool_info()) == 2


def test_it_needs_a_worker():
    with pytest.raises(UsageError, match="workers"):
        InlineEngine(0)


def cut(text):
    """Cut by a tokenizer whose regular expression takes exponential time."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    return tokenizer.encode(text).tokens


def test_a_regular_expression_without_end_is_an_error():
    with InlineEngine() as engine, pytest.raises(ModelError, match="tokenizer"):
        list(engine.map(cut, ["a" * 100 + "!"]))
