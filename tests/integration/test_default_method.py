"""The default method and amount, what is refused since they are fixed, and runs of before."""

import json

import pytest

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.core.plan import DEFAULT_FRACTION, Plan

CHOSEN = ("--method", "auto"), ("--set", "method.name=auto")
DECIDED = ("--fraction", "auto"), ("--set", "choose.fraction=auto")


@pytest.fixture
def inputs(task, pile, inline):
    return {"target": task, "corpus": pile, "machine": inline}


def test_a_selection_without_a_method_and_an_amount_says_which_it_takes(cli, task, pile, tmp_path):
    arguments = ("select", "--target", task, "--corpus", pile)
    done = cli(*arguments, "--out", tmp_path / "a")
    assert done.code == 0
    manifest = json.loads((tmp_path / "a/manifest.json").read_bytes())
    assert manifest["method"]["name"] == manifest["plan"]["method"]["name"] == "cynical"
    taken = manifest["selected"]
    assert taken["tokens"] >= DEFAULT_FRACTION * taken["of_tokens"]
    assert "cynical" in done.err
    assert done.err.count("--fraction") == 1
    again = cli(*arguments, "--fraction", "0.2", "--out", tmp_path / "b")
    assert "--fraction" not in again.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        *(("select", words) for words in (*CHOSEN, *DECIDED)),
        ("rank", CHOSEN[0]),
    ],
)
def test_auto_is_refused_as_wrong_usage(cli, task, pile, tmp_path, command, words):
    out = () if command == "rank" else ("--out", tmp_path / "out")
    done = cli(command, "--target", task, "--corpus", pile, *out, *words)
    assert done.code == 2
    assert words in DECIDED or "corpusfit rank" in done.err
    assert not (tmp_path / "out").exists()


def test_auto_is_refused_in_python_in_a_file_and_by_fit(inputs, tmp_path):
    words = {**inputs, "out": tmp_path / "out"}
    (tmp_path / "plan.toml").write_text('method.name = "auto"\n')
    asked = Plan().with_value("method.name", "auto")
    for given in ({"method": "auto"}, {"plan": asked}, {"plan": tmp_path / "plan.toml"}):
        with pytest.raises(UsageError, match=r"`method\.name` must.*corpusfit rank.*cynical"):
            corpusfit.select(**words, **given)
    with pytest.raises(UsageError, match="corpusfit rank"):
        corpusfit.fit(
            model="m", task=inputs["target"], corpus=inputs["corpus"], out="o", method="auto"
        )
    with pytest.raises(UsageError, match=r"`choose\.fraction=auto` is no longer"):
        corpusfit.select(**words, fraction="auto")
