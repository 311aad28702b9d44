"""`corpusfit forecast`, `retrieval` and `tokenizers`: measurements without training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpusfit.cli.options import EVERYWHERE, command
from corpusfit.cli.show import percent, say, say_result, short_names, table

if TYPE_CHECKING:
    from corpusfit.evaluation.forecasting import Forecast
    from corpusfit.evaluation.retrieving import Retrieval
    from corpusfit.evaluation.tokenizer_gap import Figure, Tokenized


@command()
def forecast(result: Forecast) -> None:
    """Print predictors of the gain from a selection.

    Example:
      corpusfit forecast --data out/ --data random/ --model bert-base-uncased

    Counts n-grams and measures the model's loss, without any training. Writes nothing. These are
    predictors, not the gain itself; `corpusfit evaluate` measures the gain.

    Options:
        --data FOLDER: Folder of a selection; repeatable, to compare several
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
            percent(p.kl.falls, p.kl.raw),
            percent(p.kl.covered, 1),
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


@command(machine=("engine", "workers", "cache"))
def retrieval(result: Retrieval) -> None:
    """Measure bitext retrieval (P@1) of models.

    Example:
      corpusfit retrieval --model mbert/ --model adapted/ --pairs wmt20.de-en

    Here the files wmt20.de-en.de and wmt20.de-en.en have the same number of lines. A sentence's
    embedding is the mean of the model's outputs. P@1 (precision at 1) is the share of sentences
    whose nearest neighbor by cosine is their translation. Prints P@1 in each direction and compares
    each model with the first. Trains nothing and writes nothing.

    Options:
        --model, --embedder MODEL: Model for embeddings: minilm, static, a model folder or a Hugging
            Face hub id OWNER/NAME[@REVISION]; repeatable, to compare with the first
        --pairs INPUT: Parallel corpus: NAME (for files NAME.de and NAME.en), FILE,FILE, a .tsv file
            of two columns, or pair:… as for --corpus of `corpusfit select`; repeatable
    """
    names = short_names(result.models)
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
        table(f"{title} (higher is better)", columns, rows, words=["model", columns[-1]], keys=2)
    chance = max(r.chance for r in result.results)
    say(f"Chance: {100 * chance:.2g} %")


@command(machine=EVERYWHERE)
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
    """  # noqa: E501
    names = short_names(result.tokenizers)
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
        for s in result.splits
    ]
    columns = ["tokenizer", "text", "texts", "words", "continued words", "95 % interval (%)"]
    columns += ["tokens per word", "unknown words"]
    title = "Words that become several tokens (fewer is better)"
    table(title, columns, rows, words=["text"], keys=2)
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
        table(title, columns, gaps, words=["figure"], keys=2)


def _difference(result: Figure, figure: str) -> str:
    if figure == "continued":
        value, low, high = (100 * x for x in (result.value, result.low, result.high))
        return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
    return f"{result.value:+.3f} ({result.low:+.3f} to {result.high:+.3f})"
