"""The counted memory of a training step beside the peak of a process, and what fits where.

Each case trains a few steps of a random model in a process of its own, on a CPU in fp32. Its peak
is anonymous memory (RssAnon), which leaves out mapped files; the frozen weights of LoRA stay in the
mapping of their file and are added. Beside it stands what `adapt` counts, and the program: what the
process had when training began. What fits where is counted alone, on a GPU in bf16 with a row of
2,048 tokens.

Run: .venv/bin/python benchmarks/training_memory.py [SIZE:KIND …], or with the word fits
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

VOCABULARY = 32_000
# width, inner width, heads, heads of keys, layers, vocabulary
MEASURED = {
    "20M": ("Llama", 384, 1024, 6, 6, 8, 16_000),
    "110M": ("Llama", 768, 2048, 12, 12, 12, VOCABULARY),
    "340M": ("Llama", 1024, 2816, 16, 16, 24, VOCABULARY),
}
# Qwen2.5 0.5B; Llama 3.2 1B and 3B, 3.1 8B
COUNTED = {
    "0.5B": ("Qwen2", 896, 4864, 14, 2, 24, 151_936),
    "1B": ("Llama", 2048, 8192, 32, 8, 16, 128_256),
    "3B": ("Llama", 3072, 8192, 24, 8, 28, 128_256),
    "8B": ("Llama", 4096, 14_336, 32, 8, 32, 128_256),
}
KINDS = ("full", "lora", "full, recomputed", "lora, recomputed")


def config_of(shape: tuple[Any, ...], *, tied: bool = True) -> Any:
    """The configuration of a causal model."""
    import transformers

    family, width, inner, heads, keys, layers, words = shape
    return getattr(transformers, f"{family}Config")(
        vocab_size=words, hidden_size=width, intermediate_size=inner, num_attention_heads=heads,
        num_key_value_heads=keys, num_hidden_layers=layers, max_position_embeddings=4096,
        bos_token_id=1, eos_token_id=2, pad_token_id=3, tie_word_embeddings=tied,
    )  # fmt: skip


def make(size: str, folder: Path) -> None:
    """Write a random model, and texts of random words."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    config = config_of(MEASURED[size])
    words = ["<unk>", "<s>", "</s>", "<pad>", *(f"w{n}" for n in range(config.vocab_size - 4))]
    spelled = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="<unk>"))
    spelled.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=spelled, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        pad_token="<pad>",
    ).save_pretrained(folder)  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    chance = random.Random(0)
    with (folder / "text.jsonl").open("w") as out:
        for _ in range(500):
            text = " ".join(chance.choices(words[4:], k=200))
            out.write(json.dumps({"text": text}) + "\n")


def anonymous(pid: int | str) -> int:
    """Bytes of a process's memory that no file backs."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def train(folder: Path, kind: str, steps: int, batch: int) -> None:
    """Train in this process, and print what it had at the beginning and what was counted."""
    import transformers

    import corpusfit

    begun = []

    class Begin(transformers.TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            begun.append(anonymous("self"))

    lora, recomputed = kind.startswith("lora"), kind.endswith("recomputed")
    settings = [
        *(f"train.max_steps={steps}", "train.evaluations=1", "train.keep=last", "mix.heldout=8"),
        *("train.precision=fp32", "train.device=cpu", "objective.name=causal"),
        f"train.batch={batch}",
        *(f"model.name={folder}", f"train.checkpointing={'on' if recomputed else 'off'}"),
        *(["adapter.kind=lora"] if lora else []),
    ]
    run = corpusfit.adapt(
        data=str(folder / "text.jsonl"), out=folder / kind, settings=settings, callbacks=[Begin()]
    )
    print(json.dumps({"program": begun[0], **run.manifest["memory"]}))


def measure(size: str, kind: str) -> None:
    """Print the counted memory and the peak of one case."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, __file__, "make", size, scratch], check=True)
        # fewer rows and steps of the largest, which would take minutes
        steps, batch = ("3", "4") if size == "340M" else ("6", "16")
        command = [sys.executable, __file__, "train", scratch, kind, steps, batch]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        peak = 0
        while process.poll() is None:
            try:
                peak = max(peak, anonymous(process.pid))
            except (OSError, StopIteration):  # it has ended
                break
            time.sleep(0.01)
        counted = json.loads(process.communicate()[0].splitlines()[-1])
    peak += counted["weights"] if kind.startswith("lora") else 0
    ratio = (counted["program"] + counted["total"]) / peak
    print(f"| {size} | {kind} | {in_gb(counted)} | {peak / 1e9:.2f} | {ratio:.2f} |", flush=True)


def in_gb(counted: dict[str, int]) -> str:
    """Cells of a table: the program, the parts that do not depend on text, the others, the sum."""
    states = sum(counted[name] for name in ("weights", "gradients", "optimizer"))
    parts = [counted["program"], states, counted["activations"]]
    return " | ".join(
        f"{part / 1e9:.2f}" for part in [*parts, counted["program"] + counted["total"]]
    )


def fits() -> None:
    """Print what a step needs of a GPU, with a row of 2,048 tokens."""
    import transformers

    from corpusfit.embed.hardware import Hardware
    from corpusfit.training.adapters import hold_in_bf16
    from corpusfit.training.memory import choose, outline
    from corpusfit.training.plan import AdaptPlan

    for size, shape in COUNTED.items():
        build = partial(
            transformers.AutoModelForCausalLM.from_config, config_of(shape, tied=size != "8B")
        )
        for kind in ("", "lora"):
            plan = AdaptPlan().with_value("objective.name", "causal")
            plan = plan.with_value("adapter.kind", kind)
            cells = []
            for checkpointing in ("off", "on"):
                plan = plan.with_value("train.checkpointing", checkpointing)
                model = outline(build, plan.adapter)
                if kind:
                    hold_in_bf16(model, merged=False)
                parts, _, _ = choose(plan, model, 1, 2_048, Hardware("cuda", "bf16", 0), None)
                cells.append(f"{parts['total'] / 1e9:.1f}")
            print(f"| {size} | {kind or 'all'} | {' | '.join(cells)} |", flush=True)


def main(cases: list[str]) -> None:
    """Print the table of benchmarks/log.md."""
    for size, kind in [case.split(":") for case in cases] or itertools.product(MEASURED, KINDS):
        measure(size, kind)


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    elif sys.argv[1:2] == ["fits"]:
        fits()
    else:
        main(sys.argv[1:])
