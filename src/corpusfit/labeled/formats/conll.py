"""Read annotated sentences from lines: CoNLL columns, CoNLL-U."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.labeled.formats import Labeled, lines_of

_BLANKS = re.compile(r"[ \t]+")
TAG = re.compile(r"O|[BIESLU](?:-.*)?")  # A tag of an entity
_DOCUMENT = "-DOCSTART-"
_NO_TYPE = "_"  # seqeval's name


def read_conll(places: Sequence[str], split: str) -> Labeled:
    """Read the sentences of a split, with the tags as written; a bare `B` has the type `_`.

    Reference: https://www.clips.uantwerpen.be/conll2003/ner
    """
    # The first column is the word, the last its tag. Columns are separated by tabs if the first
    # line has one, otherwise by blanks. Lines that begin with -DOCSTART- are skipped. Comments are
    # not supported, because `#` is a word in many texts. A first column that counts the words of
    # each sentence is none of words.
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    notes: tuple[str, ...] = ()
    for file in places:
        first: list[list[str]] = []
        second: list[list[str]] = []
        _read(Path(file), first, second, tags)
        counted = all(
            words in (list(map(str, range(begin, begin + len(words)))) for begin in (0, 1))
            for words in first
        )
        if counted and any(second):
            notes = (f"The first column of {split} counts words; they are in the second.",)
            first = second
        pieces += first
    return dataclasses.replace(Labeled.of_sentences(split, pieces, tags), notes=notes)


def read_tagged_text(places: Sequence[str], split: str) -> Labeled | None:
    """`read_conll` of files that may be plain text; None if they are.

    Of lines without tabs, as "vitamin B" could be one, some must end in O, and others in a tag with
    a type, or in B before one in I.
    """
    try:
        labeled = read_conll(places, split)
    except InputError:
        return None
    plain = f"-{_NO_TYPE}"
    tags = [tag for of_sentence in labeled.labels for tag in of_sentence]
    typed = any(tag != "O" and not tag.endswith(plain) for tag in tags)
    continued = any(pair == (f"B{plain}", f"I{plain}") for pair in itertools.pairwise(tags))
    tabs = any("\t" in line for place in places for _, line in lines_of(Path(place)))
    return labeled if tabs or ("O" in tags and (typed or continued)) else None


def _read(
    path: Path, words: list[list[str]], second: list[list[str]], tags: list[list[str]]
) -> None:
    """Append a file's sentences: the first column, the second where it is not the last, tags."""
    first = 0
    width = 0
    between = True
    tabs = False
    for number, line in lines_of(path):
        if not line.strip(" \t") or line.startswith(_DOCUMENT):
            between = True
            continue
        tabs = tabs if first else "\t" in line
        columns = line.split("\t") if tabs else _BLANKS.split(line.strip(" \t"))
        if not first:
            first = number
            width = len(columns)
        if len(columns) != width or width < 2:
            allowed = f"{width} columns, as line {first} has" if width > 1 else "a word and its tag"
            raise InputError(
                f"{path}, line {number}: must have {allowed}; got {len(columns)}: "
                f"{' '.join(columns)[:60]!r}. Separate sentences by blank lines."
            )
        word = columns[0].strip(" ")
        tag = columns[-1].strip(" ")
        if not word or not TAG.fullmatch(tag):
            fault = "last column must be a tag such as O, B-NAME or I-NAME"
            fault = fault if word else "first column must be a word"
            raise InputError(f"{path}, line {number}: the {fault}; got {line[:60]!r}.")
        if between:
            words.append([])
            second.append([])
            tags.append([])
        between = False
        words[-1].append(word)
        second[-1] += [columns[1].strip(" ")] * (width > 2)
        tags[-1].append(with_type(tag))


def with_type(tag: str) -> str:
    """A tag with the type `_` if it has none."""
    return tag if "-" in tag or tag == "O" else f"{tag}-{_NO_TYPE}"


# columns of CoNLL-U by number, and how many there are
_ID = 0
_FORM = 1
_MISC = 9
_COLUMNS = 10
_NUMBER = re.compile(r"0\.\d+|[1-9]\d*(?:-(\d+)|\.\d+)?")
_ANY = "label"  # The default of `task.label_field`: the only attribute whose values are tags
_Sentence = list[tuple[str, dict[str, str]]]  # Words with the attributes of MISC


def read_conllu(places: Sequence[str], split: str, field: str = _ANY) -> Labeled:
    """Read the sentences of a split; a word without the attribute is O.

    Reference: https://universaldependencies.org/format.html; UD Romanian SiMoNERo
    (`BioNERLabel=B-DISO`).
    """
    # Comments and empty nodes are skipped. A multi-word token is one word, as it stands in the
    # text, with the first tag of its syntactic words that is not O.
    sentences = [sentence for file in places for sentence in _sentences(Path(file))]
    if not sentences:
        raise EmptyInputError(f"The {split} split of `task` must hold sentences; it is empty.")
    if field == _ANY:
        field = _only_attribute(sentences, split)
    pieces = [[word for word, _ in sentence] for sentence in sentences]
    tags = [[misc.get(field, "O") for _, misc in sentence] for sentence in sentences]
    wrong = {tag for of_sentence in tags for tag in of_sentence if not TAG.fullmatch(tag)}
    if wrong:
        raise InputError(
            f"The attribute {field} in MISC of {split} must be a tag such as O, B-NAME or I-NAME; "
            f"got {min(wrong)!r}. Set `task.label_field` to the attribute with the tags."
        )
    return Labeled(pieces, [list(map(with_type, of_sentence)) for of_sentence in tags])


def _sentences(path: Path) -> Iterator[_Sentence]:
    sentence: _Sentence = []
    last = 0  # the last syntactic word of the multi-word token that is open
    for number, line in lines_of(path):
        if line.startswith("#"):
            continue
        if not line.strip():
            if sentence:
                yield sentence
            sentence = []
            last = 0
            continue
        columns = line.split("\t")
        id_match = _NUMBER.fullmatch(columns[_ID])
        if len(columns) != _COLUMNS or not id_match:
            raise InputError(
                f"{path}, line {number}: must have the ten columns of CoNLL-U, the first a number; "
                f"got {line[:60]!r}."
            )
        misc = dict(part.split("=", 1) for part in columns[_MISC].split("|") if "=" in part)
        if "." in columns[_ID]:
            continue
        if id_match[1] is None and int(columns[_ID]) <= last:
            whole = sentence[-1][1]
            whole.update((n, v) for n, v in misc.items() if whole.get(n, "O") == "O")
            continue
        last = int(id_match[1] or last)
        sentence.append((columns[_FORM], misc))
    if sentence:
        yield sentence


def _only_attribute(sentences: Sequence[_Sentence], split: str) -> str:
    """The attribute whose values are all tags of entities."""
    values: dict[str, set[str]] = {}
    for sentence in sentences:
        for _, misc in sentence:
            for name, value in misc.items():
                values.setdefault(name, set()).add(value)
    fitting = [n for n, tags in sorted(values.items()) if all(map(TAG.fullmatch, tags))]
    if len(fitting) != 1:
        raise InputError(
            f"`task.label_field` must name the attribute in MISC with the tags; {split} has "
            f"{', '.join(sorted(values)) or 'none'}. For example `task.label_field=BioNERLabel`."
        )
    return fitting[0]
