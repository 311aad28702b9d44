"""Tasks in brat format: sentences, words, and annotations that BIO cannot represent."""

import pytest

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task

TEXT = "Deux cas d'IL2-toxicité.\nFracture du bras gauche et droit\n"


def line(number, text, *parts, type_="DISO"):
    """An annotation of parts of a text, each at its first occurrence."""
    at = [(text.index(part), text.index(part) + len(part)) for part in parts]
    places = ";".join(f"{b} {e}" for b, e in at)
    return f"T{number}\t{type_} {places}\t{' '.join(parts).replace(chr(10), ' ')}\n"


@pytest.fixture
def read(write):
    """Read a task whose splits are all one text and its annotations."""

    def read(text, ann):
        for split in ("train", "dev", "test"):
            write(f"{split}/a.txt", text)
            folder = write(f"{split}/a.ann", ann)
        task = read_task(str(folder), TaskPlan(), seed=0)
        notes = [note for note in task.notes if " of train " in note or " of train." in note]
        return tagged(task), notes

    return read


def tagged(task, split="train"):
    examples = getattr(task, split)
    return [
        " ".join(f"{w}/{task.labels[n]}" if n else w for w, n in zip(words, labels, strict=True))
        for words, labels in zip(examples.pieces, examples.labels, strict=True)
    ]


def test_words_and_lines(read):
    """mDAPT, appendix B: sentences at line breaks; white space, numbers and special characters."""
    found, notes = read(
        TEXT, line(1, TEXT, "toxicité") + line(2, TEXT, "bras gauche", type_="ANAT")
    )
    assert found == [
        "Deux cas d ' IL 2 - toxicité/B-DISO .",
        "Fracture du bras/B-ANAT gauche/I-ANAT et droit",
    ]
    assert notes == []


def test_sentences_of_a_text_without_line_breaks(read):
    text = "A first case. Escherichia coli was found, i.e. E. coli. It went away!"
    found, _ = read(text, line(1, text, "E. coli"))
    assert found[0] == "A first case ."
    assert found[-1] == "It went away !"
    assert "E/B-DISO ./I-DISO coli/I-DISO ." in found[-2]


def test_no_sentence_ends_inside_an_annotation(read):
    text = "one two\nthree four\nfive\n"
    assert read(text, line(1, text, "two\nthree"))[0] == [
        "one two/B-DISO three/I-DISO four",
        "five",
    ]


def test_gaps_are_tagged(read):
    """mDAPT, appendix B: the gaps in discontinuous entities are labeled."""
    found, notes = read(TEXT, line(1, TEXT, "Fracture", "droit"))
    assert found[1] == "Fracture/B-DISO du/I-DISO bras/I-DISO gauche/I-DISO et/I-DISO droit/I-DISO"
    assert len(notes) == 1
    assert notes[0].startswith("1 discontinuous annotations of train")
    assert "a.ann, line 1" in notes[0]


def test_the_longest_of_annotations_that_share_a_word_is_kept(read):
    ann = (
        line(1, TEXT, "bras", type_="ANAT")
        + line(2, TEXT, "bras gauche", type_="ANAT")
        + line(3, TEXT, "bras gauche", type_="DISO")
        + line(4, TEXT, "gauche et")
        + line(5, TEXT, "droit")
    )
    found, notes = read(TEXT, ann)
    assert found[1] == "Fracture du bras/B-ANAT gauche/I-ANAT et droit/B-DISO"
    assert len(notes) == 1
    assert notes[0].startswith("3 annotations of train")
    assert "a.ann: 'bras gauche'" in notes[0]


def test_an_annotated_part_of_a_word_tags_the_word(read):
    found, notes = read("neurotoxicity and toxicity\n", "T1\tDISO 5 13\ttoxicity\n")
    assert found == ["neurotoxicity/B-DISO and toxicity"]
    found, notes = read("neurotoxicity\n", "T1\tA 5 13\ttoxicity\nT2\tB 0 5\tneuro\n")
    assert found == ["neurotoxicity/B-A"]
    assert len(notes) == 1


def test_other_annotations_are_skipped(read):
    ann = line(1, TEXT, "bras") + (
        "#1\tAnnotatorNotes T1\tC0446516\nR1\tpart_of Arg1:T1 Arg2:T1\nE1\tX:T1\nA1\tNeg T1\n"
        "M1\tNeg T1\nN1\tReference T1 X:1\tx\n*\tEquiv T1 T1\n\n"
    )
    assert read(TEXT, ann)[0][1] == "Fracture du bras/B-DISO gauche et droit"


def test_characters_and_not_bytes(read):
    text = "\U0001f600 é\u0301té fièvre\r\nune fièvre\r\n"
    place = text.rindex("fièvre")
    assert read(text, f"T1\tDISO {place} {place + 6}\tfièvre\r\n") == (
        ["\U0001f600 é\u0301té fièvre", "une fièvre/B-DISO"],
        [],
    )


def test_an_annotation_with_wrong_offsets_is_noted(read):
    _, notes = read(TEXT, "T1\tDISO 0 4\tdeux\nT2\tDISO 24 25\t\nT3\tDISO 5 8\tcas\n")
    assert len(notes) == 2
    for note, example in zip(notes, ("a.ann: '\\n'", "a.ann, line 1"), strict=True):
        assert note.startswith("1 annotations of train")
        assert example in note


@pytest.mark.parametrize(
    ("ann", "message"),
    [
        ("T1\tDISO 0 4\tDeux\nT2\tDISO 50 59\tx\n", r"a.ann, line 2: .*'50 59'"),
        ("T1\tDISO 4 4\t\n", r"line 1: .*'4 4'"),
        ("T1\tDISO 0 4;9 6\tx\n", r"line 1: .*'0 4;9 6'"),
        ("T1 DISO 0 4 Deux\n", r"line 1: .*'T1 DISO 0 4 Deux'"),
        ("T1\tDISO 0 x\tDeux\n", r"line 1: .*DISO 0 x"),
        ("\nDeux cas\n", r"line 2: .*'Deux cas'"),
        (b"T1\tDISO 0 4\tDeux \xff\n", r"line 1: .*UTF-8"),
    ],
)
def test_bad_lines_are_named(read, ann, message):
    with pytest.raises(InputError, match=message):
        read(TEXT, ann)


def test_files_without_a_counterpart(write):
    for split in ("train", "dev", "test"):
        write(f"{split}/EMEA/a.txt", TEXT)
        write(f"{split}/EMEA/a.ann", line(1, TEXT, "bras"))
        write(f"{split}/MEDLINE/b.txt", "no marks\n")
        folder = write(f"{split}/MEDLINE/c.ann", "T1\tDISO 0 2\tno\n")
    task = read_task(str(folder), TaskPlan(), seed=0)
    assert [len(task.train), len(task.dev), len(task.test)] == [2, 2, 2]
    for note, suffix, name in zip(task.notes, (".ann", ".txt"), ("c.ann", "b.txt"), strict=False):
        assert note.startswith(f"1 {suffix} files of train")
        assert name in note


def test_a_pair_for_each_split(write):
    for split in ("train", "dev", "test"):
        write(f"{split}.txt", TEXT)
        folder = write(f"{split}.ann", line(1, TEXT, "bras"))
    task = read_task(str(folder), TaskPlan(), seed=0)
    assert tagged(task, "test")[1] == "Fracture du bras/B-DISO gauche et droit"


def test_one_pair(write):
    write("one.txt", "le bras\n" * 10)
    ann = "".join(f"T{i}\tANAT {8 * i + 3} {8 * i + 7}\tbras\n" for i in range(10))
    folder = write("one.ann", ann)
    for name in ("one.txt", "one.ann"):
        task = read_task(str(folder / name), TaskPlan(), seed=0)
        assert (task.name, tagged(task, "test")) == ("one", ["le bras/B-ANAT"] * 2)


def test_a_folder_of_pairs_without_splits(write):
    for i in range(10):
        text = f"le bras numéro {i}\n"
        write(f"{i}.txt", text)
        folder = write(f"{i}.ann", line(1, text, "bras"))
    task = read_task(str(folder), TaskPlan(), seed=0)
    assert [len(task.train), len(task.dev), len(task.test)] == [7, 1, 2]
    assert "2 of 10" in task.notes[0]


def test_no_pair(write):
    with pytest.raises(EmptyInputError, match=r"train split of `task` must.*\.ann"):
        read_task(str(write("train/a.ann", "T1\tX 0 1\ta\n")), TaskPlan(), seed=0)
