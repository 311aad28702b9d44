"""Opens or makes a language model for training, checks and extends it, and saves it."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import remove, writing
from corpusfit.core.errors import (
    CorpusfitError,
    EmptyInputError,
    MissingDependencyError,
    ModelError,
    StorageError,
    machine_fault,
    raise_machine_fault,
)
from corpusfit.embed.contract import digest, file_digest
from corpusfit.embed.folders import (
    ModelSetting,
    commit_of,
    file_digests,
    find,
    read_pooling,
    transformer_folder,
)
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import (
    LOCAL,
    load_tokenizer,
    missing_weights,
    position_limit,
    quiet,
    save_tokenizer,
)
from corpusfit.training.objectives import load
from corpusfit.training.plan import ModelPlan
from corpusfit.training.special_tokens import (
    SpecialTokens,
    backend_tokenizer,
)

MODEL = ModelSetting(
    name="`model.name`",
    allowed="a model folder, a Hugging Face hub id or minilm",
    otherwise="start from an untrained model with `model.init=tiny`",
    extra="train",
)
_DROPOUTS = {
    *("dropout", "attention_dropout", "activation_dropout", "dropout_rate"),  # encoder-decoders
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),  # BERT
    *("hidden_dropout", "embedding_dropout", "mlp_dropout"),  # Falcon, ModernBERT
    *("resid_pdrop", "embd_pdrop", "attn_pdrop"),  # GPT-2
}
"""Settings of a model that are a dropout."""
_WORD = re.compile(r"(?<!\w)[^\W\d_]{3,}(?!\w)")
_BEFORE = "a "
_BATCH = 10_000


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model that is ready for training."""

    # torch module on the CPU, in evaluation mode; in float32, or as stored if `open_model` may
    model: Any
    tokenizer: Any  # transformers tokenizer; `special_tokens.backend_tokenizer` gives its backend
    special: SpecialTokens  # special tokens of the tokenizer
    max_length: int  # maximum tokens of a sequence, special tokens included
    name: str  # name that the user gave
    fingerprint: str  # hex digest of the model's files, or of the settings that made it
    commit: str = ""  # of a hub id
    dtype: Any = None  # torch's, of the stored weights; None for those of a new model

    def facts(self) -> dict[str, str]:
        """Name and content, for a manifest."""
        facts = {"name": self.name, "fingerprint": self.fingerprint}
        return facts | ({"commit": self.commit} if self.commit else {})


def open_model(
    plan: ModelPlan,
    objective: str,
    *,
    attention: str,
    seed: int,
    on_warn: Callable[[str], None],
    check: Callable[[Any], None] | None = None,
    weights: bool = True,
    as_stored: bool = False,
) -> LoadedModel:
    """Open the model that a plan names; `check` gets its configuration before weights are read.

    Its weights are made float32, unless they may be `as_stored`, for a LoRA whose products are in
    half precision anyway.

    Without `weights`, none are read or checked: the model is on torch's device `meta`, for a
    process that another one sends them to.
    """
    # transformers fills missing weights with random numbers and only logs it, so missing
    # weights are an error unless a new head is allowed.
    folder = find(plan.name, setting=MODEL)
    path = transformer_folder(folder, MODEL)
    import torch
    import transformers

    kind = load(objective)
    halves = (torch.bfloat16, torch.float16)
    with _loading(plan.name, objective, seed):
        config = transformers.AutoConfig.from_pretrained(path, **LOCAL)
        stored = config.dtype if config.dtype in halves else torch.float32
        if config.is_encoder_decoder and kind.columns == 1:
            raise ModelError(
                f"`model.name`: {plan.name} is an encoder-decoder; `objective.name={objective}` "
                "needs an encoder or a decoder. Name one of those."
            )
        if plan.dropout is not None:
            set_dropout(config, plan.dropout)
        if check is not None:
            check(config)
        tokenizer = load_tokenizer(path, f"`model.name`: {plan.name}")
        changed = None if plan.dropout is None else config
        missing: Sequence[str] = ()
        model = None if weights else _on_meta(kind.auto, config, attention)
        if model is None:
            dtype = "auto" if as_stored else "float32"
            model, missing = _from_pretrained(kind.auto, path, attention, changed, dtype)
    head, body = missing_weights(model, missing)
    if body:
        raise ModelError(
            f"`model.name`: {plan.name} lacks weights of a {type(model).__name__}: {_names(body)} "
            "missing. Name a folder with the complete model."
        )
    if kind.embeds:  # embeddings need no head, so a missing one does not matter
        model = _sentence_encoder(plan, folder, model, objective, seed, pooled=not head)
    elif head:
        _require_new_head(plan, objective, head)
        on_warn(
            f"{plan.name} lacks the head that {objective} needs; training starts with a random "
            f"head: {_names(head)} new."
        )
    opened = checked_model(model, tokenizer, objective, plan.name, fingerprint(path))
    return replace(opened, commit=commit_of(plan.name, folder), dtype=stored)


def _require_new_head(plan: ModelPlan, objective: str, missing: list[str]) -> None:
    """Raise `ModelError` for missing weights of the head, unless the model may have a new one."""
    if not plan.new_head:
        raise ModelError(
            f"`model.name`: {plan.name} lacks the head that `objective.name={objective}` needs: "
            f"{_names(missing)} missing. Name a model with this head, or pass "
            "`model.new_head=true` to start with a random one, which takes a good part of the "
            "training to learn."
        )


def new_model(
    init: str,
    objective: str,
    texts: Iterable[str],
    *,
    vocabulary: int,
    dropout: float | None = None,
    attention: str,
    seed: int,
) -> LoadedModel:
    """An untrained model and a tokenizer trained on texts; the same in every process."""
    # Reference: Turc et al. (2019), Well-Read Students Learn Better (BERT's miniatures).
    try:
        import torch
        import transformers
    except ImportError as e:
        raise MissingDependencyError("`model.init`", "train") from e
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise EmptyInputError(
            "`model.init` trains a tokenizer on the data; the data holds no text."
        )
    kind = load(objective)
    layers, width, tokens = kind.sizes[init]
    tokenizer, config = kind.untrained(texts, (layers, width, vocabulary or tokens))
    identity = {"kind": "init 1", "objective": objective, "init": init, "seed": seed}
    if dropout is not None:
        set_dropout(config, dropout)
    with quiet(), seeded(seed):
        model = getattr(transformers, kind.auto).from_config(
            config, attn_implementation=attention, dtype=torch.float32
        )
    identity["tokenizer"] = tokenizer.backend_tokenizer.to_str()
    return checked_model(model.eval(), tokenizer, objective, f"--init {init}", digest(identity))


def fingerprint(folder: Path, setting: ModelSetting = MODEL) -> str:
    """Hex digest of a model's files, including those of its tokenizer and its chat template."""
    folder = transformer_folder(folder, setting)
    templates = {path.name: file_digest(path) for path in folder.glob("*.jinja")}
    return digest({"kind": "model 1", "files": file_digests(folder) | templates})


def checked_model(
    model: Any, tokenizer: Any, objective: str, name: str, fingerprint: str
) -> LoadedModel:
    """Check a model against its objective, and collect what training needs."""
    kind = load(objective)
    table = getattr(model, "get_input_embeddings", lambda: None)()
    if getattr(table, "weight", None) is None:
        raise _unfit(name, objective, "it has no table of embeddings by token", kind.instead)
    special = kind.special_tokens(model, tokenizer, name)
    if unfit := kind.unfit(model, special):
        raise _unfit(name, objective, *unfit)
    return LoadedModel(model, tokenizer, special, position_limit(model), name, fingerprint)


def _from_pretrained(
    kind: str, folder: Path, attention: str, config: Any = None, dtype: str = "float32"
) -> tuple[Any, Sequence[str]]:
    """A model of an auto class of transformers, and names of missing weights."""
    import transformers
    from accelerate import init_empty_weights

    options: dict[str, Any] = {"use_safetensors": True, "output_loading_info": True, **LOCAL}
    options |= {"dtype": dtype} | ({"config": config} if config else {})
    opening = getattr(transformers, kind).from_pretrained
    try:
        model, info = opening(folder, attn_implementation=attention, **options)
    except ValueError as e:
        if "scaled_dot_product_attention" not in str(e):
            raise
        model, info = opening(folder, attn_implementation="eager", **options)
    if dtype == "auto":  # numbers that are computed and not stored have been rounded, as Gemma's
        with init_empty_weights():
            exact = type(model)(model.config)
        for module, other in zip(model.modules(), exact.modules(), strict=True):
            for name in module._non_persistent_buffers_set:
                module._buffers[name] = other._buffers[name]
    return model, info["missing_keys"]


def _on_meta(kind: str, config: Any, attention: str) -> Any:
    """A model of an auto class without weights; None if it needs numbers when it is built."""
    import torch
    import transformers

    for implementation in (attention, "eager"):
        with suppress(Exception), torch.device("meta"):  # models raise many kinds
            return (
                getattr(transformers, kind)
                .from_config(
                    copy.deepcopy(config), attn_implementation=implementation, dtype=torch.float32
                )
                .eval()
            )
    return None


@contextmanager
def _loading(name: str, objective: str, seed: int) -> Iterator[None]:
    """Load quietly, new weights by the seed; `ModelError` for what cannot be loaded."""
    try:
        with quiet(), seeded(seed):
            yield
    except CorpusfitError:
        raise
    except Exception as e:  # a broken folder raises many kinds of exceptions
        raise_machine_fault(e, f"`model.name`: {name} cannot be loaded")
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        if reason.startswith("Unrecognized configuration class"):
            kind = load(objective)
            part = "decoder" if kind.embeds else "head for it"
            raise _unfit(name, objective, f"its architecture has no {part}", kind.instead) from e
        raise ModelError(f"`model.name`: {name} cannot be loaded: {reason}") from e


def _sentence_encoder(
    plan: ModelPlan, folder: Path, model: Any, objective: str, seed: int, *, pooled: bool
) -> Any:
    """A model with its pooling and a decoder."""
    # No embedding depends on transformers' pooler, so it is not trained. `pooled`: whether the
    # files have one.
    from corpusfit.training.sentence_encoders import DenoisingAutoencoder

    pooling = read_pooling(folder, plan.pooling, MODEL)
    if not pooled:
        model.pooler = None
    elif getattr(model, "pooler", None) is not None:
        model.pooler.requires_grad_(False)
    config = copy.deepcopy(model.config)
    config.is_decoder = config.add_cross_attention = True
    with _loading(plan.name, objective, seed):
        attention = model.config._attn_implementation
        transformer = transformer_folder(folder, MODEL)
        decoder, _ = _from_pretrained("AutoModelForCausalLM", transformer, attention, config)
    return DenoisingAutoencoder(model, pooling, decoder).eval()


def set_dropout(config: Any, dropout: float) -> None:
    """Set every dropout of a model's configuration."""
    for field in _DROPOUTS & vars(config).keys():
        setattr(config, field, dropout)


def recomputable(model: Any) -> list[Any]:
    """The layers of a model whose activations can be computed again; empty if there is one."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    return layers if len(layers) > 1 else []


def recompute(model: Any) -> None:
    """Keep no activations within layers in training: the backward pass computes them again."""
    # With the random state of the forward pass, so dropout is the same. The last layer keeps its
    # activations: it would be computed again first, when they are all that was given up, and hooks
    # in it (`Predictor`) know the forward pass alone. The attributes are those that transformers'
    # `gradient_checkpointing_enable` sets; it also asks for gradients of embeddings, which only
    # checkpoints with `use_reentrant` need, and has another name in version 6.
    # Reference: Chen et al. (2016), Training Deep Nets with Sublinear Memory Cost.
    from torch.utils.checkpoint import checkpoint

    for layer in recomputable(model)[:-1]:
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = True


def _unfit(name: str, objective: str, why: str, instead: str) -> ModelError:
    return ModelError(
        f"`model.name`: {name} cannot be trained with `objective.name={objective}`: {why}. "
        f"Use `objective.name={instead}`, or name another model."
    )


def _names(names: list[str]) -> str:
    """The first name, and the number of others."""
    more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
    return f"{names[0]}{more}"


def save_model(
    model: Any, tokenizer: Any, folder: Path, weights: dict[str, Any] | None = None
) -> None:
    """Write a folder that `AutoModel.from_pretrained` and every model setting can open."""
    # Each file is written atomically, `config.json` last, so a folder with `config.json` is
    # complete.
    temporary = folder / "saving"
    remove(temporary)
    try:
        temporary.mkdir(parents=True)
        with quiet():
            model.save_pretrained(temporary, state_dict=weights)
            save_tokenizer(tokenizer, temporary)
        files = [path.relative_to(temporary) for path in temporary.rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda p: (p.name == "config.json", p)):
            with open(temporary / path, "rb") as whole, writing(folder / path) as f:
                shutil.copyfileobj(whole, f, 1 << 20)
    except StorageError:
        raise
    except Exception as e:  # safetensors has its own error for a full disk
        message = f"Cannot write the model to {folder}"
        raise (machine_fault(e, message) or StorageError(f"{message}: {e}.")) from e
    finally:
        remove(temporary)


@dataclass(frozen=True)
class NewWords:
    """Words to add, and what they change."""

    words: tuple[str, ...]  # in the order of their ids
    pieces: tuple[tuple[int, ...], ...]  # token ids of each word before it is added
    shorter: float  # the share of the texts' word tokens that they save


def find_new_words(texts: Iterable[str], opened: LoadedModel, max_words: int) -> NewWords:
    """The words of texts that save most tokens as tokens of their own."""
    # A word is three or more letters, as the tokenizer normalizes them. It saves one token
    # less than it has pieces, each time that it occurs; words that save as many are in
    # alphabetical order.
    backend = backend_tokenizer(opened.tokenizer, opened.name)
    plain = backend.normalizer.normalize_str if backend.normalizer else str
    blank = plain("a b")[1:-1]  # some normalizers replace spaces
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_WORD.findall(plain(text).replace(blank, " ")))
    words = sorted(counts)
    before = len(backend.encode(_BEFORE.strip(), add_special_tokens=False))
    pieces: dict[str, tuple[int, ...]] = {}
    for at in range(0, len(words), _BATCH):
        batch = words[at : at + _BATCH]
        encoded = backend.encode_batch([_BEFORE + word for word in batch], add_special_tokens=False)
        pieces |= {word: tuple(e.ids[before:]) for word, e in zip(batch, encoded, strict=True)}
    saves = {word: counts[word] * (len(pieces[word]) - 1) for word in words}
    ranked = iter(sorted((w for w in words if saves[w] > 0), key=lambda w: (-saves[w], w)))
    chosen: list[str] = []
    while more := list(islice(ranked, max_words - len(chosen))):
        candidates = [*chosen, *more]
        # add all candidates to a copy, and keep those that it reads as one token in context
        trial = backend_tokenizer(opened.tokenizer, opened.name)
        vocabulary = trial.get_vocab(with_added_tokens=True).keys()
        new = [word for word in candidates if word not in vocabulary]
        numbers = _add_tokens(trial, new)
        sentences = [f"{_BEFORE}{word} b" for word in new]
        coded = trial.encode_batch(sentences, add_special_tokens=False)
        read = zip(new, numbers, coded, strict=True)
        whole_words = {word for word, number, encoding in read if number in encoding.ids}
        chosen = [word for word in candidates if word in whole_words]
    whole = sum(counts[word] * len(pieces[word]) for word in words)
    shorter = sum(saves[word] for word in chosen) / max(1, whole)
    return NewWords(tuple(chosen), tuple(pieces[w] for w in chosen), shorter)


def _add_tokens(backend: Any, words: Sequence[str]) -> range:
    """Add words to a tokenizer, in place, as whole words with the space before them.

    Returns:
        Their ids, above the largest of the tokenizer.
    """
    from tokenizers import AddedToken, Tokenizer

    numbers = backend.get_vocab(with_added_tokens=True)
    first = max(numbers.values()) + 1
    parts = json.loads(backend.to_str())
    # The library counts on from the size of the model's vocabulary, where ids may be missing: all
    # up to `first` get a token that no text has. A Unigram model has a list, without holes.
    if isinstance(parts["model"]["vocab"], dict) and len(parts["model"]["vocab"]) < first:
        unused = set(range(first)) - set(numbers.values())
        parts["model"]["vocab"] = numbers | {f"[unused0{number}]": number for number in unused}
        backend.model = Tokenizer.from_str(json.dumps(parts)).model
    options = {"single_word": True, "lstrip": True, "normalized": backend.normalizer is not None}
    backend.add_tokens([AddedToken(word, **options) for word in words])
    return range(first, first + len(words))


def add_words(opened: LoadedModel, new: NewWords, objective: str) -> LoadedModel:
    """Add words to the tokenizer and the model, in place, as tokens."""
    # What the model has of a word, such as its embedding, and its row and bias in the head, are the
    # means of its pieces'.
    # Reference: Gee et al. (2022), Fast Vocabulary Transfer, section 3.2 (the mean of the
    # pieces).
    import torch

    model = opened.model
    tokenizer = opened.tokenizer
    numbers = _add_tokens(tokenizer.backend_tokenizer, new.words)
    grown: dict[int, Any] = {}  # by the old parameter, which several modules may share
    with torch.no_grad():
        for module, name, axis in token_tables(model, opened.name):
            old = getattr(module, name)
            if id(old) not in grown:
                shape = list(old.shape)
                shape[axis] = max(0, numbers.stop - shape[axis])
                table = torch.cat([old, old.new_zeros(shape)], axis)
                for number, pieces in zip(numbers, new.pieces, strict=True):
                    of_pieces = old.index_select(axis, torch.tensor(pieces, device=old.device))
                    table.select(axis, number).copy_(of_pieces.mean(axis))
                grown[id(old)] = torch.nn.Parameter(table) if name in module._parameters else table
            setattr(module, name, grown[id(old)])
    model.config.vocab_size = max(model.config.vocab_size, numbers.stop)
    fingerprint = digest({"kind": "words 1", "model": opened.fingerprint, "words": new.words})
    extended = checked_model(model, tokenizer, objective, opened.name, fingerprint)
    return replace(extended, commit=opened.commit, dtype=opened.dtype)


def token_tables(model: Any, name: str) -> list[tuple[Any, str, int]]:
    """Where a model has numbers of each token: a module, its parameter or buffer, and the axis."""
    # What is larger in a model of the same kind, without numbers, with one token more. So a model
    # with new tokens is one that its library opens.
    import torch

    config = copy.deepcopy(model.config)
    tables: list[tuple[Any, str, int]] = []
    with suppress(Exception), quiet(), torch.device("meta"):  # models raise many kinds
        config.vocab_size += 1
        larger = type(model)(config)
        tables = [
            (module, part, axis)
            for module, other in zip(model.modules(), larger.modules(), strict=True)
            for part, tensor in (*module._parameters.items(), *module._buffers.items())
            if tensor is not None
            for axis, size in enumerate(getattr(other, part).shape)
            if size != tensor.shape[axis]
        ]
    embeddings = model.get_input_embeddings()
    if not any(module is embeddings for module, _, _ in tables):
        raise ModelError(
            f"`model.name`: {name} is a {type(model).__name__}, whose vocabulary cannot grow. "
            "Leave out `model.add_tokens`, or name another model."
        )
    return tables
