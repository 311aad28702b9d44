"""Open a model that translates: an encoder-decoder of transformers with its tokenizer."""

from __future__ import annotations

from typing import Any

from corpusfit.core.errors import MissingDependencyError, ModelError, raise_machine_fault
from corpusfit.embed.folders import Setting, find, transformer_folder
from corpusfit.embed.transformer import LOCAL, load_tokenizer, quiet
from corpusfit.training.models import MODEL
from corpusfit.training.translators import require_translating

SETTING = MODEL._replace(otherwise="run the command again when the hub can be reached")
"""The setting `model` of a translation task."""


def open_translator(setting: Setting, name: str, precision: str = "fp32") -> tuple[Any, Any]:
    """A model in evaluation mode and its tokenizer: safetensors only, no code from the folder."""
    try:
        import torch
        import transformers
    except ImportError as e:
        raise MissingDependencyError(setting.flag, setting.extra) from e
    place = transformer_folder(find(name, setting=setting), setting)
    options: dict[str, Any] = {"use_safetensors": True, "output_loading_info": True, **LOCAL}
    options["dtype"] = torch.bfloat16 if precision == "bf16" else torch.float32
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(place, **LOCAL)
            if not config.is_encoder_decoder:
                raise ModelError(
                    f"{setting.flag}: {name} is not a sequence-to-sequence model, so it cannot "
                    "translate. Name one that can, such as a MarianMT, T5 or M2M100 model."
                )
            tokenizer = load_tokenizer(place, f"{setting.flag}: {name}")
            model, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(place, **options)
    except ModelError:
        raise
    except Exception as e:  # a broken folder raises many kinds of exceptions
        raise_machine_fault(e, f"{setting.flag}: {name} cannot be loaded")
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        if "SentencePiece" in reason:  # needed by MarianMT and M2M100, and few others
            reason = "its tokenizer needs another library: pip install sentencepiece"
        raise ModelError(f"{setting.flag}: {name} cannot be loaded: {reason}") from e
    if info["missing_keys"]:
        lacking = sorted(info["missing_keys"])
        raise ModelError(
            f"{setting.flag}: {name} lacks weights of a {type(model).__name__}: {lacking[0]} is "
            "missing. Name a folder with the complete model."
        )
    require_translating(setting.flag, model, tokenizer, name)
    return model.eval(), tokenizer
