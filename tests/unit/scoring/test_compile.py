"""The job that compiles a method's kernels: afterwards a fit and a score compile nothing."""

import pytest

from corpusfit.core.engine.worker import on_compile
from corpusfit.core.plan import MethodPlan
from corpusfit.core.types import text_array
from corpusfit.scoring import registry
from corpusfit.selection.commands import compile_method


@pytest.mark.parametrize("name", ["moore_lewis", "dsir"])
def test_a_method_on_words_is_compiled(name):
    compile_method(MethodPlan(name))
    method = registry.build(name, {})
    texts = text_array([f"word{i} and more of {i % 7} words" for i in range(40)])
    heard = []
    with on_compile(lambda: heard.append(1)):
        method.fit(texts, texts, seed=1).score(texts)
    assert not heard
