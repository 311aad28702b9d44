"""Stages of `--cascade`: names, spelling, errors."""

import pytest

from corpusfit.core.errors import UnknownMethodError, UsageError
from corpusfit.core.plan import Plan, StageText
from corpusfit.selection.resolving import Resolved, shares_of


def resolved(stages, *more):
    more = ["embed.embedder=minilm", f"cascade.stages={stages}", *more]
    return Resolved.of(Plan().with_overrides(more).check())


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
        ("org/model@v1:0.5", ("org/model@v1", "", 0.5)),
        ("static:org/model@v1:1", ("static:org/model@v1", "", 1.0)),
        ("knn@org/model@v1", ("knn", "org/model@v1", None)),
    ],
)
def test_a_stage_is_read(text, stage):
    assert StageText.of(text) == StageText(*stage)
    assert StageText.of(str(StageText(*stage))) == StageText(*stage)


@pytest.mark.parametrize(
    ("stages", "more", "spelled", "method", "embedder"),
    [
        ("dsir>static>minilm", ("method.name=knn",), "dsir>static>minilm", "knn", "minilm"),
        ("static > minilm", ("method.name=knn",), "static>minilm", "knn", "minilm"),
        ("dsir>knn", ("embed.embedder=static",), "dsir>knn@static", "knn", "static"),
        ("domain_cosine>knn@static", (), "domain_cosine@minilm>knn@static", "knn", "static"),
        ("dsir>moore_lewis", (), "dsir>moore_lewis", "moore_lewis", "minilm"),
        (
            "dsir>org/model",
            ("method.name=domain_cosine",),
            "dsir>org/model",
            "domain_cosine",
            "org/model",
        ),
        ("dsir>knn", ("method.name=knn", "method.k=3"), "dsir>knn@minilm", "knn", "minilm"),
    ],
)
def test_the_last_stage_is_the_runs_method(stages, more, spelled, method, embedder):
    found = resolved(stages, *more).plan
    assert found.cascade.stages == spelled
    assert (found.method.name, found.embed.embedder) == (method, embedder)
    assert Resolved.of(found).plan == found


def test_what_a_stage_reads():
    stages = resolved("dsir>static>knn@static>minilm", "method.name=domain_cosine").stages
    assert [s.embed and s.embed.embedder for s in stages] == [None, "static", "static", "minilm"]
    assert [s.method and s.method.name for s in stages] == ["dsir", None, "knn", "domain_cosine"]
    assert [s.name for s in stages] == ["dsir", "static", "knn@static", "minilm"]


@pytest.mark.parametrize(
    ("amount", "shares"),
    [
        ("choose.fraction=0.125", [0.5, 0.25]),
        ("choose.fraction=1.0", [1.0, 1.0]),
        ("choose.segments=8", [0.2, 0.04]),
        ("choose.tokens=2700", [0.3, 0.09]),
        ("choose.tokens=1000000", [1.0, 1.0]),
        ("choose.threshold=0.5", [0.2 ** (1 / 3), 0.2 ** (2 / 3)]),  # as the default fraction
        ("choose.fraction=0.0001", [0.1, 0.01]),  # a segment
    ],
)
def test_shares_that_are_not_written_follow_from_the_amount(amount, shares):
    of = {"segments": 1_000, "tokens": 100_000}
    assert shares_of(resolved("dsir>static>knn", amount), **of) == pytest.approx(shares)
    assert shares_of(resolved("dsir:0.5>static:0.3>knn", amount), **of) == [0.5, 0.3]


@pytest.mark.parametrize(
    ("stages", "setting", "names"),
    [
        ("dsri>minilm", "cascade", ("'dsri'", "'dsir'")),
        ("dsir>bert-base-uncased", "cascade", ("'bert-base-uncased'", "OWNER/NAME")),
        ("auto>knn", "cascade", ("'auto'",)),
        ("dsir:0,2>knn", "cascade", ("SHARE", "'dsir:0,2'")),
        ("dsir@static>knn", "dsir of `cascade", ("'dsir@static'",)),
        ("dsir>moore_lewis@static", "moore_lewis of `cascade", ("'moore_lewis@static'",)),
        ("static@minilm>minilm", "cascade", ("METHOD@EMBEDDER", "'static@minilm'")),
        ("cynical>minilm", "cascade", ("'cynical'",)),
        ("dsir>cynical", "cascade", ("'cynical'",)),
        ("dsir>oracle", "cascade", ("'oracle'",)),
    ],
)
def test_what_cannot_be_a_stage_is_named(stages, setting, names):
    with pytest.raises((UsageError, UnknownMethodError)) as error:
        resolved(stages)
    message = str(error.value)
    assert setting in message
    assert all(name in message for name in names)


@pytest.mark.parametrize(
    ("more", "setting", "names"),
    [
        (
            ("cascade.stages=dsir>knn", "method.name=domain_cosine"),
            "method",
            ("knn", "'domain_cosine'"),
        ),
        (("cascade.stages=static>minilm", "method.name=dsir"), "method", ("minilm", "'dsir'")),
        (("cascade.stages=static>minilm",), "method", ("minilm", "'cynical'", "domain_classifier")),
        (("cascade.stages=>",), "cascade", ("'>'",)),
        (("cascade.stages=dsir",), "cascade", ("'dsir'",)),
        (("cascade.stages=dsir>>knn",), "cascade", ("'dsir>>knn'",)),
        (("cascade.stages=dsir:0>knn",), "cascade", ("dsir", "above 0", "got 0")),
        (("cascade.stages=dsir:1.5>knn",), "cascade", ("dsir", "at most 1", "got 1.5")),
        (("cascade.stages=dsir:nan>knn",), "cascade", ("dsir", "got nan")),
        (("cascade.stages=dsir:0.1>moore_lewis:0.2>knn",), "cascade", ("at most 0.1", "got 0.2")),
        (("cascade.stages=dsir:0.1>moore_lewis>knn",), "cascade", ("'dsir:0.1>moore_lewis>knn'",)),
        (("cascade.stages=dsir>knn:0.1",), "cascade", ("knn:0.1",)),
        (("cascade.stages=dsir>knn", "cascade.sample=3"), "cascade.sample", ("20", "got 3")),
        (
            ("cascade.stages=dsir>knn", "choose.policy=continuous"),
            "choose.policy",
            ("'continuous'",),
        ),
        (("cascade.stages=dsir>knn", "choose.policy=resample"), "choose.policy", ("'resample'",)),
    ],
)
def test_settings_that_do_not_go_together_are_named(more, setting, names):
    with pytest.raises(UsageError) as error:
        Resolved.of(Plan().with_overrides(more).check())
    message = str(error.value)
    assert setting in message
    assert all(name in message for name in names)
