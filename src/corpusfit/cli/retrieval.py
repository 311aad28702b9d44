"""`corpusfit retrieval`: bitext retrieval with sentence embeddings."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, say, short_names, table
from corpusfit.evaluation.api import RETRIEVAL


@o.offers(RETRIEVAL, "embed.pooling=cls", where=("engine", "workers", "cache"))
def retrieval(
    *,
    model: Annotated[
        list[str],
        o.option(
            "MODEL",
            "Model for embeddings: minilm, static, a model folder or a Hugging Face hub id; "
            "repeatable, to compare with the first",
            "--model",
            "--embedder",
        ),
    ],
    pairs: Annotated[
        list[str],
        o.option(
            "INPUT",
            "Parallel corpus: NAME (for files NAME.de and NAME.en), FILE,FILE, a .tsv file of "
            "two columns, or pair:… as for --corpus of `corpusfit select`; repeatable",
        ),
    ],
    words: o.Words,
    json: o.Json = False,
) -> None:
    """Measure bitext retrieval (P@1) of models.

    Example:
      corpusfit retrieval --model mbert/ --model adapted/ --pairs wmt20.de-en

    The files wmt20.de-en.de and wmt20.de-en.en have the same number of lines. The embedding of a
    sentence is the mean of a model's outputs. P@1 (precision at 1) is the share of sentences whose
    nearest neighbour by cosine is their translation, in each direction. Each model is compared with
    the first. Trains nothing and writes nothing.
    """
    found = corpusfit.retrieval(model=model, pairs=pairs, **words)
    answer(json, dataclasses.asdict(found), _show, found)


def _show(found: corpusfit.Retrieval) -> None:
    names = short_names(found.models)
    for name, blank in found.blank.items():
        own = [r for r in found.results if r.pairs == name]
        rows = [
            [
                f"{r.source} → {r.target}",
                names[r.model],
                f"{100 * r.precision:.1f}",
                f"{100 * r.low:.1f} to {100 * r.high:.1f}",
                r.verdict or "–",
            ]
            for r in own
        ]
        dropped = f" ({blank:,} with an empty side dropped)" if blank else ""
        title = f"{name}: {own[0].sentences:,} pairs{dropped}; precision at 1 in per cent"
        columns = ["direction", "model", "P@1", "95 % interval", "compared with the first"]
        table(f"{title} (higher is better)", columns, rows, words=["model", columns[-1]], keys=2)
    chance = max(r.chance for r in found.results)
    say(f"Chance: {100 * chance:.2g} %")
