"""Checks the inputs of a selection: their first rows, fields and languages."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import orjson

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.core.languages import can_identify
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Source, in_file
from corpusfit.selection.labels import different_shards
from corpusfit.selection.resolved import Resolved
from corpusfit.text import cures, rejects
from corpusfit.text.context import Run
from corpusfit.text.fields import Row
from corpusfit.text.input import Input
from corpusfit.text.pairs import count_languages, is_english_only, warn_english_only
from corpusfit.text.reading import Reasons
from corpusfit.text.scores import fields_beside


def require_target(target: Input) -> None:
    """Refuse a target without a usable row; reads up to its first one."""
    read = target.read
    rejected = Reasons()
    for shard in corpus.shards(target.sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document):
                return
            rejected.add({row.reason: 1})
    otherwise = "Give a file with texts of your task."
    if rejected.counts:
        otherwise = (
            "Name the target's text field with `fit.target_field`, or with `read.text_field` one "
            f"that the corpus has, too, or g{otherwise[1:]}"
        )
    cure = cures.of_content(target.sources, read, rejected.counts, otherwise)
    raise EmptyInputError(f"`target` has no usable text ({rejected}). {cure}")


_SOURCES = 32
"""Most sources that a field is looked for in, evenly spaced."""
LOOKED_AT = 1_000
"""Rows of each of these."""
_NAMED = 20
"""Most fields that a message names."""


def require_fields(texts: Input, fields: Sequence[str], setting: str) -> None:
    """Check that each field is in one of the first rows of some sources, evenly spaced."""
    without = [source.name for source in texts.sources if not _names_fields(source)]
    if fields and without:
        cure = "Their rows have no fields but the text."
        listed = ", ".join(without[:_NAMED]) + ", …" * (len(without) > _NAMED)
        allowed = f"left out for a corpus with {listed}"
        raise bad_setting(f"`{setting}`", allowed, ", ".join(fields), cure)
    beside = fields_beside(texts.sources) if fields else []
    for field in fields:
        if {field, field.partition(".")[0], field.partition(".")[2]} & {*beside}:
            continue
        # a row without its text field says which fields it has
        plan = dataclasses.replace(texts.read, text_field=field, where="", numbers="", strict=False)
        names = dict.fromkeys(beside)
        for row in first_rows(texts.sources, plan):
            if not isinstance(row, Reject):
                break
            if rejects.lacks_field(row.reason):
                # rows may have different fields
                names |= dict.fromkeys(row.reason.fields)
            elif rejects.of_field(row.reason):
                break
        else:
            if names:
                shown = ", ".join([*names][:_NAMED]) + ", …" * (len(names) > _NAMED)
                near = [f" Did you mean {n!r}?" for n in difflib.get_close_matches(field, names, 1)]
                raise bad_setting(
                    f"`{setting}`",
                    f"one that reads fields of the corpus (its fields are {shown})",
                    field,
                    f"None of its first {LOOKED_AT:,} rows has this field.{''.join(near)}",
                )


def _names_fields(source: Source) -> bool:
    return corpus.load_format(source.format).named_fields


def require_groups(texts: Input, field: str) -> None:
    """Check that a field has groups, and that it can be read after the scores."""
    if not field or field == texts.read.id_field:
        return
    if any(not corpus.load_format(source.format).cut_by_text for source in texts.sources):
        raise different_shards(field)
    plan = dataclasses.replace(texts.read, id_field=field, where="", numbers="", strict=False)
    rows = [row for row in first_rows(texts.sources, plan) if isinstance(row, Document)]
    decimals = any(isinstance(r.value, float) and r.value % 1 > 0 for r in rows)
    if rows and (decimals or all(row.id in (None, "") for row in rows)):
        raise bad_setting(
            "`choose.balance`",
            "a field of words, whole numbers, or true and false",
            f"field:{field}",
            f"{'Some' if decimals else 'None'} of its first {LOOKED_AT:,} rows "
            f"{'have a decimal number' if decimals else 'has such a value'}.",
        )


def require_kept(texts: Input, names: tuple[str, ...]) -> None:
    """Check that the corpus has the fields to keep, with values that JSON can hold."""
    # a text without fields keeps nothing, as a row that lacks the field
    named = list(filter(_names_fields, texts.sources))
    require_fields(
        dataclasses.replace(texts, sources=named) if named else texts, names, "choose.keep"
    )
    for row in first_rows(texts.sources, texts.read.keeping(names)) if names else ():
        carried = (row.fields or {}) if isinstance(row, Document) else {}
        for name in names:
            # also within an object or a list, such as the bytes of an image
            if match := _FOREIGN.search(orjson.dumps(carried.get(name))):
                allowed = "fields with text, numbers, or objects and lists of them"
                field_type = match[1].decode()
                cure = f"Row {in_file(row.row):,} has something else there ({field_type})."
                raise bad_setting("`choose.keep`", allowed, name, cure)


_FOREIGN = re.compile(rb'\{"%s":"([^"]*)"\}' % rejects.FOREIGN.encode())


def first_rows(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Row]:
    """The first rows of some sources, evenly spaced."""
    for source in sources[:: max(1, math.ceil(len(sources) / _SOURCES))]:
        rows = (row for s in corpus.shards([source], plan) for row in corpus.rows(s, plan))
        yield from islice(rows, LOOKED_AT)


def warn_of_other_fields(run: Run, texts: Input) -> None:
    """Warn of sources whose first rows all lack the text field, as the target's may be named."""
    plan = dataclasses.replace(texts.read, where="", numbers="", strict=False)
    without: dict[str, tuple[str, ...]] = {}
    looked_at = texts.sources[:: max(1, math.ceil(len(texts.sources) / _SOURCES))]
    for source in looked_at:
        reason = None
        # its side files are joined later, when all columns that they share with it are read
        for row in first_rows([dataclasses.replace(source, scores=())], plan):
            if not (isinstance(row, Reject) and rejects.lacks_field(row.reason)):
                break
            reason = row.reason
        else:
            # where it should be read otherwise, what is lost says so
            if reason and not cures.of_content([source], plan, {reason: 1}, ""):
                without[source.name] = reason.fields
    # where all do, an error says it
    if 0 < len(without) < len(looked_at) and texts.role == "corpus":
        listed = ", ".join([*without][:3]) + ", …" * (len(without) > 3)
        fields = next(iter(without.values()))
        shown = ", ".join(fields[:_NAMED]) + ", …" * (len(fields) > _NAMED)
        name = plan.text_field
        run.warn(
            f"No row that was looked at of {listed} has the text field {name!r} (fields: {shown}). "
            "Name the corpus's with `read.text_field`, and the target's, if it has another, with "
            f"`fit.target_field={name}`."
        )


def require_texts_for_near(texts: Input, dedup: str) -> None:
    """Check that near-duplicates are asked of texts, not of aligned pairs."""
    if dedup == "near" and corpus.is_parallel(texts.sources):
        raise bad_setting("`choose.dedup`", "exact or none for aligned pairs", "near")


_LANGUAGE_FIELDS = ("language", "lang", "metadata.language", "meta.language")
_MIN_SHARE = 0.1  # of the target's sample, for a language to be one of the target's


def languages_matter(resolved: Resolved) -> bool:
    """Whether scores of texts in other languages than the target's would be unreliable."""
    if resolved.corpus.role != "corpus":  # texts to fit a `corpusfit.Scorer` on
        return False
    compares_words = resolved.method.compares_words
    return (compares_words or is_english_only(resolved.embedder)) and can_identify()


def warn_of_languages(
    run: Run, resolved: Resolved, target: Sequence[str], sample: Sequence[str]
) -> None:
    """Warn if most of a sample of the corpus is in other languages than the target.

    Reference: mDAPT, section 3; Lui and Baldwin (2012), langid.py.
    """
    encoder = resolved.embedder
    target_counts = count_languages(target)
    corpus_counts = count_languages(sample)
    minimum = _MIN_SHARE * target_counts.total()
    target_languages = sorted(code for code, n in target_counts.items() if n >= minimum)
    other_counts = Counter(
        {code: n for code, n in corpus_counts.items() if code not in target_languages}
    )
    # a minority of other languages does no harm
    if not target_languages or 2 * other_counts.total() <= corpus_counts.total():
        warn_english_only(encoder, sample, run.warn)
        return
    if resolved.method.compares_words:
        why = "compares words"
    else:
        why = f"uses the encoder {encoder}, trained on English only"
    percent = 100 * other_counts.total() / corpus_counts.total()
    run.warn(
        f"{percent:.0f} % of a sample of the corpus is in other languages "
        f"({', '.join(code for code, _ in other_counts.most_common(3))}) than the target "
        f"({', '.join(target_languages)}), and {resolved.plan.method.name} {why}, so scores "
        f"across languages are unreliable. {_language_cure(resolved.corpus, target_languages)} To "
        "compare texts across languages, use a multilingual encoder with `embed.embedder=PATH` "
        "and a method that reads only embeddings, for instance `method.name=domain_cosine`."
    )


def _language_cure(texts: Input, languages: Sequence[str]) -> str:
    """How to select from the texts in some languages alone."""
    if corpus.is_parallel(texts.sources):
        return "Name the files of the pairs in the other order."
    named = ", ".join(map(json.dumps, languages))
    condition = f"in [{named}]" if len(languages) > 1 else f"== {named}"
    for field in _LANGUAGE_FIELDS:
        read = dataclasses.replace(texts.read, text_field=field, where="", numbers="")
        rows = first_rows(texts.sources, read)
        if any(isinstance(row, Document) and row.text in languages for row in rows):
            return f"To select from those in the target's, set `read.where={field} {condition}`."
    return (
        f"To select from those in the target's, name their files alone, or write the language into "
        f"a field of each row and set `read.where=language {condition}`."
    )
