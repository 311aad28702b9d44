"""Translation tasks from line-aligned files, TSV columns, rows and pair:…, and what is refused."""

import gzip
import json

import pytest

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import load_task, store_task, task_digest

PAIRS = [("ein Hund", "a dog"), ("zwei Katzen", "two cats"), ("drei", "three")]
DIRECTED = TaskPlan(direction="de-en")


def aligned(folder, split, pairs=PAIRS):
    for side, language in enumerate(("de", "en")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{split}.{language}").write_text(text)


def read(place, plan=DIRECTED):
    return read_task(str(place), plan, seed=0)


def pairs_of(examples):
    return list(zip(examples.texts(), [own[0] for own in examples.labels], strict=True))


def test_two_line_aligned_files_of_each_split(tmp_path):
    for split, n in (("train", 3), ("dev", 1), ("test", 2)):
        aligned(tmp_path, split, PAIRS[:n])
    (tmp_path / "README.md").write_text("about")
    task = read(tmp_path)
    assert (task.kind, task.labels, task.learnable) == ("translation", ("de", "en"), 0)
    assert pairs_of(task.train) == PAIRS
    assert (pairs_of(task.dev), pairs_of(task.test)) == (PAIRS[:1], PAIRS[:2])
    back = read(tmp_path, TaskPlan(direction="en-de"))
    assert pairs_of(back.test) == [(b, a) for a, b in PAIRS[:2]]
    assert back.labels == ("en", "de")


def test_only_the_test_split_is_needed(tmp_path):
    aligned(tmp_path, "test")
    task = read(tmp_path)
    assert (len(task.train), len(task.dev), pairs_of(task.test)) == (0, 0, PAIRS)
    store_task(task, tmp_path / "task.json")
    assert task_digest(load_task(tmp_path / "task.json")) == task_digest(task)


def test_pair_inputs_are_all_test(tmp_path):
    aligned(tmp_path, "own")
    task = read(f"pair:{tmp_path}/own.en,{tmp_path}/own.de", TaskPlan())
    assert (task.name, task.labels) == ("own", ("en", "de"))
    assert pairs_of(task.test) == [(b, a) for a, b in PAIRS]


@pytest.mark.parametrize(
    ("ending", "direction", "texts", "labels"),
    [("zh_CN", "de-zh_CN", "狗 猫 三", ("de", "zh_CN", "zh")),
     ("pt-BR", "de-pt_BR", "cão gato três", ("de", "pt_BR")),
     ("jp", "de-jp", "いぬ ねこ さん", ("de", "jp", "char"))],
)  # fmt: skip
def test_the_tokenizer_of_bleu_is_decided_with_the_languages(
    tmp_path, ending, direction, texts, labels
):
    pairs = list(zip((german for german, _ in PAIRS), texts.split(), strict=True))
    for name, side in (("de", 0), (ending, 1)):
        (tmp_path / f"test.{name}").write_text("".join(p[side] + "\n" for p in pairs), "utf-8")
    task = read(tmp_path, TaskPlan(direction=direction))
    assert (task.labels, pairs_of(task.test)) == (labels, pairs)


@pytest.mark.parametrize("direction", ["", "de-en"])
def test_columns_of_a_tsv(tmp_path, direction):
    head = "id\tde\ten\n" if direction else ""
    rows = "".join(("7\t" if direction else "") + f"{a}\t{b}\n" for a, b in PAIRS)
    (tmp_path / "test.tsv").write_text(head + rows)
    for place in (tmp_path, tmp_path / "test.tsv"):
        task = read(place, TaskPlan(kind="translation", direction=direction))
        assert pairs_of(task.test) == PAIRS


@pytest.mark.parametrize("field", ["label", "english"])
def test_rows_with_two_fields(tmp_path, field):
    name = "translation" if field == "label" else field
    rows = [{"text": a, name: b} for a, b in PAIRS] + [{"text": "ohne", name: " "}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    task = read(tmp_path, TaskPlan(kind="translation", label_field=field))
    assert pairs_of(task.test) == PAIRS
    assert "1 of 4 rows of test" in task.notes[0]


def test_punctuation_of_rows_is_normalized_by_language(tmp_path):
    row = {"text": "\u201eJa\u201c", "translation": "\u201cYes\u201d"}
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n")
    task = read(tmp_path, TaskPlan(kind="translation", normalize="de-en"))
    assert pairs_of(task.test) == [('"Ja"', '"Yes"')]


def test_a_torn_archive_is_no_split(tmp_path):
    aligned(tmp_path, "test", PAIRS * 1000)
    packed = gzip.compress((tmp_path / "test.en").read_bytes())
    (tmp_path / "test.en").unlink()
    (tmp_path / "test.en.gz").write_bytes(packed[:-20])
    both = f"pair:{tmp_path}/test.de,{tmp_path}/test.en.gz"
    with pytest.raises(InputError, match="cannot be read completely: truncated"):
        read(both, TaskPlan(kind="translation", direction="de-en"))


def test_pairs_with_an_empty_side_are_left_out_and_counted_by_cause(tmp_path):
    aligned(tmp_path, "test", [*PAIRS, ("", "b"), ("a", " "), ("", ""), ("c", "")])
    task = read(tmp_path)
    assert pairs_of(task.test) == PAIRS
    assert task.notes[0].startswith("4 of 7 pairs of test were left out: 2 translation is empty")


def test_a_direction_is_needed_for_two_files(tmp_path):
    aligned(tmp_path, "test")
    with pytest.raises(UsageError, match=r"^`task\.direction` must .*de-en or en-de.*nothing"):
        read(tmp_path, TaskPlan())
    with pytest.raises(UsageError, match=r"^`task\.direction` must .*de-en or en-de.*fr-en"):
        read(tmp_path, TaskPlan(direction="fr-en"))
    for wrong in ("de", "de-de", "de en"):
        with pytest.raises(UsageError, match=rf"^`task\.direction` must .*{wrong}"):
            read(tmp_path, TaskPlan(direction=wrong))


def test_files_of_unequal_length_are_refused(tmp_path):
    aligned(tmp_path, "test")
    (tmp_path / "test.en").write_text("a dog\n")
    with pytest.raises(InputError, match=r"test\.en ends after line 1"):
        read(tmp_path)


def test_a_task_without_test_or_text_is_refused(tmp_path):
    aligned(tmp_path, "dev")
    with pytest.raises(InputError, match=r"^`task` .* must hold test .*dev\.de, dev\.en"):
        read(tmp_path)
    aligned(tmp_path, "test", [("", "b"), ("a", "")])
    with pytest.raises(EmptyInputError, match="test split"):
        read(tmp_path)


def test_other_tasks_are_no_translations(tmp_path):
    for split in ("train", "dev", "test"):
        rows = [{"text": f"{a} {split}", "label": b} for a, b in PAIRS]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert read_task(str(tmp_path), TaskPlan(), seed=0).kind == "classification"
    with pytest.raises(UsageError, match=r"^`task\.metric` must .*accuracy.*bleu"):
        read_task(str(tmp_path), TaskPlan(metric="bleu"), seed=0)
