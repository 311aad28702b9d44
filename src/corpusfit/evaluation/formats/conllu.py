"""Read CoNLL-U: a tag for each word in the column MISC, as in SiMoNERo."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.evaluation.formats.conll import TAG, with_type
from corpusfit.evaluation.formats.labelled import Labelled, lines_of

_ID, _FORM, _MISC, _COLUMNS = 0, 1, 9, 10
_NUMBER = re.compile(r"0\.\d+|[1-9]\d*(?:-(\d+)|\.\d+)?")
_ANY = "label"  # The default of `task.label_field`: the only attribute whose values are tags
_Sentence = list[tuple[str, dict[str, str]]]  # Words with the attributes of MISC


def read_conllu(places: Sequence[str], split: str, field: str = _ANY) -> Labelled:
    """Read the sentences of a split; a word without the attribute is O.

    Reference: https://universaldependencies.org/format.html; UD Romanian SiMoNERo
    (`BioNERLabel=B-DISO`).
    """
    # Comments and empty nodes are skipped. A multi-word token is one word, as it stands in the
    # text, with the first tag of its syntactic words that is not O.
    sentences = [sentence for place in places for sentence in _sentences(Path(place))]
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
    return Labelled(pieces, [list(map(with_type, of_sentence)) for of_sentence in tags])


def _sentences(path: Path) -> Iterator[_Sentence]:
    sentence: _Sentence = []
    last = 0  # the last syntactic word of the multi-word token that is open
    for number, line in lines_of(path):
        if line.startswith("#"):
            continue
        if not line.strip():
            if sentence:
                yield sentence
            sentence, last = [], 0
            continue
        columns = line.split("\t")
        of = _NUMBER.fullmatch(columns[_ID])
        if len(columns) != _COLUMNS or not of:
            raise InputError(
                f"{path}, line {number}: must have the ten columns of CoNLL-U, the first a number; "
                f"got {line[:60]!r}."
            )
        misc = dict(part.split("=", 1) for part in columns[_MISC].split("|") if "=" in part)
        if "." in columns[_ID]:
            continue
        if of[1] is None and int(columns[_ID]) <= last:
            whole = sentence[-1][1]
            whole.update((n, v) for n, v in misc.items() if whole.get(n, "O") == "O")
            continue
        last = int(of[1] or last)
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
