"""What a job's function raises where the library of tokenizers gives up."""

import pytest

from corpusfit.engine.worker import guarded
from corpusfit.errors import ModelError

PanicException = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize("error", [Exception("Unk token not found"), PanicException("stack")])
def test_an_error_of_the_tokenizer_is_one_of_the_model(error):
    def work(_):
        raise error

    with pytest.raises(ModelError, match=f"tokenizer fails: {error}"):
        guarded(work)(0)


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_any_other_error_stays(error):
    def work(_):
        raise error

    with pytest.raises(type(error)):
        guarded(work)(0)
