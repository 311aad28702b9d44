"""`Scorer`: a method as an estimator of scikit-learn's kind, for texts in memory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import folder_path, restore, store, user_path, write_bytes
from corpusfit.core.errors import EmptyInputError, ModelError, UsageError, bad_setting
from corpusfit.core.hub import HubName
from corpusfit.core.manifest import FORMAT, undamaged, versions
from corpusfit.core.plan import AUTO, DEFAULT_METHOD, CutPlan, EmbedPlan, MethodPlan, Plan
from corpusfit.core.settings import one_of
from corpusfit.core.types import Documents, Paired, Texts, as_texts, read_as, take_texts
from corpusfit.embed import Encoder, load
from corpusfit.embed.folders import ModelSetting, find
from corpusfit.embed.store import rounded
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Scorer as FittedScorer
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.resolved import Resolved
from corpusfit.selection.resolving import resolve
from corpusfit.selection.scoring import fit_method
from corpusfit.text.context import Machine, machine_of
from corpusfit.text.reading import cut_units, joined_scores

if TYPE_CHECKING:
    from sklearn.utils import Tags

Strings: TypeAlias = Collection[str]
"""n texts: a list, a column of pandas, Polars or NumPy, or Arrow's strings."""

Labels: TypeAlias = Collection[bool] | Collection[int] | Collection[float]
"""n numbers, above 0 for a text of the target."""


class Scorer:
    """Scores how similar texts are to a target, by any method that scores a single text.

    An estimator as scikit-learn has them: it can be cloned, searched, and be a step of a pipeline,
    as a transformer. It is fitted as `select` fits its scorer to files of
    the same texts, and gives the same scores.

    Args:
        method: a name of `corpusfit methods`.
        embedder: model for embeddings, as in `select`.
        seed: random seed.
        machine: where to fit, and where to show progress (default: this process; `Machine()` has
            worker processes, which embed a large background in parallel).
        **settings: settings of the method, such as `k=10` of `knn`.

    Attributes:
        fitted_: the fitted method; only after `fit` or `load`.

    Raises:
        UsageError: no such method, or one that cannot score a single text; no such setting.
    """

    fitted_: Fitted

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        embedder: str = AUTO,
        seed: int = 0,
        machine: Machine | None = None,
        **settings: Any,
    ) -> None:
        self.method = method
        self.embedder = embedder
        self.seed = seed
        self.machine = machine
        self._settings = settings
        self._plan()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters and the method's settings; `deep` is ignored."""
        constructor = {name: getattr(self, name) for name in _OWN}
        return constructor | self._defaults() | self._settings

    def set_params(self, **params: Any) -> Self:
        """Change parameters; changing the method resets its settings."""
        other = params.get("method", self.method) != self.method
        current = {name: getattr(self, name) for name in _OWN} | ({} if other else self._settings)
        vars(self).update(vars(type(self)(**(current | params))))
        return self

    def fit(self, target: Strings, background: Strings | Labels | None = None) -> Self:
        """Fit the method.

        Args:
            target: texts that show what is wanted; or texts of both kinds, with labels.
            background: texts of the corpus, of which at most 10,000 units are used; or labels, as
                scikit-learn's `y`: 1 for a text of the target, 0 or -1 for one of the corpus.

        Returns:
            The Scorer itself.

        Raises:
            TypeError: target or background are not strings.
            UsageError: labels are strings, or not as many as the texts.
            EmptyInputError: no text of the target or of the background holds anything.
            CorpusfitError: see `corpusfit.core.errors`.
        """
        if background is None:
            allowed = "texts of the corpus, or a label for each text: 1 for the target, else 0"
            raise bad_setting("background", allowed, None)
        texts = as_texts(target, "target")
        labels = _labels(background)
        if labels is None:
            others = as_texts(background, "background")
            if len(others) == len(texts) >= _FEW and len(others.unique()) <= len(texts) / 5:
                allowed = "texts of the corpus, or 1 for each text of the target, else 0"
                label = repr(others[0].as_py())
                cure = f"Of labels, compare with that of the target: labels == {label}."
                raise bad_setting("background", allowed, f"strings such as {label}", cure)
        elif len(labels) != len(texts):
            allowed = f"as many labels as texts, {len(texts)}, or texts"
            raise bad_setting("background", allowed, f"{len(labels)} labels")
        else:
            texts, others = (take_texts(texts, np.flatnonzero(side)) for side in (labels, ~labels))
        _require_text("target", texts)
        _require_text("background", others)
        machine = machine_of(self.machine or Machine(engine="inline"), {})
        self.fitted_ = fit(self._plan(), texts, others, machine=machine)
        return self

    def score_samples(self, texts: Strings) -> NDArray[np.float32]:
        """Score n texts, of any length: float32 [n], higher = more similar to the target.

        A long text is cut into units, as a document of a corpus is; its score is the mean of
        theirs, or their sum where scores are log importance weights (`dsir`).

        Raises:
            TypeError: the texts are not strings.
            UsageError: the Scorer is not fitted.
            ModelError: the embedder is not the one that it was fitted with.
        """
        return self._fit().score(as_texts(texts))

    def decision_function(self, texts: Strings) -> NDArray[np.float32]:
        """As `score_samples`, for metrics such as `average_precision`; 0 is no threshold."""
        return self.score_samples(texts)

    def score(self, texts: Strings, y: Labels | None = None) -> float:
        """The mean of the texts' scores, or with labels the average precision of their ranking.

        Args:
            texts: n texts.
            y: labels as for `fit`.

        Raises:
            EmptyInputError: there are no texts.
            UsageError: the Scorer is not fitted; or there are not as many labels as texts.
        """
        if not len(texts):
            raise EmptyInputError("texts has no text: give at least one.")
        if y is not None:
            from sklearn.metrics import average_precision_score

            labels = _labels(y)
            if labels is None or len(labels) != len(texts):
                raise bad_setting(
                    "y", f"a number for each of {len(texts)} texts", f"{len(y)} values"
                )
            return float(average_precision_score(labels, self.score_samples(texts)))
        return float(self.score_samples(texts).mean(dtype=np.float64))

    def fit_transform(self, texts: Strings, y: Strings | Labels | None = None) -> Any:
        """Fit to texts and labels (or target and background), and score the texts: [n, 1]."""
        return self.fit(texts, y).transform(texts)

    def transform(self, texts: Strings) -> Any:
        """The scores as one feature, float32 [n, 1]: an array, or what `set_output` asks for."""
        from sklearn import get_config

        scores = self.score_samples(texts)[:, None]
        output = vars(self).get("_sklearn_output_config", {"transform": None})["transform"]
        output = output or get_config()["transform_output"]
        if output == "pandas":
            import pandas as pd

            index = texts.index if isinstance(texts, pd.Series) else None
            return pd.DataFrame(scores, index, self.get_feature_names_out())
        if output == "polars":
            import polars as pl

            return pl.DataFrame(scores, self.get_feature_names_out().tolist())
        return scores

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let `transform` return a frame, as scikit-learn's transformers do.

        Args:
            transform: "default" (an array), "pandas" or "polars"; None changes nothing.
        """
        if transform is not None:
            one_of("transform", transform, ("default", "pandas", "polars"))
            self._sklearn_output_config = {"transform": transform}  # which `clone` copies
        return self

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The name of that feature, [1]; `input_features` is ignored.

        Raises:
            UsageError: the Scorer is not fitted.
        """
        self._fit()
        return np.array(["score"], object)

    def save(self, folder: Path | str) -> None:
        """Write the fitted Scorer to a folder or URL, as safetensors and JSON, without pickle.

        An embedder is not copied: it is loaded by its name, and must be the same.

        Raises:
            UsageError: the Scorer is not fitted, or the URL cannot be written to.
        """
        request = {name: _plain(v) for name, v in self._changed().items() if name != "machine"}
        self._fit().save(folder_path(folder, "folder"), request)

    @classmethod
    def load(cls, folder: Path | str, *, machine: Machine | None = None) -> Self:
        """Read what `save` wrote, or what `select` fitted; its scores are the same.

        Args:
            folder: a folder or URL of `save`, or of a run.
            machine: as for the constructor.

        Raises:
            ModelError: the folder does not hold a saved Scorer.
            UsageError: the run's method cannot score a single text.
        """
        path = folder_path(folder, "folder")
        run = SelectionFolder(path)
        is_run = run.scored_so_far() is not None
        fitted, request = Fitted.of_run(run) if is_run else Fitted.load(path)
        scorer = cls(**request, machine=machine)
        scorer.fitted_ = fitted
        return scorer

    save_pretrained = save

    @classmethod
    def from_pretrained(cls, name: Path | str, *, machine: Machine | None = None) -> Self:
        """As `load`, also of OWNER/NAME or OWNER/NAME@REVISION of the Hugging Face hub."""
        if HubName.parsed(str(name)) and not user_path(str(name)).exists():
            name = find(str(name), setting=_SAVED)
        return cls.load(name, machine=machine)

    def __repr__(self) -> str:
        """The constructor call, without default parameters."""
        shown = [f"{name}={value!r}" for name, value in self._changed().items()]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """As a notebook shows estimators: the constructor call, and whether it is fitted."""
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn asks of an estimator: a transformer of strings that needs labels."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def _fit(self) -> Fitted:
        if "fitted_" not in vars(self):
            from corpusfit.selection.unfitted import UnfittedError

            raise UnfittedError("The Scorer is not fitted. Call fit(target, background) first.")
        return self.fitted_

    def _changed(self) -> dict[str, Any]:
        """The parameters that are not the default; unknown settings too."""
        start = dict(zip(_OWN, (DEFAULT_METHOD, AUTO, 0, None), strict=True)) | self._defaults()
        return {k: v for k, v in self.get_params().items() if k not in start or v != start[k]}

    def _defaults(self) -> dict[str, Any]:
        """The method's settings; an embedder of its own is that of the Scorer."""
        fields = dataclasses.fields(registry.load(self.method))
        return {f.name: f.default for f in fields if f.name not in _OWN}

    def _plan(self) -> Plan:
        """The plan of a selection with these parameters, checked."""
        seed = _plain(self.seed)
        plan = Plan().with_values({"embed": {"embedder": self.embedder}, "seed": seed})
        plan = plan.with_value("method.name", self.method)
        options = {name: _plain(v) for name, v in self._changed().items() if name not in _OWN}
        known = registry.load(self.method)
        if known.scorer is None or not registry.build(self.method, options).scores_texts:
            raise bad_setting("`method.name`", "a method that scores a single text", self.method)
        return plan.with_values({"method": options}).check()


_FEW = 10
"""Texts from which on as many strings that are mostly copies are taken for labels."""
_SAVED = ModelSetting(
    name="The Scorer",
    allowed="the folder of a saved Scorer, or OWNER/NAME of the Hugging Face hub",
    otherwise="fit one and save it",
    extra="hub",
)
_OWN = ("method", "embedder", "seed", "machine")


def _plain(value: Any) -> Any:
    """Convert a NumPy number (from a parameter grid) to a Python one."""
    return value.item() if isinstance(value, np.generic) else value


def _labels(labels: Any) -> NDArray[np.bool_] | None:
    """Which texts are of the target, bool [n]; None if the argument holds no labels."""
    first = next(iter(labels), None)
    if not isinstance(first, bool | int | float | np.bool_ | np.number):
        return None
    values = np.asarray(labels)
    others = np.setdiff1d(values, (-1, 0, 1))
    if len(others):
        allowed = "texts of the corpus, or 1 for each text of the target and 0 or -1 for the others"
        cure = "Of labels of several classes, compare with that of the target: labels == 5."
        raise bad_setting("background", allowed, f"labels such as {others[0]:g}", cure)
    return values > 0


def _require_text(name: str, texts: Texts) -> None:
    if not any(text.as_py().strip() for text in texts):
        raise EmptyInputError(f"{name} has no text: give at least one that is not empty.")


@dataclass(frozen=True)
class Fitted:
    """A fitted method, with what it needs to score texts."""

    scorer: FittedScorer[Any]
    method: MethodPlan
    embed: EmbedPlan
    encoder: str | None  # its fingerprint; None for a method on words
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
        encoder = load(self.embed)
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

    def save(self, folder: Path, request: dict[str, Any]) -> None:
        """Write `scorer.safetensors`, and `scorer.json` with the request and the fit's facts."""
        facts: dict[str, Any] = {"encoder": self.encoder}
        for part in ("embed", "method", "cut"):
            facts[part] = dataclasses.asdict(getattr(self, part))
        about = {"format": FORMAT, "corpusfit": versions()["corpusfit"], "tokens": TOKENS}
        about |= {"asked": request, **facts}
        store(folder / _ARRAYS, self.method.name, self.scorer)
        write_bytes(folder / _ABOUT, json.dumps(about, indent=1).encode())

    @classmethod
    def load(cls, folder: Path) -> tuple[Fitted, dict[str, Any]]:
        """Read the files of `save`, with the requested parameters."""
        try:
            about = json.loads((folder / _ABOUT).read_bytes())
            if about["format"] != FORMAT:
                raise ModelError(
                    f"{folder} was saved by another version, corpusfit {about['corpusfit']}. Fit "
                    "it again, or use that version."
                )
            method = MethodPlan(**about["method"])
            embed = EmbedPlan(**about["embed"])
            scorer = restore(folder / _ARRAYS, registry.scorer_class)
            cut = CutPlan(**about["cut"])
            fitted = cls(scorer, method, embed, about["encoder"], cut)
            request = about["asked"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise ModelError(f"{folder} does not hold a scorer that was saved: {e}.") from e
        fitted._require_tokens(about, folder)
        return fitted, request

    @classmethod
    def of(cls, scorer: FittedScorer[Any], resolved: Resolved) -> Fitted:
        """A scorer with what was resolved before its fit."""
        plan = resolved.plan
        return cls(scorer, plan.method, resolved.embed, resolved.encoder, plan.cut)

    @classmethod
    def of_run(cls, folder: SelectionFolder) -> tuple[Fitted, dict[str, Any]]:
        """The method that a run of `select` fitted, with the requested parameters."""
        manifest = folder.require_scored()
        with undamaged(folder.path):
            resolved = Resolved.stored(manifest)
        method = resolved.plan.method
        if not resolved.method.scores_texts:
            raise UsageError(
                f"The method of {folder.path}, {method.name}, cannot score a single text. Score a "
                "corpus with it, or fit another method."
            )
        scorer = restore(folder.fit / _ARRAYS, registry.scorer_class)
        request = {"method": method.name, **method.options, "seed": resolved.plan.seed}
        if resolved.encoder:
            request["embedder"] = resolved.plan.embed.embedder
        fitted = cls.of(scorer, resolved)
        fitted._require_tokens(manifest, folder.path)
        return fitted, request

    def _require_tokens(self, about: dict[str, Any], folder: Path) -> None:
        """Check that the tokenisation of a method on words is unchanged since the fit."""
        reads = registry.build(self.method.name, self.method.options).reads
        if reads != "embedding" and about.get("tokens") != TOKENS:
            raise ModelError(
                f"The scorer in {folder} was written by a version of corpusfit that splits some "
                "scripts into other words. Fit it again."
            )


_ARRAYS = "scorer.safetensors"
_ABOUT = "scorer.json"


def fit(plan: Plan, target: Texts, background: Texts, *, machine: Machine) -> Fitted:
    """Fit the plan's method, as `select` does on files of these."""
    with machine.running() as run:
        inputs = []
        for name, texts in (("target", target), ("background", background)):
            file = run.work / f"{name}.jsonl"
            write_bytes(file, b"\n".join(orjson.dumps({"text": t}) for t in texts.to_pylist()))
            inputs.append([str(file)])
        resolved = resolve(run, plan, *inputs, role="background")
        folder = SelectionFolder(run.work)
        fit_method(run, resolved, folder)
        scorer = restore(folder.fit / _ARRAYS, registry.scorer_class)
        return Fitted.of(scorer, resolved)
