"""That compilation is noticed, and that text kernels are compiled for one type of bytes."""

import numba
import numpy as np
import pyarrow as pa

from corpusfit.core.engine.worker import on_compile
from corpusfit.core.types import buffers, text_array


def test_every_compilation_is_noticed_and_no_call():
    double, heard = numba.njit(lambda x: 2 * x), []
    end = on_compile(lambda: heard.append(1))
    assert (double(1), double(2), len(heard)) == (2, 4, 1)
    assert (double(1.5), len(heard)) == (3.0, 2)
    end()
    assert (double(1j), len(heard)) == (2j, 2)


def test_bytes_of_texts_have_one_type_for_kernels():
    """Of any Arrow array, mutable or not, and of none."""
    texts = text_array(["one", "two"])
    mutable = pa.py_buffer(np.frombuffer(b"onetwo", np.uint8).copy())
    own = pa.LargeStringArray.from_buffers(2, texts.buffers()[1], mutable)
    assert mutable.is_mutable
    kinds = {numba.typeof(buffers(t)[0]) for t in (texts, own, texts[:0], text_array([]), [""])}
    assert len(kinds) == 1
