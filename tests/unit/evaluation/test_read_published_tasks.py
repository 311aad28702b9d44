"""Data sets of the papers, each in the format in which it is published; the texts are our own."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
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
    ("name", "content"), [("train.conllu", "# a comment\n"), ("train.json", "[]")]
)
def test_a_split_without_a_sentence(write, name, content):
    with pytest.raises(EmptyInputError, match="train split"):
        read(write(name, content), kind="tagging")


@pytest.mark.parametrize("name", ["train.xlsx", "train/CC1.xlsx"])
def test_a_workbook_is_refused_with_what_to_save(write, name):
    with pytest.raises(InputError, match=r"\.xlsx.*tab-separated.*\.conll"):
        read(write(name, "word,O\n"))


def test_words_in_a_tsv_are_refused_with_its_other_name(write):
    with pytest.raises(InputError, match=r"train split.*\.conll"):
        read(write("train.tsv", "Colon\tB\ncancer\tI\n\n"))


def test_splits_that_are_named_in_two_ways_are_refused(write):
    """Or test would be drawn from train, beside the folder that has it."""
    write("test-set_1.1/a.conll", "a\tO\n")
    write("test-notes.txt", "about")
    with pytest.raises(InputError, match=r"train\.conll and test-set_1\.1.*to test,"):
        read(write("train.conll", "a\tO\n\n" * 9))


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


def test_rows_of_helpfulness(write):
    """JSON lines of a review and its label, as Gururangan et al. (2020) released them."""
    rows = [{"text": f"review {i}", "label": ("helpful", "unhelpful")[i % 2]} for i in range(4)]
    for split in CHUNK:
        folder = write(f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    task = read(folder)
    assert labelled(task) == [(row["label"], row["text"]) for row in rows]
    assert task.labels == ("helpful", "unhelpful")


def imdb(write, *splits, classes=("neg", "pos")):
    """The Large Movie Review Dataset: a folder for each class, and lists beside them."""
    for split in splits:
        for name in (*classes, "unsup") if split == "train" else classes:
            for i in range(4):
                write(f"aclImdb/{split}/{name}/{i}_7.txt", f"{split} {name} {i}<br /><br />And.\n")
            write(f"aclImdb/{split}/urls_{name}.txt", "title/tt0064354/usercomments\n")
        write(f"aclImdb/{split}/labeledBow.feat", "9 0:9 1:1\n")
    write("aclImdb/imdb.vocab", "the\nand\n")
    return write("aclImdb/README", "Large Movie Review Dataset v1.0\n") / "aclImdb"


def test_folders_of_classes_of_imdb(write):
    """The folder names the class; reviews without a label and lists of addresses are none."""
    folder = imdb(write, "train", "test")
    write("aclImdb/train/pos/9_10.txt", " \n")
    task = read(folder, dev_share=0.25)
    assert task.kind == "classification"
    assert [len(getattr(task, split)) for split in CHUNK] == [6, 2, 8]
    assert labelled(task, "test") == [
        (name, f"test {name} {i}<br /><br />And.") for name in ("neg", "pos") for i in range(4)
    ]
    counts = ["4 .txt files of train", "3 .txt files of train", "1 .txt files of train"]
    assert [note.split(" were")[0] for note in task.notes[:4]] == [*counts, "2 .txt files of test"]
    assert labelled(read(folder.parent, dev_share=0.25), "test") == labelled(task, "test")
    assert labelled(read(folder, kind="classification"), "test") == labelled(task, "test")
    with pytest.raises(UsageError, match=r"kind.*classification for"):
        read(folder, kind="regression")


def test_folders_of_columns_are_no_classes(write):
    for split in CHUNK:
        for name in ("EMEA", "MEDLINE"):
            folder = write(f"{split}/{name}/a.txt", f"{name}\tB-X\nword\tO\n")
    assert tagged(read(folder)) == ["EMEA/B-X word", "MEDLINE/B-X word"]
    write("train/EMEA/README.txt", "Texts of an agency.\n")
    with pytest.raises(InputError, match=r"README\.txt, line 1"):
        read(folder)


@pytest.mark.parametrize("half", ["train", "test"])
def test_a_half_of_folders_of_classes(write, half):
    """One class alone is of an archive that was unpacked in part."""
    folder = imdb(write, *({"train", "test"} - {half}))
    imdb(write, half, classes=("neg",))
    with pytest.raises(InputError, match=f"{half} split.*'neg' alone"):
        read(folder)


def test_a_split_of_folders_of_classes_that_is_empty(write):
    folder = imdb(write, "train", "test")
    for path in (*folder.glob("test/neg/*"), *folder.glob("test/pos/*")):
        path.write_text("")
    with pytest.raises(EmptyInputError, match="test split"):
        read(folder)


def test_a_class_in_another_encoding(write):
    folder = imdb(write, "train", "test")
    write("aclImdb/test/pos/3_7.txt", "Ein schöner Film".encode("latin-1"))
    with pytest.raises(InputError, match=r"pos/3_7\.txt, line 1.*iconv"):
        read(folder)


def pharmaconer(write, *splits, root="pharmaconer"):
    """Its archive: offsets of entities in subtrack1, codes of the texts in subtrack2."""
    for split in splits:
        inner = f"{root}/{split}-set_1.1/{split}"
        write(f"{inner}/subtrack1/S0004.txt", f"Con atenolol {split}.\n")
        write(f"{inner}/subtrack1/S0004.ann", "T1\tNORMALIZABLES 4 12\tatenolol\n")
        folder = write(f"{inner}/subtrack2/S0004.tsv", "S0004\t387506000\n")
    return folder


def test_the_archive_of_pharmaconer(write):
    """Names that hold a split's, a folder around them, and codes of another subtrack."""
    folder = pharmaconer(write, *CHUNK)
    for place in (folder, folder / "pharmaconer"):
        task = read(place)
        assert [tagged(task, split) for split in CHUNK] == [
            [f"Con atenolol/B-NORMALIZABLES {split} ."] for split in CHUNK
        ]
        assert [note.split(" were")[0] for note in task.notes] == [
            f"1 files of {split}" for split in CHUNK
        ]


def test_the_files_of_pharmaconer_on_the_hub(write):
    for split in CHUNK:
        lines = (
            f"Con\tS0004\t0_3\tO\natenolol\tS0004\t4_12\tB-NORMALIZABLES\n{split}\tS0004\t1_2\tO\n"
        )
        folder = write(f"{split}-set_1.1.conll", lines)
    write("pharmaconer.py", "import datasets\n")
    assert tagged(read(folder), "test") == ["Con atenolol/B-NORMALIZABLES test"]


def test_a_folder_too_many(write):
    """The background set of PharmaCoNER has no entities, and is no test."""
    pharmaconer(write, *CHUNK)
    folder = write("pharmaconer/test-background-set/S1.txt", "Un texto.\n")
    with pytest.raises(InputError, match=r"test-background-set, test-set_1\.1"):
        read(folder)


def test_a_split_of_its_own_name_comes_first(write):
    """Longer names count where none is just that of the split."""
    for split in CHUNK:
        write(f"{split}.csv", "text,label\n" + "".join(f"{split} {i},{i % 2}\n" for i in range(4)))
        folder = write(f"{split}_old.csv", "text,label\nold,7\n")
    assert [len(getattr(read(folder), split)) for split in CHUNK] == [4, 4, 4]


def test_quaero_from_a_folder_higher(write):
    for split in CHUNK:
        for source in ("EMEA", "MEDLINE"):
            write(f"QUAERO_FrenchMed/corpus/{split}/{source}/1.txt", f"insuline {split}\n")
            write(f"QUAERO_FrenchMed/corpus/{split}/{source}/1.ann", "T1\tCHEM 0 8\tinsuline\n")
    folder = write("QUAERO_FrenchMed/README.txt", "The corpus\n")
    for place in (folder, folder / "QUAERO_FrenchMed", folder / "QUAERO_FrenchMed" / "corpus"):
        assert tagged(read(place), "test") == ["insuline/B-CHEM test"] * 2


def test_splits_in_several_folders(write):
    """Entities of all splits at once would be training examples."""
    for source in ("EMEA", "MEDLINE"):
        for split in CHUNK:
            write(f"{source}/{split}/1.txt", "insuline\n")
            folder = write(f"{source}/{split}/1.ann", "T1\tCHEM 0 8\tinsuline\n")
    with pytest.raises(InputError, match="EMEA/dev, EMEA/test, EMEA/train, MEDLINE/dev"):
        read(folder)


def test_csv_of_ag_news(write):
    """Class, title and description in quotes without a header, and a list of the classes."""
    for split, n in (("train", 24), ("test", 4)):
        rows = (f'"{i % 4 + 1}","Title {i}","He said ""{split}""\\ now"\n' for i in range(n))
        write(f"{split}.csv", "".join(rows))
    folder = write("classes.txt", "World\nSports\nBusiness\nSci/Tech\n")
    settings = {"columns": "label,title,description", "text_field": "{title} {description}"}
    task = read(folder, dev_share=1 / 6, **settings)
    assert [len(getattr(task, split)) for split in CHUNK] == [20, 4, 4]
    assert labelled(task, "test")[1] == ("2", 'Title 1 He said "test"\\ now')


def test_the_test_of_glue_has_no_labels(write):
    """It is refused with what to do; with dev in its place dev is drawn from train."""
    for split in ("train", "dev"):
        rows = "".join(f"a {split} film {i} \t{i % 2}\n" for i in range(10))
        write(f"{split}.tsv", f"sentence\tlabel\n{rows}")
    folder = write("test.tsv", "index\tsentence\n0\ta film \n1\tno film\n")
    with pytest.raises(EmptyInputError, match=r"test split.*missing field 'label'.*rename dev"):
        read(folder, text_field="sentence")
    (folder / "dev.tsv").replace(folder / "test.tsv")
    task = read(folder, text_field="sentence")
    assert [len(getattr(task, split)) for split in CHUNK] == [9, 1, 10]


@pytest.mark.parametrize("names", ["", "negative,positive"])
def test_a_test_whose_labels_are_those_of_no_class(write, names):
    """As the hub has GLUE's, and no test at all is evaluated on nothing."""
    for split in CHUNK:
        rows = (
            {"text": f"{split} {i}", "label": -1 if split == "test" else i % 2} for i in range(4)
        )
        folder = write(f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"test .*-1.*rename dev"):
        read(folder, label_names=names)
