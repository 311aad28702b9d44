"""The plan of a selection: every setting with its default and its check, by stage."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corpusfit.errors import UsageError, bad_setting
from corpusfit.settings import Settings, finite, one_of, positive, seed_below

UNITS = ("window", "sentence", "paragraph", "fixed", "document")
POLICIES = ("top", "continuous", "resample")
QUOTAS = ("target", "even", "corpus")
DEFAULT_FRACTION = 0.2
AUTO = "auto"
"""The fraction that held-out bits decide."""


@dataclass(frozen=True)
class ReadPlan:
    """How rows become documents.

    Attributes:
        text_field: field or column with the text (default: text).
        id_field: field or column with the input's own id, which may be missing (default: id).
        txt: documents of `.txt` files: `blocks` between blank lines, or `lines` (default: blocks).
        strict: stop at the first row that cannot be used (default: False).
        shard_mb: size of a shard in MiB of uncompressed rows (default: 4.0).
        max_row_mb: largest row in MiB; larger rows are rejected (default: 32.0).
        max_ratio: highest compression ratio; the rest of an archive above it is not read (default:
            2000.0).
    """

    text_field: str = "text"
    id_field: str = "id"
    txt: str = "blocks"
    strict: bool = False
    shard_mb: float = 4.0
    max_row_mb: float = 32.0
    max_ratio: float = 2000.0

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.txt not in ("blocks", "lines"):
            raise bad_setting("read.txt", "blocks or lines", self.txt)
        for name in ("shard_mb", "max_row_mb", "max_ratio"):
            positive(f"read.{name}", getattr(self, name))


@dataclass(frozen=True)
class CutPlan:
    """How documents become units and segments (TADPOLE, section 3.2 and appendix D).

    Attributes:
        unit: unit of text: `window` (sentences packed up to `cut.pieces`), `sentence`, `paragraph`,
            `fixed` (windows that ignore sentences) or `document` (default: window).
        pieces: most estimated word pieces in a unit, except in a `document` (default: 256).
        gamma: consecutive units in a segment (default: 15).
    """

    unit: str = "window"
    pieces: int = 256
    gamma: int = 15

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.unit not in UNITS:
            raise bad_setting("--unit", f"one of {', '.join(UNITS)}", self.unit)
        positive("cut.pieces", self.pieces)
        positive("cut.gamma", self.gamma)


@dataclass(frozen=True)
class EmbedPlan:
    """How units become vectors.

    Attributes:
        embedder: model for embeddings: `minilm`, `static`, `static:MODEL`, a model folder or a
            Hugging Face hub id (default: minilm).
        pooling: embedding of a unit: `mean` of the last hidden state (TADPOLE, section 3.1) or
            `cls` (default: mean).
        unit_length: scale a transformer's embeddings to length 1; without it, longer texts have
            shorter vectors, which detectors mistake for content (default: True).
        precision: number format: `auto` (bf16 where the hardware supports it), `bf16` or `fp32`
            (default: auto).
        device: device to run on: `auto`, `cpu` or `cuda` (default: auto).
        batch_tokens: most tokens in a batch, padding included; 0 is 1,024 on a CPU and 32,768 on a
            GPU (default: 0).
    """

    embedder: str = "minilm"
    pooling: str = "mean"
    unit_length: bool = True
    precision: str = "auto"
    device: str = "auto"
    batch_tokens: int = 0

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for name, allowed in (
            ("pooling", ("mean", "cls")),
            ("precision", ("auto", "bf16", "fp32")),
            ("device", ("auto", "cpu", "cuda")),
        ):
            if getattr(self, name) not in allowed:
                raise bad_setting(
                    f"embed.{name}", f"one of {', '.join(allowed)}", getattr(self, name)
                )
        if self.batch_tokens < 0:
            raise bad_setting("embed.batch_tokens", "0 or more", self.batch_tokens)


@dataclass(frozen=True)
class FitPlan:
    """The texts that a method is fitted on.

    Attributes:
        background: units in the random sample of the corpus (default: 10000).
        max_target: most target units; a larger target is sampled (default: 20000).
        normalise: undo a task's own tokenisation and entity marks in the target (default: True).
        shares: weights of several targets, such as `a.jsonl:0.7,b.jsonl:0.3`, each named by its
            path below their common folder (default: by number of texts).
    """

    background: int = 10_000
    max_target: int = 20_000
    normalise: bool = True
    shares: str = ""

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        positive("fit.background", self.background)
        positive("fit.max_target", self.max_target)
        self.share_of()

    def share_of(self) -> dict[str, float]:
        """The shares by the targets' names; empty without the setting.

        Raises:
            UsageError: the setting is not `name:share,…` with shares above 0.
        """
        found: dict[str, float] = {}
        for part in filter(None, self.shares.split(",")):
            name, _, share = part.strip().rpartition(":")
            try:
                found[name] = float(share)
            except ValueError:
                found[name] = 0.0
            if not name or not 0 < found[name] < math.inf:
                raise bad_setting(
                    "fit.shares",
                    "NAME:SHARE pairs separated by commas, with shares above 0",
                    self.shares,
                    "For example --set fit.shares=a.jsonl:0.7,b.jsonl:0.3.",
                )
        return found


@dataclass(frozen=True)
class MethodPlan:
    """The scoring method and its own settings (`score/contract.py`).

    Attributes:
        name: name of the method, or `auto` (default: auto).
        options: settings of the method, by name (default: none).
    """

    name: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `UsageError` for settings without a method; the method checks its own."""
        if self.name == "auto" and self.options:
            raise bad_setting(
                "--method",
                "the name of a method where its settings are given",
                f"auto with {', '.join(self.options)}",
                "For example --method knn --set method.k=10.",
            )


@dataclass(frozen=True)
class AutoPlan:
    """The limits of `--method auto`.

    Attributes:
        budget: highest cost of scoring 1 GB of text (10^9 characters) on this machine with these
            workers: a time such as `90s`, `20min` or `2h`, or money such as `0.50@1.20` (0.50 per
            GB, where an hour of the machine costs 1.20) (default: no limit).
    """

    budget: str = ""

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.budget:
            self.seconds()

    def seconds(self) -> float:
        """Highest seconds per GB of text; infinite without a budget.

        Raises:
            UsageError: the budget is neither a time nor money at a price per hour.
        """
        if not self.budget:
            return math.inf
        time = re.fullmatch(rf"{_NUMBER} ?(s|min|h)", self.budget)
        money = re.fullmatch(rf"{_NUMBER}@{_NUMBER}", self.budget)
        seconds = 0.0
        if time:
            seconds = float(time[1]) * _SECONDS[time[2]]
        elif money and float(money[2]) > 0:
            seconds = float(money[1]) / float(money[2]) * _SECONDS["h"]
        if not 0 < seconds < math.inf:
            raise bad_setting(
                "--budget",
                "a time above 0 such as 90s, 20min or 2h, or money such as 0.50@1.20",
                self.budget,
                "For example --budget 20min: at most 20 minutes per GB of text.",
            )
        return seconds


_NUMBER = r"(\d+(?:\.\d+)?)"
_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class StageText:
    """One stage of a cascade: `NAME[@EMBEDDER][:SHARE]`.

    Attributes:
        name: a method, or an embedder.
        embedder: the embedder of a method on embeddings; "" is the run's.
        share: share of all segments of the corpus that the stage passes on; None if not given.
    """

    name: str
    embedder: str = ""
    share: float | None = None

    @classmethod
    def of(cls, text: str) -> StageText:
        """Parse one; a last part that is not a number belongs to the name, as in `pyod:ECOD`."""
        rest, _, last = text.strip().rpartition(":")
        try:
            share = float(last) if rest else None
        except ValueError:
            share = None
        name, _, embedder = (rest if share is not None else text).partition("@")
        return cls(name.strip(), embedder.strip(), share)

    def __str__(self) -> str:
        """The form that `of` parses."""
        embedder = f"@{self.embedder}" if self.embedder else ""
        return f"{self.name}{embedder}" + ("" if self.share is None else f":{self.share!r}")


@dataclass(frozen=True)
class CascadePlan:
    """Methods that score one after the other, each the segments that the one before passes on.

    Attributes:
        stages: two or more stages `NAME[@EMBEDDER][:SHARE]` joined by `>`, cheapest first; SHARE is
            the share of the whole corpus that the stage passes on (default: no cascade).
        recall: share of the last stage's own selection that the cascade keeps; sets the stages'
            shares from a sample (default: 0.95 if `stages` gives no shares).
        confidence: confidence level of the interval of the estimated recall (default: 0.95).
        sample: segments that every stage scores, one half to set the shares and one half to
            estimate the recall; at most half the corpus (default: 2000).
    """

    stages: str = ""
    recall: float | None = None
    confidence: float = 0.95
    sample: int = 2_000

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.recall is not None and not self.stages:
            cure = f"For example --cascade 'dsir>minilm' --recall {self.recall}."
            raise bad_setting("--recall", "given with --cascade", self.recall, cure)
        if self.recall is not None and not 0 < self.recall <= 1:
            raise bad_setting("--recall", "in (0, 1]", self.recall)
        if not 0 < self.confidence < 1:
            raise bad_setting("cascade.confidence", "between 0 and 1", self.confidence)
        if self.sample < _LEAST_SAMPLE:
            raise bad_setting("cascade.sample", f"{_LEAST_SAMPLE} or more", self.sample)
        if self.stages:
            self.stage_texts()

    def stage_texts(self) -> tuple[StageText, ...]:
        """The stages, in order; their names are not checked.

        Raises:
            UsageError: there are fewer than two, a name is missing, or a share is not allowed.
        """
        stages = tuple(StageText.of(part) for part in self.stages.split(">"))
        if len(stages) < 2 or not all(stage.name for stage in stages):
            raise bad_setting(
                "--cascade",
                "two or more stages NAME[@EMBEDDER][:SHARE] joined by >",
                self.stages,
                "For example --cascade 'dsir>minilm', or 'dsir:0.3>static:0.12>minilm'.",
            )
        *earlier, last = stages
        if last.share is not None:
            raise bad_setting(
                "The last stage of --cascade",
                "given without a share: nothing comes after it",
                str(last),
                f"Write {dataclasses.replace(last, share=None)}; set the size of the selection by "
                "--fraction.",
            )
        shares = [stage.share for stage in earlier]
        known = [share for share in shares if share is not None]
        if known and self.recall is not None:
            cure = "Leave out --recall, or the shares."
            raise bad_setting(
                "--recall", "left out where --cascade gives shares", self.recall, cure
            )
        if 0 < len(known) < len(shares):
            raise bad_setting(
                "--cascade",
                "given with a share for every stage but the last, or with no shares",
                self.stages,
                "For example --cascade 'dsir:0.3>static:0.12>minilm'.",
            )
        for stage, before in zip(earlier, [1.0, *known], strict=False):
            if stage.share is not None and not 0 < stage.share <= before:
                most = "1" if stage is stages[0] else f"{before:g}, the share of the stage before"
                raise bad_setting(
                    f"The share of {stage.name} in --cascade",
                    f"above 0 and at most {most} (it is of the whole corpus)",
                    stage.share,
                    "For example --cascade 'dsir:0.3>static:0.12>minilm'.",
                )
        return stages


_LEAST_SAMPLE = 20


@dataclass(frozen=True)
class ChoosePlan:
    """The segments to select, and their weights.

    At most one of fraction, segments, tokens and threshold may be given. The default fraction is
    that of TADPOLE, Figure 5.

    Attributes:
        policy: `top` (highest scores), `continuous` (every segment, weighted by lambda) or
            `resample` (segments drawn in proportion to lambda) (default: top).
        fraction: share of the segments to select, above 0 and at most 1, or `auto`: the smallest
            share that is not distinguishable from the best by held-out bits (default: 0.2, or 1
            with `continuous`).
        segments: number of segments to select (default: set by `choose.fraction`).
        tokens: most estimated word pieces to select (default: set by `choose.fraction`).
        threshold: lowest score to select (default: set by `choose.fraction`).
        c: steepness C of lambda (default: 1.0).
        alpha: midpoint of lambda, in standard deviations of the anomaly score (default: 0.0).
        balance: `cluster` selects a quota from each cluster of `choose.clusters`; with lambda, the
            quota is a cluster's share of the weight (default: no balancing).
        clusters: folder written by `corpusfit clusters`, for `choose.balance` (default: none).
        quota: quota of a cluster: `target` (its share of the target's texts), `even` (equal for all
            clusters) or `corpus` (its share of the corpus); a small cluster's unfilled quota goes
            to the others (default: target).
    """

    policy: str = "top"
    fraction: float | str | None = None
    segments: int | None = None
    tokens: int | None = None
    threshold: float | None = None
    c: float = 1.0
    alpha: float = 0.0
    balance: str = ""
    clusters: str = ""
    quota: str = "target"

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        self._check_balance()
        if self.policy not in POLICIES:
            cure = "lambda is for corpusfit adapt; here use continuous." * (self.policy == "lambda")
            raise bad_setting("--weights", f"one of {', '.join(POLICIES)}", self.policy, cure)
        amounts = ("fraction", "segments", "tokens", "threshold")
        named = [f"--{a}" for a in amounts if getattr(self, a) is not None]
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} exclude each other. Pass one.")
        self._check_fraction()
        if self.policy == "resample" and self.threshold is not None:
            raise bad_setting(
                "--threshold",
                "left out with --weights resample",
                self.threshold,
                "Set the amount by --fraction, --segments or --tokens.",
            )
        for name in ("segments", "tokens"):
            if getattr(self, name) is not None:
                positive(f"--{name}", getattr(self, name))
        if self.threshold is not None:
            finite("--threshold", self.threshold)
        finite("choose.alpha", self.alpha)
        finite("choose.c", self.c)
        if self.c < 0:
            raise bad_setting("choose.c", "0 or more", self.c)

    @property
    def share(self) -> float:
        """The fraction as a number; the default where none is given, or not decided yet."""
        if isinstance(self.fraction, float):
            return self.fraction
        return 1.0 if self.policy == "continuous" else DEFAULT_FRACTION

    def _check_fraction(self) -> None:
        named = isinstance(self.fraction, str)
        if named and self.fraction == AUTO:
            if self.policy != "top" or self.balance:
                raise bad_setting(
                    "--fraction",
                    "a number with --weights or --balance",
                    self.fraction,
                    "auto is for the segments with the highest scores.",
                )
        elif self.fraction is not None and (named or not 0 < self.share <= 1):
            raise bad_setting(
                "--fraction",
                "in (0, 1], or auto",
                self.fraction,
                "For a tenth of the corpus: --fraction 0.1.",
            )

    def _check_balance(self) -> None:
        one_of("--balance", self.balance, ("", "cluster"))
        one_of("choose.quota", self.quota, QUOTAS)
        if self.balance and not self.clusters:
            raise bad_setting(
                "--clusters",
                "the folder of a `corpusfit clusters` run with --balance cluster",
                "nothing",
                "To write one, run: corpusfit clusters --corpus INPUT --out FOLDER",
            )
        if self.clusters and not self.balance:
            cure = "Add --balance cluster, or leave out --clusters."
            raise bad_setting("--clusters", "given with --balance cluster", self.clusters, cure)
        if self.balance and self.threshold is not None:
            raise bad_setting(
                "--threshold",
                "left out with --balance",
                self.threshold,
                "Set the amount by --fraction, --segments or --tokens.",
            )


@dataclass(frozen=True)
class Plan(Settings):
    """Every setting of a selection that can change its result."""

    read: ReadPlan = ReadPlan()
    cut: CutPlan = CutPlan()
    embed: EmbedPlan = EmbedPlan()
    fit: FitPlan = FitPlan()
    method: MethodPlan = MethodPlan()
    auto: AutoPlan = AutoPlan()
    cascade: CascadePlan = CascadePlan()
    choose: ChoosePlan = ChoosePlan()
    seed: int = 0

    def check(self) -> Plan:
        """The plan itself, after every group is checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        groups = (self.read, self.cut, self.embed, self.fit, self.method)
        for group in (*groups, self.auto, self.cascade, self.choose):
            group.check()
        self._check_budget()
        if self.cascade.stages and self.choose.fraction == AUTO:
            raise bad_setting(
                "--fraction",
                "a number with --cascade, as the stages' scores cannot be compared",
                self.choose.fraction,
                "For a tenth of the corpus: --fraction 0.1.",
            )
        if self.cascade.stages and self.choose.policy != "top":
            raise bad_setting(
                "--weights",
                "top with --cascade, as the stages' scores cannot be compared",
                self.choose.policy,
                "Leave out --cascade to score the whole corpus by one method.",
            )
        seed_below("--seed", self.seed)
        return self

    def _check_budget(self) -> None:
        """Raise `UsageError` for a budget that would have no effect."""
        if self.auto.budget and self.cascade.stages:
            raise bad_setting(
                "--budget",
                "left out with --cascade, which names the methods",
                self.auto.budget,
                "Leave out --cascade, and --method auto chooses within the budget.",
            )
        if self.auto.budget and self.method.name != "auto":
            raise bad_setting(
                "--budget",
                "left out unless --method is auto",
                f"{self.auto.budget} with --method {self.method.name}",
                "Leave out --budget, or --method.",
            )
