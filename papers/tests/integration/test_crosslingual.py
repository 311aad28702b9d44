"""`retrieval` and `tokenizers` from end to end: tiny encoders, a few sentences."""

import json
from pathlib import Path

import numpy as np
import pytest
from journeys import prose

import corpusfit_papers
from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load
from corpusfit.evaluation.significance import compare, holm


@pytest.fixture
def pairs(tmp_path):
    """150 sentences beside themselves with a word changed: a tiny encoder finds some."""
    english = prose("task", 150, most=8)
    other = [text.replace("cell", "xy").replace("protein", "of the") for text in english]
    for language, lines in (("en", english), ("xx", other)):
        (tmp_path / f"set.{language}").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path / "set"


def test_retrieval_is_the_search_over_the_encoders_own_vectors(pairs, tiny_encoder, tiny_static):
    from sklearn.neighbors import NearestNeighbors

    models = [str(tiny_encoder), str(tiny_static)]
    found = corpusfit_papers.retrieval(model=models, pairs=pairs)
    sides = [Path(f"{pairs}.{x}").read_text("utf-8").splitlines() for x in ("en", "xx")]
    named = [(r.source, r.target, r.model) for r in found.results]
    assert named == [(a, b, m) for a, b in (("en", "xx"), ("xx", "en")) for m in models]
    hits = {}
    for model in models:
        encoder = load(EmbedPlan(embedder=model, device="cpu", precision="fp32"))
        vectors = [encoder.encode(side) for side in sides]
        for own, name in ((0, "en"), (1, "xx")):
            search = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute")
            places = search.fit(vectors[1 - own]).kneighbors(vectors[own], return_distance=False)
            hits[model, name] = places[:, 0] == np.arange(150)
    for result in found.results:
        expected = hits[result.model, result.source]
        assert (result.found, result.sentences) == (expected.sum(), 150)
        assert result.precision == expected.mean()
        assert result.low <= result.precision <= result.high
        assert result.chance == 1 / 150
    first, second = found.results[:2]
    assert first.comparison is None
    assert second.comparison.difference == pytest.approx(second.precision - first.precision)
    assert "95 % interval" in second.verdict
    assert "seed" not in second.verdict
    ps = [r.comparison.p for r in found.results if r.comparison]
    assert [r.adjusted for r in found.results if r.comparison] == holm(ps)
    assert found.encoders.keys() == set(models)


def test_the_test_is_the_sign_test_where_one_model_is_never_ahead():
    """20 sentences only one model finds: p is that of 20 equal coins (closed form, as sampled)."""
    from corpusfit_papers.retrieving import precision, tallies

    ours, base = np.ones(60, bool), np.arange(60) >= 20
    assert compare([tallies(ours)], [tallies(base)], precision, seed=0, rounds=2_000).p <= 2 / 2001
    base = np.arange(60) >= 3  # all three on one side, of 8 outcomes 2: p = 1/4
    p = compare([tallies(ours)], [tallies(base)], precision, seed=0, rounds=20_000).p
    assert p == pytest.approx(0.25, abs=0.01)


def test_the_same_for_any_other_test_set_beside_it(pairs, tiny_encoder, tmp_path):
    alone = corpusfit_papers.retrieval(model=tiny_encoder, pairs=pairs)
    lines = [f"{a}\t{b}" for a, b in zip(prose("market", 9), prose("kitchen", 9), strict=True)]
    (tmp_path / "two.tsv").write_text("\n".join(lines), "utf-8")
    both = corpusfit_papers.retrieval(model=[tiny_encoder], pairs=[tmp_path / "two.tsv", pairs])
    assert both.results[2:] == alone.results
    assert [r.pairs for r in both.results] == ["two"] * 2 + ["set"] * 2


def test_sets_of_one_name_go_by_their_path(pairs, tiny_static, tmp_path):
    (tmp_path / "other").mkdir()
    for side in ("en", "xx"):
        (tmp_path / "other" / f"set.{side}").write_text("a cell\nthe oven\n", "utf-8")
    given = [str(pairs), f"pair:{tmp_path}/other/set.en,{tmp_path}/other/set.xx"]
    found = corpusfit_papers.retrieval(model=tiny_static, pairs=given)
    assert [r.pairs for r in found.results] == [given[0]] * 2 + [given[1]] * 2
    assert found.blank == dict.fromkeys(given, 0)


def test_retrieval_on_the_command_line(cli, pairs, tiny_static, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in notebooks, which are no terminal
    args = ("retrieval", "--model", tiny_static, "--pairs", pairs)
    done = cli(*args)
    assert (done.code, "\x1b" in done.err) == (0, False)
    assert "150" in done.out
    assert "xx → en" in done.out
    plain = json.loads(cli(*args, "--json").out)
    assert [r["sentences"] for r in plain["results"]] == [150, 150]
    assert plain["blank"] == {"set": 0}


def test_what_cannot_be_looked_for(pairs, tiny_static, tmp_path):
    with pytest.raises(UsageError, match=r"model.*twice"):
        corpusfit_papers.retrieval(model=[tiny_static] * 2, pairs=pairs)
    with pytest.raises(UsageError, match=r"pairs.*twice"):
        corpusfit_papers.retrieval(model=tiny_static, pairs=[pairs, pairs])
    (tmp_path / "one.tsv").write_text("a\tb\na\tc\n", "utf-8")
    with pytest.raises(InputError, match=r"\b1\b"):
        corpusfit_papers.retrieval(model=tiny_static, pairs=tmp_path / "one.tsv")


def test_gaps_between_tokenizers_on_two_kinds_of_text(cli, jsonl, tmp_path, word_pieces):
    """Only one of two vocabularies knows the domain's words; of the general ones both know none."""
    whole = tmp_path / "with.json"
    word_pieces.save(str(whole))
    letters = sorted(word_pieces.get_vocab(), key=word_pieces.get_vocab().get)
    (tmp_path / "letters.txt").write_text(
        "\n".join(p for p in letters if len(p.strip("#")) == 1 or p.startswith("[")), "utf-8"
    )
    specific = tmp_path / "train.conll"
    lines = ["kinase\tB-X", "inhibitor\tI-X", ".\tO", ""] * 30
    specific.write_text("\n".join(lines), "utf-8")
    general = jsonl("general.jsonl", ["oven stir", "butter . x"] * 20)
    args = (
        *("tokenizers", "--tokenizer", whole, "--tokenizer", tmp_path / "letters.txt"),
        *("--specific", specific, "--general", general),
    )
    found = json.loads(cli(*args, "--json").out)
    splits = {(Path(s["tokenizer"]).name, s["kind"]): s for s in found["splits"]}
    assert splits["with.json", "specific"]["continued"]["value"] == 0
    assert splits["with.json", "specific"]["words"] == 90
    other = splits["letters.txt", "specific"]
    assert other["continued"]["value"] == pytest.approx(2 / 3)
    assert other["fertility"]["value"] == pytest.approx((6 + 9 + 1) / 3)
    assert splits["letters.txt", "general"]["continued"]["value"] == pytest.approx(3 / 5)
    gap = found["gaps"][0]
    assert (gap["figure"], gap["specific"]["value"]) == ("continued", pytest.approx(2 / 3))
    assert gap["general"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert gap["wider"]["value"] == pytest.approx(2 / 3)
    done = cli(*args)
    assert "+66.7 (+66.7 to +66.7)" in done.out


def test_the_interval_is_that_of_texts_drawn_anew(jsonl, inline, tmp_path, word_pieces):
    """Half of the texts hold one continued word of two, half none: the mean's normal interval."""
    word_pieces.save(str(tmp_path / "t.json"))
    texts = [f"kinase {'binds' if i % 2 else 'zq'}" for i in range(400)]
    found = corpusfit_papers.tokenizers(
        tokenizer=tmp_path / "t.json",
        specific=jsonl("s.jsonl", texts),
        general=jsonl("g.jsonl", texts),
        machine=inline,
    )
    specific, general = found.splits
    assert specific.continued.value == general.continued.value == 0.25
    half = 1.96 * 0.25 / np.sqrt(400)
    for split in found.splits:
        assert split.continued.low == pytest.approx(0.25 - half, abs=0.004)
        assert split.continued.high == pytest.approx(0.25 + half, abs=0.004)
    assert specific.continued.low != general.continued.low  # draws of their own
    assert found.gaps == []


def test_samples_are_drawn_by_the_seed(jsonl, inline, tmp_path, word_pieces):
    word_pieces.save(str(tmp_path / "t.json"))
    pile = jsonl("pile.jsonl", prose("kitchen", 300))

    def words(seed):
        found = corpusfit_papers.tokenizers(
            tokenizer=tmp_path / "t.json",
            specific=pile,
            general=pile,
            windows=40,
            seed=seed,
            machine=inline,
        )
        assert [s.texts for s in found.splits] == [40, 40]
        return found

    assert words(1) == words(1)
    assert words(1).splits[0].words != words(2).splits[0].words


def test_texts_that_cannot_be_compared(jsonl, inline, tmp_path, word_pieces):
    word_pieces.save(str(tmp_path / "t.json"))
    good, bad = jsonl("a.jsonl", ["kinase"]), jsonl("b.jsonl", [{"body": "kinase"}])
    (tmp_path / "c.conll").write_text("a\tO\n", "utf-8")

    def run(specific, general=good):
        return corpusfit_papers.tokenizers(
            tokenizer=tmp_path / "t.json", specific=specific, general=general, machine=inline
        )

    with pytest.raises(EmptyInputError, match=r"specific.*text.field"):
        run(bad)
    with pytest.raises(UsageError, match=r"specific"):
        run([good, tmp_path / "c.conll"])
    with pytest.raises(UsageError, match=r"tokenizer"):
        corpusfit_papers.tokenizers(tokenizer=[], specific=good, general=good, machine=inline)
