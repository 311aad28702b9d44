"""Every method that goes by a row's label meets the contract of `scoring/contract.py`."""

import dataclasses
import math

import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.ranking.ranking import candidates
from corpusfit.scoring import registry
from corpusfit.scoring.contract import LabelMethod
from corpusfit.scoring.names import names as method_names

NAMES = [n for n in method_names() if issubclass(registry.load(n), LabelMethod)]
SETTINGS = {"oracle": {"domain": "bio_*"}}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("label", ["bio_x.jsonl", "Bio_x", "", "(none)", "bio_\n\x00", "ß" * 999])
def test_every_label_has_a_finite_score(name, label):
    score = registry.build(name, SETTINGS[name]).score_label(label)
    assert math.isfinite(score)
    assert score >= 0


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_default(name):
    fields = dataclasses.fields(registry.load(name))
    assert all(field.default is not dataclasses.MISSING for field in fields)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_no_other_kind_of_method_and_takes_no_part_in_the_ranking(name):
    assert name not in candidates()
    with pytest.raises(UsageError, match=rf"^`method\.name` must .*'{name}'"):
        registry.unit_method(name, SETTINGS[name])
    with pytest.raises(ModelError, match=name):
        registry.scorer_class(name)


@pytest.mark.parametrize("wrong", [{}, {"domain": ""}, {"domain": "a", "truth": ""}])
def test_the_oracles_settings_are_checked(wrong):
    with pytest.raises(UsageError, match=r"^`method\.(domain|truth)` must "):
        registry.build("oracle", wrong)


def test_the_oracle_takes_several_domains():
    oracle = registry.build("oracle", {"domain": "bio_*,law"})
    labels = ("bio_one", "law", "law_two", "news")
    assert [oracle.score_label(label) for label in labels] == [1.0, 1.0, 0.0, 0.0]
