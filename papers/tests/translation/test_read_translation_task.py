"""Translation tasks from line-aligned files, TSV columns and pair:…, and what is refused."""

import gzip
import subprocess

import pytest

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import load_task, store_task, task_digest

PAIRS = [("ein Hund", "a dog"), ("zwei Katzen", "two cats"), ("drei", "three")]


def planned(direction="de-en"):
    return TaskPlan("translation", options={"direction": direction} if direction else {})


def aligned(folder, split, pairs=PAIRS, languages=("de", "en")):
    for side, language in enumerate(languages):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{split}.{language}").write_text(text, "utf-8")


def read(place, direction="de-en"):
    return read_task(str(place), planned(direction), seed=0)


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
    back = read(tmp_path, "en-de")
    assert pairs_of(back.test) == [(b, a) for a, b in PAIRS[:2]]
    assert back.labels == ("en", "de")


def test_only_the_test_split_is_needed(tmp_path):
    aligned(tmp_path, "test")
    task = read(tmp_path)
    assert (len(task.train), len(task.dev), pairs_of(task.test)) == (0, 0, PAIRS)
    store_task(task, tmp_path / "task.json")
    assert task_digest(load_task(tmp_path / "task.json")) == task_digest(task)


def test_dev_by_another_name_and_a_split_of_which_a_side_is_missing(tmp_path):
    aligned(tmp_path, "test")
    aligned(tmp_path, "valid", PAIRS[:1])
    assert pairs_of(read(tmp_path).dev) == PAIRS[:1]
    (tmp_path / "valid.de").unlink()
    with pytest.raises(InputError, match=r"two line-aligned files.*valid\.en"):
        read(tmp_path)


@pytest.mark.parametrize(("language", "packed"), [("de", False), ("en", True)])
def test_another_encoding_has_the_command_that_converts_it(tmp_path, language, packed):
    aligned(tmp_path, "test", [("Öl", "naïve")])
    file = tmp_path / f"test.{language}"
    file.write_bytes(file.read_text("utf-8").encode("latin-1"))
    if packed:
        subprocess.run(["gzip", file], check=True)
    with pytest.raises(InputError) as error:
        read(tmp_path)
    subprocess.run(["bash", "-c", str(error.value).rpartition("Latin-1: ")[2]], check=True)
    assert pairs_of(read(tmp_path).test) == [("Öl", "naïve")]


def test_pair_inputs_are_all_test(tmp_path):
    aligned(tmp_path, "own")
    task = read(f"pair:{tmp_path}/own.en,{tmp_path}/own.de", "")
    assert (task.name, task.labels) == ("own", ("en", "de"))
    assert pairs_of(task.test) == [(b, a) for a, b in PAIRS]


def test_a_region_is_written_with_an_underscore(tmp_path):
    aligned(tmp_path, "test", languages=("de", "pt-BR"))
    task = read(tmp_path, "de-pt_BR")
    assert (task.labels, pairs_of(task.test)) == (("de", "pt_BR"), PAIRS)


@pytest.mark.parametrize("direction", ["", "de-en"])
def test_columns_of_a_tsv(tmp_path, direction):
    head = "id\tde\ten\n" if direction else ""
    rows = "".join(("7\t" if direction else "") + f"{a}\t{b}\n" for a, b in PAIRS)
    (tmp_path / "test.tsv").write_text(head + rows)
    for place in (tmp_path, tmp_path / "test.tsv"):
        assert pairs_of(read(place, direction).test) == PAIRS


def test_a_torn_archive_is_no_split(tmp_path):
    aligned(tmp_path, "test", PAIRS * 1000)
    packed = gzip.compress((tmp_path / "test.en").read_bytes())
    (tmp_path / "test.en").unlink()
    (tmp_path / "test.en.gz").write_bytes(packed[:-20])
    with pytest.raises(InputError, match="truncated"):
        read(tmp_path)


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path):
    aligned(tmp_path, "test", [*PAIRS, ("", "b"), ("a", " "), ("", ""), ("c", "")])
    task = read(tmp_path)
    assert pairs_of(task.test) == PAIRS
    assert task.notes[0].startswith("4 pairs of test")


def test_a_direction_is_needed_for_two_files(tmp_path):
    aligned(tmp_path, "test")
    for wrong in ("", "fr-en"):
        with pytest.raises(UsageError, match=r"^`task\.direction` must .*de-en or en-de"):
            read(tmp_path, wrong)
    for wrong in ("de", "de-de", "de en"):
        with pytest.raises(UsageError, match=rf"^`task\.direction` must .*{wrong}"):
            read(tmp_path, wrong)


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
    with pytest.raises(EmptyInputError):
        read(tmp_path)


@pytest.mark.parametrize(
    ("setting", "value"), [("num_beams", 0), ("max_new_tokens", 1.5), ("smoothing", 0.1)]
)
def test_wrong_settings_are_refused(setting, value):
    with pytest.raises(UsageError, match=rf"task\.{setting}"):
        TaskPlan("translation", options={setting: value}).check()


def test_settings_of_a_kind_need_the_kind():
    with pytest.raises(UsageError, match=r"task\.kind=translation"):
        TaskPlan(options={"direction": "de-en"}).check()
