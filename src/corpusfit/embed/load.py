"""From the setting `--embedder` to an encoder.

What: `prepare`, once, in the process that plans a run; `load`, in each process that encodes.
Why: downloads, distillation and mistakes belong before the first worker starts; workers then only
read files.
Trade-off: names are words here, not classes found by a registry: there are two kinds of encoder,
and any model is one of them.
"""

from __future__ import annotations

from pathlib import Path

from corpusfit.embed.contract import Encoder
from corpusfit.embed.distill import distilled_folder
from corpusfit.embed.folders import find, is_static, model_files, transformer_folder
from corpusfit.embed.minilm import minilm_folder
from corpusfit.embed.static import load_static, static_fingerprint
from corpusfit.embed.transformer import fingerprint, load_transformer
from corpusfit.errors import bad_setting
from corpusfit.plan import EmbedPlan


def prepare(plan: EmbedPlan, cache: Path) -> str:
    """Make the planned encoder ready to load: download, verify, distil.

    Args:
        plan: which embedder, and how it pools and computes.
        cache: folder where distilled models are kept.

    Returns:
        The encoder's fingerprint, equal to that of what `load` gives on this machine.

    Raises:
        UsageError: the plan names something that cannot be an embedder or a device.
        ModelError: the model cannot be used.
        MissingDependencyError: an extra is not installed.
        StorageError: the cache cannot be written.
    """
    plan.check()
    folder, static = _folder(plan.embedder, cache, refresh=True)
    return static_fingerprint(folder) if static else fingerprint(folder, plan)


def load(plan: EmbedPlan, cache: Path) -> Encoder:
    """The planned encoder, ready to encode; what `prepare` did is found, or done now.

    Args:
        plan: as given to `prepare`.
        cache: as given to `prepare`.

    Raises:
        CorpusfitError: as `prepare`.
    """
    folder, static = _folder(plan.embedder, cache, refresh=False)
    if static:
        return load_static(folder, plan.embedder)
    return load_transformer(folder, plan, plan.embedder)


def wants_gpu(plan: EmbedPlan) -> bool:
    """Whether the planned encoder computes on a GPU where there is one: static ones do not."""
    return plan.device != "cpu" and has_network(plan.embedder)


def has_network(embedder: str) -> bool:
    """Whether it is a transformer and no static embedder; by its name or folder, unopened."""
    named = Path(embedder).expanduser()
    static = embedder.partition(":")[0] == "static" or (named.is_dir() and is_static(named))
    return not static


def transformer(embedder: str) -> Path:
    """The folder of a transformer, to be trained further; a hub id is downloaded.

    Args:
        embedder: what the user called it.

    Raises:
        UsageError: it is a static embedder, or cannot be an embedder at all.
        ModelError: the model cannot be had, or the folder does not hold one.
        MissingDependencyError: an extra is not installed.
    """
    static = embedder.partition(":")[0] == "static"
    folder = Path() if static else _named(embedder, refresh=False)
    if static or is_static(folder):
        raise bad_setting(
            "method.embedder",
            "a transformer: minilm, a model folder or a Hugging Face hub id",
            embedder,
            "A static embedder has no network to fine-tune: say --set method.embedder=minilm.",
        )
    return transformer_folder(folder)


def transformer_files(embedder: str) -> tuple[str, ...]:
    """The files that a transformer's identity is; none for `minilm`, whose bytes are known.

    Raises:
        CorpusfitError: as `transformer`.
    """
    if embedder == "minilm":
        return ()
    return tuple(str(path) for path in model_files(transformer(embedder)))


def _named(embedder: str, *, refresh: bool) -> Path:
    return minilm_folder() if embedder == "minilm" else find(embedder, refresh=refresh)


def _folder(embedder: str, cache: Path, *, refresh: bool) -> tuple[Path, bool]:
    """Folder of the model to load, and whether it is a static one."""
    word, colon, model = embedder.partition(":")
    if word != "static":
        folder = _named(embedder, refresh=refresh)
        return folder, is_static(folder)
    from_wheel = not colon or model == "minilm"
    source = _named("minilm" if from_wheel else model, refresh=refresh)
    return (source if is_static(source) else distilled_folder(source, cache)), True
