"""What `--embedder auto` becomes: a rule of the corpus's size, the method and the device."""

import dataclasses

import pytest

from corpusfit.core.plan import Plan
from corpusfit.core.types import Source
from corpusfit.selection import resolving
from corpusfit.selection.resolving import Resolved, by_size, open_run

KNN = "method.name=knn"


def corpus(*megabytes, compression="", form="jsonl"):
    return [
        Source(f"{i}", f"{i}", form, compression, int(size * 1e6), "")
        for i, size in enumerate(megabytes)
    ]


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """The device that torch would find."""
    found = ["cpu"]
    monkeypatch.setattr(resolving, "may_have_cuda", lambda: True)
    monkeypatch.setattr(resolving, "cpu_has_bf16", lambda: False)
    monkeypatch.setattr(resolving, "default_embedder", lambda: "minilm")
    monkeypatch.setattr(resolving, "resolve_device", lambda *_: found[0])
    return found


def decided(sources, *settings, cascade=True):
    asked = Plan().with_overrides(settings).check()
    plan, reason, outlook = by_size(asked, sources, workers=2, cascade=cascade)
    assert bool(reason) >= bool(outlook)
    assert bool(outlook) >= (plan.embed.embedder == "static" and bool(reason))
    return plan.embed.embedder, plan.cascade.stages


@pytest.mark.parametrize("method", ["knn", "domain_classifier"])
def test_minilm_encodes_a_small_corpus(method):
    assert decided(corpus(1, 2), f"method.name={method}") == ("minilm", "")


@pytest.mark.parametrize("method", ["cynical", "knn", "domain_classifier"])
def test_static_encodes_a_large_one(method):
    reads_words = method == "cynical"
    embedder = "minilm" if reads_words else "static"
    assert decided(corpus(100, 200), f"method.name={method}") == (embedder, "")


def test_what_minilm_scores_after_static_is_bounded_and_more_than_is_selected():
    few = ["method.name=knn", "choose.fraction=0.02"]
    assert decided(corpus(10), *few) == ("minilm", "")
    assert decided(corpus(40), *few) == ("minilm", "static:0.5>minilm")
    assert decided(corpus(300), *few) == ("minilm", "static:0.1>minilm")
    assert decided(corpus(1_200), *few) == ("static", "")
    assert decided(corpus(300), "method.name=knn", "choose.fraction=0.1") == ("static", "")


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.4, 0.6, 0.7, 1.0])
@pytest.mark.parametrize("size", [4.1, 5, 10, 29, 31, 100, 2_000])
def test_a_cascade_is_a_plan_that_runs(size, fraction):
    asked = Plan().with_overrides(["method.name=knn", f"choose.fraction={fraction}"]).check()
    plan, _, _ = by_size(asked, corpus(size), workers=2, cascade=True)
    resolved = Resolved.of(plan)
    assert bool(plan.cascade.stages) <= (size > 24)  # below, its samples cost what it saves
    if plan.cascade.stages:
        share = resolved.stages[0].share
        assert min(1, 1.5 * fraction) <= share + 0.005
        assert share * size <= 30.2


@pytest.mark.parametrize(
    "more",
    [
        ("choose.segments=10",),
        ("choose.tokens=10",),
        ("choose.threshold=0.5",),
        ("choose.policy=continuous",),
        ("choose.fraction=0.01", "choose.balance=cluster", "choose.clusters=c"),
    ],
)
def test_a_selection_of_unknown_share_has_no_cascade(more):
    assert decided(corpus(100), "method.name=knn", *more) == ("static", "")


def test_scores_for_any_selection_have_no_cascade():
    settings = ["method.name=knn", "choose.fraction=0.02"]
    assert decided(corpus(100), *settings, cascade=False) == ("static", "")


def test_a_gpu_has_bounds_of_its_own(device):
    device[0] = "cuda"
    assert decided(corpus(350), KNN) == ("minilm", "")
    assert decided(corpus(350), KNN, "embed.device=cpu") == ("static", "")
    assert decided(corpus(5_000), KNN) == ("static", "")
    few = ["method.name=knn", "choose.fraction=0.02"]
    assert decided(corpus(5_000), *few) == ("minilm", "static:0.2>minilm")


def test_several_gpus_share_the_time(device, monkeypatch):
    device[0] = "cuda"

    def outlook(gpus):
        monkeypatch.setattr(resolving, "to_feed", lambda _: ("cuda",) * gpus)
        asked = Plan().with_overrides([KNN]).check()
        said = by_size(asked, corpus(350), workers=4, cascade=True)[2]
        return float(said.removeprefix("About ").split(maxsplit=1)[0])

    # 350 MB by one GPU, by two, and by as many as four workers feed
    assert outlook(0) == outlook(1)
    assert outlook(1) > outlook(2) > outlook(4) == outlook(8)


def test_compressed_text_counts_by_its_unpacked_size_and_a_dataset_as_large():
    assert decided(corpus(0.9, compression="zst"), KNN, cascade=False) == ("minilm", "")
    assert decided(corpus(1.1, compression="zst"), KNN, cascade=False) == ("static", "")
    assert decided(corpus(1.1, form="parquet"), KNN, cascade=False) == ("static", "")
    assert decided(corpus(0, form="hub"), KNN, cascade=False) == ("static", "")


@pytest.mark.parametrize(
    "settings",
    [
        ("embed.embedder=minilm", "method.name=knn"),
        ("embed.embedder=static", KNN),
        ("method.name=dsir",),
        (),  # the default method reads words
        ("cascade.stages=dsir>knn",),
    ],
)
def test_nothing_is_decided_where_something_else_decides(settings):
    asked = Plan().with_overrides(settings).check()
    plan, *said = by_size(asked, corpus(1_000), workers=2, cascade=True)
    named = "minilm" if asked.embed.embedder == "auto" else asked.embed.embedder
    embed = dataclasses.replace(asked.embed, embedder=named)
    assert (plan, said) == (dataclasses.replace(asked, embed=embed), ["", ""])


def test_the_line_names_the_other_embedder_and_a_cascade():
    named = Plan().with_overrides([KNN]).check()
    _, why, none = by_size(named, corpus(0.1), workers=2, cascade=True)
    assert why
    assert not none
    _, _, small = by_size(named, corpus(3), workers=2, cascade=True)
    assert "`embed.embedder=static`" in small
    _, _, large = by_size(named, corpus(1_000), workers=2, cascade=False)
    assert "`embed.embedder=minilm`" in large
    assert "cascade" not in large
    _, _, staged = by_size(named, corpus(1_000), workers=2, cascade=True)
    assert "`cascade.stages=static>minilm`" in staged


@pytest.mark.parametrize("size", [1, 1_000])
def test_without_minilm_static_encodes_everything_and_says_how_to_get_it(size, monkeypatch):
    monkeypatch.setattr(resolving, "default_embedder", lambda: "static")
    assert decided(corpus(size), "method.name=dsir") == ("minilm", "")  # which is never loaded
    for settings in ([KNN], [KNN, "choose.fraction=0.02"]):
        asked = Plan().with_overrides(settings).check()
        plan, why, _ = by_size(asked, corpus(size), workers=2, cascade=True)
        assert (plan.embed.embedder, plan.cascade.stages) == ("static", "")
        assert "`embed.embedder=minilm`" in why
    assert decided(corpus(size), "cascade.stages=dsir>knn") == ("static", "dsir>knn")


@pytest.mark.parametrize("wanted", ["auto", "cpu", "cuda"])
def test_a_cluster_is_asked_for_a_gpu_if_the_plan_says_cuda(wanted, jsonl, inline, tmp_path):
    texts = jsonl("texts.jsonl", ["a text", "another"])
    plan = Plan().with_overrides([f"embed.device={wanted}"]).check()
    with inline.running(tmp_path) as context:
        open_run(plan, [str(texts)], [str(texts)], context)
        assert context.engine.needs_gpu == (wanted == "cuda")
