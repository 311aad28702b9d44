"""Small trainings, built of seeded random numbers: models 32 wide, texts that are chains of ids.

A text goes on from each token to the one that `following` gives, so that it can be learned.
"""

import dataclasses
from pathlib import Path

import numpy as np

from corpusfit.embed.folders import Pooling
from corpusfit.embed.prediction import Predictor
from corpusfit.training.batches import ChunkTokens, Passes
from corpusfit.training.chunks import cut_chunks
from corpusfit.training.contract import Network
from corpusfit.training.folder import Checkpoints
from corpusfit.training.objectives import objective
from corpusfit.training.packing import find_packing
from corpusfit.training.plan import ObjectivePlan, TrainPlan
from corpusfit.training.special_tokens import SpecialTokens
from corpusfit.training.token_store import ShardTokens, Tokens, write_part
from corpusfit.training.trainer import (
    Heldout,
    Training,
    TrainingListener,
    start_accelerator,
)

VOCABULARY, LENGTH = 40, 32
_ORDINARY = np.arange(VOCABULARY) >= 5
BERT_MARKS = SpecialTokens(
    prefix=(2,),
    suffix=(3,),
    mask=4,
    pad=0,
    end=None,
    vocabulary=VOCABULARY,
    ordinary=_ORDINARY,
    begins=_ORDINARY & (np.arange(VOCABULARY) % 3 > 0),
)
MARKS = {
    "mlm": BERT_MARKS,
    "mlm+nsp": BERT_MARKS,
    "causal": dataclasses.replace(BERT_MARKS, prefix=(), suffix=(), mask=None, end=1),
    "tsdae": BERT_MARKS,
}


def following(token):
    """The token after another."""
    return 5 + (3 * token + 1) % (VOCABULARY - 5)


def chains(n, seed=0, most=50):
    """n texts of 1 to `most` tokens; one in ten tokens is a random one."""
    chance = np.random.default_rng(seed)
    texts = []
    for length in chance.integers(1, most + 1, n):
        text = [int(chance.integers(5, VOCABULARY))]
        while len(text) < length:
            strays = chance.random() < 0.1
            text.append(int(chance.integers(5, VOCABULARY)) if strays else following(text[-1]))
        texts.append(text)
    return texts


def stored(folder, texts):
    """Token ids as `Tokens`; text i is called "texts.jsonl, row i"."""
    n = len(texts)
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(np.int64)
    ids = np.array([i for text in texts for i in text], np.uint16)
    plain = np.ones(n, np.float32)
    part = ShardTokens(["texts.jsonl"], np.arange(n), ids, offsets, plain)
    write_part(folder, 0, part, {"rejects": []})
    return Tokens.open(folder)


def model_of(name, dropout=0.0, attention="eager"):
    """An untrained model for an objective, the same in every process."""
    import torch
    import transformers

    torch.manual_seed(0)
    if name == "causal":
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            initializer_range=0.2,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            bos_token_id=1,
            eos_token_id=1,
        )
        kind = transformers.AutoModelForCausalLM
    else:
        config = transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=64,
            initializer_range=0.2,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        if name == "tsdae":
            return sentence_encoder_of(config)
        nsp = name == "mlm+nsp"
        kind = transformers.AutoModelForPreTraining if nsp else transformers.AutoModelForMaskedLM
    return kind.from_config(config, attn_implementation=attention).eval()


def sentence_encoder_of(config, mode="mean"):
    """An untrained sentence encoder with its decoder."""
    import transformers

    from corpusfit.training.sentence_encoders import DenoisingAutoencoder

    encoder = transformers.AutoModel.from_config(config, add_pooling_layer=False)
    decodes = {**config.to_dict(), "is_decoder": True, "add_cross_attention": True}
    kind = transformers.AutoModelForCausalLM
    decoder = kind.from_config(type(config).from_dict(decodes))
    return DenoisingAutoencoder(encoder, Pooling(mode), decoder).eval()


def training_of(
    folder,
    name="mlm",
    *,
    texts=None,
    weights=None,
    draw=False,
    pack=True,
    dropout=0.0,
    micro_rows=4,
    heldout=True,
    seed=5,
    objective_plan=None,
    model=None,
    **train,
):
    """A training as `adapt` builds it, from a fresh model, with its state in a folder.

    The held-out kinds are "task" and "data"; what is left of `train` are settings of `TrainPlan`.
    """
    folder = Path(folder)
    settings = {
        "max_steps": 12,
        "batch": 6,
        "learning_rate": 3e-3,
        "evaluations": 2,
        "keep": "last",
        **train,
    }
    plan = TrainPlan(length=LENGTH, precision="fp32", device="cpu", **settings)
    plan.check()
    aim = objective(objective_plan or ObjectivePlan(name), MARKS[name])
    tokens = stored(folder / "tokens", chains(60) if texts is None else texts)
    if weights is None:
        weights = np.ones(len(tokens), np.float32)
    room = LENGTH - aim.overhead()
    chunks = cut_chunks(tokens.lengths, np.asarray(weights, np.float32), room)
    measured = stored(folder / "measured", chains(20, seed=1))
    looked_at = cut_chunks(measured.lengths, np.ones(20, np.float32), room)
    kinds = {
        kind: (measured, looked_at.take(places))
        for kind, places in (("task", np.arange(0, 9)), ("data", np.arange(9, 20)))
        if heldout
    }
    accelerator = start_accelerator("cpu")
    model = model or model_of(name, dropout)
    predictor = Predictor(model.to(accelerator.device))
    packing = None
    if pack and aim.packs:
        packing = find_packing(predictor, aim.special, LENGTH, causal=name == "causal")
        assert packing is not None
    passes = Passes(
        chunks,
        None,
        0.0,
        length=LENGTH,
        overhead=aim.overhead(),
        resample=draw,
        pack=packing is not None,
        batch=plan.batch,
        seed=seed,
    )
    return Training(
        plan=plan,
        objective=aim,
        network=Network(predictor, model, packing, precision="fp32"),
        chunk_tokens=ChunkTokens(passes.chunks, (tokens,), passes.scale, passes.frequency),
        passes=passes,
        heldout=Heldout.of(kinds, aim, rows=micro_rows, seed=seed),
        checkpoints=Checkpoints(folder / "checkpoints", plan.checkpoints),
        best=folder / "best.safetensors",
        accelerator=accelerator,
        micro_rows=micro_rows,
        width=LENGTH if packing else 0,
        seed=seed,
    )


def weights_of(work):
    """Copies of a training's weights, by name."""
    parameters = work.network.predictor.model.named_parameters()
    return {name: p.detach().clone() for name, p in parameters}


class Stopped(Exception):
    """A training that was stopped from outside."""


class Stopping(TrainingListener):
    """Stops a training once it has made a step; keeps what it was told."""

    def __init__(self, after=None):
        self.after, self.made, self.warnings, self.records = after, 0, [], []

    def step(self, steps, tokens):
        self.made += steps
        if self.made == self.after:
            raise Stopped

    def resume(self, step, history):
        self.made += step

    def record(self, record):
        self.records.append(record)

    def warn(self, message):
        self.warnings.append(message)
