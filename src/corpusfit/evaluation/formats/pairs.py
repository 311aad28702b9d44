"""Read texts with their translations: Moses files, TSV columns, rows with two fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, InputError, bad_setting, importing
from corpusfit.core.languages import code_of
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.evaluation.formats import Labeled
from corpusfit.evaluation.formats.rows import read_rows
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.text.files import unpacked_name
from corpusfit.text.pairs import carried_text
from corpusfit.text.rejects import hides_rows

_LABEL = TaskPlan().label_field
_TRANSLATION = "translation"


def read_translations(places: Sequence[str], split: str, plan: TaskPlan) -> Labeled:
    """The texts of a split, each with its translation as the label; a note counts the rejects."""
    input_name = pair_input(places, plan.direction)
    # rows with a field for each side
    if not input_name:
        field = plan.label_field if plan.label_field != _LABEL else _TRANSLATION
        rows = read_rows(places, replace(plan, label_field=field), split)
        labeled = rows.labeled(
            lambda value: [value.strip()] if isinstance(value, str) and value.strip() else None,
            "a translation, a string that is not blank",
        )
        return _normalized(labeled, plan.normalize)
    # two line-aligned files or a TSV
    read = ReadPlan()
    sources = corpus.find([input_name], read, spool=Path(), role="task")
    texts: list[list[str]] = []
    translations: list[list[str]] = []
    rejects: Counter[str] = Counter()
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                texts.append([row.text.strip()])
                translations.append([carried_text(row).strip()])
            # an incomplete test set would give other scores, so it is an error, unlike a bad pair
            elif hides_rows(row.reason):
                raise InputError(
                    f"{sources[0].url} cannot be read completely: {row.reason}. Fetch it again."
                )
            else:
                rejects[corpus.kind(row.reason)] += 1
    if not texts:
        raise EmptyInputError(
            f"The {split} split of `task` must hold pairs with text on both sides; "
            f"{input_name} has none. Check the files and `task.direction`."
        )
    labeled = _normalized(Labeled(texts, translations), plan.normalize)
    if not rejects:
        return labeled
    causes = ", ".join(f"{n:,} {reason}" for reason, n in rejects.most_common())
    total = rejects.total() + len(texts)
    note = f"{rejects.total():,} of {total:,} pairs of {split} were left out: {causes}."
    return replace(labeled, notes=(note,))


def _normalized(labeled: Labeled, languages: str) -> Labeled:
    """The texts and their translations with the punctuation of their languages, if it is asked for.

    Reference: `normalize-punctuation.perl` of Moses, as `sacremoses` has it.
    """
    if not languages:
        return labeled
    first, second = map(_punctuation, languages.split("-"))
    return replace(
        labeled,
        pieces=[[first(text) for text in texts_of] for texts_of in labeled.pieces],
        labels=[[second(text) for text in texts_of] for texts_of in labeled.labels],
    )


def _punctuation(language: str) -> Callable[[str], str]:
    with importing("Normalizing punctuation", "languages"):
        from sacremoses import MosesPunctNormalizer
    normalize: Callable[[str], str] = MosesPunctNormalizer(lang=code_of(language)).normalize
    return lambda text: normalize(text) or text


def both_sides(places: Sequence[str], split: str) -> list[str]:
    """The texts of a split and their translations, whatever their direction.

    Raises the errors of `read_translations`.
    """
    direction = (
        "-".join(ending(Path(p)).replace("-", "_") for p in places) if len(places) == 2 else ""
    )
    labeled = read_translations(places, split, TaskPlan(direction=direction))
    return [text for texts in (*labeled.pieces, *labeled.labels) for text in texts]


def pair_input(places: Sequence[str], direction: str) -> str:
    """The places of a split as `pair:…`, source first; empty for a file of rows."""
    if corpus.is_pair(places[0]):
        return places[0]
    if len(places) == 1:
        if not unpacked_name(places[0].lower())[0].endswith(".tsv"):
            return ""
        return f"pair:{places[0]}" + (f":{direction.replace('-', ',')}" if direction else "")
    # A direction is divided by its one hyphen, so a hyphen in an ending is written as an underscore
    # there: the files `.pt-BR` and `.en` have the direction pt_BR-en.
    by_language = {ending(Path(file)).replace("-", "_"): file for file in places}
    first, second = sorted(by_language)
    allowed = f"{first}-{second} or {second}-{first} for these files"
    if sorted(direction.split("-")) != [first, second]:
        cure = f"For example `task.direction={first}-{second}`, source language first."
        raise bad_setting("`task.direction`", allowed, direction or "nothing", cure)
    return "pair:{},{}".format(*(by_language[name] for name in direction.split("-")))


def languages_of(places: Sequence[str], plan: TaskPlan) -> tuple[str, str]:
    """The names of both sides, source first: languages, columns, or `text` and `translation`."""
    if plan.direction:
        source, target = plan.direction.split("-")
        return source, target
    input_name = pair_input(places, "")
    if not input_name:
        return "text", _TRANSLATION
    return corpus.sides(corpus.find([input_name], ReadPlan(), spool=Path(), role="task"))


def ending(path: Path) -> str:
    """The last ending of a file's name without its compression, such as `de`."""
    return unpacked_name(path.name)[0].rpartition(".")[2]
