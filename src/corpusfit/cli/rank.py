"""`corpusfit rank`: compare the scoring methods on a target and a corpus."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer
from corpusfit.cli.summary import show_ranking
from corpusfit.selection.api import RANK


@o.offers(RANK, "cut.gamma=5", where=("engine", "workers", "cache"))
def rank(
    *,
    target: o.Target,
    corpus: o.Corpus,
    method: Annotated[
        list[str] | None,
        o.option("NAME", "Method to rank; repeatable (default: all methods that score texts)"),
    ] = None,
    seeds: Annotated[
        int,
        o.option(
            "N",
            "Number of random splits of the target for agreement, F1, AUROC and AP (default: 3)",
            parser=o.whole_number,
        ),
    ] = 3,
    words: o.Words,
    json: o.Json = False,
) -> None:
    """Rank the scoring methods on your target and corpus.

    Each method selects a tenth of the words of a corpus sample; an n-gram model trained on them
    predicts target texts that neither the fit nor the selection used. Prints the bits per word (the
    criterion of `--method auto`; lower is better), the difference to the best method with its 95 %
    interval, and the seconds to fit and score the sample. Also prints the agreement with methods of
    other kinds, F1, AUROC and average precision (AP) on held-out target texts as in TADPOLE. The
    method `random` is always ranked. Writes nothing.

    Without --method, ranks all methods that score texts, except PyOD's detectors (to rank one:
    --method pyod:ECOD) and domain_finetune, which trains a network for minutes. Methods that score
    the corpus as a whole (such as textrank) have only bits and times.

    Example:
      corpusfit rank --target task.jsonl --corpus corpus/
    """
    verdicts = corpusfit.rank(
        target=target,
        corpus=corpus,
        methods=method or (),
        seeds=seeds,
        **words,
    )
    ranking = [dataclasses.asdict(v) for v in verdicts]
    answer(json, {"seeds": seeds, "ranking": ranking}, show_ranking, ranking, seeds)
