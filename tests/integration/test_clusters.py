"""Domains found in a corpus, and a selection balanced by them."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from journeys import WORDS, digests, prose, scores

import corpusfit
from corpusfit.core.errors import (
    ChangedInputError,
    EmptyInputError,
    InputError,
    OutputFolderError,
    UsageError,
)
from corpusfit.core.plan import ReadPlan
from corpusfit.training.data import weights_of
from corpusfit.training.inputs import find_training_inputs
from corpusfit.training.plan import AdaptPlan
from corpusfit.training.tokenising import Tokenising

SMALL = ("cut.pieces=16", "cut.gamma=2", "read.shard_mb=0.01", "mixture.fits=2")
FILES = ("sample.parquet", "domains.safetensors", "assigned")


@pytest.fixture
def find(pile, tiny_encoder, tmp_path, inline):
    """Look for domains in the pile, a few units of each source."""

    def find(name="domains", settings=(), **words):
        how = {"corpus": pile, "embedder": tiny_encoder, "per_source": 60, "k": 3, **words}
        return corpusfit.clusters(
            out=tmp_path / name, settings=(*SMALL, *settings), machine=inline, **how
        )

    return find


def test_what_is_found_is_written(find):
    found = find()
    said = found.manifest
    assert said["units"] == 180
    assert said["domains"] == {f"{topic}.jsonl": 60 for topic in WORDS}
    assert [row["k"] for row in said["tried"]] == [3]
    assert sum(cluster["units"] for cluster in said["clusters"]) == 180
    units = pq.read_table(found.path / "sample.parquet").to_pylist()
    assert len({unit["text"] for unit in units}) == 180
    for unit in units:
        assert sum(unit["shares"]) == pytest.approx(1.0, abs=1e-4)
        assert unit["cluster"] == 1 + int(np.argmax(unit["shares"]))
        topic = unit["domain"].removesuffix(".jsonl")
        assert set(unit["text"].split()[:-1]) <= set(WORDS[topic])  # the last one may be a number


def test_a_cluster_that_no_unit_is_in_has_no_share(find, jsonl):
    """An encoder that knows none of the characters reads all texts as the same."""
    corpus = jsonl("signs.jsonl", [chr(0x13000 + i) * 3 for i in range(30)])
    found = find(corpus=corpus, per_source=None, k="2,3").manifest
    assert [(c["units"], c["share"]) for c in found["clusters"]] == [(30, 1.0), (0, 0.0)]
    assert any("no unit" in warning for warning in found["warnings"])


def test_purity_is_that_of_the_sample(find):
    from sklearn.metrics.cluster import contingency_matrix

    found = find(settings=("mixture.fits=1",))
    units = pq.read_table(found.path / "sample.parquet").to_pylist()
    table = contingency_matrix([u["domain"] for u in units], [u["cluster"] for u in units])
    purity = table.max(axis=0).sum() / len(units)
    assert found.manifest["tried"][0]["purity"] == pytest.approx(purity)


@pytest.mark.slow
def test_the_same_for_any_number_of_workers(cli, command, pile, tiny_static, tmp_path):
    made = []
    for workers, started in (("1", cli), ("3", command)):
        out = tmp_path / f"with-{workers}"
        words = ("--corpus", pile, "--embedder", tiny_static, "--k", "2,3", "--sample", "100")
        more = [word for setting in SMALL for word in ("--set", setting)]
        done = started(
            "clusters", *words, *more, "--out", out, "--workers", workers, "--assign", "--json",
            "--cache", tmp_path / f"cache-{workers}",
        )  # fmt: skip
        assert done.code == 0, done.err
        said = json.loads(done.out)
        made.append((digests(out, *FILES), said["tried"], said["clusters"]))
    assert made[0] == made[1]


def test_every_segment_is_assigned_as_a_selection_cuts_it(find, pile, task, tiny_encoder, tmp_path, inline):  # fmt: skip  # noqa: E501
    found = find(assign=True)
    run = corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "out", method="domain_cosine",
        embedder=tiny_encoder, settings=SMALL[:3], machine=inline,
    )  # fmt: skip
    parts = sorted((found.path / "assigned").iterdir())
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    place = ("source", "row", "segment", "start", "end", "tokens")
    assert [[r[k] for k in place] for r in rows] == [[r[k] for k in place] for r in scores(run)]
    for row in rows:
        assert sum(row["shares"]) == pytest.approx(1.0, abs=1e-4)
        assert row["cluster"] == int(np.argmax(row["shares"])) + 1  # as in the report


def test_assigned_later_and_only_once(find):
    first = find()
    assert first.manifest["assigned"] is None
    before = digests(first.path, "sample.parquet", "domains.safetensors")
    again = find(assign=True)
    assert again.manifest["assigned"] == len(list((first.path / "assigned").iterdir()))
    assert digests(first.path, "sample.parquet", "domains.safetensors") == before
    assert find().manifest == again.manifest


def test_bic_chooses_where_no_k_is_given(find):
    said = find(k=None, components=12).manifest
    assert [row["k"] for row in said["tried"]] == [1, 2, 3, 4, 5, 6]  # two units a dimension each
    best = min(said["tried"], key=lambda row: row["bic"])
    assert said["k"] == best["k"]
    assert best["fits"] == 2


def test_domains_by_a_field(jsonl, find):
    rows = [{"text": text, "kind": topic} for topic in WORDS for text in prose(topic, 50, seed=9)]
    said = find(corpus=jsonl("mixed.jsonl", rows), truth="kind", per_source=None, sample=120).manifest  # fmt: skip  # noqa: E501
    assert set(said["domains"]) == set(WORDS)
    assert said["tried"][0]["purity"] is not None


def test_a_domain_is_a_number_with_its_fraction_or_a_long_name(jsonl, find):
    wanted = [4, 4.5, 5, "x" * 250 + "a", "x" * 250 + "b"]
    texts = [text for topic in WORDS for text in prose(topic, 50, seed=9)]
    rows = [{"text": text, "stars": wanted[i % 5]} for i, text in enumerate(texts)]
    said = find(corpus=jsonl("stars.jsonl", rows), truth="stars", per_source=None, sample=120).manifest  # fmt: skip  # noqa: E501
    assert set(said["domains"]) == set(map(str, wanted))


def test_one_source_has_no_purity(jsonl, find):
    said = find(corpus=jsonl("one.jsonl", prose("task", 50))).manifest
    assert said["tried"][0]["purity"] is None


def test_copies_and_fragments_are_not_drawn(jsonl, find):
    path = jsonl("many.jsonl", ["the same text", "the same text", "short", *prose("task", 30)])
    said = find(corpus=path, settings=("draw.words=2", "cut.unit=document"), k=2).manifest
    assert said["units"] == 31


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"k": "0"}, "k.* must be whole numbers from 1"),
        ({"k": "five"}, "k.* must be whole numbers from 1"),
        ({"k": 500}, "k.* must be whole numbers from 1 to 256"),
        ({"k": 200}, "`mixture.k.*180.*200"),
        ({"components": -1}, "components.* must be 0"),
        ({"per_source=": 0}, "per_source"),
        ({"truth": "kind"}, None),
    ],
)
def test_what_cannot_be(find, words, said):
    if said is None:
        assert any("'kind'" in warning for warning in find(**words).manifest["warnings"])
        return
    with pytest.raises(UsageError, match=said):
        find(**words)


def test_no_text_and_another_corpus(jsonl, find, pile):
    with pytest.raises(EmptyInputError, match=r"text.field"):
        find(corpus=jsonl("none.jsonl", [{"body": "x"}]))
    find("other")
    jsonl("pile/task.jsonl", prose("task", 30))
    with pytest.raises(ChangedInputError, match=r"task\.jsonl"):
        find("other")


def test_not_into_a_selection(find, task, pile, tmp_path, inline):
    corpusfit.select(
        target=task, corpus=pile, out=tmp_path / "domains", method="dsir", machine=inline
    )
    with pytest.raises(OutputFolderError, match="another command"):
        find()


@pytest.fixture
def select(task, pile, tiny_encoder, tmp_path, inline):
    """Choose by length, which knows no topic, so that only a balance tells topics apart."""

    def select(out="out", **words):
        return corpusfit.select(
            **{"target": task, "corpus": pile, "method": "moore_lewis"}
            | {"out": tmp_path / out, "settings": SMALL[:3], "machine": inline}
            | {"fraction": 0.3}
            | words
        )

    return select


def test_each_cluster_gives_its_quota(find, select, tmp_path):
    find()
    words = {"balance": "cluster", "clusters": tmp_path / "domains"}
    even = ("choose.quota=even", "choose.fraction_of=segments")
    run = select(**words, settings=(*SMALL[:3], *even))
    taken = run.manifest["selected"]
    assert taken["quota"] == pytest.approx([1 / 3] * 3, abs=1e-5)
    amount = sum(own["selected"] for own in taken["by_cluster"])
    assert amount == taken["segments"] == round(0.3 * run.manifest["counts"]["segments"])
    full = [own["selected"] for own in taken["by_cluster"] if own["selected"] < own["segments"]]
    assert max(full) - min(full) <= 1
    assert sum(text["segments"] for text in run) == amount


def test_the_targets_own_spread_is_the_default(find, select, tmp_path):
    find()
    words = {"balance": "cluster", "clusters": tmp_path / "domains"}
    target = select("by-target", **words).manifest["selected"]
    corpus = select("by-corpus", **words, settings=(*SMALL[:3], "choose.quota=corpus"))
    assert target["quota"] != pytest.approx(corpus.manifest["selected"]["quota"], abs=0.05)
    assert sum(target["quota"]) == pytest.approx(1.0, abs=1e-4)


def test_the_loss_weighs_texts_as_the_balanced_selection_does(find, select, tmp_path, tiny_encoder, inline):  # fmt: skip  # noqa: E501
    find()
    words = {"policy": "continuous", "balance": "cluster", "clusters": tmp_path / "domains"}
    run = select(**words, settings=(*SMALL[:3], "choose.quota=even"))
    policy = AdaptPlan().with_value("weights.policy", "lambda")
    with inline.running(tmp_path / "work") as context:
        texts = find_training_inputs([str(run.path)], [], [], ReadPlan(), context)
        tokenizer = tiny_encoder / "tokenizer.json"
        tokenising = Tokenising(texts.read, tokenizer, tmp_path / "ids", None, context)
        tokens, _ = tokenising.corpus("data", texts.data)
        weights = weights_of(policy, tokens, texts)

    assert weights.tolist() == [np.float32(segment["weight"]) for segment in run]


def test_chosen_again_with_and_without_a_balance(find, select, tiny_static, tmp_path, inline):
    find(embedder=tiny_static)  # whose clusters are the same in any precision
    words = {"balance": "cluster", "clusters": tmp_path / "domains"}
    even = ("choose.quota=even",)
    balanced = digests(select("balanced", **words, settings=(*SMALL[:3], *even)).path)
    run = select()
    plain = digests(run.path)
    assert plain != balanced
    corpusfit.choose(run.path, fraction=0.3, machine=inline, settings=even, **words)
    assert digests(run.path, "scores", "selected") == {
        k: v for k, v in balanced.items() if k != "examples.parquet"
    }
    again = corpusfit.choose(run.path, fraction=0.2, machine=inline)
    assert again.manifest["selected"]["quota"] == [round(1 / 3, 6)] * 3
    plainly = ["choose.balance=", "choose.quota=target"]
    corpusfit.choose(run.path, fraction=0.3, machine=inline, settings=plainly)
    assert digests(run.path) == plain


def test_balance_on_the_command_line_and_in_the_report(find, cli, task, pile, tmp_path, tiny_encoder):  # fmt: skip  # noqa: E501
    find()
    out = tmp_path / "out"
    words = ("--target", task, "--corpus", pile, "--method", "dsir", "--out", out)
    done = cli("select", *words, "--balance", "cluster", "--clusters", tmp_path / "domains")
    assert done.code == 0, done.err
    assert "By cluster" in done.out
    page = (out / "report.html").read_text("utf-8")
    assert "By cluster" in page
    repeat = json.loads((out / "manifest.json").read_text())["repeat"]
    assert f'choose.clusters="{tmp_path / "domains"}"' in repeat


def test_what_a_balance_needs(select, tmp_path):
    with pytest.raises(UsageError, match=r"`choose\.clusters"):
        select(balance="cluster")
    with pytest.raises(UsageError, match=r"`choose\.balance"):
        select(clusters=tmp_path)
    with pytest.raises(UsageError, match=r"`choose\.balance"):
        select(balance="topic")
    with pytest.raises(InputError, match="clusters"):
        select(balance="cluster", clusters=tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"`choose\.threshold"):
        select(balance="cluster", clusters=tmp_path, fraction=None, threshold=0.5)


def test_on_the_terminal_and_as_tables(cli, pile, tiny_encoder, tmp_path):
    out = tmp_path / "domains"
    words = ("--corpus", pile, "--embedder", tiny_encoder, "--per-source", "40", "--k", "3")
    more = [word for setting in SMALL for word in ("--set", setting)]
    done = cli("clusters", *words, *more, "--out", out)
    assert done.code == 0, done.err
    assert "purity" in done.out
    texts = {path.stem: path.read_text("utf-8") for path in out.glob("*.csv")}
    tables = {name: list(csv.DictReader(text.splitlines(True))) for name, text in texts.items()}
    units = pq.read_table(out / "sample.parquet").to_pylist()
    assert len(tables["points"]) == len(units)
    for point, unit in zip(tables["points"], units, strict=True):
        assert (point["cluster"], point["domain"]) == (str(unit["cluster"]), unit["domain"])
        assert float(point["x"]) == pytest.approx(unit["x"], abs=1e-4)
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    assert [row["cluster"] for row in tables["clusters"]] == ["1", "2", "3"]
    assert len(tables["tried"]) == len(manifest["tried"])
    done = cli("report", out)
    assert done.code == 1
    assert "points.csv" in done.err


def test_other_clusters_in_the_same_folder_are_noticed(find, select, tmp_path, inline):
    find()
    words = {"balance": "cluster", "clusters": tmp_path / "domains", "fraction": 0.3}
    run = select(**words)
    before = digests(run.path)
    find(k=5, overwrite=True)
    with pytest.raises(ChangedInputError, match=r"choose\.clusters.*corpusfit choose"):
        select(**words)
    chosen = corpusfit.choose(run.path, machine=inline, **words)
    assert len(chosen.manifest["selected"]["quota"]) == 5
    assert digests(run.path) != before
    fresh = digests(select("fresh", **words).path)
    assert digests(run.path) == fresh


def test_clusters_are_known_by_what_they_are(find, select, tmp_path, inline):
    """Moved, they are the same; and a plain selection after a balanced one is what it was."""
    find()
    words = {"balance": "cluster", "clusters": tmp_path / "domains"}
    before = digests(select(**words).path)
    (tmp_path / "domains").rename(tmp_path / "moved")
    words["clusters"] = tmp_path / "moved"
    assert digests(select(**words).path) == before
    corpusfit.choose(tmp_path / "out", machine=inline, settings=["choose.balance="])
    select()  # the same run, chosen as it stands
    with pytest.raises(InputError, match="clusters"):
        corpusfit.choose(tmp_path / "out", machine=inline, balance="cluster", clusters="nowhere")
    assert select().manifest["selected"]["quota"] is None  # nothing was lost by the mistake


@pytest.mark.parametrize("texts", [["one text"], ["one text", "another"]])
def test_a_unit_or_two(jsonl, cli, tiny_static, tmp_path, texts):
    words = ("--corpus", jsonl("few.jsonl", texts), "--embedder", tiny_static)
    done = cli("clusters", *words, "--k", "1", "--out", tmp_path / "few")
    assert done.code == 0, done.err
    assert {path.stem for path in (tmp_path / "few").glob("*.csv")} == {
        "clusters",
        "points",
        "tried",
    }


def test_too_many_domains_to_tell_apart(jsonl, find):
    rows = [{"text": text, "kind": f"k{i}"} for i, text in enumerate(prose("task", 240, seed=4))]
    path = jsonl("many.jsonl", rows)
    said = find(corpus=path, truth="kind", per_source=None, sample=2_000).manifest
    assert list(said["domains"]) == ["all"]
    assert any("too many" in warning for warning in said["warnings"])
    assert said["tried"][0]["purity"] is None
