"""`corpusfit audit`, `forecast`, `retrieval` and `tokenizers`: measurements without training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from corpusfit.contracts import command, say, say_result, table

if TYPE_CHECKING:
    from corpusfit_papers.auditing import Audit, Finding
    from corpusfit_papers.forecasting import Forecast
    from corpusfit_papers.retrieving import Retrieval
    from corpusfit_papers.tokenizer_gap import Figure, Tokenized

_MAX_NAME_CHARACTERS = 60
_MAX_DOMAINS = 30


def _facts(result: Audit, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": request["out"], **dataclasses.asdict(result)}


@command(machine=("engine", "workers", "verify"), facts=_facts)
def audit(result: Audit) -> None:
    """Compare a run with known domains, by precision and recall.

    Example:
      corpusfit audit out/ --truth source --domain "bio_*"
      corpusfit audit out/ --truth subreddit

    Prints how much of each domain was selected and, with --domain, the precision, recall and F1 of
    finding that domain. Writes nothing.

    Options:
        DIR: {RUN_FOLDER}
        --truth NAME: Domain of a row: source (the name of the row's file) or the name of a field
            (default: source)
        --domain GLOB: Name of the domain that the run should find, or a glob; repeatable
            (default: none)
    """
    _show_domains(result)
    if result.finding is not None:
        _show_finding(result, result.finding)


def _show_domains(result: Audit) -> None:
    columns = ["domain", "segments", "share of corpus", "word pieces", "selected"]
    columns += ["share of domain", "share of selected"]
    rows = []
    for name, n in list(result.domains.items())[:_MAX_DOMAINS]:
        star = " *" if n.sought else ""
        row = [
            name[:_MAX_NAME_CHARACTERS] + star,
            f"{n.segments:,}",
            _percent(n.segments, result.segments),
            f"{n.tokens:,}",
            f"{n.selected:,}",
            _percent(n.taken),
            _percent(n.of_selection or 0),
        ]
        rows.append(row)
    legend = " (*: the domain sought)" if result.finding is not None else ""
    table(f"Domains by {result.truth}{legend}", columns, rows)
    if len(result.domains) > _MAX_DOMAINS:
        say(f"{len(result.domains) - _MAX_DOMAINS} more domains; --json prints all.")


def _show_finding(result: Audit, finding: Finding) -> None:
    say_result(
        f"Domain searched: {', '.join(finding.domain)}, {finding.segments:,} of "
        f"{result.segments:,} segments. Chance: precision {_percent(finding.chance)}."
    )
    precision = "–" if finding.precision is None else _percent(finding.precision)
    say_result(
        f"The {finding.selected:,} selected segments: precision {precision}, recall "
        f"{_percent(finding.recall)}, F1 {finding.f1:.3f} (higher is better)."
    )
    say_result(
        f"All segments by {result.method} score: average precision "
        f"{finding.scores.average_precision:.3f} (higher is better).\n"
    )
    rows = [
        [f"{100 * p.share:g} %", f"{p.segments:,}", _percent(p.precision), _percent(p.recall)]
        for p in finding.scores.curve
    ]
    title = "Segments with the highest scores"
    table(title, ["share of corpus", "segments", "precision", "recall"], rows)


@command(machine=())
def forecast(result: Forecast) -> None:
    """Print predictors of the gain from a selection.

    Example:
      corpusfit forecast --data out/ --data random/ --model bert-base-uncased

    Counts n-grams and measures the model's loss, without any training. Writes nothing. These are
    predictors, not the gain itself; `corpusfit evaluate` measures the gain.

    Options:
        --data FOLDER: Folder of a selection; repeatable, to compare several
        --model MODEL: Masked or causal language model: a model folder or a Hugging Face hub id
            OWNER/NAME[@REVISION]
        --length N: Most tokens of a sequence; a longer one has a lower loss (default: 128)
        --seed N: Random seed of the sequences and masks of the loss (default: 0)
    """
    columns = ["selection", "segments", "KL of corpus", "KL of selection", "reduction"]
    columns += ["relative reduction", "task n-grams covered"]
    rows = [
        [
            p.data,
            f"{p.texts:,}",
            f"{p.kl.raw:.3f}",
            f"{p.kl.selected:.3f}",
            f"{p.kl.falls:+.3f}",
            _percent(p.kl.falls, p.kl.raw),
            _percent(p.kl.covered),
        ]
        for p in result.prospects
    ]
    table("KL divergence from the task's n-grams, in nats (lower is better)", columns, rows)
    kinds = [
        [p.data, *(f"{p.losses[k]:.3f}" if k in p.losses else "–" for k in ("task", "general"))]
        for p in result.prospects
    ]
    title = (
        f"Loss before training in nats per token, {result.objective} in sequences of "
        f"{result.length} (lower is better)"
    )
    table(title, ["selection", "task text", "general text"], kinds)
    for sentence in result.words:
        say_result(sentence)


@command(machine=())
def retrieval(result: Retrieval) -> None:
    """Measure bitext retrieval (P@1) of models.

    Example:
      corpusfit retrieval --model mbert/ --model adapted/ --pairs wmt20.de-en

    Here the files wmt20.de-en.de and wmt20.de-en.en have the same number of lines. A sentence's
    embedding is the mean of the model's outputs, or what the model's folder states. P@1 (precision
    at 1) is the share of sentences whose nearest neighbor by cosine is their translation. Prints
    P@1 in each direction and compares each model with the first. Trains nothing and writes nothing.

    Options:
        --model, --embedder MODEL: Model for embeddings: minilm, static, a model folder or a Hugging
            Face hub id OWNER/NAME[@REVISION]; repeatable, to compare with the first
        --pairs INPUT: Parallel corpus: NAME (for files NAME.de and NAME.en), FILE,FILE, a .tsv file
            of two columns, or pair:… as for --corpus of `corpusfit select`; repeatable
        --pooling NAME: How the outputs become an embedding: mean or cls (default: as
            sentence-transformers reads the model's folder, else mean)
        --seed N: Random seed of the bootstrap (default: 0)
    """
    names = _short_names(result.models)
    for name, blank in result.blank.items():
        of_corpus = [r for r in result.results if r.pairs == name]
        rows = [
            [
                f"{r.source} → {r.target}",
                names[r.model],
                f"{100 * r.precision:.1f}",
                f"{100 * r.low:.1f} to {100 * r.high:.1f}",
                r.verdict or "–",
            ]
            for r in of_corpus
        ]
        dropped = f" ({blank:,} with an empty side dropped)" if blank else ""
        title = f"{name}: {of_corpus[0].sentences:,} pairs{dropped}; precision at 1 in per cent"
        columns = ["direction", "model", "P@1", "95 % interval", "compared with the first"]
        table(f"{title} (higher is better)", columns, rows, words=["model", columns[-1]])
    chance = max(r.chance for r in result.results)
    say(f"Chance: {100 * chance:.2g} %")


@command(machine=("engine", "workers", "cache", "verify"))
def tokenizers(result: Tokenized) -> None:
    """Measure into how many tokens tokenizers split words.

    Example:
      corpusfit tokenizers --tokenizer de-bert/ --tokenizer mbert/ --specific a.conll --general b.txt

    Prints continued words (the share of words split into several tokens) and fertility (tokens per
    word), on text of a domain and on general text. Compares each tokenizer with the first, and
    shows whether the difference is larger on the domain's text. Use texts in one language and one
    spelling. Words are split at white space, numbers and special characters, even in text that is
    already tokenized. Writes nothing.

    Options:
        --tokenizer MODEL: Tokenizer: minilm, a model folder, a tokenizer.json, a vocab.txt of word
            pieces or a Hugging Face hub id OWNER/NAME[@REVISION]; repeatable, to compare with the first
        --specific INPUT: Texts of a domain: files of CoNLL columns, or {INPUTS}
        --general INPUT: General texts, in any form that --specific takes; repeatable
        --text-field NAME: Field of the rows with their text (default: text)
        --windows N: Most windows of text to draw of each kind (default: 10,000)
        --seed N: Random seed of the sample and the bootstrap (default: 0)
    """  # noqa: E501
    names = _short_names(result.tokenizers)
    rows = [
        [
            names[s.tokenizer],
            s.kind,
            f"{s.texts:,}",
            f"{s.words:,}",
            _percent(s.continued.value),
            f"{100 * s.continued.low:.1f} to {100 * s.continued.high:.1f}",
            f"{s.fertility.value:.3f}",
            _percent(s.unknown),
        ]
        for s in result.splits
    ]
    columns = ["tokenizer", "text", "texts", "words", "continued words", "95 % interval (%)"]
    columns += ["tokens per word", "unknown words"]
    title = "Words that become several tokens (fewer is better)"
    table(title, columns, rows, words=["text"])
    if result.gaps:
        gaps = [
            [
                names[gap.tokenizer],
                gap.figure,
                *(_difference(f, gap.figure) for f in (gap.specific, gap.general, gap.wider)),
            ]
            for gap in result.gaps
        ]
        first = names[result.tokenizers[0]]
        title = f"Difference from {first}, with 95 % intervals (continued: continued words in "
        title += "percentage points; fertility: tokens per word)"
        columns = ["tokenizer", "figure", "specific", "general", "specific - general"]
        table(title, columns, gaps, words=["figure"])


def _difference(result: Figure, figure: str) -> str:
    if figure == "continued":
        value, low, high = (100 * x for x in (result.value, result.low, result.high))
        return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
    return f"{result.value:+.3f} ({result.low:+.3f} to {result.high:+.3f})"


def _percent(part: float, whole: float = 1.0) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each path; the whole path where two would be the same."""
    last = [PurePath(name).name or name for name in names]
    return {n: n if last.count(s) > 1 else s for n, s in zip(names, last, strict=True)}
