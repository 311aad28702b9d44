"""The two sides of a comparison: a model, or a model for each seed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from corpusfit.embed.contract import digest
from corpusfit.evaluation.network import base_plan, head_fingerprint
from corpusfit.evaluation.plan import HeadPlan


@dataclass(frozen=True)
class Model:
    """A model by its content, and the plan that opens it."""

    fingerprint: str
    plan: HeadPlan


@dataclass(frozen=True)
class Side:
    """A model, or a model for each seed.

    Attributes:
        name: as it is named, with `{seed}` if it stands for several.
        models: the model of each seed.
    """

    name: str
    models: tuple[Model, ...]

    @classmethod
    def of(cls, ours: HeadPlan, base: str, seed: int, seeds: int, *, learns: bool) -> Side:
        """The side of `ours`, or of its base if that is named, to be fine-tuned or as it is."""
        found: dict[str, Model] = {}
        names = [(base or ours.name).replace("{seed}", str(seed + k)) for k in range(seeds)]
        for k, name in enumerate(names):
            if name not in found:
                own = dataclasses.replace(ours, name=ours.name.replace("{seed}", str(seed + k)))
                found[name] = (
                    _base_model(own, name)
                    if base and learns
                    else Model(
                        head_fingerprint(name, "`base`" if base else "`model.name`"),
                        dataclasses.replace(own, name=name),
                    )
                )
        return cls(base or ours.name, tuple(found[name] for name in names))

    def as_dict(self) -> dict[str, Any]:
        """Name, fingerprint and adapter, and the fingerprints by seed if they differ."""
        first, each = self.models[0], [model.fingerprint for model in self.models]
        by_seed = {"by_seed": each} if len(set(each)) > 1 else {}
        return {
            "name": self.name,
            "fingerprint": first.fingerprint,
            "adapter": first.plan.adapter,
            **by_seed,
        }


def _base_model(ours: HeadPlan, base: str) -> Model:
    """The base model, with a new adapter if `ours` is an adapter's folder."""
    key, plan = head_fingerprint(base, "`base`"), base_plan(ours, base)
    if plan.adapter != ours.adapter:  # another model than the whole base in the same folder
        key = digest({"base": key, "adapter": [plan.adapter, plan.reduction, plan.rank]})
    return Model(key, plan)
