"""Data sets of the papers, each in the format in which it is published; the texts are our own."""

import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.evaluation.formats import conll
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task

CHUNK = ("train", "dev", "test")


def read(place, **settings):
    return read_task(str(place), TaskPlan(**settings), seed=0)


def tagged(task, split="train"):
    examples = getattr(task, split)
    return [
        " ".join(f"{w}/{task.labels[n]}" if n else w for w, n in zip(words, labels, strict=True))
        for words, labels in zip(examples.pieces, examples.labels, strict=True)
    ]


def labelled(task, split="train"):
    examples = getattr(task, split)
    return [
        (task.labels[n], text)
        for (text,), (n,) in zip(examples.pieces, examples.labels, strict=True)
    ]


SIMONERO = """\
# sent_id = ro-1
# text = Tusea seaca se trateaza dintr-un motiv.
1\tTusea\ttuse\tNOUN\tNc\t_\t3\tnsubj\t_\tBioNERLabel=B-DISO
2\tseaca\tsec\tADJ\tAf\t_\t1\tamod\t_\tBioNERLabel=I-DISO
3\tse trateaza\ttrata\tVERB\tVm\t_\t0\troot\t_\t_
4-5\tdintr-un\t_\t_\t_\t_\t_\t_\t_\t_
4\tdintr\tdintr\tADP\tSp\t_\t6\tcase\t_\t_
5\tun\tun\tDET\tTi\t_\t6\tdet\t_\tBioNERLabel=B-ANAT
5.1\tgol\tgol\tNOUN\tNc\t_\t_\t_\t0:root\tBioNERLabel=B-PROC
6\tmotiv\tmotiv\tNOUN\tNc\t_\t3\tobl\t_\tBioNERLabel=I-ANAT|SpaceAfter=No
7\t.\t.\tPUNCT\tPE\t_\t3\tpunct\t_\t_

# sent_id = ro-2
1\tInima\tinima\tNOUN\tNc\t_\t0\troot\t_\tBioNERLabel=B-ANAT
"""


def test_conllu_of_simonero(write):
    """Tags in MISC, comments, a multi-word token with the tag of its second word, an empty node."""
    for split in CHUNK:
        folder = write(f"ro_simonero-ud-{split}.conllu", SIMONERO)
    task = read(folder)
    assert task.kind == "tagging"
    assert tagged(task) == [
        "Tusea/B-DISO seaca/I-DISO se trateaza dintr-un/B-ANAT motiv/I-ANAT .",
        "Inima/B-ANAT",
    ]
    assert tagged(read(folder, label_field="BioNERLabel")) == tagged(task)
    with pytest.raises(InputError, match=r"SpaceAfter.*label_field.*attribute"):
        read(folder, label_field="SpaceAfter")


@pytest.mark.parametrize(
    ("own", "found"),
    [
        (("O", "B-ANAT"), "din/B-ANAT os/I-ANAT"),
        (("_", "B-ANAT"), "din/B-ANAT os/I-ANAT"),
        (("B-ANAT", "I-ANAT"), "din/B-ANAT os/I-ANAT"),
        (("B-DISO", "B-ANAT"), "din/B-DISO os/B-ANAT"),
        (("O", "O"), "din os/B-ANAT"),
    ],
)
def test_a_multi_word_token_of_conllu_keeps_an_entity(write, own, found):
    """The first tag of its words that is not O; what lacks its beginning then begins by itself."""
    tags = [tag if tag == "_" else f"Label={tag}" for tag in ("_", *own, "I-ANAT")]
    words = ("1-2\tdin", "1\tdi", "2\tin", "3\tos")
    text = "".join(w + "\t_" * 7 + f"\t{tag}\n" for w, tag in zip(words, tags, strict=True))
    for split in CHUNK:
        folder = write(f"{split}.conllu", text)
    assert tagged(read(folder)) == [found]


@pytest.mark.parametrize("line", ["1\tword\tO", "x\tword" + "\t_" * 8, "0\tword" + "\t_" * 8])
def test_a_line_that_is_not_conllu(write, line):
    with pytest.raises(InputError, match=r"train\.conllu, line 2.*ten columns"):
        read(write("train.conllu", f"# a comment\n{line}\n"))


TWO_WORDS = "1\ta" + "\t_" * 7 + "\t{}\n2\tb" + "\t_" * 7 + "\t_"
"""A sentence, with attributes of its first word, that ends with the file."""


def test_a_last_sentence_of_conllu_needs_no_blank_line(write):
    for split in CHUNK:
        folder = write(f"{split}.conllu", TWO_WORDS.format("NE=B-X"))
    assert tagged(read(folder)) == ["a/B-X b"]


@pytest.mark.parametrize(("misc", "named"), [("NE=B-X|Other=I-Y", "NE, Other"), ("_", "none")])
def test_an_attribute_of_conllu_that_must_be_named(write, misc, named):
    with pytest.raises(InputError, match=rf"label_field.*train has {named}"):
        read(write("train.conllu", TWO_WORDS.format(misc)))


@pytest.mark.parametrize(
    ("name", "content"),
    [("train.conllu", "# a comment\n"), ("train.txt", "###1\n"), ("train.json", "[]")],
)
def test_a_split_without_a_sentence(write, name, content):
    with pytest.raises(EmptyInputError, match="train split"):
        read(write(name, content), kind="classification" if name == "train.txt" else "tagging")


def sheet(path, rows):
    openpyxl = pytest.importorskip("openpyxl", reason="the extra xlsx is not installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


CLINPT = [
    ("Rapaz", "prop", "rapaz", "O"),
    (19, "num", 19, "B-DT"),
    ("meses", "n", "mes", "I-DT"),
    (".", "punc", ".", "O"),
    ("Exame", "n", "exame", "B-T"),
    ("normal", "adj", "normal", "O"),
]


def test_sheets_of_clinpt(tmp_path):
    """Words and tags without a header, a file for each text; sentences end at full stops."""
    for split in CHUNK:
        sheet(tmp_path / "clinpt" / split / "PO1 pag 1.xlsx", CLINPT)
        sheet(tmp_path / "clinpt" / split / "PO2.xlsx", CLINPT[4:])
    task = read(tmp_path / "clinpt")
    assert tagged(task) == [
        "Rapaz 19/B-DT meses/I-DT .",
        "Exame/B-T normal",
        "Exame/B-T normal",
    ]


def test_sheets_with_a_header_and_blank_rows(tmp_path):
    rows = [("word", "tag"), ("a", "B-X"), (".", "O"), ("b", "O"), (), ("c", "B-X")]
    for split in CHUNK:
        sheet(tmp_path / "task" / f"{split}.xlsx", rows)
    assert tagged(read(tmp_path / "task")) == ["a/B-X . b", "c/B-X"]


@pytest.mark.parametrize("header", [("Sentence #", "Word", "POS", "Tag"), None])
def test_a_column_that_is_filled_once_a_sentence_is_none_of_words(tmp_path, header):
    rows = [
        *([header] if header else []),
        ("Sentence: 1", "City", "NN", "O"),
        (None, "of", "IN", "O"),
        (None, "London", "NNP", "B-geo"),
        (None, ".", ".", "O"),
        ("Sentence: 2", "Rain", "NN", "O"),
    ]
    for split in CHUNK:
        sheet(tmp_path / "task" / f"{split}.xlsx", rows)
    assert tagged(read(tmp_path / "task")) == ["City of London/B-geo .", "Rain"]


def test_a_sheet_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path):
    pytest.importorskip("openpyxl", reason="the extra xlsx is not installed")
    path = tmp_path / "train.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/sharedStrings.xml", bytes(64 << 20))
    with pytest.raises(InputError, match=r"train\.xlsx.*64 MiB.*\.conll"):
        read(path)


_CELL = '<row r="{row}"><c r="{column}{row}"><v>1</v></c></row>'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('ref="A1:B2"', 'ref="A1:XFD1048576"', ""),
        ('ref="A1:B2"', 'ref="A1"', ""),
        (
            "</sheetData>",
            _CELL.format(row=10**12, column="A") + "</sheetData>",
            "at most 1,000 rows",
        ),
        (
            "</sheetData>",
            "".join(_CELL.format(row=row, column="ZZZ") for row in range(3, 80)) + "</sheetData>",
            "cells and characters",
        ),
        ("<sheetData>", "<sheetData", "cannot be read"),
        ("<v>", '<!DOCTYPE a [<!ENTITY a "a">]><v>', "cannot be read"),
    ],
    ids=["states too many cells", "states too few", "last row", "wide", "damaged", "entity"],
)
def test_a_sheet_that_lies(tmp_path, monkeypatch, old, new, said):
    """It is read by its cells, within the memory that its size allows."""
    monkeypatch.setattr(conll, "_FREE", 1 << 20)
    monkeypatch.setattr(conll, "_ROWS", 1000)
    path = tmp_path / "task/train.xlsx"
    sheet(path, [("word", 1), ("a", "O")])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    inner = "xl/worksheets/sheet1.xml"
    assert old in parts[inner].decode()
    parts[inner] = parts[inner].decode().replace(old, new, 1).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    if said:
        with pytest.raises(InputError, match=rf"train\.xlsx .*{said}.*\.conll"):
            conll.read_xlsx([path], "train")
    else:
        assert len(conll.read_xlsx([path], "train")) == 1


def test_sheets_that_hold_no_tags(tmp_path):
    sheet(tmp_path / "train.xlsx", [("a", "B-X"), ("b", "name"), ()])
    with pytest.raises(InputError, match=r"train\.xlsx, row 2: the last cell must be a tag.*name"):
        read(tmp_path / "train.xlsx")
    sheet(tmp_path / "train.xlsx", [("word", "tag"), (" ",), ()])
    with pytest.raises(EmptyInputError, match="train split"):
        read(tmp_path / "train.xlsx")


def test_a_file_that_is_no_workbook(write):
    pytest.importorskip("openpyxl", reason="the extra xlsx is not installed")
    with pytest.raises(InputError, match=r"train\.xlsx cannot be read"):
        read(write("train.xlsx", "word,O\n"))


def test_csv_of_10kgnad(write):
    """Separator `;`, quote `'`, no header; double quotes are text."""
    rows = [
        'Sport;Ein "Tor" fiel, spaet\n',
        "Wirtschaft;'Kurse; \"fest\", sagt''s wer\nund faellt'\n",
        "Kultur;Neues Stueck\n",
    ]
    for split in ("train", "test"):
        folder = write(f"{split}.csv", "".join(rows * 4))
    write("articles.csv", "".join(rows))
    task = read(folder, separator=";", quote="'", columns="label,text")
    assert labelled(task, "test")[:3] == [
        ("Sport", 'Ein "Tor" fiel, spaet'),
        ("Wirtschaft", 'Kurse; "fest", sagt\'s wer\nund faellt'),
        ("Kultur", "Neues Stueck"),
    ]
    assert [len(task.train) + len(task.dev), len(task.test)] == [12, 12]


QUAERO = "Traitement par insuline du diabete\nEffet sur le bras gauche et droit\n"
CONCEPTS = """\
T1\tPROC 0 10\tTraitement
#1\tAnnotatorNotes T1\tC0087111
T2\tCHEM 15 23\tinsuline
#2\tAnnotatorNotes T2\tC0021641
T3\tPROC 0 23\tTraitement par insuline
#3\tAnnotatorNotes T3\tC0557978
T4\tANAT 48 52;63 68\tbras droit
#4\tAnnotatorNotes T4\tC0230347
"""


def test_brat_of_quaero(write):
    """Two folders in each split, concepts as notes, nested and discontinuous entities, settings of
    brat, files without an entity."""
    for split in CHUNK:
        for source in ("EMEA", "MEDLINE"):
            write(f"corpus/{split}/{source}/1_1.txt", QUAERO)
            write(f"corpus/{split}/{source}/1_1.ann", CONCEPTS)
            write(f"corpus/{split}/{source}/annotation.conf", "[entities]\nANAT\n")
        write(f"corpus/{split}/MEDLINE/2_2.txt", "Un titre\n")
        folder = write(f"corpus/{split}/MEDLINE/2_2.ann", "")
    write("README.txt", "The corpus")
    task = read(folder / "corpus")
    lines = [
        "Traitement/B-PROC par/I-PROC insuline/I-PROC du diabete",
        "Effet sur le bras/B-ANAT gauche/I-ANAT et/I-ANAT droit/I-ANAT",
    ]
    assert tagged(task) == [*lines, *lines, "Un titre"]
    assert any("discontinuous" in note for note in task.notes)


BIORO = (
    ("Pacienții tratați cu metformină. Ecografia tiroidiană arată guşă.", "metformină CHEM"),
    ("Glanda tiroidă este mărită. Se recomandă tiroidectomie totală.", "Glanda tiroidă ANAT"),
    ("Fără semne de tireotoxicoză. Ținta este sub 6,5 %.", "tireotoxicoză DISO"),
    ("S-a efectuat o coronarografie. Rezultatul e normal.", "coronarografie PROC"),
    ("Nivelul de HbA1c scade după insulină. Dozele rămân.", "HbA1c CHEM"),
)


def test_brat_of_bioro(write):
    """Romanian texts of one line in one folder, with the four classes of mDAPT's Table 2; without
    line breaks sentences end at full stops, and characters of two bytes count once."""
    for i, (text, entity) in enumerate(BIORO):
        words, _, kind = entity.rpartition(" ")
        begin = text.index(words)
        write(f"med_{i}.txt", text)
        folder = write(f"med_{i}.ann", f"T1\t{kind} {begin} {begin + len(words)}\t{words}\n")
    task = read(folder, dev_share=0.2, test_share=0.2)
    assert [len(task.train), len(task.dev), len(task.test)] == [6, 2, 2]
    assert not any("another text" in note for note in task.notes)
    assert {sentence for split in CHUNK for sentence in tagged(task, split) if "/" in sentence} == {
        "Pacienții tratați cu metformină/B-CHEM .",
        "Glanda/B-ANAT tiroidă/I-ANAT este mărită .",
        "Fără semne de tireotoxicoză/B-DISO .",
        "S - a efectuat o coronarografie/B-PROC .",
        "Nivelul de HbA/B-CHEM 1/I-CHEM c/I-CHEM scade după insulină .",
    }


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_brat_whose_offsets_do_not_count_the_line_ends_of_windows(write, mark):
    for split in CHUNK:
        write(f"{split}/a.txt", mark + QUAERO.replace("\n", "\r\n"))
        folder = write(f"{split}/a.ann", mark + CONCEPTS.replace("\n", "\r\n"))
    task = read(folder)
    assert tagged(task)[1].startswith("Effet sur le bras/B-ANAT gauche/I-ANAT")
    assert not any("another text" in note for note in task.notes)


NAMES = ("O", "B-Disease", "I-Disease")
NUMBERED = [
    {"id": "0", "tokens": ["Colon", "cancer", "is", "here"], "ner_tags": [1, 2, 0, 0]},
    {"id": "1", "tokens": ["No", "gout"], "ner_tags": [0, 1]},
    {"id": "2", "tokens": [], "ner_tags": []},
]
WORDS = ["Colon/B-Disease cancer/I-Disease is here", "No gout/B-Disease"]
FIELDS = {"text_field": "tokens", "label_field": "ner_tags"}


@pytest.mark.parametrize("suffix", ["json", "array.json", "jsonl", "parquet"])
@pytest.mark.parametrize("kind", ["auto", "tagging"])
def test_rows_of_tokens_and_tag_numbers(write, suffix, kind):
    lines = "".join(json.dumps(row) + "\n" for row in NUMBERED)
    for split in CHUNK:
        folder = write(f"{split}.x", "")
        path = folder / f"{split}.{suffix.rpartition('.')[2]}"
        if suffix == "parquet":
            pq.write_table(pa.Table.from_pylist(NUMBERED), path)
        else:
            path.write_text(json.dumps(NUMBERED) if suffix == "array.json" else lines)
    task = read(folder, kind=kind, label_names=", ".join(NAMES), **FIELDS)
    assert tagged(task) == WORDS
    with pytest.raises(InputError, match=r"names none.*task\.label_names"):
        read(folder, kind=kind, **FIELDS)


def test_names_in_the_features_of_a_dataset(write):
    """As `datasets` writes them into Parquet, with and without the library to read them."""
    datasets = pytest.importorskip("datasets", reason="the extra hub is not installed")
    names = datasets.ClassLabel(names=list(NAMES))
    features = datasets.Features(
        id=datasets.Value("string"),
        tokens=datasets.List(datasets.Value("string")),
        ner_tags=datasets.List(names),
    )
    for split in ("train", "validation", "test"):
        folder = write(f"{split}.x", "")
        (folder / f"{split}.x").unlink()
        datasets.Dataset.from_list(NUMBERED, features=features).to_parquet(
            folder / f"{split}.parquet"
        )
    assert tagged(read(folder, **FIELDS)) == WORDS
    for kind in ("auto", "tagging"):
        assert tagged(read(f"hub:{folder}", kind=kind, **FIELDS)) == WORDS


def test_tags_and_words_of_unequal_number(write):
    folder = write("train.json", json.dumps([{"tokens": ["a", "b"], "ner_tags": ["O"]}]))
    with pytest.raises(InputError, match=r"row 0: must have as many tags in 'ner_tags'"):
        read(folder, **FIELDS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train.json", '[{"tokens": ["a"', "a JSON list of rows or JSON lines"),
        ("train.jsonl", "3\n[1, 2]\n", "every row must be a JSON object"),
        ("train.parquet", "PAR1 and no more", "cannot be read"),
    ],
)
def test_files_of_tokens_that_are_broken(write, name, content, said):
    with pytest.raises(InputError, match=rf"{name}.*{said}"):
        read(write(name, content), kind="tagging", **FIELDS)


RCT = """\
###24293578
OBJECTIVE\tTo see whether it rains .
METHODS\tA total of 12 days were seen .
RESULTS\tIt did\ttwice .

###24854809
BACKGROUND\tRain is wet .
"""


def test_text_of_rct(write):
    """Every sentence of an abstract is an example (TADPOLE, Table 2: RCT20k has 5 classes)."""
    for split in CHUNK:
        folder = write(f"{split}.txt", RCT)
    task = read(folder)
    assert task.kind == "classification"
    assert labelled(task) == [
        ("OBJECTIVE", "To see whether it rains ."),
        ("METHODS", "A total of 12 days were seen ."),
        ("RESULTS", "It did\ttwice ."),
        ("BACKGROUND", "Rain is wet ."),
    ]
    with pytest.raises(InputError, match=r"train\.txt, line 2"):
        read(write("train.txt", "###1\nno tab\n"))
    with pytest.raises(UsageError, match="kind"):
        read(folder, kind="tagging")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_line_feeds_end_a_line_of_rct(write, inside, end):
    sentence = f"12{inside}days were dry ."
    for split in CHUNK:
        folder = write(f"{split}.txt", f"###1{end}A\t{sentence}{end}B\tdry .{end}{end}")
    assert labelled(read(folder)) == [("A", sentence), ("B", "dry .")]


def test_rows_of_helpfulness(write):
    """JSON lines of a review and its label, as Gururangan et al. (2020) released them."""
    rows = [{"text": f"review {i}", "label": ("helpful", "unhelpful")[i % 2]} for i in range(4)]
    for split in CHUNK:
        folder = write(f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    task = read(folder)
    assert labelled(task) == [(row["label"], row["text"]) for row in rows]
    assert task.labels == ("helpful", "unhelpful")
