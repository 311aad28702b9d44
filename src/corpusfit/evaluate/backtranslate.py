"""Texts said otherwise: translated into another language and back.

What: two sequence-to-sequence models of transformers, one after the other; each translates sentence
by sentence and draws every token from its own distribution.
Why: beams give one cautious translation; drawing gives several that differ (Xie et al. 2019).
Trade-off: a token is drawn with a number that depends on the seed, its text, its copy and its place
alone, so that a translation does not depend on what is translated with it, but for rounding. Only
safetensors, no code of a model's own. A model for many languages translates as its folder says
(`forced_bos_token_id` in generation_config.json, `src_lang` in tokenizer_config.json, `prefix` in
config.json): there is no setting for languages. Marks in a text may get lost on the way.
Reference: Xie et al. (2019), Unsupervised Data Augmentation, section 2.2 and appendix
(back-translation; random sampling at temperature 0.9); TADPOLE, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.batches import pad, token_batches
from corpusfit.embed.folders import Setting, find, transformer_folder
from corpusfit.embed.hardware import resolve_device
from corpusfit.embed.transformer import position_limit, quiet
from corpusfit.engine import Progress
from corpusfit.errors import MissingDependencyError, ModelError
from corpusfit.kernels.chance import place_keys, uniform, value_keys
from corpusfit.plan import CutPlan
from corpusfit.segments import cut_units
from corpusfit.types import Documents, text_array

if TYPE_CHECKING:
    import torch

TEMPERATURE = 0.9
"""Of drawing (Xie et al. 2019); 0 takes the likeliest token each time."""

_THERE, _BACK = 2**42, 2**42 + 1  # streams of chance
_BUDGET = {"cpu": 2_048, "cuda": 32_768}  # tokens that are translated together
_LONGER, _MORE = 2, 16  # a translation has at most so many times the tokens, and some


@dataclass(frozen=True, eq=False)
class ThereAndBack:
    """Two models: one translates into another language, one back.

    Attributes:
        there: the first.
        back: the second.
    """

    there: _Translator
    back: _Translator

    @classmethod
    def opened(
        cls,
        mt: str,
        mt_back: str,
        *,
        temperature: float = TEMPERATURE,
        device: str = "auto",
        budget: int = 0,
    ) -> ThereAndBack:
        """Open both.

        Args:
            mt: folder or hub id of the model that translates there.
            mt_back: of the one that translates back.
            temperature: 0 or more; see `TEMPERATURE`.
            device: `auto`, `cpu` or `cuda`.
            budget: tokens that are translated together, padding counted; 0 goes by the device.

        Raises:
            UsageError: a name is neither a folder nor a model of the hub.
            ModelError: a model cannot be loaded, or does not translate; the sentence names `--mt`
                or `--mt-back`.
            MissingDependencyError: torch or transformers is not installed.
        """
        return cls(
            _Translator.opened("--mt", mt, device, temperature, budget),
            _Translator.opened("--mt-back", mt_back, device, temperature, budget),
        )

    def translate(
        self, texts: Sequence[str], *, copies: int, seed: int, first: int = 0, progress: Progress
    ) -> list[str]:
        """Translate texts there and back.

        Args:
            texts: n texts.
            copies: translations of each; they differ by what is drawn.
            seed: the only source of chance.
            first: the number of the first text, where these are some of many: its chances are
                those that it has among all.
            progress: told of each sentence.

        Returns:
            n * copies texts; copy j of text i is at i * copies + j. Sentences without a letter, and
            those of which nothing comes back, stay as they were.
        """
        found = [text for text in texts for _ in range(copies)]
        before, n = first * copies, len(found)
        for translator, stream in ((self.there, _THERE), (self.back, _BACK)):
            keys = place_keys(seed, stream, before + n)[before:]
            found = translator.translate(found, keys, progress)
        return found


@dataclass(frozen=True, eq=False)
class _Translator:
    """A model that translates.

    Attributes:
        model: of transformers, in evaluation mode, on its device.
        tokenizer: its own.
        longest: tokens that it takes, special ones included.
        prefix: what goes before each sentence.
        temperature: of drawing.
        budget: tokens that are translated together.
    """

    model: Any
    tokenizer: Any
    longest: int
    prefix: str
    temperature: float
    budget: int

    @classmethod
    def opened(
        cls, flag: str, name: str, device: str, temperature: float, budget: int
    ) -> _Translator:
        """Open the model that a setting names."""
        setting = Setting(
            flag=flag,
            allowed="a model folder or a Hugging Face hub id",
            otherwise="say --augment tfidf",
            extra="train",
        )
        device = resolve_device(device, "tune")
        model, tokenizer = _loaded(setting, name)
        config = model.config
        return cls(
            model.to(device).eval(),
            tokenizer,
            min(position_limit(model), tokenizer.model_max_length),
            getattr(config, "prefix", None) or "",
            temperature,
            budget or _BUDGET[device],
        )

    def translate(
        self, texts: list[str], keys: NDArray[np.uint64], progress: Progress
    ) -> list[str]:
        """Translate n texts, sentence by sentence; the keys, uint64 [n], are their chances."""
        sentences = [self._sentences(text) for text in texts]
        flat = [sentence for own in sentences for sentence in own]
        chances = [
            place_keys(int(key), 0, len(own)) for key, own in zip(keys, sentences, strict=True)
        ]
        each = np.concatenate([np.empty(0, np.uint64), *chances])
        said = self._all(flat, each, progress)
        joined, at = [], 0
        for own in sentences:
            joined.append("".join(said[at : at + len(own)]))
            at += len(own)
        return joined

    def _sentences(self, text: str) -> list[str]:
        """A text's sentences, with the blanks behind them; too long ones are cut."""
        if not text:
            return []
        one = Documents(np.zeros(1, np.int64), text_array([text]))
        cut = cut_units(one, CutPlan(unit="sentence", pieces=self.longest))[1].to_pylist()
        return [part for sentence in cut for part in self._fitting(sentence)]

    def _fitting(self, text: str) -> list[str]:
        """A text in pieces that the model takes, cut at a blank near the middle if there is one."""
        if len(text) < 2 or len(self._ids([text])[0]) <= self.longest:
            return [text]
        half = len(text) // 2
        middle = text.rfind(" ", 1, half) + 1 or half
        return self._fitting(text[:middle]) + self._fitting(text[middle:])

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """Token ids, special ones included."""
        given = [self.prefix + text.strip() for text in texts]
        found: list[list[int]] = self.tokenizer(given, return_attention_mask=False, verbose=False)[
            "input_ids"
        ]
        return found

    def _all(self, texts: list[str], keys: NDArray[np.uint64], progress: Progress) -> list[str]:
        """Translations of pieces, with their blanks; those without a letter are left."""
        said = list(texts)
        places = [i for i, text in enumerate(texts) if any(map(str.isalnum, text))]
        if not places:
            return said
        ids = self._ids([texts[i] for i in places])
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        progress.begin("translate", len(ids), "sentences")
        for batch in token_batches(lengths, self.budget):
            rows = [ids[i] for i in batch]
            of = [places[i] for i in batch]
            for i, new in zip(of, self._batch(rows, keys[of]), strict=True):
                bare = texts[i].strip()
                said[i] = texts[i].replace(bare, new.strip() or bare, 1)
            progress.advance(len(batch), len(batch))
        progress.end()
        return said

    def _batch(self, rows: list[list[int]], keys: NDArray[np.uint64]) -> list[str]:
        """Translations of a few rows of token ids."""
        import torch
        from transformers import LogitsProcessorList

        lengths = [len(row) for row in rows]
        ids = torch.from_numpy(pad(rows, self.tokenizer.pad_token_id)).to(self.model.device)
        real = torch.tensor(lengths, device=ids.device)[:, None]
        mask = torch.arange(ids.shape[1], device=ids.device) < real
        most = [min(_LONGER * n + _MORE, self.longest - 1) for n in lengths]
        draw = LogitsProcessorList([_Draw(keys, self.temperature)] if self.temperature else [])
        with torch.inference_mode(), quiet():
            made = self.model.generate(
                input_ids=ids,
                attention_mask=mask.long(),
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                max_new_tokens=max(most) + 1,  # some models force an end there
                logits_processor=draw,
            )
        new = [row[1 : 1 + n] for row, n in zip(made.tolist(), most, strict=True)]
        said: list[str] = self.tokenizer.batch_decode(new, skip_special_tokens=True)
        return said


@dataclass(frozen=True, eq=False)
class _Draw:
    """Makes the likeliest token one that was drawn, for each row by a chance of its own.

    Attributes:
        keys: uint64 [rows].
        temperature: above 0.
    """

    keys: NDArray[np.uint64]
    temperature: float

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocabulary] after some tokens [rows, n]: 0 for one token, else -inf."""
        import torch

        chance = uniform(value_keys(input_ids.shape[1], 0, self.keys))
        through = torch.softmax(scores.double() / self.temperature, -1).cumsum(-1)
        drawn = torch.from_numpy(chance).to(scores.device)[:, None] * through[:, -1:]
        token = torch.searchsorted(through, drawn, right=True)
        return torch.full_like(scores, -torch.inf).scatter(1, token, 0.0)


def _loaded(setting: Setting, name: str) -> tuple[Any, Any]:
    """Model and tokenizer: safetensors only, no code of the model's."""
    try:
        import torch
        import transformers
    except ImportError as e:
        raise MissingDependencyError("--augment backtranslate", setting.extra) from e
    place = transformer_folder(find(name, setting=setting), setting)
    local = {"local_files_only": True, "trust_remote_code": False}
    given = {"use_safetensors": True, "dtype": torch.float32, "output_loading_info": True, **local}
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(place, **local)
            if not config.is_encoder_decoder:
                raise ModelError(
                    f"{setting.flag}: {name} is no sequence-to-sequence model, so it does not "
                    "translate. Name one that does, such as a MarianMT, T5 or M2M100 model."
                )
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, use_fast=True, **local)
            model, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(place, **given)
    except ModelError:
        raise
    except Exception as e:  # a broken folder shows as any of a dozen kinds
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        if "SentencePiece" in reason:  # a library that MarianMT and M2M100 need, and few others
            reason = "its tokenizer needs one more library: pip install sentencepiece"
        raise ModelError(f"{setting.flag}: {name} cannot be loaded: {reason}") from e
    if info["missing_keys"]:
        gone = sorted(info["missing_keys"])
        raise ModelError(
            f"{setting.flag}: the weights in {name} are not all of a {type(model).__name__}: "
            f"{gone[0]} is missing. Name a folder with the whole model."
        )
    if hasattr(tokenizer, "src_lang") and model.generation_config.forced_bos_token_id is None:
        raise ModelError(
            f"{setting.flag}: {name} translates between many languages and does not say into "
            "which. Save it with src_lang in its tokenizer and forced_bos_token_id in its "
            "generation_config, or name a model for two languages."
        )
    if tokenizer.pad_token_id is None:
        raise ModelError(f"{setting.flag}: the tokenizer of {name} has no padding token.")
    return model, tokenizer
