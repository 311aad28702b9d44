"""`compose` from end to end: what it leaves, that it goes on exactly, and what it refuses."""

import dataclasses
import gzip
import io
import json
from collections import Counter

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from journeys import digests, rejects, stamps

pytest.importorskip("sentencex", reason="the extra languages is not installed")

import corpusfit
import corpusfit_papers
from corpusfit import text as corpus
from corpusfit.core.engine import Progress
from corpusfit.core.errors import ChangedInputError, EmptyInputError, InputError, UsageError

GERMAN = "Der {0} Hund schläft im Garten. Die Katze mit Nummer {0} sitzt auf dem Dach."
ENGLISH = "The dog called {0} sleeps in the garden. The cat numbered {0} sits on the roof."
FRENCH = "Le chien {0} dort dans le jardin. Le chat numéro {0} est assis sur le toit."
JAPANESE = "犬{0}は庭で寝ています。猫{0}は屋根の上に座っています。"


def documents(form, n, start=0):
    """n documents of two sentences each."""
    return [form.format(i) for i in range(start, start + n)]


@pytest.fixture
def sources(jsonl):
    """Specific and general text, in files of their own: 40, 10, 300 and 200 sentences."""
    jsonl("special/de.jsonl", documents(GERMAN, 20))
    jsonl("special/fr.jsonl", documents(FRENCH, 5))
    for k in range(3):
        jsonl(f"wiki_de/{k}.jsonl", documents(GERMAN, 50, 100 + 50 * k))
    jsonl("wiki_fr/0.jsonl", documents(FRENCH, 100, 100))


RECIPE = """
composition = "M_D+M_WIKI"
budget = 201
seed = 3
{top}
[[sources]]
name = "special_de"
kind = "specific"
language = "de"
path = "special/de.jsonl"
[[sources]]
name = "special_fr"
kind = "specific"
language = "fr"
path = "special/fr.jsonl"
[[sources]]
name = "wiki_de"
kind = "general"
language = "de"
path = "wiki_de"
[[sources]]
name = "wiki_fr"
kind = "general"
language = "fr"
path = "wiki_fr"
"""


@pytest.fixture
def recipe(tmp_path, sources):
    """Write a recipe; returns its path."""

    def write(text=RECIPE, top=""):
        path = tmp_path / "recipe.toml"
        path.write_text(text.replace("{top}", top), "utf-8")
        return path

    return write


@pytest.fixture
def compose(tmp_path, inline):
    """`compose` in this process."""

    def compose(recipe, out="out", **words):
        given = {"machine": inline, **words}
        return corpusfit_papers.compose(recipe, out=tmp_path / out, **given)

    return compose


def lines(done):
    """What was written, in order."""
    return list(_composed(done.path))


def _composed(path):
    for part in sorted((path / "composed").iterdir()):
        with part.open("rb") as f:
            reader = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(f))
            yield from map(orjson.loads, reader)


def sentences(done):
    """How many sentences were written, by language and kind."""
    counted = Counter()
    for line in lines(done):
        counted[line["language"], line["kind"]] += line["text"].count("\n") + 1
    return counted


def test_smoothed_shares_to_the_sentence(compose, recipe):
    """Closed form: 40 and 10 specific sentences, alpha 0.3: 4^0.3 to 1 of 201."""
    done = compose(recipe())
    german = 201 * 4**0.3 / (4**0.3 + 1)
    assert sentences(done) == {
        ("de", "specific"): 40,
        ("de", "general"): round(german) - 40,
        ("fr", "specific"): 10,
        ("fr", "general"): 201 - round(german) - 10,
    }
    manifest = done.manifest
    assert manifest["budget"] == {"asked": 201, "taken": 201, "unit": "sentences"}
    assert [row["total"] for row in manifest["languages"]] == [round(german), 201 - round(german)]
    assert [row["sentences"] for row in manifest["kinds"]] == [50, 151]
    assert all(line.keys() == {"text", "language", "kind", "source", "row"} for line in lines(done))
    texts = [line["text"] for line in lines(done)]
    assert len(set(texts)) == len(texts)
    first = lines(done)[0]
    assert first == {
        "text": "Der 0 Hund schläft im Garten.\nDie Katze mit Nummer 0 sitzt auf dem Dach.",
        "language": "de",
        "kind": "specific",
        "source": "special_de/de.jsonl",
        "row": 0,
    }


@pytest.mark.slow
def test_the_same_bytes_however_it_is_run(compose, recipe):
    """Workers of their own, or this process; another seed takes others."""
    whole = digests(compose(recipe()).path, "composed", "rejects.jsonl")
    with_workers = compose(recipe(), "b", machine=corpusfit.Machine(workers=2))
    assert digests(with_workers.path, "composed", "rejects.jsonl") == whole
    other = compose(recipe(RECIPE.replace("seed = 3", "seed = 4")), "c")
    assert digests(other.path, "composed", "rejects.jsonl") != whole


class _Stops(Progress):
    """Stops the command after so many pieces of a stage."""

    def __init__(self, stage, pieces):
        self.stage, self.left, self.on = stage, pieces, False

    def begin(self, stage, total, unit="units"):
        self.on = stage == self.stage

    def advance(self, done, units=0):
        self.left -= self.on and units > 0
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("stage", ["look at texts", "write"])
def test_it_goes_on_where_it_was_stopped(compose, recipe, inline, tmp_path, stage):
    """What is finished is not done again, and the end is the same."""
    whole = digests(compose(recipe()).path, "composed", "rejects.jsonl")
    stopping = dataclasses.replace(inline, progress=_Stops(stage, 2))
    with pytest.raises(KeyboardInterrupt):
        compose(recipe(), "b", machine=stopping)
    made = stamps(tmp_path / "b/.corpusfit/surveyed", "part-*")
    made |= stamps(tmp_path / "b/composed", "part-*")
    assert len(made) >= 2
    done = compose(recipe(), "b")
    assert digests(done.path, "composed", "rejects.jsonl") == whole
    now = stamps(tmp_path / "b/.corpusfit/surveyed", "part-*")
    now |= stamps(tmp_path / "b/composed", "part-*")
    assert made.items() <= now.items()
    finished = stamps(tmp_path / "b", "manifest.json")
    compose(recipe(), "b")
    assert stamps(tmp_path / "b", "manifest.json") == finished


def test_another_composition_is_not_mixed_in(compose, recipe):
    compose(recipe())
    with pytest.raises(ChangedInputError, match=r"recipe\.budget.*201.*101"):
        compose(recipe(RECIPE.replace("201", "101")))
    done = compose(recipe(RECIPE.replace("201", "101")), overwrite=True)
    assert sum(sentences(done).values()) == 101


def test_what_was_seen_serves_another_budget(compose, recipe, tmp_path):
    """A budget that was refused, or is replaced, costs no second look at the texts."""
    with pytest.raises(UsageError, match="550"):
        compose(recipe(RECIPE.replace("201", "551")))
    seen = stamps(tmp_path / "out/.corpusfit/surveyed", "part-*")
    assert len(seen) == 4  # the small files of a source share a shard
    compose(recipe())
    compose(recipe(RECIPE.replace("201", "101")), overwrite=True)
    assert stamps(tmp_path / "out/.corpusfit/surveyed", "part-*") == seen
    compose(recipe(RECIPE, top="longest = 5"), overwrite=True)
    now = stamps(tmp_path / "out/.corpusfit/surveyed", "part-*")
    assert not seen.items() & now.items()


def test_a_budget_in_tokens(compose, recipe):
    """Short of it by less than the last sentence of each of the two languages."""
    done = compose(recipe(RECIPE.replace("budget = 201", 'budget = 2500\nunit = "tokens"')))
    longest = max(row["tokens"] / row["sentences"] for row in done.manifest["languages"]) * 2
    assert 2500 - 2 * longest <= done.manifest["budget"]["taken"] <= 2500
    assert done.manifest["budget"]["taken"] == sum(r["tokens"] for r in done.manifest["kinds"])


def test_the_three_compositions_and_unimax(compose, recipe, jsonl):
    jsonl("special/en.jsonl", documents(ENGLISH, 30))
    english = '[[sources]]\nname = "en"\nkind = "specific"\nlanguage = "en"\n'
    text = RECIPE + english + 'path = "special/en.jsonl"\n'
    made = {
        name: sentences(
            compose(recipe(text.replace("M_D+M_WIKI", name).replace("201", "60")), name)
        )
        for name in ("E_D", "M_D+E_D")
    }
    assert made["E_D"] == {("en", "specific"): 60}
    assert made["M_D+E_D"] == {
        ("de", "specific"): 40,
        ("fr", "specific"): 10,
        ("en", "specific"): 10,
    }
    even = compose(recipe(text, top='sampling = "unimax"'), "even")
    assert [row["total"] for row in even.manifest["languages"]] == [71, 60, 70]


def test_rows_say_their_language_or_it_is_identified(compose, recipe, jsonl):
    rows = [{"text": t, "lang": "deu"} for t in documents(GERMAN, 4)]
    rows += [{"text": t, "lang": None} for t in documents(FRENCH, 4)]
    rows += [{"text": t, "lang": "unheard"} for t in documents(JAPANESE, 4)]
    rows += [{"text": t} for t in documents(ENGLISH, 4)]
    jsonl("mixed.jsonl", rows)
    text = """
composition = "M_D+M_WIKI"
budget = 24
languages = ["de", "fra", "ja"]
[[sources]]
name = "mixed"
kind = "general"
language_field = "lang"
path = "mixed.jsonl"
"""
    done = compose(recipe(text))
    assert sentences(done) == {(code, "general"): 8 for code in ("de", "fr", "ja")}
    counts = done.manifest["counts"]["mixed"]
    assert (counts["identified"], counts["in_other_languages"]) == (12, 4)
    assert counts["others"] == {"en": 4}
    jsonl("french.jsonl", documents(FRENCH, 4))
    text += '[[sources]]\nname = "left"\nkind = "general"\nlanguage = "fr"\npath = "french.jsonl"\n'
    done = compose(recipe(text.replace('"fra", ', "").replace("24", "16")), "without")
    (warning,) = (w for w in done.manifest["warnings"] if w.startswith("No document of left "))
    assert "fr" in warning.rpartition("(")[2]


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.parquet"])
def test_the_same_page_is_not_taken_in_two_languages(compose, recipe, jsonl, tmp_path, name):
    """Also where the row says its language, which is read beside the page."""
    pages = [f"page {i}" for i in range(10)]
    rows = [
        {"text": t, "page": p, "lang": "de"}
        for t, p in zip(documents(GERMAN, 10), pages, strict=True)
    ]
    rows += [
        {"text": t, "page": p, "lang": "fr"}
        for t, p in zip(documents(FRENCH, 4), pages[:4], strict=True)
    ]
    jsonl("pages.jsonl", rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pages.parquet")
    text = f"""
composition = "M_D+M_WIKI"
budget = 20
languages = ["de", "fr"]
[[sources]]
name = "pages"
kind = "general"
page = "page"
language_field = "lang"
path = "{name}"
"""
    done = compose(recipe(text))
    assert sentences(done) == {("de", "general"): 12, ("fr", "general"): 8}
    assert done.manifest["copies"] == {"same_language": 0, "other_language": 4}
    text = text.replace('"page"', '"paeg"').replace('"lang"', '"langue"')
    warned = compose(recipe(text), out="misspelled").manifest["warnings"]
    assert [("paeg" in said, "langue" in said) for said in warned] == [
        (True, False),
        (False, True),
    ]


def test_sources_of_other_formats(compose, recipe, tmp_path):
    """CSV and lines of text, compressed."""
    rows = "".join(f"{text},{i},de\n" for i, text in enumerate(documents(GERMAN, 4)))
    (tmp_path / "a.csv").write_text("text,page,lang\n" + rows, "utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(documents(FRENCH, 4)).encode()))
    text = """
composition = "M_D+M_WIKI"
budget = 16
languages = ["de", "fr"]
[[sources]]
name = "a"
kind = "specific"
language_field = "lang"
page = "page"
path = "a.csv"
[[sources]]
name = "b"
kind = "specific"
language = "fr"
txt = "lines"
path = "b.txt.gz"
"""
    made = sentences(compose(recipe(text)))
    assert made == {("de", "specific"): 8, ("fr", "specific"): 8}


def test_rejects_arrive_and_are_counted(compose, recipe, tmp_path):
    """Invalid UTF-8, as from a mixed encoding, and a row without text."""
    path = tmp_path / "wiki_fr/0.jsonl"
    latin = '{"text": "Le café est là."}\n'.encode("latin-1")
    path.write_bytes(latin + b'{"body": "x"}\n' + path.read_bytes())
    done = compose(recipe())
    assert [(r["source"], r["row"], r["reason"].partition(":")[0]) for r in rejects(done.path)] == [
        ("wiki_fr/0.jsonl", 0, "invalid UTF-8"),
        ("wiki_fr/0.jsonl", 1, "missing field 'text'"),
    ]
    counts = done.manifest["counts"]["wiki_fr"]
    assert (counts["rows"], counts["documents"], counts["rejected"]) == (102, 100, 2)
    assert counts["reasons"] == {"invalid UTF-8": 1, "missing field 'text'": 1}
    assert any("2 rows of wiki_fr were not used" in w for w in done.manifest["warnings"])


def test_general_text_is_chosen_by_relevance(compose, recipe, jsonl, tmp_path):
    """What is like the target is taken before any other text of its source."""
    about = [f"Die Richterin {i} verliest das Urteil. Der Kläger {i} schweigt." for i in range(50)]
    jsonl("wiki_de/0.jsonl", about)
    jsonl(
        "task.jsonl",
        [f"Urteil {i}: die Richterin verliest, der Kläger schweigt." for i in range(30)],
    )
    chosen = 'name = "wiki_de"\nchoose = "dsir"\ntarget = "task.jsonl"'
    done = compose(recipe(RECIPE.replace('name = "wiki_de"', chosen)))
    taken = [line for line in lines(done) if line["source"].startswith("wiki_de/")]
    assert len(taken) == 41  # 81 sentences, two a document
    assert {line["source"] for line in taken} == {"wiki_de/0.jsonl"}
    by_chance = compose(recipe(), "chance")
    others = [line["source"] for line in lines(by_chance) if line["source"].startswith("wiki_de/")]
    assert len(set(others)) == 3


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        ("budget = 201", "budget = 551", UsageError, "budget must be at most 550 sentences"),
        ("seed = 3", 'languages = ["de", "fr", "it"]', EmptyInputError, "language it has no text"),
        ('path = "wiki_fr"', 'path = "nowhere"', InputError, "source wiki_fr: path"),
        ('path = "wiki_fr"', 'path = "wiki_fr"\ntext_field = "b"', EmptyInputError, "usable row"),
        ('"wiki_fr"\nkind', '"wiki_fr"\nchoose = "dsri"\ntarget = "t"\nkind', UsageError, "dsir"),
    ],
)  # fmt: skip
def test_what_is_refused(compose, recipe, old, new, error, words):
    text = RECIPE.replace(old, new)
    with pytest.raises(error, match=words):
        compose(recipe(text))


def test_repeats_make_a_larger_budget(compose, recipe):
    text = RECIPE.replace("201", "700")
    done = compose(recipe(text, top="repeats = 2"))
    assert sum(sentences(done).values()) == 700
    most = Counter(line["text"] for line in lines(done)).most_common(1)[0][1]
    assert most == 2


def test_command_line(cli, recipe, tmp_path):
    """The table, the JSON, and what would be taken."""
    path, out = recipe(), tmp_path / "out"
    dry = cli("compose", path, "--out", out, "--dry-run", "--json")
    assert dry.code == 0, dry.err
    assert json.loads(dry.out)["taken"] == 201
    assert not out.exists()
    done = cli("compose", path, "--out", out)
    assert done.code == 0, done.err
    assert "100.0 %" in done.out
    assert done.err.count("201") >= 2
    again = json.loads(cli("compose", path, "--out", out, "--json").out)
    shares = [[row["language"], row["total"]] for row in json.loads(dry.out)["languages"]]
    assert [[row["language"], row["total"]] for row in again["languages"]] == shares
    wrong = cli("compose", recipe(RECIPE.replace("seed", "sede")), "--out", tmp_path / "b")
    assert (wrong.code, wrong.out) == (2, "")
    assert "seed" in wrong.err


def test_a_composition_is_text_to_train_on(compose, recipe, jsonl, inline):
    done = compose(recipe())
    held = jsonl("dev.jsonl", documents(GERMAN, 3))
    text = str(done.path / "composed")
    found = corpusfit.contamination(task=[str(held)], data=[text], machine=inline)
    assert found.texts == len(lines(done))
    assert [split.found for split in found.splits.values()] == [3]


SMALL = """
composition = "E_D"
budget = 1_000
[[sources]]
name = "small"
kind = "specific"
language = "en"
path = "small"
"""


@pytest.fixture
def small(jsonl):
    """300 files of three texts of two sentences; each tenth file has also a row without text."""
    for number in range(300):
        rows = [{"text": text} for text in documents(ENGLISH, 3, 10 * number)]
        if number % 10 == 7:
            rows.insert(1, {"no": "text"})
        jsonl(f"small/{number % 2}/{number:03d}.jsonl", rows)


def test_small_files_share_shards(compose, recipe, small, tmp_path):
    done = compose(recipe(SMALL.replace("1_000", "1_800")))
    assert [p.name for p in (done.path / "composed").iterdir()] == ["part-000-00000.jsonl.zst"]
    work = done.path / ".corpusfit"
    assert [len(list((work / name).iterdir())) for name in ("surveyed", "written")] == [1, 1]

    for line in lines(done):
        source, name = line["source"].split("/", 1)
        of_file = (tmp_path / "small" / name).read_text("utf-8").splitlines()
        assert source == "small"
        assert line["text"].split() == json.loads(of_file[line["row"]])["text"].split()
    assert len({(line["source"], line["row"]) for line in lines(done)}) == 900
    assert sorted((r["source"], r["row"]) for r in rejects(done.path)) == [
        (f"small/1/{number:03d}.jsonl", 1) for number in range(7, 300, 10)
    ]
    counts = done.manifest["counts"]["small"]
    assert (counts["rows"], counts["documents"], counts["rejected"]) == (930, 900, 30)


def test_the_text_of_small_files_is_that_of_shards_of_their_own(
    compose, recipe, small, jsonl, monkeypatch
):
    """Ranked by likeness to a task, which decides by text alone; and what is said of a bad file."""
    jsonl("small/0/000.jsonl", [{"no": "text"}] * 40)
    jsonl("task.jsonl", documents(ENGLISH, 9, 1_200))
    chosen = 'kind = "general"\nchoose = "dsir"\ntarget = "task.jsonl"'
    text = SMALL.replace("E_D", "M_D+M_WIKI").replace('kind = "specific"', chosen)
    specific = text[text.index("[[") :].replace(chosen, 'kind = "specific"')
    text += specific.replace('"small"', '"own"', 1).replace('"small"', '"small/0/004.jsonl"')
    together = compose(recipe(text))
    monkeypatch.setattr("corpusfit_papers.mixing.surveying.packed", corpus.shards)
    alone = compose(recipe(text), "alone")
    assert len(list((alone.path / "composed").iterdir())) > 100
    one, other = ({(d["source"], d["row"], d["text"]) for d in lines(r)} for r in (together, alone))
    assert one == other
    assert together.manifest["counts"] == alone.manifest["counts"]
    assert together.manifest["warnings"] == alone.manifest["warnings"] != []


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_small_files(compose, recipe, small, monkeypatch):
    """In several shards of some files each, which is not a setting of a recipe."""

    def smaller(sources, read):
        return corpus.packed(sources, dataclasses.replace(read, shard_mb=0.01))

    monkeypatch.setattr("corpusfit_papers.mixing.surveying.packed", smaller)
    one = compose(recipe(SMALL))
    two = compose(recipe(SMALL), "two", machine=corpusfit.Machine(workers=2))
    assert len(list((one.path / "composed").iterdir())) > 5
    assert digests(one.path, "composed", "rejects.jsonl") == digests(
        two.path, "composed", "rejects.jsonl"
    )
