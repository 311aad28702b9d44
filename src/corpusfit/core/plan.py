"""The plan of a selection: every setting with its default and its check, by stage."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.gone import gone
from corpusfit.core.options import Option
from corpusfit.core.settings import SEED, Group, Settings
from corpusfit.core.where import parsed

UNITS = ("window", "sentence", "paragraph", "fixed", "document")
POLICIES = ("top", "continuous", "resample")
QUOTAS = ("target", "even", "corpus")
FRACTION_OF = ("words", "segments")
DEDUPS = ("exact", "near", "none")
PRECISIONS = ("auto", "bf16", "fp32")
GPUS: tuple[str, ...] = ("cuda", "mps", "xpu")
DEVICES = ("auto", "cpu", *GPUS)
DEFAULT_FRACTION = 0.2
TXT = ("auto", "blocks", "lines", "file")
"""What a document of a `.txt` file is."""

DEFAULT_METHOD = "cynical"
AMOUNTS = ("fraction", "segments", "tokens", "threshold")
"""The settings of `ChoosePlan` that say how much is selected."""

AUTO = "auto"
"""The embedder that the corpus decides."""

PAIR = ("text", "translation")
"""The two fields of an aligned pair, of which one is read and the other carried."""

OF_A_TEXT = (*(*PAIR, "source", "row", "segment", "score", "weight", "segments", "id"),)
"""What the lines of `selected/` have; a row's field with such a name is stored as `row_NAME`."""

T = TypeVar("T")

_DEVICE = Option(
    "Device to run on: `cpu`, `cuda`, `mps` (Apple), `xpu` (Intel), one of several GPUs such as "
    "`cuda:1`, or `auto`: the first of cuda, mps and xpu that this machine has, else cpu",
    allowed=DEVICES,
    pattern=r"(cuda|xpu):\d+",
    cure="To choose one of several GPUs, add its number, such as cuda:1.",
)
Device = Annotated[str, _DEVICE]
_ENCODES_ON = dataclasses.replace(
    _DEVICE,
    help="Device to encode on: `cpu`, `cuda`, `mps` (Apple), `xpu` (Intel), one of several GPUs "
    "such as `cuda:1`, or `auto`: cuda if this machine has it, else cpu",
    more="`auto` never picks mps or xpu, on which encoding was not measured; `cuda` and `xpu` mean "
    "all GPUs of their kind",
)
Separator = Annotated[
    str,
    Option(
        "Character between the values in CSV files",
        default="`,`, or a tab in `.tsv` files; another character if only that one divides the "
        "header",
    ),
]
Quote = Annotated[
    str,
    Option(
        "Quote character of CSV files; empty for none",
        default='`"`; in tab-separated files only if some values are quoted',
    ),
]
Escape = Annotated[
    str,
    Option(
        "Character that escapes a quote in CSV files; if quotes are doubled, the quote itself",
        default="found from the file: a backslash or the quote itself",
    ),
]
Columns = Annotated[
    str,
    Option(
        "Names of the columns of CSV files without a header, separated by commas",
        default="the first row",
    ),
]
_AMOUNT = "set by `choose.fraction`"


def kind_of(device: str) -> str:
    """A device without its number: `cuda` of `cuda:1`. Results depend on nothing else of it."""
    return device.partition(":")[0]


def size_for(device: str, sizes: Mapping[str, T]) -> T:
    """The size for a device of sizes for `cpu` and `gpu`, which is every other device."""
    return sizes["cpu" if device == "cpu" else "gpu"]


@dataclass(frozen=True)
class ReadPlan(Group, group="read"):
    """How rows become documents."""

    text_field: Annotated[
        str,
        Option(
            "Field or column that holds the text or a chat's messages, or a template of fields "
            "such as '{title}\\n{body}'",
            "text_field",
            metavar="NAME",
        ),
    ] = "text"
    id_field: Annotated[str, Option("Field or column with a row's own id; rows may lack it")] = "id"
    txt: Annotated[
        str,
        Option(
            "What is a document in `.txt` files: `blocks` between blank lines, single `lines`, "
            "the whole `file`, or `auto`: `lines` if they are short and none is blank, else "
            "`blocks`",
            allowed=TXT,
        ),
    ] = "auto"
    separator: Separator = ""
    quote: Quote = '"'
    escape: Escape = ""
    columns: Columns = ""
    where: Annotated[
        str,
        Option(
            "Read only rows whose other fields pass this filter: comparisons joined by and, or "
            "and not, such as 'language_score > 0.8 and topic == \"Health\"'. Other rows are "
            "counted and left out",
            "where",
            default="all rows",
            metavar="FILTER",
        ),
    ] = ""
    scores: Annotated[
        str,
        Option(
            "Folder with side files of the corpus files: scores or labels that others published, "
            "which become fields of the rows, by `id` (`read.id_field`) or row number",
            "scores",
            default="none",
            metavar="FOLDER",
        ),
    ] = ""
    numbers: Annotated[
        str,
        Option(
            "Fields that must hold a number, separated by commas; methods that score by fields, "
            "such as `field:NAME`, set this themselves",
            default="none",
        ),
    ] = ""
    strict: Annotated[bool, Option("Stop at the first row that cannot be used", "strict")] = False
    shard_mb: Annotated[float, Option("Size of a shard in MiB of uncompressed rows", above=0)] = 4.0
    max_row_mb: Annotated[
        float, Option("Largest row in MiB; larger rows are rejected", above=0)
    ] = 32.0
    max_ratio: Annotated[
        float,
        Option(
            "Highest compression ratio of an archive or of a row group of Parquet; above it, the "
            "rest of the file is not read",
            above=0,
        ),
    ] = 2000.0

    def identity(self) -> dict[str, Any]:
        """The settings that decide the rows; what `scores` names is in the fingerprints."""
        values = dataclasses.asdict(self)
        del values["strict"], values["scores"]
        return values

    def number_fields(self) -> tuple[str, ...]:
        """The fields of `numbers`."""
        return tuple(filter(None, self.numbers.split(",")))

    def other_fields(self) -> tuple[str, ...]:
        """The fields of a row that decide on it, beside its text and its id."""
        filtered = parsed(self.where).fields if self.where else ()
        joined_by = ("id",) if self.scores else ()
        return tuple(dict.fromkeys((*filtered, *self.number_fields(), *joined_by)))

    def kept_fields(self) -> tuple[str, ...]:
        """The fields of a row that its document carries, and that decide nothing."""
        return ()

    def keeping(self, names: tuple[str, ...]) -> ReadPlan:
        """The plan by which documents carry these fields; it cuts a corpus into the same shards."""
        return _KeepingPlan(**{**vars(self), "names": names}) if names else self

    @property
    def joined(self) -> Callable[[int, Mapping[Any, Any]], Mapping[str, Any]] | None:
        """What side files have for a row, by its number and its record; None without any."""
        return None

    @property
    def compared(self) -> tuple[str, ...]:
        """The fields of a row that the join reads."""
        return ()

    def joining(self, join: Callable[[int, Mapping[Any, Any]], Mapping[str, Any]]) -> ReadPlan:
        """The plan by which documents have the values of side files, too."""
        return _KeepingPlan(**{**vars(self), "names": self.kept_fields(), "join": join})

    def sides(self) -> tuple[ReadPlan, ReadPlan]:
        """The plans by which the read and the carried texts of aligned pairs are the texts."""
        text, translation = (dataclasses.replace(self, text_field=name) for name in PAIR)
        return (translation, text) if self.text_field == PAIR[1] else (text, translation)

    def _check_together(self) -> None:
        """Raise `UsageError` for a mark that CSV cannot have, or for a filter."""
        if self.where:
            parsed(self.where)
        for name in ("separator", "quote", "escape"):
            check_mark(f"`read.{name}`", getattr(self, name))


@dataclass(frozen=True)
class _KeepingPlan(ReadPlan, group="read"):
    """How rows become documents with some of their fields, or with those of side files."""

    names: tuple[str, ...] = ()
    join: Any = field(default=None, compare=False)

    @property
    def compared(self) -> tuple[str, ...]:
        return self.join.compared if self.join else ()

    def kept_fields(self) -> tuple[str, ...]:
        return self.names

    @property
    def joined(self) -> Any:
        return self.join


def check_mark(setting: str, mark: str) -> None:
    """Raise `UsageError` unless a mark of CSV files is empty or one ASCII character."""
    if mark and (len(mark) > 1 or not mark.isascii() or mark in "\r\n\0"):
        raise bad_setting(setting, "one ASCII character", mark, "For example ';' or '|'.")


@dataclass(frozen=True)
class CutPlan(Group, group="cut"):
    """How documents become units and segments (TADPOLE, section 3.2 and appendix D)."""

    unit: Annotated[
        str,
        Option(
            "How to cut documents into the pieces that are scored: `window` (as many whole "
            "sentences as fit in `cut.pieces` word pieces; a longer one is cut between words), "
            "`sentence`, `paragraph`, `fixed` (`cut.pieces` word pieces, even mid-sentence) or "
            "`document` (no cuts)",
            "unit",
            metavar="UNIT",
            allowed=UNITS,
        ),
    ] = "window"
    pieces: Annotated[
        int | None,
        Option(
            "Most estimated word pieces in a unit, except in a `document`",
            default="for a `window` whose words are compared, as many as the target's texts have, "
            "64 to 1024; else 256",
            above=0,
        ),
    ] = None
    gamma: Annotated[int, Option("Consecutive units in a segment", above=0)] = 1

    @property
    def most(self) -> int:
        """Most word pieces in a unit; a selection decides it before it cuts (`resolving.py`)."""
        return self.pieces or 256


@dataclass(frozen=True)
class EmbedPlan(Group, group="embed"):
    """How units become vectors."""

    embedder: Annotated[
        str,
        Option(
            "Model for embeddings: `minilm`, `static` (fast, included in the package), a model "
            "folder, a Hugging Face hub id (`OWNER/NAME[@REVISION]`), or `auto`: minilm if "
            "installed, but static for a large corpus",
            "embedder",
            metavar="MODEL",
        ),
    ] = AUTO
    pooling: Annotated[
        str,
        Option(
            "Embedding of a unit: `mean` of the last hidden states or `cls`. If it is set, a "
            "folder's own pooling, prompt and limit of tokens do not count",
            default="as sentence-transformers reads the model's folder, else mean",
            allowed=("mean", "cls"),
        ),
    ] = ""
    unit_length: Annotated[
        bool,
        Option(
            "Scale a transformer's embeddings to length 1; otherwise longer texts get shorter "
            "vectors, which detectors mistake for content"
        ),
    ] = True
    precision: Annotated[
        str,
        Option(
            "Number format: `auto` (bf16 where the hardware supports it, fp16 on other CUDA "
            "devices), `bf16` or `fp32`",
            allowed=PRECISIONS,
        ),
    ] = "auto"
    device: Annotated[str, _ENCODES_ON] = "auto"
    batch_tokens: Annotated[
        int,
        Option(
            "Most tokens in a batch, including padding; 0 means 1,024 on a CPU and 32,768 on a GPU",
            minimum=0,
        ),
    ] = 0

    def _check_together(self) -> None:
        if self.embedder.startswith("static:"):
            raise UsageError(gone("embed.embedder=static:MODEL"))

    @property
    def needs_gpu(self) -> bool:
        """Whether a GPU is asked for, not taken if there is one."""
        return kind_of(self.device) in ("cuda", "xpu")


@dataclass(frozen=True)
class FitPlan(Group, group="fit"):
    """The texts that a method is fitted on."""

    background: Annotated[int, Option("Units in the random sample of the corpus", above=0)] = 10_000
    max_target: Annotated[
        int, Option("Most target units to use; a larger target is sampled. 0 uses all", minimum=0)
    ] = 20_000
    normalize: Annotated[
        bool, Option("Undo a task's own tokenization and entity marks in the target")
    ] = True
    target_field: Annotated[
        str,
        Option(
            "Field or column that holds the target's text",
            "target_field",
            default="same as `read.text_field`",
            metavar="NAME",
        ),
    ] = ""


@dataclass(frozen=True)
class MethodPlan(Group, group="method"):
    """The scoring method and its own settings (`scoring/contract.py`)."""

    name: Annotated[
        str,
        Option(
            "Scoring method (`corpusfit methods` lists them, `corpusfit rank` compares them on "
            "your texts)",
            "method",
            metavar="NAME",
        ),
    ] = DEFAULT_METHOD
    options: Annotated[
        Mapping[str, Any], Option("Settings of the method, by name", default="none")
    ] = field(default_factory=dict)

    def check(self) -> None:
        """Nothing: the method checks its own settings."""


@dataclass(frozen=True)
class ChoosePlan(Group, group="choose"):
    """The segments to select, and their weights.

    At most one of fraction, segments, tokens and threshold may be given. The default fraction is
    that of TADPOLE, Figure 5.
    """

    policy: Annotated[
        str,
        Option(
            "Selection policy: `top` (highest scores), `continuous` (every segment, weighted by "
            "lambda, its relevance from 0 to 1) or `resample` (segments drawn in proportion to "
            "lambda)",
            "policy",
            metavar="POLICY",
            allowed=POLICIES,
        ),
    ] = "top"
    fraction: Annotated[
        float | None,
        Option(
            "Share of the text to select, above 0 and at most 1",
            "fraction",
            default=f"{DEFAULT_FRACTION}, or 1 with `choose.policy=continuous`",
            cure="A share, not per cent: for 5 %, `choose.fraction=0.05`.",
            above=0,
            maximum=1,
        ),
    ] = None
    fraction_of: Annotated[
        str,
        Option(
            "What `choose.fraction` counts: `words` (estimated word pieces; the last segment "
            "may exceed the share) or `segments` of any length",
            "fraction_of",
            metavar="WHAT",
            allowed=FRACTION_OF,
        ),
    ] = "words"
    segments: Annotated[
        int | None, Option("Number of segments to select", "segments", default=_AMOUNT, above=0)
    ] = None
    tokens: Annotated[
        int | None,
        Option(
            "Most word pieces to select (estimated), such as 500k or 2M",
            "tokens",
            default=_AMOUNT,
            above=0,
        ),
    ] = None
    threshold: Annotated[
        float | None, Option("Lowest score to select", "threshold", default=_AMOUNT)
    ] = None
    c: Annotated[float, Option("Steepness C of lambda", minimum=0)] = 1.0
    alpha: Annotated[
        float, Option("Midpoint of lambda, in standard deviations of the anomaly score")
    ] = 0.0
    balance: Annotated[
        str,
        Option(
            "Divide the selection among groups of the corpus and take the best segments of each "
            "group: `cluster` (from `choose.clusters`), `source`, or `field:NAME` (the values "
            "of a field). `choose.quota` sets each group's share",
            "balance",
            default="no balancing",
            more="With `choose.policy=continuous`, the groups' shares multiply the weights",
            metavar="GROUP",
            allowed=("cluster", "source"),
            pattern=r"field:.+",
            cure="To balance by a field, give its name: field:topic.",
        ),
    ] = ""
    clusters: Annotated[
        str,
        Option(
            "Folder written by `corpusfit clusters`, for `choose.balance`",
            "clusters",
            default="none",
            metavar="FOLDER",
        ),
    ] = ""
    quota: Annotated[
        str,
        Option(
            # without marks, which would make options of two of these words
            "Quota of a group: target (its share of the target's texts; only clusters have "
            "one, so other groups use corpus), even (equal for all groups), corpus (its "
            "share of the corpus), or the shares of sources or values themselves, such as "
            "wiki.jsonl=30%,news.jsonl=20%; the others divide the rest by their shares of the "
            "corpus. What a small group cannot fill goes to the others that have a share",
            "quota",
            metavar="SHARES",
            allowed=QUOTAS,
            pattern=r".*=.*",
            cure="For example `choose.quota=wiki.jsonl=30%,news.jsonl=20%`.",
        ),
    ] = "target"
    dedup: Annotated[
        str,
        Option(
            "Copies to leave out: `exact` (rows with the same text), `near` (also rows that "
            "share about 0.8 of their 5-grams) or `none`. Of several copies, the one with the "
            "highest score is kept; if scores are equal, the first. Of segments of longer rows "
            "with the same words, three are kept, except with `none`",
            "dedup",
            metavar="COPIES",
            allowed=DEDUPS,
        ),
    ] = "exact"
    keep: Annotated[
        str,
        Option(
            "Fields or columns of the corpus to carry into selected/ beside each text, separated "
            "by commas, such as url,meta.license",
            "keep",
            default="none",
            metavar="NAMES",
            items=str,
        ),
    ] = ""
    part_mb: Annotated[
        float,
        Option(
            "Most MiB of uncompressed JSON lines in a file of selected/; only a larger single "
            "shard exceeds it",
            above=0,
        ),
    ] = 256.0

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.policy == "lambda":
            cure = "lambda is for corpusfit adapt; here use continuous."
            raise bad_setting("`choose.policy`", f"one of {', '.join(POLICIES)}", "lambda", cure)
        super().check()

    @property
    def share(self) -> float:
        """The fraction; the default where none is given."""
        if self.fraction is not None:
            return self.fraction
        return 1.0 if self.policy == "continuous" else DEFAULT_FRACTION

    def kept_fields(self) -> tuple[str, ...]:
        """The fields of `keep`."""
        return tuple(dict.fromkeys(filter(None, map(str.strip, self.keep.split(",")))))

    def quota_shares(self) -> dict[str, float]:
        """The shares of `quota` by group, each from 0 to 1; empty where it is a word."""
        if self.quota in QUOTAS:
            return {}
        shares: dict[str, float] = {}
        # a name may have commas, or "="
        for parts in re.findall(r"(.*?)=([^=,]*)(?:,|$)|(.+)", self.quota):
            name, number, other = map(str.strip, parts)
            try:
                share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
            except ValueError:
                share = -1.0
            if not name or name in shares or not 0 <= share <= 1:
                allowed = "a share of each group once, from 0 to 100% (as 30%), separated by commas"
                raise bad_setting("`choose.quota`", allowed, other or f"{name}={number}")
            shares[name] = share
        if (total := math.fsum(shares.values())) > 1 + 1e-9:
            allowed = "shares of at most 100% together"
            raise bad_setting("`choose.quota`", allowed, f"{100 * total:g}%")
        return shares

    @property
    def counts_segments(self) -> bool:
        """Whether the amount is a number of segments, not of word pieces."""
        of_words = self.fraction_of == "words" and self.segments is None
        return self.tokens is None and not of_words

    def _check_together(self) -> None:
        for name in self.kept_fields():
            if name in OF_A_TEXT:
                allowed = f"fields with other names than selected/ has ({', '.join(OF_A_TEXT)})"
                cure = "Leave it out, or give the field another name in the corpus."
                raise bad_setting("`choose.keep`", allowed, name, cure)
        named = [f"`choose.{a}`" for a in AMOUNTS if getattr(self, a) is not None]
        if len(named) > 1:
            raise UsageError(f"{' and '.join(named)} exclude each other. Pass one.")
        if self.threshold is not None and (self.policy == "resample" or self.balance):
            other = "`choose.balance`" if self.balance else "`choose.policy=resample`"
            cure = "Set the amount by `choose.fraction`, `choose.segments` or `choose.tokens`."
            raise bad_setting("`choose.threshold`", f"left out with {other}", self.threshold, cure)
        ignored = self.quota != "target" and not self.balance
        if ignored or (self.quota_shares() and self.balance == "cluster"):
            allowed = f"one of {', '.join(QUOTAS)} with clusters, and left out without a balance"
            cure = "Add `choose.balance=source` or a field, or pass `choose.quota=target`."
            raise bad_setting("`choose.quota`", allowed, self.quota, cure)
        by_clusters = self.balance == "cluster"
        if by_clusters and not self.clusters:
            allowed = "the folder of a `corpusfit clusters` run with `choose.balance=cluster`"
            cure = "To write one, run: corpusfit clusters --corpus INPUT --out FOLDER"
            raise bad_setting("`choose.clusters`", allowed, "nothing", cure)
        if self.clusters and not by_clusters:
            cure = "Add `choose.balance=cluster`, or leave out `choose.clusters`."
            allowed = "given with `choose.balance=cluster`"
            raise bad_setting("`choose.clusters`", allowed, self.clusters, cure)


@dataclass(frozen=True)
class Plan(Settings):
    """Every setting of a selection that can change its result."""

    read: ReadPlan = ReadPlan()
    cut: CutPlan = CutPlan()
    embed: EmbedPlan = EmbedPlan()
    fit: FitPlan = FitPlan()
    method: MethodPlan = MethodPlan()
    choose: ChoosePlan = ChoosePlan()
    seed: Annotated[int, SEED] = 0

    def identity(self) -> dict[str, Any]:
        """All settings; of the device only its kind."""
        settings = self.as_dict()
        settings["embed"]["device"] = kind_of(self.embed.device)
        return settings

    @property
    def target_read(self) -> ReadPlan:
        """How rows of the target become texts; what is asked of the corpus's rows is not."""
        field = self.fit.target_field or self.read.text_field
        return dataclasses.replace(self.read, text_field=field, where="", numbers="", scores="")
