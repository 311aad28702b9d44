"""Speed of our beam search beside that of `transformers.generate`, with the same model.

The peer is what a user writes: batches of 32 sentences as they come, padded to the longest, beam 5,
at most 100 new tokens, fp32. A second peer sorts the sentences by length first. All run in turn
in one process; tokenising and detokenising are left out on all sides. The model is trained by this
script on pairs of the corpus, so that translations end where they should; the test sentences are
held out. How many translations are equal is stored with the times.

Run: python benchmarks/translation_decoding.py SOURCE TARGET MODEL [--steps N] [--sentences N]

SOURCE and TARGET are line-aligned files; MODEL is a folder, trained first if it does not exist.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from corpusfit.evaluation.formats import whole_text
from corpusfit.training.decoding import beam_search
from corpusfit.training.plan import DecodePlan
from harness import paired

BATCH, BEAM, LONGEST = 32, 5, 100
ROWS = 32  # pairs of a training step
VOCABULARY, WIDTH, LAYERS = 4_096, 128, 2
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"


def main() -> None:
    """Train the model if need be, and time both sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    sides = [whole_text(path).splitlines() for path in (given.source, given.target)]
    pairs = list(zip(*sides, strict=True))
    random.Random(0).shuffle(pairs)
    held, pairs = pairs[: given.sentences], pairs[given.sentences :]
    if not given.model.exists():
        train(pairs, given.model, given.steps)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(given.model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    rows = tokenizer([source for source, _ in held], return_attention_mask=False)["input_ids"]
    ours, theirs, in_order = (
        search(model, rows),
        generate(model, rows),
        generate(model, by_length(rows)),
    )
    same = sum(a == b for a, b in zip(ours(), theirs(), strict=True))
    words = sum(len(row) for row in rows)
    note = (
        f"Marian of {LAYERS} + {LAYERS} layers, {WIDTH} wide, {len(tokenizer):,} tokens, of "
        f"{len(pairs):,} pairs of {given.source.name}; {len(rows):,} held-out sentences of "
        f"{words / len(rows):.1f} tokens; beam {BEAM}, at most {LONGEST} tokens, fp32, "
        f"{given.threads} thread; generate in batches of {BATCH}, "
    )
    extra = {"same_translations": same, "of": len(rows)}
    for name, peer, how in (
        ("as_they_come", theirs, "as they come"),
        ("by_length", in_order, "sorted by length"),
    ):
        paired(
            f"translation_decoding_{name}",
            ours,
            peer,
            runs=given.runs,
            note=note + how,
            work=len(rows),
            unit="sentences",
            extra=extra,
        )


def by_length(rows: Sequence[list[int]]) -> list[list[int]]:
    """The longest sentences first."""
    return sorted(rows, key=len, reverse=True)


def search(model: Any, rows: Sequence[list[int]]) -> Callable[[], list[list[int]]]:
    """Our side."""
    return lambda: beam_search(model, rows, DecodePlan(BEAM, LONGEST))


def generate(model: Any, rows: Sequence[list[int]]) -> Callable[[], list[list[int]]]:
    """The peer, in batches of the rows as they are."""
    pad, end = model.config.pad_token_id, model.config.eos_token_id

    def run() -> list[list[int]]:
        found: list[list[int]] = []
        for at in range(0, len(rows), BATCH):
            ids = padded(rows[at : at + BATCH], pad)
            with torch.inference_mode():
                made = model.generate(
                    input_ids=ids,
                    attention_mask=(ids != pad).long(),
                    num_beams=BEAM,
                    max_new_tokens=LONGEST,
                    do_sample=False,
                )
            tokens = [row[1:] for row in made.tolist()]
            found += [row[: row.index(end) + 1] if end in row else row for row in tokens]
        return found

    return run


def padded(rows: Sequence[list[int]], fill: int) -> torch.Tensor:
    """Int64 [rows, longest]."""
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=fill
    )


def train(pairs: Sequence[tuple[str, str]], folder: Path, steps: int) -> None:
    """A Marian model with joint byte pairs, by a plain loop."""
    tokenizer = byte_pairs([text for pair in pairs for text in pair])
    heads = {f"{side}_attention_heads": WIDTH // 64 for side in ("encoder", "decoder")}
    layers = {f"{side}_layers": LAYERS for side in ("encoder", "decoder")}
    widths = {f"{side}_ffn_dim": 4 * WIDTH for side in ("encoder", "decoder")}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    config = transformers.MarianConfig(
        vocab_size=len(tokenizer),
        d_model=WIDTH,
        max_position_embeddings=256,
        scale_embedding=True,
        forced_eos_token_id=1,
        bos_token_id=0,
        **heads,
        **layers,
        **widths,
        **ids,
    )
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).train()
    learning = torch.optim.Adam(model.parameters(), 2e-3, betas=(0.9, 0.98))
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        learning, lambda n: min((n + 1) / warm, (warm / (n + 1)) ** 0.5)
    )
    chance, loss = random.Random(1), torch.zeros(())
    for step in range(steps):
        some = sorted(chance.sample(range(len(pairs)), ROWS), key=lambda i: len(pairs[i][0]))
        sources, targets = zip(*(pairs[i] for i in some), strict=True)
        batch = tokenizer(list(sources), truncation=True, max_length=64)["input_ids"]
        wanted = tokenizer(text_target=list(targets), truncation=True, max_length=64)["input_ids"]
        source = padded(batch, 0)
        loss = model(
            input_ids=source,
            attention_mask=(source != 0).long(),
            labels=padded(wanted, -100),
        ).loss
        learning.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        learning.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step:,}: loss {loss.item():.2f}", flush=True)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def byte_pairs(texts: Sequence[str]) -> Any:
    """A tokenizer of joint byte pairs that ends each text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    backend = Tokenizer(models.BPE(unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    special = [PAD, END, UNKNOWN]
    backend.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special)
    )
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PAD, eos_token=END, unk_token=UNKNOWN
    )


if __name__ == "__main__":
    main()
