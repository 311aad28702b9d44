"""What a job's function raises where the library of tokenizers gives up."""

import pytest

from corpusfit.core.engine.worker import guarded
from corpusfit.core.errors import ModelError, tokenizing

PanicException = type("PanicException", (BaseException,), {})


def test_a_panic_of_the_tokenizer_is_an_error_of_the_model():
    def work(_):
        raise PanicException("stack")

    with pytest.raises(ModelError, match="tokenizer fails: stack"):
        guarded(work)(0)


def test_where_the_tokenizer_runs_alone_a_plain_error_is_its_own():
    with pytest.raises(ModelError, match="tokenizer fails: Unk"), tokenizing():
        raise Exception("Unk token not found")


@pytest.mark.parametrize("error", [Exception("x"), ValueError("x"), KeyboardInterrupt()])
def test_any_other_error_stays(error):
    def work(_):
        raise error

    with pytest.raises(type(error)):
        guarded(work)(0)
