"""The commands `retrieval` and `tokenizers` as functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from corpusfit import workflows
from corpusfit.api.plans import Inputs, build_plan, listed
from corpusfit.errors import bad_setting
from corpusfit.plan import EmbedPlan, FitPlan, Plan
from corpusfit.workflows import Machine, Retrieval, Tokenized


def retrieval(
    *,
    model: Inputs,
    pairs: Inputs,
    settings: Sequence[str] = (),
    seed: int | None = None,
    machine: Machine | None = None,
) -> Retrieval:
    """Measure bitext retrieval by cosine, in both directions; trains nothing.

    Args:
        model: models for embeddings: a model folder, a Hugging Face hub id, `minilm` or `static`;
            each is compared with the first.
        pairs: parallel corpora: `NAME` for files `NAME.de` and `NAME.en`, `FILE,FILE`, a `.tsv`
            file of two columns, or `pair:…` as for `corpus` of `select`.
        settings: settings of the embeddings, such as `"embed.pooling=cls"`.
        seed: random seed of the intervals and tests (default: 0).
        machine: where to run, with how many workers, and where to show progress.

    Returns:
        P@1 of each model, test set and direction, with intervals and comparisons.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    plan = build_plan(None, settings, seed=seed)
    embed = dataclasses.replace(plan.embed, embedder=EmbedPlan().embedder)
    _require(settings, plan, Plan(embed=embed, seed=plan.seed), "embed, except embed.embedder")
    return workflows.retrieval(
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
    """Measure how many tokens tokenizers make of words, on specific and on general text.

    Args:
        tokenizer: `minilm`, a model folder, a `tokenizer.json`, a `vocab.txt` of word pieces or a
            Hugging Face hub id; each is compared with the first.
        specific: texts of a domain: inputs as for `corpus` of `select`, or files of CoNLL columns.
        general: general texts, in the same forms.
        settings: further settings, such as `"fit.background=5000"`, the windows drawn of each kind.
        text_field: field with the text.
        seed: random seed of the samples and intervals (default: 0).
        machine: where to run, with how many workers, and where to show progress.

    Returns:
        Continued words and fertility of each tokenizer on both kinds of text, and the differences
        from the first tokenizer.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    plan = build_plan(None, settings, text_field=text_field, seed=seed)
    fit = FitPlan(background=plan.fit.background)
    allowed = Plan(read=plan.read, cut=plan.cut, fit=fit, seed=plan.seed)
    _require(settings, plan, allowed, "read, of cut, or fit.background")
    return workflows.tokenizers(
        listed(tokenizer), listed(specific), listed(general), plan, machine=machine or Machine()
    )


def _require(settings: Sequence[str], plan: Plan, allowed: Plan, words: str) -> None:
    """Raise `UsageError` for settings that would have no effect."""
    if plan != allowed:
        names = ", ".join(item.partition("=")[0].strip() for item in settings)
        cure = "Others change nothing here."
        raise bad_setting("--set", f"a setting of {words}", names, cure)
