"""Tasks in CoNLL columns."""

import lzma

import pytest

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task

SENTENCES = [
    [("#", "O"), ("EU", "B-ORG"), ("rejects", "O")],
    [("Peter", "B-PER"), ("Blackburn", "I-PER")],
    [("BRUSSELS", "B-LOC"), ("1996-08-22", "O")],
]


def conll(sentences, sep="\t", end="\n"):
    lines = [end.join(sep.join((w, "NN", t)) for w, t in s) + end for s in sentences]
    return f"-DOCSTART- -X- O{end}{end}" + end.join(lines)


def read(folder, **settings):
    return read_task(str(folder), TaskPlan(**settings), seed=0)


def sentences(task, split):
    examples = getattr(task, split)
    return [
        list(zip(words, (task.labels[n] for n in labels), strict=True))
        for words, labels in zip(examples.pieces, examples.labels, strict=True)
    ]


def three(write, text, name="conll"):
    for split in ("train", "dev", "test"):
        folder = write(f"{split}.{name}", text)
    return folder


@pytest.mark.parametrize("sep", ["\t", " ", "  \t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sentences_are_read(write, sep, end):
    if sep == "  \t":
        text = conll(SENTENCES, " ", end).replace(" ", "   ")
    else:
        text = conll(SENTENCES, sep, end)
    task = read(three(write, "\ufeff" + text))
    assert task.kind == "tagging"
    assert task.labels == ("O", "B-LOC", "B-ORG", "B-PER", "I-PER")
    assert [sentences(task, s) for s in ("train", "dev", "test")] == [SENTENCES] * 3
    assert (task.learnable, task.notes) == (5, ())


@pytest.mark.parametrize("begin", [0, 1])
def test_a_first_column_that_counts_is_none_of_words(write, begin):
    """As NeuroNLP2 and GermEval 2014 have it."""
    lines = []
    for sentence in SENTENCES:
        rows = enumerate(sentence, begin)
        lines += [*(f"{number} {word} NN {tag}\n" for number, (word, tag) in rows), "\n"]
    task = read(three(write, "".join(lines)))
    assert [sentences(task, s) for s in ("train", "dev", "test")] == [SENTENCES] * 3
    assert len(task.notes) == 3
    numbers = [[("1", "O"), ("EU", "B-ORG")], [("1", "O"), ("rejects", "O")]]
    assert sentences(read(three(write, conll(numbers))), "train") == numbers


def test_other_names_and_archives(write):
    write("train.iob2.xz", lzma.compress(conll(SENTENCES).encode()))
    write("valid.txt", conll(SENTENCES))
    task = read(write("test.bio", conll(SENTENCES)))
    assert [sentences(task, s) for s in ("train", "dev", "test")] == [SENTENCES] * 3


def test_a_tsv_file_with_tags_of_no_type(write):
    folder = three(write, "Huntington\tB\ndisease\tI\n\nfree\tO\nof\tI\n", "tsv")
    task = read(folder, kind="tagging")
    assert sentences(task, "test") == [
        [("Huntington", "B-_"), ("disease", "I-_")],
        [("free", "O"), ("of", "B-_")],
    ]
    assert task.notes[0].startswith("Entities of train")
    with pytest.raises(EmptyInputError, match=r"Set the fields with `task\.text_field"):
        read(folder)


def test_words_keep_other_white_space_than_tabs(write):
    task = read(three(write, "a\u00a0b c\tB-X\n\u2028\tO\n"))
    assert task.test.pieces == [["a\u00a0b c", "\u2028"]]


def test_words_of_other_languages_are_read_exactly(write):
    """As in PharmaCoNER: accents, precomposed or combining, ordinals, and symbols as words."""
    spanish = [
        [("Niño", "O"), ("de", "O"), ("10", "O"), ("an\u0303os", "O"), (",", "O"), ("2ª", "O")],
        [("α", "B-PROTEINAS"), ("-", "I-PROTEINAS"), ("fetoproteína", "I-PROTEINAS"), ("º", "O")],
        [("гепарин", "B-NORMALIZABLES"), ("肝素", "B-NORMALIZABLES"), ("¿", "O"), ("µg", "O")],
    ]
    task = read(three(write, conll(spanish)))
    assert [sentences(task, s) for s in ("train", "dev", "test")] == [spanish] * 3
    assert task.labels == ("O", "B-NORMALIZABLES", "B-PROTEINAS", "I-PROTEINAS")
    assert task.notes == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a NN O\n\nb O\n", r"train.conll, line 3: .* 3 columns.*got 2: 'b O'"),
        ("a\tO\nb c\tO\td\n", r"line 2: .* 2 columns.*got 3"),
        ("-DOCSTART- O\n\na\nb\n", r"line 3: .*got 1: 'a'"),
        ("# sent_id = 1\na O\n", r"line 1: .*'# sent_id = 1'"),
        ("a O\nb PER\n", r"line 2: .*'b PER'"),
        ("a\tO\n\tO\n", r"line 2: .*word"),
        (b"a O\nb\xff O\n", r"line 2: .*UTF-8"),
    ],
)
def test_wrong_lines_are_named(write, text, message):
    write("test.conll", conll(SENTENCES))
    with pytest.raises(InputError, match=message):
        read(write("train.conll", text))


def test_a_truncated_archive(write):
    write("test.conll", conll(SENTENCES))
    folder = write("train.conll.xz", lzma.compress(conll(SENTENCES).encode())[:-20])
    with pytest.raises(InputError, match=r"train\.conll\.xz .*truncated \.xz"):
        read(folder)


def test_no_sentence(write):
    write("train.conll", conll(SENTENCES))
    with pytest.raises(EmptyInputError, match=r"test split of `task` must"):
        read(write("test.conll", "-DOCSTART- O\n\n"))


def test_no_entity(write):
    with pytest.raises(InputError, match=r"^`task\b.*train.* O\b"):
        read(three(write, "a O\n\nb O\n"))


def test_iob1_is_found_over_all_splits(write):
    write("train.conll", "a I-X\nb B-X\nc O\n")
    write("dev.conll", "a I-X\nb I-Y\n")
    task = read(write("test.conll", "a O\nb I-X\nc I-X\n"))
    assert task.labels == ("O", "B-X", "B-Y", "I-X")
    assert task.learnable == 2
    assert "IOB1" in task.notes[0]
    assert sentences(task, "test") == [[("a", "O"), ("b", "B-X"), ("c", "I-X")]]


def test_an_i_without_b_becomes_one(write):
    write("train.conll", "a B-X\nb O\nc I-X\n")
    write("dev.conll", "a B-X\n")
    task = read(write("test.conll", "a O\nb B-X\n"))
    assert sentences(task, "train") == [[("a", "B-X"), ("b", "O"), ("c", "B-X")]]
    assert len(task.notes) == 1
    assert task.notes[0].startswith("Entities of train")


def test_labels_missing_from_train(write):
    write("train.conll", "a B-X\n")
    write("dev.conll", "a B-X\n")
    task = read(write("test.conll", "a B-A\nb I-A\n\nc B-X\n"))
    assert (task.labels, task.learnable) == (("O", "B-X", "B-A", "I-A"), 2)
    assert len(task.notes) == 1
    assert task.notes[0].startswith("test has 2 labels")
    assert "'B-A', 'I-A' (1 of 2 examples)" in task.notes[0]


def test_the_wrong_kind(write):
    with pytest.raises(UsageError, match=r"task.kind.*tagging.*'classification'"):
        read(three(write, conll(SENTENCES)), kind="classification")
