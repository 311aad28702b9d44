"""Several targets with shares: what each counts, whatever its size."""

import json

import numpy as np
import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.plan import FitPlan, Plan
from corpusfit.selection.fit import Sample
from corpusfit.selection.resolving import check_shares
from corpusfit.selection.samples import repeats_by_share


def repeats(sources, shares, names=("a", "b"), most=1000):
    plan = Plan(fit=FitPlan(shares=shares, max_target=most))
    return repeats_by_share(np.array(sources), names, plan)


def test_a_small_target_is_repeated_until_it_has_its_share():
    found = repeats([0] * 10 + [1] * 40, "a:0.5,b:0.5")
    assert found.tolist() == [4] * 10 + [1] * 40
    thirds = repeats([0] * 10 + [1] * 40, "b:2,a:1")
    assert (thirds[:10].sum(), thirds[10:].sum()) == (20, 40)
    capped = repeats([0] * 10 + [1] * 40, "a:1,b:1", most=30)
    assert (capped[:10].sum(), capped[10:].sum()) == (15, 15)
    assert repeats([0, 1], "") is None
    assert repeats([0, 1], "a:0.1,b:0.001", most=50).tolist() == [50, 1]


@pytest.mark.parametrize("shares", ["a:1", "a:1,c:1", "a:1,b:0", "a:1,b:-1", "a:x,b:1", "1,2"])
def test_shares_that_do_not_fit_the_targets(shares):
    with pytest.raises(UsageError, match=r"fit\.shares"):
        check_shares(("a", "b"), Plan(fit=FitPlan(shares=shares)))


def test_the_fit_sees_repeats_and_the_ranking_does_not(tmp_path):
    sample = Sample(tmp_path, "target")
    sample.write_texts(["x", "y"], np.array([3, 1]))
    assert sample.batch("text").to_pylist() == ["x", "y"]
    assert sample.repeated("text").to_pylist() == ["x", "x", "x", "y"]
    assert json.loads(sample.texts.read_text())["repeats"] == [3, 1]
