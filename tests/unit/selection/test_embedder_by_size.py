"""What `--embedder auto` becomes: a rule of the corpus's size, the method and the device."""

import pytest

from corpusfit.core.plan import Plan
from corpusfit.core.types import Source
from corpusfit.scoring import registry
from corpusfit.selection import resolving
from corpusfit.selection.resolving import embedder_for, resolve

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
    monkeypatch.setattr(resolving, "default_embedder", lambda: "minilm")
    monkeypatch.setattr(resolving, "resolve_device", lambda *_: found[0])
    return found


def decided_why(sources, *settings):
    asked = Plan().with_overrides(settings).check()
    method = registry.build(asked.method.name, asked.method.options)
    return embedder_for(asked.embed, sources, encodes=method.encodes)


def decided(sources, *settings):
    return decided_why(sources, *settings)[0]


@pytest.mark.parametrize("method", ["knn", "domain_classifier"])
def test_minilm_encodes_a_small_corpus(method):
    assert decided(corpus(1, 2), f"method.name={method}") == "minilm"


@pytest.mark.parametrize("method", ["cynical", "knn", "domain_classifier"])
def test_static_encodes_a_large_one(method):
    reads_words = method == "cynical"
    embedder = "minilm" if reads_words else "static"
    assert decided(corpus(100, 200), f"method.name={method}") == embedder


def test_a_gpu_has_bounds_of_its_own(device):
    device[0] = "cuda"
    assert decided(corpus(350), KNN) == "minilm"
    assert decided(corpus(350), KNN, "embed.device=cpu") == "static"
    assert decided(corpus(5_000), KNN) == "static"


def test_compressed_text_counts_by_its_unpacked_size_and_a_dataset_as_large():
    assert decided(corpus(0.9, compression="zst"), KNN) == "minilm"
    assert decided(corpus(1.1, compression="zst"), KNN) == "static"
    assert decided(corpus(1.1, form="parquet"), KNN) == "static"
    assert decided(corpus(0, form="hub"), KNN) == "static"


@pytest.mark.parametrize(
    "settings",
    [
        ("embed.embedder=minilm", "method.name=knn"),
        ("embed.embedder=static", KNN),
        ("method.name=dsir",),
        (),  # the default method reads words
    ],
)
def test_nothing_is_decided_where_something_else_decides(settings):
    named = "static" if "embed.embedder=static" in settings else "minilm"
    assert decided_why(corpus(1_000), *settings) == (named, "")


def test_the_line_names_the_other_embedder():
    assert "`embed.embedder=static`" in decided_why(corpus(3), KNN)[1]
    assert "`embed.embedder=minilm`" in decided_why(corpus(1_000), KNN)[1]


@pytest.mark.parametrize("size", [1, 1_000])
def test_without_minilm_static_encodes_everything_and_says_how_to_get_it(size, monkeypatch):
    monkeypatch.setattr(resolving, "default_embedder", lambda: "static")
    assert decided(corpus(size), "method.name=dsir") == "minilm"  # which is never loaded
    embedder, why = decided_why(corpus(size), KNN)
    assert embedder == "static"
    assert "`embed.embedder=minilm`" in why


@pytest.mark.parametrize("wanted", ["auto", "cpu", "cuda"])
def test_a_cluster_is_asked_for_a_gpu_if_the_plan_says_cuda(wanted, jsonl, inline, tmp_path):
    texts = jsonl("texts.jsonl", ["a text", "another"])
    plan = Plan().with_overrides([f"embed.device={wanted}"]).check()
    with inline.running(tmp_path) as run:
        resolve(run, plan, [str(texts)], [str(texts)])
        assert run.engine.needs_gpu == (wanted == "cuda")
