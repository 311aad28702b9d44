"""The plan: TOML, overrides, and errors that say what to do."""

import json

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.plan import ChoosePlan, Plan


def test_names_in_quotas_have_commas_and_equals_signs():
    shares = ChoosePlan(quota=" a b = 50 % ,p,q=.2,x=y=10%").quota_shares()
    assert shares == {"a b": 0.5, "p,q": 0.2, "x=y": 0.1}


def test_a_plan_survives_json_and_toml(tmp_path):
    plan = Plan().with_overrides(
        [
            "cut.gamma=5",
            "method.name=knn",
            "method.k=10",
            "seed=7",
            "choose.fraction=1",
            "read.txt=lines",
        ]
    )
    assert plan.choose.fraction == 1.0
    assert plan.method.options == {"k": 10}
    assert Plan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan
    path = tmp_path / "plan.toml"
    path.write_text(
        'seed = 7\n[cut]\ngamma = 5\n[method]\nname = "knn"\nk = 10\n[choose]\nfraction = 1\n'
        '[read]\ntxt = "lines"\n'
    )
    assert Plan().with_toml(path) == plan


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("500k", 500_000),
        ("1m", 10**6),
        ("1M", 10**6),
        ("1.5M", 1_500_000),
        ("2b", 2 * 10**9),
        ("1e3", 1_000),
    ],
)
def test_an_amount_may_be_in_thousands_millions_or_billions(text, tokens):
    assert Plan().with_overrides([f"choose.tokens={text}"]).choose.tokens == tokens
    assert Plan().with_value("choose.tokens", text).choose.tokens == tokens


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("choose.tokens=1.2345k", "`choose.tokens` must be a whole number"),
        ("choose.tokens=1g", "`choose.tokens` must be a whole number"),
        ("cut.gama=5", "cut.gamma"),
        ("gamma=5", "cut"),
        ("cut.gamma", "KEY=VALUE"),
        ("method=knn", "method must be a group of name, options; got 'knn'"),
        ("cut.gamma=true", "`cut.gamma` must be a whole number; got True"),
        ("seed=1.5", "`seed` must be a whole number"),
        ("seed=-1", "`seed` must be 0 or more"),
        ("choose.threshold=nan", "finite"),
        ("cut.gamma=many", "a whole number"),
        ("cut.gamma=0", "above 0"),
        ("cut.unit=word", "window, sentence"),
        ("choose.fraction=1.5", "(0, 1]"),
        ("choose.fraction=0", "(0, 1]"),
        ("choose.fraction=-0.1", "(0, 1]"),
        ("choose.fraction=nan", "(0, 1]"),
        ("choose.segments=-1", "above 0"),
        ("choose.policy=best", "top, continuous, resample"),
        ("embed.pooling=max", "mean, cls"),
        ("read.max_row_mb=nan", "above 0"),
    ],
)
def test_errors_name_what_is_allowed(override, words):
    with pytest.raises(UsageError) as e:
        Plan().with_overrides([override]).check()
    assert words in str(e.value)


def test_a_file_that_is_no_toml_is_named(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("not toml at all")
    with pytest.raises(UsageError, match=r"plan\.toml"):
        Plan().with_toml(path).check()
