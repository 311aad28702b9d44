"""Losses of 20 small random models: transformers' on padded rows, ours on padded and packed ones.

The models, the rows and their padding are those of tests/unit/training. In float32 on a CPU; a
decoder predicts the next token, a masked model here every token that it sees.

Run: .venv/bin/python benchmarks/losses.py, which prints the table of benchmarks/log.md.
"""

import json
import sys
from pathlib import Path

import torch

from harness import RESULTS, machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/unit/training"))

from shapes import CAUSAL, MASKED, NO_SDPA, model_of, special_tokens_for
from test_packing import LENGTH, padded, rows

from corpusfit.embed.prediction import Predictor
from corpusfit.training.packing import find_packing


def gradients(model, loss):
    """The loss as a number, and the gradient of each weight."""
    model.zero_grad()
    loss.backward()
    return loss.item(), {
        n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
    }


def ours(predictor, ids, chunks, inputs, causal):
    """Our mean loss: of the next token in the same chunk, or of every token; -1 is padding."""
    places = chunks >= 0
    labels = ids
    if causal:
        places[:, :-1] &= chunks[:, 1:] == chunks[:, :-1]
        places[:, -1] = False
        labels = ids.roll(-1, 1)
    at = places.flatten().nonzero()[:, 0]
    each = torch.full((len(at),), 1 / len(at))
    loss = predictor.loss(predictor.model, inputs, at, labels.flatten()[at], each)
    return gradients(predictor.model, loss)


def compared(name):
    """Losses of an architecture, and how far gradients are apart, relative to the largest."""
    causal = name in CAUSAL
    model = model_of(name, "eager" if name in NO_SDPA else "sdpa")
    ids, chunks = rows()
    texts, seen = padded(ids, chunks, model.config.pad_token_id or 0)
    alone = {"input_ids": texts, "attention_mask": seen}
    labels = texts.masked_fill(seen == 0, -100)
    theirs, wanted = gradients(model, model(**alone, labels=labels).loss)

    predictor = Predictor(model)
    packing = find_packing(predictor, special_tokens_for(name), LENGTH, causal=causal)
    loss, grads = ours(predictor, texts, torch.where(seen > 0, 0, -1), alone, causal)
    result = {"transformers": theirs, "padded": loss, "packed": None}
    if packing is not None:
        together = packing.inputs(ids, chunks, torch.float32)
        result["packed"], grads = ours(predictor, ids, chunks, together, causal)
    largest = max(float(g.abs().max()) for g in wanted.values())
    apart = max(float((grads[n] - g).abs().max()) for n, g in wanted.items())
    return result | {"gradients": apart / largest, "without_logits": predictor.matrix is not None}


def main():
    torch.set_num_threads(1)
    print(
        "| architecture | transformers | ours, padded: differs by | ours, packed: differs by",
        end="",
    )
    print(" | gradients differ by | without logits |\n|---|---|---|---|---|---|")
    found = {}
    for name in [*sorted(CAUSAL), *sorted(MASKED)]:
        found[name] = r = compared(name)
        cells = [name, f"{r['transformers']:.6f}"]
        for loss in (r["padded"], r["packed"]):
            apart = None if loss is None else abs(loss - r["transformers"])
            cells.append("not packed" if apart is None else f"{apart:.0e}" if apart else "0")
        cells += [f"{r['gradients']:.0e}", "yes" if r["without_logits"] else "no"]
        print(f"| {' | '.join(cells)} |")
    results = {"results": found, "machine": machine()}
    (RESULTS / "losses.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
