"""Train a causal model on a selection with transformers' Trainer, each text by its weight.

python examples/trainer.py MODEL SELECTION OUT
"""

import sys
from functools import partial

from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

import corpusfit


class WeightedTrainer(Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        weights = inputs.pop("weights", None)
        self.compute_loss_func = partial(corpusfit.PackedDataset.weighted_loss, weights=weights)
        return super().compute_loss(model, inputs, *args, **kwargs)


if __name__ == "__main__":
    name, selection, out = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(name)
    length = min(1024, model.config.max_position_embeddings)
    data = corpusfit.PackedDataset(selection, AutoTokenizer.from_pretrained(name), length)
    # without `remove_unused_columns=False` the Trainer would remove the weights from the rows
    arguments = TrainingArguments(out, num_train_epochs=1, remove_unused_columns=False)
    WeightedTrainer(
        model,
        arguments,
        data_collator=data.collate,
        train_dataset=data,
        compute_loss_func=corpusfit.PackedDataset.weighted_loss,
    ).train()
