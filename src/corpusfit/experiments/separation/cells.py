"""The cells of a recipe with `[separation]`: what each is measured on, and its digest."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import source_identity
from corpusfit.core.plan import EmbedPlan, MethodPlan
from corpusfit.core.types import Source
from corpusfit.embed import prepare
from corpusfit.experiments import fingerprints
from corpusfit.experiments.config import Recipe, Selector
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.grid import Cell
from corpusfit.experiments.recipe_keys import in_table
from corpusfit.experiments.separation.settings import Separation
from corpusfit.experiments.separation.targets import Target, tuning_of
from corpusfit.scoring import registry
from corpusfit.text import fingerprint
from corpusfit.text.context import Machine

ALL = "the corpus"
FINETUNED = "fine-tuned"


@dataclass(frozen=True)
class SeparationNode:
    """One measurement: a method, fitted with one seed.

    Attributes:
        key: its digest.
        seed: random seed of the corpus's units, of the split and of the fit.
        method: the method with its settings.
        embed: the encoder.
        target: name of the target.
        corpus: name of the corpus.
        finetuned: whether the encoder is fine-tuned.
        fractions: shares of the scored units whose sources are counted.
        out: file of the result.
        label: description for the user.
    """

    key: str
    seed: int
    method: MethodPlan
    embed: EmbedPlan
    target: str
    corpus: str
    finetuned: bool
    fractions: tuple[float, ...]
    out: Path
    label: str


Cells = dict[Cell, list[SeparationNode]]
"""The measurements of each cell, one for each seed."""


def corpora_of(separation: Separation) -> dict[str, Mapping[str, float]]:
    """Globs and shares by name; without any, the whole corpus."""
    return dict(separation.corpora) or {ALL: {"*": 0.0}}


def sources_of(globs: Mapping[str, float], names: list[str]) -> dict[str, list[str]]:
    """By glob, the names of the sources that match it."""
    found = {glob: [n for n in names if fnmatch.fnmatch(n, glob)] for glob in globs}
    for glob, of in found.items():
        if not of:
            raise bad_setting("separation.corpora", f"globs for some of {', '.join(names)}", glob)
    every = [name for of in found.values() for name in of]
    if len(set(every)) < len(every):
        twice = next(name for name in every if every.count(name) > 1)
        raise bad_setting("separation.corpora", "globs that share no source", f"{twice} twice")
    return found


def cells_of(
    recipe: Recipe,
    separation: Separation,
    sources: list[Source],
    targets: Mapping[str, Target],
    folder: RecipeFolder,
    machine: Machine,
) -> Cells:
    """Every cell with its measurements.

    A digest goes by the content of the target, the corpus and the encoder, so that a changed
    recipe keeps what it still needs.
    """
    names, identity = [s.name for s in sources], source_identity(sources)
    found: Cells = {}
    for target in targets.values():
        for corpus, globs in corpora_of(separation).items():
            own = sorted(n for of in sources_of(globs, names).values() for n in of)
            for model in recipe.models:
                for finetuned in separation.finetuned:
                    parts = [target.name, *([corpus] if len(separation.corpora) > 1 else [])]
                    row = ", ".join([*parts, *([FINETUNED] if finetuned else [])])
                    for selector in recipe.selectors:
                        embed = dataclasses.replace(selector.select.embed, embedder=model)
                        method = _method(selector, model)
                        files = registry.build(method.name, method.options).files
                        read = {file: fingerprint(file)[0] for file in files}
                        decides: dict[str, Any] = {
                            "method": fingerprints.by_content(method, read),
                            "encoder": _encoder(method, embed, machine, finetuned=finetuned),
                            "read": selector.select.read.decisive(),
                            "cut": dataclasses.asdict(selector.select.cut),
                            "background": selector.select.fit.background,
                            "corpus": [globs, {name: identity[name] for name in own}],
                            "target": target.digest,
                            "sizes": [separation.texts, separation.documents, separation.held_out],
                            "fractions": selector.fractions,
                            "tune": tuning_of(recipe, target) if finetuned else {},
                        }
                        cell = Cell(row, 0, model, selector.name, None, "off", "", "")
                        found[cell] = [
                            SeparationNode(
                                key := fingerprints.step("separate", seed=seed, **decides),
                                seed,
                                method,
                                embed,
                                target.name,
                                corpus,
                                finetuned,
                                selector.fractions,
                                folder.outcome(key, seed),
                                f"{selector.name} on {row}, seed {seed}",
                            )
                            for seed in range(recipe.seed, recipe.seed + recipe.seeds)
                        ]
    return found


def _method(selector: Selector, model: str) -> MethodPlan:
    """A selector's method, which must score each unit alone."""
    with in_table(f"selector.{selector.name}"):
        plan = registry.with_embedder(selector.select.method, model)
        registry.unit_method(plan.name, plan.options)
    return plan


def _encoder(method: MethodPlan, embed: EmbedPlan, machine: Machine, *, finetuned: bool) -> str:
    """The fingerprint of the encoder; empty if the method reads no vectors."""
    encodes = registry.build(method.name, method.options).encodes
    return _prepared(embed, machine.cache_folder()) if encodes or finetuned else ""


@functools.cache
def _prepared(embed: EmbedPlan, cache: Path) -> str:
    return prepare(embed, cache)
