"""Held-out texts of a task in every format, without its labels."""

import json

import pytest

from corpusfit.core.engine import Progress
from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.labeled.heldout import as_target, held_out
from translating import write_pairs


class Listener(Progress):
    """Collects messages."""

    def __init__(self):
        self.texts = []

    def note(self, message):
        self.texts.append(message)

    warn = note


@pytest.fixture
def messages():
    return Listener()


@pytest.fixture
def held(messages):
    """`held_out` of some inputs."""

    def held(*inputs, field="text"):
        read = ReadPlan(text_field=field)
        return held_out(list(map(str, inputs)), read, messages, setting="guard")

    return held


@pytest.fixture
def rows(tmp_path):
    """Write texts as rows with a field for the text and one more; returns the folder."""

    def rows(name, texts, *, field="text", **more):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps({field: t, **more}) for t in texts]
        path.write_text("".join(line + "\n" for line in lines), "utf-8")
        return path.parent

    return rows


def texts(split, n):
    return [f"{split} text {i}" for i in range(n)]


def test_dev_and_test_of_a_task_whatever_its_labels(held, rows):
    for split, n in {"train": 9, "valid": 4, "test": 5}.items():
        folder = rows(f"task/{split}.jsonl", texts(split, n), category="always the same")
    assert held(folder) == {"dev": texts("valid", 4), "test": texts("test", 5)}


def test_rows_of_another_field(held, rows):
    for split in ("train", "dev", "test"):
        folder = rows(f"task/{split}.jsonl", texts(split, 3), field="sentence")
    assert held(folder, field="sentence")["test"] == texts("test", 3)
    with pytest.raises(EmptyInputError, match=r"^`guard` has .* Set `guard_field` to "):
        held(folder)


def test_rows_without_a_text_are_named(held, rows, messages):
    path = rows("held/a.jsonl", texts("a", 3)) / "a.jsonl"
    path.write_text(path.read_text("utf-8") + '\n{"text": null}\n', "utf-8")
    assert held(path) == {"a.jsonl": texts("a", 3)}
    assert messages.texts[0].startswith("1 rows of `guard` ")


@pytest.mark.parametrize(("there", "lacking"), [("test", "dev"), ("dev", "test")])
def test_all_of_train_is_held_out_without_a_dev_or_test_split(held, rows, messages, there, lacking):
    rows("task/train.jsonl", texts("train", 20))
    folder = rows(f"task/{there}.jsonl", texts(there, 4))
    assert held(folder) == {"train": texts("train", 20), there: texts(there, 4)}
    assert f"task has no {lacking} split" in messages.texts[0]


def test_one_split_is_held_out_whole(held, rows):
    folder = rows("task/train.jsonl", texts("train", 20))
    assert held(folder) == {"task": texts("train", 20)}
    assert held(folder / "train.jsonl") == {"train.jsonl": texts("train", 20)}


@pytest.mark.parametrize("suffix", ["conll", "tsv", "txt"])
def test_words_with_tags(held, tmp_path, suffix):
    task = tmp_path / "task"
    task.mkdir()
    for split in ("train", "dev", "test"):
        (task / f"{split}.{suffix}").write_text(f"the\tO\n{split}\tO\n\nend\tO\n", "utf-8")
    assert held(task) == {"dev": ["the dev", "end"], "test": ["the test", "end"]}
    file = task / f"test.{suffix}"
    assert held(file) == {file.name: ["the test", "end"]}


@pytest.mark.parametrize(
    "text",
    [
        "Patients were vaccinated against hepatitis B",
        "vitamin B\nvitamin E\nhepatitis B\nhepatitis E",
        "blood type O\nblood type B\nblood type O",
    ],
)
def test_lines_that_end_in_a_letter_are_not_words_with_tags(held, tmp_path, text):
    (tmp_path / "held.txt").write_text(f"{text}\n", "utf-8")
    assert held(tmp_path / "held.txt")["held.txt"] == [text]


@pytest.mark.parametrize("tags", ["B I O", "B-X O O", "O O S-X"])
def test_words_with_tags_without_tabs(held, tmp_path, tags):
    lines = "".join(f"word {tag}\n" for tag in tags.split())
    (tmp_path / "held.txt").write_text(lines, "utf-8")
    assert held(tmp_path / "held.txt") == {"held.txt": ["word word word"]}


def test_a_table_and_plain_text_are_not_words(held, tmp_path):
    table, plain = tmp_path / "held.tsv", tmp_path / "held.txt"
    table.write_text("text\tlabel\nthe kinase\tA\nthe bank\tB\n", "utf-8")
    plain.write_text("one line here\nand one there\n", "utf-8")
    found = held(table, plain)
    assert found["held.tsv"] == ["the kinase", "the bank"]
    assert "".join(found["held.txt"]).split() == ["one", "line", "here", "and", "one", "there"]
    broken = tmp_path / "held.conll"
    broken.write_text("the\tO\nand\n", "utf-8")
    with pytest.raises(InputError, match=r"held\.conll, line 2"):
        held(broken)


def test_every_document_of_a_bare_brat_folder(held, tmp_path):
    folder = tmp_path / "brat"
    folder.mkdir()
    for i in range(20):
        (folder / f"{i:02}.txt").write_text(f"aspirin number {i} helps", "utf-8")
        (folder / f"{i:02}.ann").write_text("T1\tDRUG 0 7\taspirin\n", "utf-8")
    assert held(folder) == {"brat": [f"aspirin number {i} helps" for i in range(20)]}


def test_a_split_of_a_dataset_is_held_out_whole(held, rows):
    pytest.importorskip("datasets", reason="the extra hub is not installed")
    for split, n in {"train": 9, "test": 20}.items():
        folder = rows(f"set/{split}.jsonl", texts(split, n))
    assert held(f"hub:{folder}@test") == {"set@test": texts("test", 20)}
    assert set(held(f"hub:{folder}")) == {"train", "test"}


def test_several_tasks_keep_their_names(held, rows):
    for task in ("a", "b"):
        for split in ("train", "dev", "test"):
            rows(f"{task}/{split}.jsonl", texts(f"{task} {split}", 2))
    folder = rows("c/x.jsonl", texts("x", 2))
    found = held(folder.parent / "a", folder.parent / "b", folder / "x.jsonl")
    assert list(found) == ["a dev", "a test", "b dev", "b test", "x.jsonl"]


def test_nothing_is_held_out_without_inputs(held):
    assert held() == {}


def test_a_folder_that_cannot_be_read_as_a_task_names_the_setting(held, rows):
    with pytest.raises(InputError, match=r"^`guard` .*train"):
        held(rows("c/x.jsonl", texts("x", 2)))


def test_both_texts_of_pairs_are_held_out(tmp_path):
    folder = write_pairs(tmp_path / "law", test=2)
    pairs = f"pair:{folder}/test.de,{folder}/test.en"
    (found,) = held_out([pairs], ReadPlan(), Progress(), setting="guard").values()
    sides = [(folder / f"test.{side}").read_text().splitlines() for side in ("de", "en")]
    assert found == [*sides[0], *sides[1]]


def test_texts_of_folders_of_classes_and_of_longer_names(held, messages, tmp_path):
    """The held-out texts of archives; without dev, which is drawn from train, all of train too."""
    for split in ("train", "test"):
        for name in ("neg", "pos"):
            path = tmp_path / "reviews" / split / name / "0_1.txt"
            path.parent.mkdir(parents=True)
            path.write_text(f"{split} {name} review.")
    for split in ("train", "dev", "test"):
        path = tmp_path / "tagged" / "data" / f"{split}-set_1.1.conll"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{split}\tO\nword\tB-X\n")
    assert held(tmp_path / "reviews") == {
        split: [f"{split} neg review.", f"{split} pos review."] for split in ("train", "test")
    }
    assert held(tmp_path / "tagged") == {"dev": ["dev word"], "test": ["test word"]}


@pytest.mark.parametrize("place", ["", "archive"])
@pytest.mark.parametrize("name", ["{}.jsonl", "ag_{}_v1.jsonl"])
def test_the_target_of_a_task_is_its_train_split(inline, rows, place, name):
    """Also where it lies a folder deeper, or longer names hold those of the splits."""
    for split in ("train", "test"):
        folder = rows(f"task/{split}.x", [])
        (folder / place).mkdir(exist_ok=True)
        (folder / place / name.format(split)).write_text(json.dumps({"text": split}))
    assert as_target([str(folder)], "text", inline) == [str(folder / place / name.format("train"))]


def test_a_folder_that_holds_more_than_a_task_is_a_target_itself(inline, rows):
    rows("task/texts.jsonl", ["a"])
    for split in ("train", "test"):
        (rows("task/x", []) / "old").mkdir(exist_ok=True)
        folder = rows(f"task/old/{split}.jsonl", ["b"]).parent
    assert as_target([str(folder)], "text", inline) == [str(folder)]
