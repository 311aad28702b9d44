"""The commands `retrieval` and `tokenizers` as functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from corpusfit.api.inputs import Inputs, inputs, listed
from corpusfit.api.offers import RETRIEVAL, TOKENIZERS, offers
from corpusfit.api.plans import build_plan
from corpusfit.api.typed_options import RetrievalOptions, TokenizersOptions
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import EmbedPlan, FitPlan, Plan
from corpusfit.evaluation import retrieval as retrieving
from corpusfit.evaluation import tokenizers as tokenizing
from corpusfit.evaluation.retrieval import Retrieval
from corpusfit.evaluation.tokenizers import Tokenized
from corpusfit.text.context import Machine


@offers(RETRIEVAL)
def retrieval(
    *,
    model: Inputs,
    pairs: Inputs,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[RetrievalOptions],
) -> Retrieval:
    """Measure bitext retrieval by cosine, in both directions; trains nothing.

    Args:
        model: models for embeddings: a model folder, a Hugging Face hub id, `minilm` or `static`;
            each is compared with the first.
        pairs: parallel corpora: `NAME` for files `NAME.de` and `NAME.en`, `FILE,FILE`, a `.tsv`
            file of two columns, or `pair:…` as for `corpus` of `select`.
        plan: a plan or a TOML file with settings of the embeddings.
        settings: settings of the embeddings, such as `"embed.pooling=cls"`.
        machine: where to run, with how many workers, and where to show progress.
        **options: the options of the command line, by the same names.

    Returns:
        P@1 of each model, test set and direction, with intervals and comparisons.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    built = build_plan(plan, settings, RETRIEVAL, **options)
    embed = dataclasses.replace(built.embed, embedder=EmbedPlan().embedder)
    _require(built, Plan(embed=embed, seed=built.seed), "embed, except embed.embedder")
    return retrieving.retrieval(
        listed(model), listed(pairs), built.embed, seed=built.seed, machine=machine or Machine()
    )


@offers(TOKENIZERS)
def tokenizers(
    *,
    tokenizer: Inputs,
    specific: Inputs,
    general: Inputs,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[TokenizersOptions],
) -> Tokenized:
    """Measure how many tokens tokenizers make of words, on specific and on general text.

    Args:
        tokenizer: `minilm`, a model folder, a `tokenizer.json`, a `vocab.txt` of word pieces or a
            Hugging Face hub id; each is compared with the first.
        specific: texts of a domain: inputs as for `corpus` of `select`, or files of CoNLL columns.
        general: general texts, in the same forms.
        plan: a plan or a TOML file with settings.
        settings: further settings, such as `"fit.background=5000"`, the windows drawn of each kind.
        machine: where to run, with how many workers, and where to show progress.
        **options: the options of the command line, by the same names.

    Returns:
        Continued words and fertility of each tokenizer on both kinds of text, and the differences
        from the first tokenizer.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`.
    """
    built = build_plan(plan, settings, TOKENIZERS, **options)
    fit = FitPlan(background=built.fit.background)
    allowed = Plan(read=built.read, cut=built.cut, fit=fit, seed=built.seed)
    _require(built, allowed, "read, of cut, or fit.background")
    return tokenizing.tokenizers(
        listed(tokenizer),
        inputs(specific, "specific", machine, built.read.text_field),
        inputs(general, "general", machine, built.read.text_field),
        built,
        machine=machine or Machine(),
    )


def _require(plan: Plan, allowed: Plan, words: str) -> None:
    """Raise `UsageError` for settings that would have no effect."""
    others = ", ".join(o for o in plan.overrides() if o not in allowed.overrides())
    if others:
        cure = "Others change nothing here."
        raise bad_setting("A setting", f"one of {words}", others, cure)
