"""`corpusfit tokenizers`: fertility of tokenizers on specific and general text."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, percent, short_names, table
from corpusfit.evaluation.api import TOKENIZERS

if TYPE_CHECKING:
    from corpusfit.evaluation.tokenizer_gap import Figure


@o.offers(TOKENIZERS, "fit.background=5000", where=("engine", "workers", "cache"))
def tokenizers(
    *,
    tokenizer: Annotated[
        list[str],
        o.option(
            "MODEL",
            "Tokenizer: minilm, a model folder, a tokenizer.json, a vocab.txt of word pieces "
            "or a Hugging Face hub id; repeatable, to compare with the first",
        ),
    ],
    specific: Annotated[
        list[str], o.option("INPUT", f"Texts of a domain: files of CoNLL columns, or {o.INPUTS}")
    ],
    general: Annotated[
        list[str], o.option("INPUT", "General texts, in any form that --specific takes; repeatable")
    ],
    words: o.Words,
    json: o.Json = False,
) -> None:
    """Measure how many tokens tokenizers make of words.

    Example:
      corpusfit tokenizers --tokenizer de-bert/ --tokenizer mbert/ --specific a.conll --general b.txt

    Prints continued words (the share of words of several tokens) and fertility (tokens per word) on
    text of a domain and on general text, each tokenizer's difference from the first, and by how
    much more that difference is on specific text. Use texts of one language and one spelling. Words
    are split at white space, numbers and special characters, also in text that was tokenised
    before. Writes nothing.
    """  # noqa: E501
    found = corpusfit.tokenizers(
        tokenizer=tokenizer,
        specific=specific,
        general=general,
        **words,
    )
    answer(json, dataclasses.asdict(found), _show, found)


def _show(found: corpusfit.Tokenized) -> None:
    names = short_names(found.tokenizers)
    rows = [
        [
            names[s.tokenizer],
            s.kind,
            f"{s.texts:,}",
            f"{s.words:,}",
            percent(s.continued.value, 1),
            f"{100 * s.continued.low:.1f} to {100 * s.continued.high:.1f}",
            f"{s.fertility.value:.3f}",
            percent(s.unknown, 1),
        ]
        for s in found.splits
    ]
    columns = ["tokenizer", "text", "texts", "words", "continued words", "95 % interval (%)"]
    columns += ["tokens per word", "unknown words"]
    title = "Words that become several tokens (fewer is better)"
    table(title, columns, rows, words=["text"], keys=2)
    if found.gaps:
        gaps = [
            [
                names[gap.tokenizer],
                gap.figure,
                *(_difference(f, gap.figure) for f in (gap.specific, gap.general, gap.wider)),
            ]
            for gap in found.gaps
        ]
        first = names[found.tokenizers[0]]
        title = f"Difference from {first}, with 95 % intervals (continued: continued words in "
        title += "percentage points; fertility: tokens per word)"
        columns = ["tokenizer", "figure", "specific", "general", "specific - general"]
        table(title, columns, gaps, words=["figure"], keys=2)


def _difference(found: Figure, figure: str) -> str:
    if figure == "continued":
        value, low, high = (100 * x for x in (found.value, found.low, found.high))
        return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
