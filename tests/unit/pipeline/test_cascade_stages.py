"""What the words of `--cascade` come to."""

from __future__ import annotations

import pytest

from corpusfit.errors import UnknownMethodError, UsageError
from corpusfit.pipeline.cascade_stages import resolve_stages, stages_of
from corpusfit.plan import Plan, StageText


def plan(stages, *more):
    return resolve_stages(Plan().with_overrides([f"cascade.stages={stages}", *more]).check())


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("dsir", ("dsir", "", None)),
        (" dsir : 0.3 ", ("dsir", "", 0.3)),
        ("knn@static:0.5", ("knn", "static", 0.5)),
        ("knn@static:org/model:1", ("knn", "static:org/model", 1.0)),
        ("pyod:ECOD", ("pyod:ECOD", "", None)),
        ("pyod:ECOD@minilm", ("pyod:ECOD", "minilm", None)),
        ("static:org/model", ("static:org/model", "", None)),
    ],
)
def test_a_stage_is_read(text, stage):
    assert StageText.of(text) == StageText(*stage)
    assert StageText.of(str(StageText(*stage))) == StageText(*stage)


@pytest.mark.parametrize(
    ("stages", "more", "spelled", "method", "embedder"),
    [
        ("dsir>static>minilm", (), "dsir>static>minilm", "auto", "minilm"),
        ("static > minilm", ("method.name=knn",), "static>minilm", "knn", "minilm"),
        ("dsir>knn", ("embed.embedder=static",), "dsir>knn@static", "knn", "static"),
        ("lof>knn@static", (), "lof@minilm>knn@static", "knn", "static"),
        ("dsir:0.5>auto@static", (), "dsir:0.5>static", "auto", "static"),
        ("dsir>tfidf", (), "dsir>tfidf", "tfidf", "minilm"),
        (
            "static>domain_finetune",
            (),
            "static>domain_finetune@minilm",
            "domain_finetune",
            "minilm",
        ),
        ("dsir>org/model", (), "dsir>org/model", "auto", "org/model"),
        ("dsir>knn", ("method.name=knn", "method.k=3"), "dsir>knn@minilm", "knn", "minilm"),
    ],
)
def test_the_last_stage_is_the_runs_method(stages, more, spelled, method, embedder):
    found = plan(stages, *more)
    assert found.cascade.stages == spelled
    assert (found.method.name, found.embed.embedder) == (method, embedder)
    assert resolve_stages(found) == found


def test_what_a_stage_reads_and_costs():
    stages = stages_of(plan("dsir>static>knn@static>minilm"))
    assert [s.embed and s.embed.embedder for s in stages] == [None, "static", "static", "minilm"]
    assert [s.method and s.method.name for s in stages] == ["dsir", None, "knn", "auto"]
    assert [s.cost for s in stages] == [1, 3, 3, 300]
    assert [s.name for s in stages] == ["dsir", "static", "knn@static", "minilm"]


def test_a_method_with_a_network_of_its_own_costs_as_one():
    first, _, last = stages_of(plan("dsir>static>domain_finetune"))
    assert last.embed is None
    assert last.method.options == {"embedder": "minilm"}
    assert last.cost == 300 * first.cost


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ("dsri>minilm", "Did you mean 'dsir'"),
        (
            "dsir>bert-base-uncased",
            "a stage of its own is OWNER/NAME; one without an owner is said",
        ),
        ("auto>knn", "Only the last stage may be auto"),
        ("dsir:0,2>knn", "with a number as share; got 'dsir:0,2'"),
        ("dsir@static>knn", "without an embedder: it reads words; got 'dsir@static'"),
        ("dsir>tfidf@static", "without an embedder"),
        ("static@minilm>minilm", "METHOD@EMBEDDER or one embedder; got 'static@minilm'"),
        ("ngram_coverage_unseen>minilm", "scores each unit by itself"),
        ("dsir>ngram_coverage_unseen", "scores each unit by itself"),
        ("dsir>oracle", "scores each unit by itself"),
    ],
)
def test_what_cannot_be_a_stage_is_named(stages, says):
    with pytest.raises((UsageError, UnknownMethodError)) as error:
        plan(stages)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("cascade.stages=dsir>knn", "method.name=lof"), "left out, or knn as the last stage"),
        (("cascade.stages=static>minilm", "method.name=dsir"), "one that reads embeddings"),
        (("cascade.stages=>",), "two or more stages"),
        (("cascade.stages=dsir",), "two or more stages"),
        (("cascade.stages=dsir>>knn",), "two or more stages"),
        (("cascade.stages=dsir:0>knn",), "The share of dsir in --cascade must be above 0"),
        (("cascade.stages=dsir:1.5>knn",), "at most 1 (it is of the whole corpus); got 1.5"),
        (("cascade.stages=dsir:nan>knn",), "The share of dsir"),
        (("cascade.stages=dsir:0.1>tfidf:0.2>knn",), "above 0 and at most 0.1"),
        (("cascade.stages=dsir:0.1>tfidf>knn",), "with a share for every stage but the last"),
        (("cascade.stages=dsir>knn:0.1",), "without a share: nothing comes after it"),
        (("cascade.recall=0.9",), "--recall must be given with --cascade; got 0.9"),
        (("cascade.stages=dsir:0.1>knn", "cascade.recall=0.9"), "--recall must be left out"),
        (("cascade.stages=dsir>knn", "cascade.recall=0.0"), "--recall must be in (0, 1]"),
        (("cascade.stages=dsir>knn", "cascade.confidence=1.0"), "between 0 and 1"),
        (("cascade.stages=dsir>knn", "cascade.sample=3"), "cascade.sample must be 20 or more"),
        (("cascade.stages=dsir>knn", "choose.policy=continuous"), "--weights must be top with"),
        (("cascade.stages=dsir>knn", "choose.policy=resample"), "--weights must be top with"),
    ],
)
def test_settings_that_do_not_go_together_are_named(more, says):
    with pytest.raises(UsageError) as error:
        resolve_stages(Plan().with_overrides(more).check())
    assert says in str(error.value)
