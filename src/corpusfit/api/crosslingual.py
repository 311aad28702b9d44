"""Judge across languages: the commands with the command line's words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from corpusfit import pipeline
from corpusfit.api.plans import Inputs, build_plan, listed
from corpusfit.errors import bad_setting
from corpusfit.pipeline import Machine, Retrieval, Tokenized
from corpusfit.plan import EmbedPlan, FitPlan, Plan


def retrieval(
    *,
    model: Inputs,
    pairs: Inputs,
    settings: Sequence[str] = (),
    seed: int | None = None,
    machine: Machine | None = None,
) -> Retrieval:
    """Look for each sentence's translation by cosine, in both directions; trains nothing.

    Args:
        model: a model folder, a hub id, `minilm` or `static`; others are held against the first.
        pairs: `NAME` for `NAME.de` beside `NAME.en`, `FILE,FILE`, a `.tsv` of two columns, or
            `pair:…` as for `corpus` of `select`.
        settings: how models encode, as `"embed.pooling=cls"`; the mean over tokens if not said.
        seed: of the intervals and tests.
        machine: where it runs, and what is told of it.

    Returns:
        Precision at 1 of each model, test set and direction, with intervals and comparisons.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    plan = build_plan(None, settings, seed=seed)
    embed = dataclasses.replace(plan.embed, embedder=EmbedPlan().embedder)
    _require(settings, plan, Plan(embed=embed, seed=plan.seed), "embed, but for its embedder")
    return pipeline.retrieval(
        listed(model), listed(pairs), plan.embed, seed=plan.seed, machine=machine or Machine()
    )


def tokenizers(
    *,
    tokenizer: Inputs,
    specific: Inputs,
    general: Inputs,
    settings: Sequence[str] = (),
    text_field: str | None = None,
    seed: int | None = None,
    machine: Machine | None = None,
) -> Tokenized:
    """Count the words that tokenizers split, on text of a domain and on general text.

    Args:
        tokenizer: `minilm`, a model folder, a `tokenizer.json`, a `vocab.txt` of word pieces or a
            hub id; others are held against the first.
        specific: text of a domain: inputs as for `corpus` of `select`, or files of CoNLL columns.
        general: the same of general text.
        settings: further settings as `"fit.background=5000"`, windows drawn of each kind.
        text_field: name of the field with the text.
        seed: of the samples and intervals.
        machine: where it runs, and what is told of it.

    Returns:
        Continued words and fertility of each tokenizer on both kinds, and how much more than the
        first each other one splits.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    plan = build_plan(None, settings, text_field=text_field, seed=seed)
    fit = FitPlan(background=plan.fit.background)
    allowed = Plan(read=plan.read, cut=plan.cut, fit=fit, seed=plan.seed)
    _require(settings, plan, allowed, "read, of cut, or fit.background")
    return pipeline.tokenizers(
        listed(tokenizer), listed(specific), listed(general), plan, machine=machine or Machine()
    )


def _require(settings: Sequence[str], plan: Plan, allowed: Plan, words: str) -> None:
    """Raise `UsageError` for settings that would change nothing."""
    if plan != allowed:
        given = ", ".join(item.partition("=")[0].strip() for item in settings)
        raise bad_setting("--set", f"a setting of {words}", given, "Others change nothing here.")
