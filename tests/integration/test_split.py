"""`split` from end to end: no text on two sides, whoever looks; nothing lost.

What is written is looked at with Python's sets; what is nearly the same with 5-grams of words in
sets (as `decontamination/finder.py` says they are cut), text against text.
"""

import csv
import itertools
import json
import random
import re
from collections import Counter

import pytest
from journeys import digests, prose, rejects, stamps

import corpusfit
from corpusfit import Machine
from corpusfit.core.errors import ChangedInputError, EmptyInputError, InputError, UsageError
from corpusfit.kernels.tokens import reference
from corpusfit.text.same_text import folded, normal_form

SPLITS = ("train", "dev", "test")


@pytest.fixture
def split(tmp_path, inline):
    """`split` in this process."""

    def split(data, out="out", **words):
        return corpusfit.split(data=data, out=tmp_path / out, **{"machine": inline} | words)

    return split


@pytest.fixture
def rows(jsonl):
    """200 texts with labels, 40 of them once more in another type, and rows without a text."""
    texts = prose("market", 200)
    copies = [t.upper().replace(" ", "  ") for t in texts[:40]]
    rows = [{"text": t, "label": i, "of": {"x": i}} for i, t in enumerate(texts + copies)]
    random.Random(5).shuffle(rows)
    return jsonl("all.jsonl", [*rows, {"body": "x"}, {"text": " "}, {"text": 7}])


@pytest.fixture
def pairs(tmp_path):
    """Translations of 300 sentences; some sentences have two, some translations two sentences."""
    chance = random.Random(1)
    texts = prose("task", 300)
    pairs = [(text, " ".join(reversed(text.split()))) for text in texts]
    pairs += [(a.upper(), f"another {i}") for i, (a, _) in enumerate(pairs[:30])]
    pairs += [(f"noch einer {i}", b) for i, (_, b) in enumerate(pairs[30:50])]
    pairs += pairs[50:60]
    chance.shuffle(pairs)
    pairs[17] = (pairs[17][0], "")
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"all.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return f"pair:{tmp_path}/all.de,{tmp_path}/all.en"


def lines(folder, suffix):
    """By split, the lines of its file."""
    return {s: (folder / f"{s}.{suffix}").read_text("utf-8").splitlines() for s in SPLITS}


def form(text):
    return normal_form(folded(text))


def on_two_sides(texts):
    """Texts, by split, that are in more than one when only letters and digits count."""
    seen = Counter(text for split in texts.values() for text in set(map(form, split)))
    return [text for text, n in seen.items() if n > 1]


def whole(counts):
    """Whether every row that was read is somewhere."""
    parts = [counts[name] for name in (*SPLITS, "rejected", "dropped")]
    reasons = counts["rejected"] + counts["dropped"]
    return counts["rows"] == sum(parts) and reasons == sum(counts["reasons"].values())


def grams(text):
    words = reference(text)
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def nearly_in(texts, others):
    """Of some texts those of whose 5-grams a text of others holds 0.8, four at least."""
    held = list(map(grams, others))
    return [
        text
        for text in texts
        if len(own := grams(text)) >= 4 and any(len(own & g) >= 0.8 * len(own) for g in held)
    ]


def test_rows_keep_their_fields_and_copies_their_side(split, rows, tmp_path):
    done = split(rows, dev=30, test=50)
    found = lines(done.path, "jsonl")
    counts = done.manifest["counts"]
    assert {name: len(found[name]) for name in SPLITS} == {"train": 160, "dev": 30, "test": 50}
    assert counts["rows"] == 243
    assert whole(counts)
    assert [(r["row"], r["reason"]) for r in rejects(done.path)] == [
        (240, "missing field 'text': fields are body"),
        (241, "text is empty"),
        (242, "text is not a string: int"),
    ]
    assert not on_two_sides({n: [json.loads(x)["text"] for x in f] for n, f in found.items()})
    given = rows.read_text("utf-8").splitlines()[:240]
    assert Counter(x for split in found.values() for x in split) == Counter(given)
    for split_lines in found.values():  # in the order of the input
        assert split_lines == [line for line in given if line in set(split_lines)]


def test_pairs_one_translation_each_and_no_side_twice(split, pairs, tmp_path):
    done = split(pairs, dev=40, test=60)
    counts = done.manifest["counts"]
    sides = [lines(done.path, suffix) for suffix in ("de", "en")]
    given = list(
        zip(*((tmp_path / f"all.{s}").read_text().split("\n") for s in ("de", "en")), strict=True)
    )
    for side in sides:
        texts = [text for split in SPLITS for text in side[split]]
        assert len({form(text) for text in texts}) == len(texts) == counts["rows"] - 61
        assert [len(side[s]) for s in SPLITS[1:]] == [40, 60]
    for name in SPLITS:
        assert set(zip(sides[0][name], sides[1][name], strict=True)) <= set(given)
    assert counts["rows"] == 360
    assert whole(counts)
    assert (counts["rejected"], counts["dropped"]) == (1, 60)
    assert counts["reasons"]["translation is empty"] == 1


@pytest.mark.parametrize("near", [False, True])
def test_fields_are_split_as_files_are(split, pairs, tmp_path, jsonl, near):
    """Rows with two texts have the same splits as the lines of two files with these texts."""
    of_files = split(pairs, dev=20, test=30, near=near)
    texts = [(tmp_path / f"all.{name}").read_text().split("\n")[:-1] for name in ("de", "en")]
    rows = [{"de": a, "en": b, "n": i} for i, (a, b) in enumerate(zip(*texts, strict=True))]
    data = jsonl("rows.jsonl", rows)
    of_fields = split(data, "fields", dev=20, test=30, near=near, text_field="de,en")
    for name in SPLITS:
        written = list(map(json.loads, lines(of_fields.path, "jsonl")[name]))
        assert [row["de"] for row in written] == lines(of_files.path, "de")[name]
        assert [row["en"] for row in written] == lines(of_files.path, "en")[name]
        assert all(row == rows[row["n"]] for row in written)
    counts = of_fields.manifest["counts"]
    assert {k: v for k, v in counts.items() if k != "reasons"} == {
        k: v for k, v in of_files.manifest["counts"].items() if k != "reasons"
    }
    assert counts["reasons"]["text is empty (en)"] == 1


def test_near_duplicates_are_on_no_two_sides_of_either_language(split, tmp_path):
    """Verses in several versions: of each, words are replaced or others put around it."""
    chance = random.Random(2)
    verses = [" ".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=30)) for _ in range(150)]
    others = [" ".join(chance.choices("zyxwvutsrqponmlkjihgf", k=30)) for _ in range(150)]
    pairs = list(zip(verses, others, strict=True))
    for verse, other in pairs[:100]:
        words = verse.split()
        words[chance.randrange(30)] = "changed"
        pairs.append((" ".join(words), f"anders {len(pairs)} {other[:9]}"))
    for verse, other in pairs[40:60]:
        pairs.append((f"neu {len(pairs)} {verse[:5]}", f"before {other} and after {len(pairs)}"))
    chance.shuffle(pairs)
    for side, name in enumerate(("de", "en")):
        (tmp_path / f"v.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    given = f"pair:{tmp_path}/v.de,{tmp_path}/v.en"

    without = split(given, "without", dev=40, test=40)
    assert any(
        nearly_in(lines(without.path, s)["test"], lines(without.path, s)["train"])
        for s in ("de", "en")
    )
    done = split(given, dev=40, test=40, near=True)
    for suffix in ("de", "en"):
        found = lines(done.path, suffix)
        assert [len(found[s]) for s in SPLITS[1:]] == [40, 40]
        for held, elsewhere in itertools.product(("dev", "test"), SPLITS):
            near = [] if held == elsewhere else nearly_in(found[held], found[elsewhere])
            assert not near, (suffix, held, elsewhere)
    counts = done.manifest["counts"]
    assert counts["dropped"] > 10
    assert whole(counts)
    for reason, n in counts["reasons"].items():
        assert "near-duplicate" in reason
        assert n > 0


@pytest.mark.parametrize(("dev", "test", "sizes"), [(0.05, 0.2, (1, 2)), (1e-9, 0, (1, 0))])
def test_a_share_of_few_rows_is_at_least_one(split, tmp_path, jsonl, dev, test, sizes):
    rows = jsonl("few.jsonl", [f"document number {i} speaks of thing {7 * i}" for i in range(10)])
    splits = split(rows, dev=dev, test=test).manifest["splits"]
    assert tuple(splits.get(name, {"rows": 0})["rows"] for name in ("dev", "test")) == sizes


@pytest.mark.parametrize("form", ["csv", "tsv", "columns", "columns-bare"])
def test_the_form_of_the_input_is_kept(split, tmp_path, form):
    texts = [f'{t} "so"' if i % 3 else t for i, t in enumerate(prose("market", 60))]
    other = [t[::-1] for t in texts]
    path = tmp_path / ("all.csv" if form == "csv" else "all.tsv")
    if form.startswith("columns"):
        head, ahead = ("", "") if "bare" in form else ("score\tde\ten\n", "1\t")
        both = zip(texts, other, strict=True)
        path.write_text(head + "".join(f"{ahead}{a}\t{b}\n" for a, b in both))
        given = f"pair:{path}" + (":de,en" if head else "")
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, "excel" if form == "csv" else "excel-tab")
            writer.writerow(["label", "text"])
            writer.writerows([i, f"{t}\nsecond line"] for i, t in enumerate(texts))
        given = str(path)
    done = split(given, dev=10, test=0.25)
    files = [name for found in done.manifest["splits"].values() for name in found["files"]]
    assert files == [f"{split}{path.suffix}" for split in SPLITS]
    assert [found["rows"] for found in done.manifest["splits"].values()] == [35, 10, 15]
    if form in ("csv", "tsv"):

        def records(file):
            with open(file, newline="") as f:
                return list(csv.DictReader(f, dialect="excel" if form == "csv" else "excel-tab"))

        written = [record for file in files for record in records(done.path / file)]
        assert sorted(written, key=str) == sorted(records(path), key=str)
    else:
        given_lines = path.read_text().splitlines()
        written = [(done.path / file).read_text().splitlines() for file in files]
        heads = {tuple(part[:1]) for part in written} if "bare" not in form else {()}
        assert heads == ({(given_lines[0],)} if "bare" not in form else {()})
        body = [line for part in written for line in (part if "bare" in form else part[1:])]
        assert sorted(body) == sorted(given_lines if "bare" in form else given_lines[1:])


def test_plain_text_and_mixed_inputs_become_json_lines(split, tmp_path, jsonl):
    (tmp_path / "a.txt").write_text("one text\n\nanother\nin two lines\n\na third\n")
    jsonl("b.jsonl", [{"text": f"row {i}", "label": i} for i in range(7)])
    done = split([str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")], dev=1, test=2)
    found = [json.loads(x) for part in lines(done.path, "jsonl").values() for x in part]
    assert {r["text"] for r in found} >= {"another\nin two lines", "a third", "row 6"}
    assert sum("label" in r for r in found) == 7
    assert len(found) == 10


def test_the_order_of_the_rows_and_their_files_does_not_matter(split, rows, tmp_path):
    first = split(rows, dev=30, test=50)
    shuffled = rows.read_text("utf-8").splitlines()
    random.Random(8).shuffle(shuffled)
    for i in range(3):
        (tmp_path / f"parts/{i}.jsonl").parent.mkdir(exist_ok=True)
        (tmp_path / f"parts/{i}.jsonl").write_text("\n".join(shuffled[i::3]))
    second = split(tmp_path / "parts", "parts-out", dev=30, test=50)
    sorted_lines = [
        {name: sorted(part) for name, part in lines(done.path, "jsonl").items()}
        for done in (first, second)
    ]
    assert sorted_lines[0] == sorted_lines[1]
    assert (
        lines(split(rows, "seed", dev=30, test=50, seed=1).path, "jsonl")["dev"]
        != (lines(first.path, "jsonl")["dev"])
    )


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(split, pairs):
    words = {"dev": 40, "test": 60, "near": True}
    files = [f"{s}.{side}" for s in SPLITS for side in ("de", "en")] + ["rejects.jsonl"]
    here = digests(split(pairs, **words).path, *files)
    assert len(here) == 7
    done = split(pairs, "with 2", machine=Machine(workers=2), **words)
    assert digests(done.path, *files) == here


def test_a_split_that_was_stopped_is_made_whole(split, pairs):
    words = {"dev": 40, "test": 60}
    done = split(pairs, **words)
    files = [path.name for path in done.path.iterdir() if path.is_file()]
    whole_split = digests(done.path, *files)
    for name in ("manifest.json", "dev.de", "train.en"):
        (done.path / name).unlink()
    (done.path / "train.de.0123456789ab.part").write_text("half of")
    assert digests(split(pairs, **words).path, *files) == whole_split
    assert not (done.path / "train.de.0123456789ab.part").exists()


def test_a_finished_split_is_not_made_again_and_another_needs_to_be_told(split, rows):
    done = split(rows, dev=30, test=50)
    before = stamps(done.path, "*.jsonl")
    assert split(rows, dev=30, test=50).manifest == done.manifest
    assert stamps(done.path, "*.jsonl") == before
    with pytest.raises(ChangedInputError, match=r"dev\b.*30.*20.*test\b.*50.*0"):
        split(rows, dev=20)
    split(rows, dev=20, overwrite=True)
    assert not (done.path / "test.jsonl").exists()
    assert len((done.path / "dev.jsonl").read_text().splitlines()) == 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, r"`split\.dev.*`split\.test.*0"),
        ({"dev": -1}, r"`split\.dev.*-1"),
        ({"test": 2.5}, r"`split\.test.*2\.5"),
        ({"dev": 100, "test": 140}, r"240.*'100 and 140'"),
    ],
)
def test_sizes_that_make_no_split(split, rows, words, said):
    with pytest.raises(UsageError, match=said):
        split(rows, **words)


def test_copies_that_fit_no_size(split, jsonl):
    with pytest.raises(UsageError, match="groups"):
        split(jsonl("two.jsonl", ["a", "a", "b", "b", "c", "c"]), test=3)


def test_nothing_usable(split, jsonl):
    with pytest.raises(EmptyInputError, match=r"`data.*missing field 'text'"):
        split(jsonl("none.jsonl", [{"body": "x"}]), test=1)


def test_another_separator_is_named_and_the_folder_takes_the_cure(split, tmp_path):
    lines = ["satz;label|x", *(f"sentence number {n};{n % 2}" for n in range(40))]
    (tmp_path / "semi.csv").write_text("\n".join(lines), "utf-8")
    words = {"dev": 4, "test": 4, "text_field": "satz"}
    with pytest.raises(EmptyInputError, match=r"read\.separator=;"):
        split(tmp_path / "semi.csv", near=True, **words)
    done = split(tmp_path / "semi.csv", settings=["read.separator=;"], **words)
    assert done.manifest["splits"].keys() == set(SPLITS)


def test_the_command_line(cli, pairs, rows, tmp_path):
    out = tmp_path / "cli"
    done = cli("split", "--data", pairs, "--dev", 40, "--test", 0.2, "--near", "--out", out)
    assert done.code == 0
    assert re.search(r"\b360\b", done.err)
    assert re.search(r"\b40 dev.*\b60 test.*\b1 rejected", done.err)
    assert "test.en" in done.err
    for percent in ("100%", "300%"):  # 1.0 and 3.0, which are rows
        wrong = cli("split", "--data", pairs, "--dev", percent, "--out", tmp_path / "no")
        assert (wrong.code, (tmp_path / "no").exists()) == (2, False)


def test_a_file_that_changes_under_it(split, rows, monkeypatch):
    from corpusfit.evaluation import splitting

    kept = splitting.one_to_one, splitting.Groups.of_keys

    def meddling(*given):
        rows.write_text(rows.read_text("utf-8").replace("market", "Market", 1)[:-40] + "\n")
        return kept[1](*given)

    monkeypatch.setattr(splitting.Groups, "of_keys", meddling)
    with pytest.raises((ChangedInputError, InputError), match=r"changed|shorter"):
        split(rows, dev=3)
