"""What is decided and found of a selection before its steps, which read it and change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.manifest import source_identity, versions
from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.core.types import Source
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import AnyMethod
from corpusfit.text.context import at_commit
from corpusfit.text.input import Input


@dataclass(frozen=True)
class Resolved:
    """A plan without open questions, its inputs, and fingerprints of what else decides scores."""

    plan: Plan  # final, as the manifest states it
    target: Input
    corpus: Input
    embedder_reason: str = ""  # why `embed.embedder=auto` became this model; empty for a named one
    cut_reason: str = ""  # why units have so many word pieces; empty if the plan says how many
    encoder: str | None = None  # fingerprint of the encoder; None for a method on words
    precision: str = ""  # what a transformer computes in, a part of its fingerprint
    commits: Mapping[str, str] = field(default_factory=dict)  # of encoders of the hub, by name
    files: Mapping[str, str] = field(default_factory=dict)  # fingerprints of those methods read
    clusters: str = ""  # fingerprint of those that balance the selection

    @classmethod
    def stored(cls, manifest: Mapping[str, Any]) -> Resolved:
        """Restore what was decided of a scored run; its sources may have changed since."""
        plan = Plan.from_dict(manifest["plan"])
        target, sources = ([Source(**s) for s in manifest[key]] for key in ("target", "corpus"))
        return cls(
            plan,
            Input(target, plan.target_read, "target"),
            Input(sources, plan.read, with_target=not plan.fit.target_field),
            manifest.get("embedder_reason", ""),
            manifest.get("cut_reason", ""),
            manifest["encoder"],
            manifest.get("precision", ""),
            manifest.get("commits", {}),
            manifest["files"],
        )

    @cached_property
    def method(self) -> AnyMethod:
        """The method with its settings."""
        return registry.build(self.plan.method.name, self.plan.method.options)

    @property
    def embed(self) -> EmbedPlan:
        """The settings of the encoder, at its commit, so that every worker loads the same one."""
        return at_commit(self.plan.embed, self.commits)

    @property
    def embedder(self) -> str:
        """The encoder whose embeddings the method reads; empty for none."""
        return self.plan.embed.embedder if self.method.encodes else ""

    def identity(self) -> dict[str, Any]:
        """What must be equal to resume a run; `strict` can change."""
        settings = self.plan.identity() | {"read": self.plan.read.identity()}
        settings["choose"]["clusters"] = self.clusters  # their fingerprint, not their path
        return {
            **settings,
            "target": source_identity(self.target.sources),
            "corpus": source_identity(self.corpus.sources),
            **corpus.layout(self.corpus.sources, self.plan.read),
            "encoder": self.encoder,
            "encoders": {},  # as in older runs
            "files": self.files,
            "versions": {"corpusfit": versions()["corpusfit"], "tokens": TOKENS},
        }
