"""The plan of a run: one frozen dataclass a stage.

What: every setting of a run, with its default and its check.
Why: a run is repeated from its plan, and a changed plan is noticed by comparing it.
Trade-off: a method's own settings live with the method (`score/contract.py`) and travel as
`options`, so that a plan does not know them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corpusfit.errors import bad_setting
from corpusfit.settings import Settings, finite, one_of, positive, seed_below

UNITS = ("window", "sentence", "paragraph", "fixed", "document")
POLICIES = ("top", "continuous", "resample")
QUOTAS = ("target", "even", "corpus")


@dataclass(frozen=True)
class ReadPlan:
    """How rows become documents.

    Attributes:
        text_field: name of the field or column with the text.
        id_field: name of the field or column with the input's own id; absent is fine.
        txt: documents of `.txt` files: `blocks` between blank lines, or `lines`.
        strict: the first rejected row is an error.
        shard_mb: a shard closes once it holds this many MiB of unpacked rows.
        max_row_mb: a row longer than this many MiB is rejected.
        max_ratio: an archive that unpacks to more than this many times its size is cut off.
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
        unit: `window` (sentences packed up to the limit), `sentence`, `paragraph`, `fixed`
            (windows that ignore sentences) or `document`.
        pieces: no unit but `document` is longer than this many estimated word pieces.
        gamma: consecutive units in a segment.
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
        embedder: `minilm`, `static`, `static:` and a model, a model folder, or a hub id.
        pooling: `mean` of the last hidden state (TADPOLE, section 3.1) or `cls`.
        unit_length: scale a transformer's vectors to length 1; else a longer text's mean is a
            shorter vector, and detectors see how long a text is before what it says.
        precision: `auto` (bf16 where the hardware has it), `bf16` or `fp32`.
        device: `auto`, `cpu` or `cuda`.
        batch_tokens: a batch holds at most this many tokens, padding counted; 0 takes 1,024 on
            a CPU (measured best: a layer stays in the cache) and 32,768 on a GPU.
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
    """What a method is fitted on.

    Attributes:
        background: units in the uniform sample of the corpus.
        max_target: target units beyond this many are left out by a seeded draw.
        normalise: undo a task's own tokenisation and entity marks in the target's text.
        shares: how much each of several targets counts, as `a.jsonl:0.7,b.jsonl:0.3`, each named by
            its path below the folder they have in common; by their number of texts when left out.
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
        """The shares by the target's names; none without the setting.

        Raises:
            UsageError: it does not read `name:share,…` with shares above 0.
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
                    "fit.shares", "name:share pairs with commas, shares above 0", self.shares
                )
        return found


@dataclass(frozen=True)
class MethodPlan:
    """Which method, and its own settings by name."""

    name: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `UsageError` for settings without a method; the registry checks the rest."""
        if self.name == "auto" and self.options:
            raise bad_setting(
                "--method",
                "named when its settings are given",
                f"auto with {', '.join(self.options)}",
                "Say for instance --method knn --set method.k=10.",
            )


@dataclass(frozen=True)
class AutoPlan:
    """What `--method auto` has to mind beside quality.

    Attributes:
        budget: what scoring a GB of text (10^9 characters) may cost on this machine with these
            workers: a time as `90s`, `20min` or `2h`, or money as `0.50@1.20`, 0.50 a GB where an
            hour of the machine costs 1.20; no limit when left out.
    """

    budget: str = ""

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.budget:
            self.seconds()

    def seconds(self) -> float:
        """Seconds that a GB of text may take; infinite without a budget.

        Raises:
            UsageError: the budget is neither a time nor money at a price.
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
                "a time above 0 as 90s, 20min or 2h, or money as 0.50@1.20",
                self.budget,
                "It is for a GB of text; 0.50@1.20 is 0.50 where an hour costs 1.20.",
            )
        return seconds


_NUMBER = r"(\d+(?:\.\d+)?)"
_SECONDS = {"s": 1, "min": 60, "h": 3600}


@dataclass(frozen=True)
class StageText:
    """One stage of a cascade, as it is written: `NAME[@EMBEDDER][:SHARE]`.

    Attributes:
        name: a method, or an embedder.
        embedder: what a method on embeddings reads; "" for the run's.
        share: of all segments of the corpus, passed on; None where it is not said.
    """

    name: str
    embedder: str = ""
    share: float | None = None

    @classmethod
    def of(cls, text: str) -> StageText:
        """Read one; a last part that is no number belongs to the name, as in `pyod:ECOD`."""
        rest, _, last = text.strip().rpartition(":")
        try:
            share = float(last) if rest else None
        except ValueError:
            share = None
        name, _, embedder = (rest if share is not None else text).partition("@")
        return cls(name.strip(), embedder.strip(), share)

    def __str__(self) -> str:
        """As it is written."""
        embedder = f"@{self.embedder}" if self.embedder else ""
        return f"{self.name}{embedder}" + ("" if self.share is None else f":{self.share!r}")


@dataclass(frozen=True)
class CascadePlan:
    """Which methods look at everything, and which only at what those before them left.

    Attributes:
        stages: two or more stages `NAME[@EMBEDDER][:SHARE]` joined by `>`, cheap ones first; no
            cascade when left out. SHARE is how much of the whole corpus a stage passes on.
        recall: how much of the last stage's own selection the earlier ones shall keep; the shares
            are then set from a sample. 0.95 when no shares are given either.
        confidence: that the interval of the estimated recall holds the true one.
        sample: segments that every stage scores, one half to set shares by, the other to estimate
            the recall with; at most half the corpus.
    """

    stages: str = ""
    recall: float | None = None
    confidence: float = 0.95
    sample: int = 2_000

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.recall is not None and not self.stages:
            raise bad_setting("--recall", "given with --cascade", self.recall)
        if self.recall is not None and not 0 < self.recall <= 1:
            raise bad_setting("--recall", "in (0, 1]", self.recall)
        if not 0 < self.confidence < 1:
            raise bad_setting("cascade.confidence", "between 0 and 1", self.confidence)
        if self.sample < _LEAST_SAMPLE:
            raise bad_setting("cascade.sample", f"{_LEAST_SAMPLE} or more", self.sample)
        if self.stages:
            self.stage_texts()

    def stage_texts(self) -> tuple[StageText, ...]:
        """The stages, in order; their names are not looked up.

        Raises:
            UsageError: there are fewer than two, a name is missing, or a share is not allowed.
        """
        stages = tuple(StageText.of(part) for part in self.stages.split(">"))
        if len(stages) < 2 or not all(stage.name for stage in stages):
            raise bad_setting(
                "--cascade",
                "two or more stages NAME[@EMBEDDER][:SHARE] joined by >",
                self.stages,
                "For instance dsir>minilm, or dsir:0.3>static:0.12>minilm.",
            )
        *earlier, last = stages
        if last.share is not None:
            raise bad_setting(
                "The last stage of --cascade",
                "without a share: nothing comes after it",
                str(last),
                "How much is taken in the end is said by --fraction.",
            )
        shares = [stage.share for stage in earlier]
        given = [share for share in shares if share is not None]
        if given and self.recall is not None:
            raise bad_setting(
                "--recall", "left out where --cascade gives shares", self.recall, "Keep one."
            )
        if 0 < len(given) < len(shares):
            raise bad_setting(
                "--cascade", "with a share for every stage but the last, or for none", self.stages
            )
        for stage, before in zip(earlier, [1.0, *given], strict=False):
            if stage.share is not None and not 0 < stage.share <= before:
                allowed = "above 0 and at most " + ("1" if stage is stages[0] else f"{before:g}")
                raise bad_setting(
                    f"The share of {stage.name} in --cascade",
                    f"{allowed} (it is of the whole corpus)",
                    stage.share,
                )
        return stages


_LEAST_SAMPLE = 20


@dataclass(frozen=True)
class ChoosePlan:
    """Which segments are taken, and with what weight.

    At most one of fraction, segments, tokens and threshold; a fraction of 0.2 (TADPOLE, Figure 5)
    when none is given, or everything with `continuous`.

    Attributes:
        policy: `top`, `continuous` (lambda as weight) or `resample` (drawn by lambda).
        fraction: share of the segments, in (0, 1].
        segments: how many segments.
        tokens: estimated word pieces at most.
        threshold: the lowest score taken.
        c: steepness C of lambda.
        alpha: midpoint of lambda, in standard deviations of the anomaly score.
        balance: `cluster` gives each cluster that `corpusfit clusters` found its quota of the
            amount; with lambda, its weight. Nothing is balanced when left out.
        clusters: the folder that `corpusfit clusters` wrote.
        quota: what a cluster's is: `target` (its share of the target's texts), `even` (all the
            same) or `corpus` (its share of the corpus). What a small cluster cannot fill goes to
            the others.
    """

    policy: str = "top"
    fraction: float | None = None
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
            raise bad_setting("--weights", f"one of {', '.join(POLICIES)}", self.policy)
        amounts = ("fraction", "segments", "tokens", "threshold")
        given = [f"--{a}" for a in amounts if getattr(self, a) is not None]
        if len(given) > 1:
            raise bad_setting("The amount", "given once", " and ".join(given), "Keep one of them.")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise bad_setting(
                "--fraction", "in (0, 1]", self.fraction, "For a tenth of the corpus say 0.1."
            )
        if self.policy == "resample" and self.threshold is not None:
            raise bad_setting(
                "--threshold",
                "left out with --weights resample",
                self.threshold,
                "Say how much to draw with --fraction, --segments or --tokens.",
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

    def _check_balance(self) -> None:
        one_of("--balance", self.balance, ("", "cluster"))
        one_of("choose.quota", self.quota, QUOTAS)
        if self.balance and not self.clusters:
            raise bad_setting(
                "--clusters",
                "the folder of a `corpusfit clusters` with --balance cluster",
                "nothing",
                "Make one with: corpusfit clusters --corpus … --out DIR",
            )
        if self.clusters and not self.balance:
            raise bad_setting("--clusters", "given with --balance cluster", self.clusters)
        if self.balance and self.threshold is not None:
            raise bad_setting(
                "--threshold",
                "left out with --balance",
                self.threshold,
                "Say how much to take with --fraction, --segments or --tokens.",
            )


@dataclass(frozen=True)
class Plan(Settings):
    """Every setting of a run that can change its result."""

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
        """The plan itself, after every group was checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        groups = (self.read, self.cut, self.embed, self.fit, self.method)
        for group in (*groups, self.auto, self.cascade, self.choose):
            group.check()
        self._check_budget()
        if self.cascade.stages and self.choose.policy != "top":
            raise bad_setting(
                "--weights",
                "top with --cascade, whose stages' scores cannot be compared with each other",
                self.choose.policy,
                "Leave out --cascade to score everything by one method.",
            )
        seed_below("--seed", self.seed)
        return self

    def _check_budget(self) -> None:
        """Raise `UsageError` for a budget where nothing is chosen by it."""
        if self.auto.budget and self.cascade.stages:
            raise bad_setting(
                "--budget",
                "left out with --cascade, which says itself what is done",
                self.auto.budget,
            )
        if self.auto.budget and self.method.name != "auto":
            raise bad_setting(
                "--budget",
                "left out where a method is named: only --method auto goes by it",
                f"{self.auto.budget} with {self.method.name}",
            )
