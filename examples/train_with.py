"""Train a causal model on JSON lines with transformers alone, for `corpusfit fit --train-with`.

python examples/train_with.py MODEL DATA OUT [SEED]
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

LENGTH, BATCH, STEPS, RATE = 128, 4, 40, 1e-3
name, data, out, seed = [*sys.argv[1:], "0"][:4]
set_seed(int(seed))
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).train()
texts = [json.loads(line)["text"] for line in Path(data).read_text("utf-8").splitlines()]
order = torch.randperm(len(texts)).tolist()
ids = [i for at in order for i in [*tokenizer(texts[at])["input_ids"], tokenizer.eos_token_id]]
rows = torch.tensor(ids[: len(ids) // LENGTH * LENGTH]).view(-1, LENGTH)
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
for step in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = RATE * (1 - step / STEPS)
    batch = rows[torch.randint(len(rows), (BATCH,))]
    model(batch, labels=batch, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained(out)
