"""Measure how well methods separate a target's texts from a corpus's (TADPOLE, section 3.1).

A file such as papers/recipes/tadpole_table1_cpu.toml names methods, targets and corpora. Each
method is fitted on a part of a target; it scores the rest, and units of the corpus that it was not
fitted on. Writes OUT/table.md and OUT/table.json: F1, AUROC, what is kept of each source and, with
fine-tuned encoders, histograms (Table 1, Figures 4 and 5).

Run: .venv/bin/python papers/tables/separation.py FILE OUT
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import dataclasses
import fnmatch
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score, roc_auc_score

from corpusfit import Machine
from corpusfit import text as corpora
from corpusfit.core.manifest import source_identity, versions
from corpusfit.core.plan import EmbedPlan, MethodPlan, Plan
from corpusfit.core.types import Documents, Paired, Source, read_as, take_units, text_array
from corpusfit.embed import has_network
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.significance import spread
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.scoring.heldout_bits import best_first
from corpusfit.selection.embedding import EmbedTexts
from corpusfit.selection.samples import ALL, SampledUnits, Unit, first_bound, merge, sample_texts
from corpusfit.text.context import Run
from corpusfit.text.reading import cut_units
from corpusfit_papers.experiments.rendering import Cell as Shown
from corpusfit_papers.experiments.rendering import Score, Table, markdown, plain, with_best
from corpusfit_papers.experiments.values import recipe_values
from corpusfit_papers.figures import figures
from corpusfit_papers.finetune import Tuning, encoder_folder, finetune, open_tuned

KEYS = ("name", "model", "corpus", "seeds", "seed", "fractions", "selectors", "select", "selector")
BATCH = 128  # texts that are encoded together
MAX_TARGET = 2_000  # most target units of a split


@dataclass(frozen=True)
class Setting:
    """A file's settings.

    Attributes:
        corpora: by name, globs for names of sources with the share of each; 0 for all units.
        targets: by name, the tasks whose training texts it has.
    """

    name: str
    model: str
    corpus: tuple[str, ...]
    plan: Plan
    evaluate: EvaluatePlan
    methods: dict[str, MethodPlan]
    seeds: range
    fractions: tuple[float, ...]
    tasks: dict[str, dict[str, Any]]
    targets: dict[str, list[str]]
    corpora: dict[str, dict[str, float]]
    finetuned: tuple[bool, ...] = (False,)
    texts: int = 2_000
    documents: int = 3_000
    held_out: float = 0.1


@dataclass(frozen=True)
class Target:
    """Units, or the names of the sources that they are sampled from; labels 0 and 1, or none."""

    texts: list[str]
    labels: NDArray[np.int64]
    sources: tuple[str, ...] = ()
    kind: str = ""


Measured = dict[tuple[str, str], list[dict[str, Any]]]
"""By row and method, what was measured with each seed."""


def read_setting(path: Path) -> Setting:
    """A file's settings; paths are relative to it."""
    values = recipe_values(path, (*KEYS, "evaluate", "separation", "tasks"))
    home, own = path.absolute().parent, dict(values["separation"])
    plan = Plan().with_values(values.get("select", {}))
    model = str(home / values["model"]) if (home / values["model"]).exists() else values["model"]
    methods = {}
    for name in values["selectors"]:
        method = (
            plan.with_value("method.name", name)
            .with_values(values.get("selector", {}).get(name, {}))
            .method
        )
        methods[name] = registry.with_embedder(method, model)
    tasks = {task["name"]: task for task in values["tasks"]}
    for task in tasks.values():
        task["path"] = corpora.located(task["path"], home) if "path" in task else ""
    shares = own.pop("corpora", {"the corpus": ["*"]})
    seed = values.get("seed", 0)
    return Setting(
        values["name"],
        model,
        tuple(corpora.located(p, home) for p in values["corpus"]),
        plan,
        EvaluatePlan().with_values(values.get("evaluate", {})),
        methods,
        range(seed, seed + values.get("seeds", 8)),
        tuple(values.get("fractions", (0.2,))),
        tasks,
        own.pop("targets", {name: [name] for name in tasks}),
        {k: of if isinstance(of, dict) else dict.fromkeys(of, 0.0) for k, of in shares.items()},
        tuple(own.pop("finetuned", (False,))),
        **own,
    )


def target_of(s: Setting, name: str, sources: Sequence[Source]) -> Target:
    """The different units of its tasks' training texts, or the sources that it is sampled from."""
    tasks, label_of = [s.tasks[task] for task in s.targets[name]], dict[str, int]()
    if not tasks[0]["path"]:  # units of its `oracle` sources that the corpus does not take
        own = (
            of.name
            for of in sources
            if any(fnmatch.fnmatch(of.name, g) for g in tasks[0]["oracle"])
        )
        return Target([], np.empty(0, np.int64), tuple(own))
    binary, kind = len(tasks) == 1, ""
    for entry in tasks:
        task = read_task(entry["path"], s.evaluate.task, seed=s.seeds[0])
        kind, binary = kind or task.kind, binary and task.learnable == 2
        for text, label in zip(task.train.texts(), task.train.labels, strict=True):
            clean = corpora.normalize(text) if s.plan.fit.normalize else text
            label_of.setdefault(clean, label[0] if binary else 0)
    label_of.pop("", None)
    documents = Documents(np.arange(len(label_of)), text_array(list(label_of)))
    units, cut = cut_units(documents, s.plan.cut)
    places = np.sort(np.random.default_rng(s.seeds[0]).permutation(len(cut))[: s.texts])
    labels = np.array(list(label_of.values()), np.int64)[units.row[places]] if binary else []
    pieces = cut.to_pylist()
    return Target([pieces[i].strip() for i in places], np.array(labels, np.int64), kind=kind)


def drawn_units(context: Run, s: Setting, source: Source, k: int) -> list[str]:
    """At most k units of a source, in random order."""
    job = partial(sample_texts, s.plan.read, s.plan.cut, (source.name,), k, s.seeds[0])
    sampled: list[SampledUnits[Unit]] = []
    for bound in dict.fromkeys([first_bound(source.size, k, s.plan.cut), ALL]):
        pieces = ((shard, bound) for shard in context.shards_of([source], s.plan.read))
        sampled = merge([part for part, _ in context.map(job, pieces)], k)
        if sum(len(part.texts) for part in sampled) >= k:
            break
    pairs = [pair for part in sampled for pair in zip(part.keys.tolist(), part.texts, strict=True)]
    return [text.strip() for _, (text, _) in sorted(pairs)[:k]]


def background(
    at: Mapping[str, NDArray[np.int64]], shares: Mapping[str, float], most: int, seed: int
) -> NDArray[np.int64]:
    """Places of a corpus's units, sampled with a seed: at most so many, by shares if given."""
    rng = np.random.default_rng(seed)
    if not any(shares.values()):
        every = np.concatenate(list(at.values()))
        return np.sort(every[rng.permutation(len(every))[:most]])
    n = min(most / sum(shares.values()), *(len(of) / shares[glob] for glob, of in at.items()))
    parts = [of[rng.permutation(len(of))[: round(n * shares[g])]] for g, of in at.items()]
    return np.sort(np.concatenate(parts))


def encoded(context: Run, embed: EmbedPlan, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of n texts, float32 [n, d]; those of networks are kept in the cache."""
    job = EmbedTexts(embed, context.cache if has_network(embed.embedder) else None)
    pieces = [(i, list(texts[i : i + BATCH])) for i in range(0, len(texts), BATCH)]
    vectors = dict(context.map(job, pieces))
    return np.concatenate(
        [np.empty((0, 0), np.float32), *(vectors[i] for i, _ in pieces)][len(pieces) > 0 :]
    )


def measure(s: Setting, context: Run) -> tuple[Measured, list[Source]]:
    """Draw units, encode what methods read, and measure every row and method with every seed."""
    sources = corpora.find(s.corpus, s.plan.read, role="corpus")
    names = [source.name for source in sources]
    targets = {name: target_of(s, name, sources) for name in s.targets}
    matching = {
        corpus: {glob: [n for n in names if fnmatch.fnmatch(n, glob)] for glob in globs}
        for corpus, globs in s.corpora.items()
    }
    used = {n for globs in matching.values() for of in globs.values() for n in of}
    sought = {name: set(target.sources) for name, target in targets.items() if target.sources}
    units: list[str] = []
    origin: list[str] = []  # of each unit
    beyond: dict[str, list[str]] = {name: [] for name in sought}
    for source in sources:
        if source.name in used.union(*sought.values()):
            extra = s.texts if any(source.name in of for of in sought.values()) else 0
            sampled = drawn_units(context, s, source, s.documents + extra)
            units += sampled[: s.documents]
            origin += [source.name] * len(sampled[: s.documents])
            for name, of in sought.items():
                beyond[name] += sampled[s.documents :] if source.name in of else []
    for name, left in beyond.items():
        order = np.random.default_rng(s.seeds[0]).permutation(len(left))
        texts = [left[i] for i in np.sort(order[: s.texts])]
        targets[name] = dataclasses.replace(targets[name], texts=texts)
    at = {
        corpus: {glob: np.flatnonzero(np.isin(origin, of)) for glob, of in globs.items()}
        for corpus, globs in matching.items()
    }
    places = {
        (corpus, seed): background(at[corpus], globs, s.plan.fit.background, seed)
        for corpus, globs in s.corpora.items()
        for seed in s.seeds
    }
    embed = dataclasses.replace(s.plan.embed, embedder=s.model)
    needed, vectors = np.empty(0, np.int64), dict[str, NDArray[np.float32]]()
    if False in s.finetuned and any(
        registry.build(m.name, m.options).encodes for m in s.methods.values()
    ):
        needed = np.unique(np.concatenate(list(places.values())))
        vectors = {name: encoded(context, embed, target.texts) for name, target in targets.items()}
    pool = encoded(context, embed, [units[i] for i in needed])
    measured: Measured = {}
    for name, target in targets.items():
        for corpus, globs in s.corpora.items():
            label = (
                {n: g for g, of in matching[corpus].items() for n in of}
                if any(globs.values())
                else {}
            )
            for tuned in s.finetuned:
                parts = [name, *([corpus] if len(s.corpora) > 1 else []), *(["fine-tuned"] * tuned)]
                for method in s.methods:
                    for seed in s.seeds:
                        own = places[corpus, seed]
                        texts = [units[i] for i in own]
                        split = Split.draw(
                            len(target.texts), len(own), seed=seed, held_out=s.held_out
                        )
                        if tuned:
                            both, more = fine_tuned(s, embed, target, texts, split, seed)
                        else:
                            both, more = (
                                (
                                    vectors.get(name),
                                    pool[np.searchsorted(needed, own)] if len(needed) else None,
                                ),
                                {},
                            )
                        inputs = [
                            Paired(
                                text_array(t), np.empty((len(t), 0), np.float32) if v is None else v
                            )
                            for t, v in zip((target.texts, texts), both, strict=True)
                        ]
                        names_of = [label.get(origin[i], origin[i]) for i in own]
                        found = (
                            measure_one(s, s.methods[method], inputs, split, names_of, seed) | more
                        )
                        measured.setdefault((", ".join(parts), method), []).append(found)
    return measured, sources


@dataclass(frozen=True, eq=False)
class Split:
    """A split of the target and of the corpus's units, as positions.

    Attributes:
        train: the part of the target to fit on, sorted.
        test: the held-out part of the target, sorted.
        fit: the third of the corpus to fit on, sorted.
        threshold: of the third that the F1 threshold is found on with `train`, at most as many.
        vote: the third that is scored, sorted.
        outliers: positions in `vote`, as many as in `test` if there are so many.
    """

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    fit: NDArray[np.int64]
    threshold: NDArray[np.int64]
    vote: NDArray[np.int64]
    outliers: NDArray[np.int64]

    @classmethod
    def draw(cls, target: int, corpus: int, *, seed: int, held_out: float) -> Split:
        """Draw the split of a target and a corpus of these sizes."""
        rng = np.random.default_rng(seed)
        shuffled = rng.permutation(target)[:MAX_TARGET]
        n = max(1, round(held_out * len(shuffled)))
        fit, threshold, vote = map(np.sort, np.array_split(rng.permutation(corpus), 3))
        return cls(
            np.sort(shuffled[n:]),
            np.sort(shuffled[:n]),
            fit,
            threshold[: len(shuffled) - n],
            vote,
            rng.permutation(len(vote))[:n],
        )


def separate(
    method: Method[Any], target: Any, corpus: Any, split: Split, *, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Fit a method on a part of the target, and score texts that it has not seen.

    Returns:
        Scores of the held-out target, those of `split.vote`, and the threshold with the best F1 on
        other texts.
    """
    scorer = method.fit(take_units(target, split.train), take_units(corpus, split.fit), seed=seed)
    target, corpus = read_as(target, method.reads), read_as(corpus, method.reads)
    threshold = best_threshold(
        scorer.score(take_units(target, split.train)),
        scorer.score(take_units(corpus, split.threshold)),
    )
    inliers = scorer.score(take_units(target, split.test))
    return inliers, scorer.score(take_units(corpus, split.vote)), threshold


def best_threshold(inliers: NDArray[np.float32], outliers: NDArray[np.float32]) -> float:
    """The score that separates inliers from outliers with the highest F1."""
    scores = np.concatenate([inliers, outliers])
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(order < len(inliers))
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + len(inliers))
    # equal scores are accepted together
    f1[:-1][np.diff(scores[order]) == 0] = 0
    return float(scores[order[np.argmax(f1)]])


def measure_one(
    s: Setting, plan: MethodPlan, inputs: list[Paired], split: Split, sources: list[str], seed: int
) -> dict[str, Any]:
    """F1, AUROC, average precision, histogram, and the sources of the highest scores."""
    method = registry.unit_method(plan.name, plan.options)
    target, corpus = (read_as(of, method.fits_on) for of in inputs)
    inliers, votes, threshold = separate(method, target, corpus, split, seed=seed)
    scores = np.concatenate([inliers, votes[split.outliers]])
    truth = np.arange(len(scores)) < len(inliers)
    of_scores = figures(scores, truth)
    best = best_first(votes)
    scored = [sources[i] for i in split.vote]
    return {
        "f1": float(f1_score(truth, scores >= threshold)),
        "auroc": float(roc_auc_score(truth, scores)),
        "ap": of_scores.average_precision,
        "texts": {name: len(getattr(split, name)) for name in ("train", "test", "fit", "vote")},
        "histogram": vars(of_scores.histogram),
        "scored": dict(sorted(Counter(scored).items())),
        "kept": {
            str(share): dict(
                sorted(Counter(scored[i] for i in best[: round(share * len(votes))]).items())
            )
            for share in s.fractions
        },
    }


def fine_tuned(
    s: Setting, embed: EmbedPlan, target: Target, units: list[str], split: Split, seed: int
) -> tuple[tuple[NDArray[np.float32], ...], dict[str, float]]:
    """Vectors of an encoder that learned the task's labels, and its accuracy on held-out ones."""
    labels, plan = (
        target.labels,
        load_learned(target.kind).settled(s.evaluate, adapter=False, max_length=512).finetune,
    )
    good, bad = ([target.texts[i] for i in split.train if labels[i] == of] for of in (1, 0))
    settings: dict[str, Any] = {
        name: getattr(plan, name) for name in ("epochs", "learning_rate", "batch")
    }
    tuning = Tuning(**settings, seed=seed)
    tuned = finetune(encoder_folder(embed.embedder), good, bad, 1.0, tuning)
    vectors = [open_tuned(tuned).encode(texts) for texts in (target.texts, units)]
    answers = vectors[0][split.test] @ tuned.head[:-1] + tuned.head[-1] > 0
    accuracy = float(np.mean(answers == (labels[split.test] == 1)))
    if embed.unit_length:
        vectors = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors]
    return tuple(vectors), {"accuracy": accuracy}


def tables_of(s: Setting, measured: Measured) -> Iterator[Table]:
    """F1 and AUROC in points; what is kept of corpora with shares; histograms of the first seed."""
    rows = list(dict.fromkeys(row for row, _ in measured))
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(", ".join(filter(None, ("mean", row.partition(", ")[2]))), []).append(row)
    for key, name in (("f1", "F1"), ("auroc", "AUROC")):
        values = {cell: [of[key] for of in seeds] for cell, seeds in measured.items()}
        shown: list[tuple[Shown, ...]] = [
            (row, *(Score(*spread(values[row, m])) for m in s.methods)) for row in rows
        ]
        for group, own in groups.items():
            if len(own) > 1:
                means = (
                    np.mean([values[row, m] for row in own], axis=0).tolist() for m in s.methods
                )
                shown.append((group, *(Score(*spread(mean)) for mean in means)))
        notes = [
            f"{name} in points (higher is better) of separating held-out target units from units "
            "of the corpus that the method was not fitted on, mean ± standard deviation over "
            f"{len(s.seeds)} seeds, which draw the corpus's units and the split."
        ]
        sizes = next(iter(measured.values()))[0]["texts"]
        if key == "f1":
            notes.append(
                f"First row: fitted on {sizes['train']:,} units of the target and {sizes['fit']:,} "
                f"of the corpus; {sizes['test']:,} held-out units, as many of the corpus. The "
                "threshold has the best F1 on the units fitted on against others of the corpus."
            )
        right = [of["accuracy"] for seeds in measured.values() for of in seeds if "accuracy" in of]
        if key == "auroc" and right:
            share = f"{100 * float(np.mean(right)):.1f} %"
            notes.append(f"Fine-tuned encoders get {share} of the held-out labels right.")
        columns = ("target", *s.methods)
        yield with_best(Table(f"{s.name}: {name}", columns, tuple(shown), tuple(notes)), "row")
    known = {g for shares in s.corpora.values() if any(shares.values()) for g in shares}
    with_shares = [
        row for row in rows if measured[row, next(iter(s.methods))][0]["scored"].keys() <= known
    ]
    for share in map(str, s.fractions if with_shares else ()):
        shown = []
        for row in with_shares:
            first = measured[row, next(iter(s.methods))]
            for source in sorted({name for of in first for name in of["scored"]}):
                before = Score(*spread([part(of["scored"], source) for of in first]))
                after = (
                    [part(of["kept"][share], source) for of in measured[row, m]] for m in s.methods
                )
                shown.append((f"{row}: {source}", before, *(Score(*spread(of)) for of in after)))
        kept = f"{100 * float(share):g} %"
        note = (
            "Percent of units by source: of all that are scored, and of the "
            f"{kept} with the highest scores."
        )
        columns = ("target: source", "before", *s.methods)
        yield Table(f"Sources of the best {kept}", columns, tuple(shown), (note,))
    for (row, method), seeds in measured.items() if len(s.finetuned) > 1 else ():
        of = seeds[0]["histogram"]
        shown = [
            (f"{of['edges'][4 * i]:.3f} to {of['edges'][4 * i + 4]:.3f}", Score(a), Score(b))
            for i, (a, b) in enumerate(
                zip(tenths(of["inside"]), tenths(of["outside"]), strict=True)
            )
        ]
        note = "Percent of the held-out target and of the corpus's units by score, first seed."
        columns = ("score", "of the target", "of the corpus")
        yield Table(f"Scores of {method}, {row}", columns, tuple(shown), (note,))


def part(counts: Mapping[str, int], name: str) -> float:
    """A name's share of all counts."""
    return counts.get(name, 0) / max(1, sum(counts.values()))


def tenths(counts: list[int]) -> list[float]:
    """Shares in ten bins; the outer ones have what lies beyond them."""
    n = np.array(counts, np.float64)
    bins = n[1:-1].copy()
    bins[[0, -1]] += n[[0, -1]]
    return [float(v) for v in bins.reshape(10, -1).sum(axis=1) / n.sum()]


def run(path: Path, out: Path, machine: Machine | None = None) -> Path:
    """Measure what a file asks for; writes `table.md` and `table.json` in a folder."""
    s = read_setting(path)
    out.mkdir(parents=True, exist_ok=True)
    with (machine or Machine()).running(out / ".work") as context:
        measured, sources = measure(s, context)
    tables = list(tables_of(s, measured))
    cells = {
        cell: {"task": cell[0], "size": 0, "model": s.model, "selector": cell[1]}
        for cell in measured
    }
    results = []
    for cell, seeds in measured.items():
        scores = [of["f1"] for of in seeds]
        mean, sd = spread(scores)
        metrics = {
            k: float(np.mean([of[k] for of in seeds]))
            for k in ("auroc", "ap", "accuracy")
            if k in seeds[0]
        }
        results.append(
            {
                "cell": cells[cell],
                "column": cell[1],
                "metric": "F1",
                "scores": scores,
                "mean": mean,
                "sd": sd,
                "metrics": metrics,
                "error": "",
            }
        )
    content = {
        "recipe": {"name": s.name},
        "pile": source_identity(sources),
        "measurements": [{"cell": cells[cell], "measured": of} for cell, of in measured.items()],
        "versions": versions(),
        "results": results,
        "tables": [{**dataclasses.asdict(table), "rows": plain(table)} for table in tables],
    }
    (out / "table.md").write_text("\n".join(map(markdown, tables)), "utf-8")
    (out / "table.json").write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")
    return out


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
