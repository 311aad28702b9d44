"""Fits a method as `select` does, without a selection, and scores whole texts with it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import restore, store, write_bytes
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.manifest import undamaged, versions
from corpusfit.core.plan import CutPlan, EmbedPlan, MethodPlan, Plan
from corpusfit.core.types import Documents, Paired, Texts, read_as
from corpusfit.embed import Encoder, load
from corpusfit.embed.store import rounded
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Scorer
from corpusfit.selection.embedder_by_size import by_size
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.scoring import fit_method, prepare_encoder
from corpusfit.text.context import Machine, Run
from corpusfit.text.reading import cut_units, joined_scores


@dataclass(frozen=True)
class Fitted:
    """A fitted method, with what it needs to score texts."""

    scorer: Scorer[Any]
    method: MethodPlan  # the method and its settings; where `auto` was asked for, its choice
    embed: EmbedPlan
    encoder: str | None  # its fingerprint; None for a method on words
    reason: str
    cache: Path
    cut: CutPlan

    def score(self, texts: Texts) -> NDArray[np.float32]:
        """Score n texts, each cut into units as a document of a corpus is, of any length."""
        method = registry.build(self.method.name, self.method.options)
        if method.whole_segments:
            return self.scorer.score(texts)
        units, batch = cut_units(Documents(np.arange(len(texts)), texts), self.cut)
        if method.reads != "text":
            vectors = rounded(self._encoder.encode(batch)).astype(np.float32)
            batch = read_as(Paired(batch, vectors), method.reads)
        counts = np.bincount(units.row, minlength=len(texts)).astype(np.int32)
        return joined_scores(self.scorer.score(batch), counts, summed=method.log_weights)

    @cached_property
    def _encoder(self) -> Encoder:
        encoder = load(self.embed, self.cache)
        if encoder.fingerprint != self.encoder:
            raise ModelError(
                f"The embedder {self.embed.embedder} is not the one that the scorer was fitted "
                "with: its model, its precision on this machine or a library differs. Restore it, "
                "or fit again."
            )
        return encoder

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without the embedder, which is loaded again."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def save(self, folder: Path, asked: dict[str, Any]) -> None:
        """Write `scorer.safetensors`, and `scorer.json` with what else was asked for and found."""
        kept = {name: value for name, value in vars(self).items() if name in _PLAIN}
        for part in ("embed", "method", "cut"):
            kept[part] = dataclasses.asdict(getattr(self, part))
        about = {"corpusfit": versions()["corpusfit"], "tokens": TOKENS, "asked": asked, **kept}
        store(folder / _ARRAYS, self.method.name, self.scorer)
        write_bytes(folder / _ABOUT, json.dumps(about, indent=1).encode())

    @classmethod
    def load(cls, folder: Path, cache: Path) -> tuple[Fitted, dict[str, Any]]:
        """Read what `save` wrote, and what was asked for."""
        try:
            about = json.loads((folder / _ABOUT).read_bytes())
            method, embed = MethodPlan(**about["method"]), EmbedPlan(**about["embed"])
            found = restore(folder / _ARRAYS, registry.scorer_class)
            cut = CutPlan(**about["cut"])
            known = cls(found, method, embed, about["encoder"], about["reason"], cache, cut)
            asked = about["asked"]
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise ModelError(f"{folder} does not hold a scorer that was saved: {e}.") from e
        known._require_tokens(about, folder)
        return known, asked

    @classmethod
    def of_run(cls, folder: SelectionFolder, cache: Path) -> tuple[Fitted, dict[str, Any]]:
        """The method as a run of `select` or `score` fitted it, and what was asked for."""
        manifest = folder.require_scored()
        with undamaged(folder.path):
            plan, method = Plan.from_dict(manifest["plan"]), MethodPlan(**manifest["method"])
            encoder, reason = manifest["encoder"], manifest["reason"]
        if registry.load(method.name).scorer is None:
            raise UsageError(
                f"The method of {folder.path}, {method.name}, cannot score a single text. Score a "
                "corpus with it, or fit another method."
            )
        found = restore(folder.fit / _ARRAYS, registry.scorer_class)
        embed = plan.embed
        asked = {"method": plan.method.name, **plan.method.options, "seed": plan.seed}
        if encoder:
            asked["embedder"] = embed.embedder
        known = cls(found, method, embed, encoder, reason, cache, plan.cut)
        known._require_tokens(manifest, folder.path)
        return known, asked

    def _require_tokens(self, about: dict[str, Any], folder: Path) -> None:
        """Check that a method on words reads texts as it did when it was fitted."""
        reads = registry.build(self.method.name, self.method.options).reads
        if reads != "embedding" and about.get("tokens") != TOKENS:
            raise ModelError(
                f"The scorer in {folder} is of a version of corpusfit that divides texts of some "
                "scripts into other words. Fit it again."
            )


_ARRAYS, _ABOUT = "scorer.safetensors", "scorer.json"
_PLAIN = ("encoder", "reason")


def fit(plan: Plan, target: Texts, background: Texts, *, machine: Machine) -> Fitted:
    """Fit the plan's method, or the one that `auto` chooses, as `select` does on files of these."""
    with machine.running() as context:
        sources = []
        for name, texts in (("target", target), ("background", background)):
            file = context.work / f"{name}.jsonl"
            write_bytes(file, b"\n".join(orjson.dumps({"text": t}) for t in texts.to_pylist()))
            sources.append(context.find([str(file)], plan.read, name))
        run = Run.of(context, plan, *sources, role="background")
        decided = by_size(plan, run.sources, workers=run.engine.workers, cascade=False)
        run.choose_embedder(*decided)
        method = registry.with_embedder(plan.method, run.plan.embed.embedder)
        run.plan = run.asked = dataclasses.replace(run.plan, method=method)
        prepare_encoder(run)
        folder = SelectionFolder(run.work)
        used, _ = fit_method(run, folder)
        scorer = restore(folder.fit / _ARRAYS, registry.scorer_class)
        encodes = registry.build(used.name, used.options).encodes
        encoder = run.encoder if encodes else None
        return Fitted(scorer, used, run.plan.embed, encoder, run.reason, run.cache, run.plan.cut)
