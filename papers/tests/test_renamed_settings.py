"""Former names of methods' settings."""

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.settings import RENAMED
from corpusfit.scoring.registry import build


@pytest.mark.parametrize(
    ("method", "old"),
    [("conditional_loss", "rate"), ("conditional_loss", "steps"), ("domain_finetune", "rate")],
)
def test_a_former_setting_of_a_method_is_refused_with_the_new_one(method, old):
    with pytest.raises(UsageError, match=rf"`method\.{old}` .*`method\.{RENAMED[old]}`"):
        build(method, {old: 1})
