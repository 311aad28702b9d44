"""Translation: its loss, its batches of pairs, its models and its learning rate."""

import dataclasses
import itertools
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from adapting import LENGTH, VOCABULARY, Stopped, Stopping, chains, weights_of
from corpusfit.core.errors import UsageError
from corpusfit.embed.prediction import Predictor
from corpusfit.training import trainer
from corpusfit.training.batches import ChunkTokens, Feed, Passes
from corpusfit.training.chunks import exclude_keys, split_heldout, whole_pairs
from corpusfit.training.contract import Network
from corpusfit.training.folder import Checkpoints
from corpusfit.training.objectives import objective
from corpusfit.training.plan import AdaptPlan, ObjectivePlan, TrainPlan
from corpusfit.training.token_store import PairTokens, ShardTokens, write_part
from corpusfit.training.trainer import (
    Heldout,
    Training,
    TrainingListener,
    TrainingLoop,
    start_accelerator,
)
from corpusfit_papers.translation.objective import Translation, cut_batches

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from corpusfit.training.stepping import train  # noqa: E402


def stored_pairs(folder, pairs):
    """Pairs of token ids as `PairTokens`, each side ended by 3."""
    ended = [([*a, 3], [*b, 3]) for a, b in pairs]
    both = [a + b for a, b in ended]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in both])]).astype(np.int64)
    ids = np.array([i for text in both for i in text], np.uint16)
    keys = np.arange(2 * len(pairs), dtype=np.uint64).reshape(-1, 2)
    begins = np.array([len(a) for a, _ in ended])
    part = ShardTokens(["pairs.tsv"], np.arange(len(pairs)), ids, offsets, keys, begins)
    write_part(folder, 0, part, {"rejects": []})
    return PairTokens.open(folder)


def translator_of(kind="marian", dropout=0.0):
    """An untrained translation model, and its special tokens."""
    import torch
    import transformers

    torch.manual_seed(0)
    special = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
    if kind == "t5":
        config = transformers.T5Config(
            vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
            dropout_rate=dropout, **special,
        )  # fmt: skip
    else:
        sides = {
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in {"layers": 2, "attention_heads": 4, "ffn_dim": 48}.items()
        }
        of_kind = {"marian": transformers.MarianConfig, "mbart": transformers.MBartConfig}[kind]
        config = of_kind(
            vocab_size=VOCABULARY, d_model=32, max_position_embeddings=64, init_std=0.2,
            dropout=dropout, attention_dropout=dropout, bos_token_id=2, **sides, **special,
        )  # fmt: skip
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()

    class Tokenizer:
        pad_token_id, eos_token_id = 0, 3

        def get_vocab(self):
            return {f"word {token}": token for token in range(VOCABULARY)}

    return model, Translation.special_tokens(model, Tokenizer(), kind)


def translation_of(
    folder,
    kind="marian",
    *,
    pairs=None,
    weights=None,
    dropout=0.0,
    micro_rows=4,
    smoothing=0.1,
    pair_tokens=160,
    seed=5,
    **train,
):
    """A training of pairs as `adapt` builds it; as `training_of`."""
    folder = Path(folder)
    settings = {
        "max_steps": 12,
        "batch": 2,
        "learning_rate": 3e-3,
        "evaluations": 2,
        **train,
    }
    plan = TrainPlan(length=LENGTH, precision="fp32", device="cpu", **settings)
    plan.check()
    model, special = translator_of(kind, dropout)
    own = {"smoothing": smoothing, "pair_tokens": pair_tokens}
    aim = objective(ObjectivePlan("translation", options=own), special, LENGTH)
    if pairs is None:
        pairs = list(zip(chains(60, 2, 20), chains(60, 3, 25), strict=True))
    tokens = stored_pairs(folder / "tokens", pairs)
    weights = np.ones(len(tokens)) if weights is None else weights
    chunks = whole_pairs(tokens.sides, np.asarray(weights, np.float32), LENGTH)
    texts = chains(20, 1, 8)
    measured = stored_pairs(folder / "measured", list(zip(texts, texts, strict=True)))
    looked_at = whole_pairs(measured.sides, np.ones(20, np.float32), LENGTH)
    accelerator = start_accelerator("cpu")
    passes = Passes(
        chunks, None, 0.0, length=aim.row_tokens, overhead=0, resample=False, pack=False, batch=1,
        seed=seed, arrange=aim.arrange,
    )  # fmt: skip
    return Training(
        plan=plan,
        objective=aim,
        network=Network(Predictor(model), model, None, precision="fp32"),
        chunk_tokens=ChunkTokens(passes.chunks, (tokens,), passes.scale, passes.frequency),
        passes=passes,
        heldout=Heldout.of({"task": (measured, looked_at)}, aim, rows=micro_rows, seed=seed),
        checkpoints=Checkpoints(folder / "checkpoints", plan.checkpoints),
        best=folder / "best.safetensors",
        accelerator=accelerator,
        micro_rows=micro_rows,
        width=0,
        seed=seed,
    )


def collated(work, pairs):
    """A batch as `DataCollatorForSeq2Seq` makes it: padding to the longest, labels of -100."""
    tokens = work.chunk_tokens
    sides = [[tokens.ids(c, first=first).tolist() for c in pairs] for first in (True, False)]
    ids, labels = (
        torch.tensor([t + [fill] * (max(map(len, side)) - len(t)) for t in side])
        for side, fill in zip(sides, (0, -100), strict=True)
    )
    mask = (torch.arange(ids.shape[1]) < torch.tensor([[len(t)] for t in sides[0]])).long()
    model = work.network.predictor.model
    shifted = model.prepare_decoder_input_ids_from_labels(labels)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels} | {
        "decoder_input_ids": shifted
    }


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["marian", "t5"])
def test_loss_is_that_of_seq2seq_trainer(tmp_path, kind, smoothing):
    """transformers.Seq2SeqTrainer.compute_loss on the same pairs, with and without smoothing."""
    work = translation_of(tmp_path / "ours", kind, smoothing=smoothing, micro_rows=2)
    arguments = transformers.Seq2SeqTrainingArguments(
        tmp_path / "theirs", label_smoothing_factor=smoothing, use_cpu=True, report_to="none"
    )
    model = work.network.predictor.model.train()
    peer = transformers.Seq2SeqTrainer(model=model, args=arguments)
    rows = work.passes.rows(0).between(0, 3)
    for row in rows:
        with torch.no_grad():
            expected = float(peer.compute_loss(model, collated(work, row)))
        micros = work.objective.micro_batches(work.chunk_tokens, [row], np.zeros(1, np.uint64), 1)
        with torch.no_grad():
            found = sum(float(work.objective.losses(work.network, m)[0]) for m in micros)
        assert found / sum(len(m.at) for m in micros) == pytest.approx(expected, abs=1e-5)
    assert any(len(row) > 3 for row in rows)


def test_held_out_loss_has_no_smoothing(tmp_path):
    """Its exponential is the perplexity: torch's own cross-entropy on the same pairs."""
    work = translation_of(tmp_path, smoothing=0.3)
    losses = work.heldout.losses(work.objective, work.network)
    plan = dataclasses.replace(work.objective.plan, options={"smoothing": 0.0})
    plain = dataclasses.replace(work.objective, plan=plan)
    assert losses == work.heldout.losses(plain, work.network)


@pytest.mark.parametrize("micro_rows", [1, 3, 1000])
def test_gradient_does_not_depend_on_micro_batches(tmp_path, micro_rows):
    """Against all pairs of the step in a single batch, with weights of pairs."""
    weights = np.linspace(0.1, 2, 60)
    work = translation_of(tmp_path, weights=weights, micro_rows=micro_rows, batch=3)
    loop = TrainingLoop(work, TrainingListener())
    work.network.predictor.model.train()
    batch = loop.batch(Feed(work.passes), 0)
    loss = float(loop.gradient(batch))
    found = {n: p.grad.clone() for n, p in loop.parameters.items()}
    model = work.network.predictor.model
    model.zero_grad()
    pairs = np.concatenate(batch.rows)
    inputs = collated(work, pairs)
    labels = inputs.pop("labels")
    logits = model(**inputs).logits
    each = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), labels, reduction="none", label_smoothing=0.1
    )
    scale = torch.from_numpy(work.chunk_tokens.scale[pairs])
    expected = (each * scale[:, None]).sum() / (labels != -100).sum()
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), abs=2e-6)
    for name, parameter in loop.parameters.items():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-6)
    assert len(batch.micros) >= (3 if micro_rows < 1000 else 1)


def test_micro_batches_are_within_the_limit(tmp_path):
    work = translation_of(tmp_path, pair_tokens=300, micro_rows=2)
    rows, keys = work.passes.rows(0).between(0, 4), np.zeros(4, np.uint64)
    micros = work.objective.micro_batches(work.chunk_tokens, rows, keys, 2)
    most = 2 * work.objective.length
    assert max(max(m.ids.numel(), m.decoder.numel()) for m in micros) <= most
    assert sum(len(m.ids) for m in micros) == sum(map(len, rows))


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_stopped_translation_ends_the_same(tmp_path, monkeypatch, keep):
    """Bit by bit against an uninterrupted training, over two passes, with dropout."""
    clock = itertools.count()
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: 60.0 * next(clock)))
    words = {
        "dropout": 0.2,
        "keep": keep,
        "checkpoint_minutes": 2.0,
        "batch": 6,
        "evaluations": 4,
        "max_steps": 8,
    }
    whole = translation_of(tmp_path / "whole", **words)
    history = train(whole, TrainingListener())
    for after in (1, 6):
        torch.manual_seed(0)
        with pytest.raises(Stopped):
            train(translation_of(tmp_path / f"{after}", **words), Stopping(after))
        again = translation_of(tmp_path / f"{after}", **words)
        assert train(again, TrainingListener()) == history
        final = weights_of(again)
        assert all(torch.equal(w, final[n]) for n, w in weights_of(whole).items())


# --------------------------------------------------------------------------------- the order


def passes_of(sides, tokens, weights=None, draw=False):
    n = len(sides)
    chunks = whole_pairs(np.array(sides), np.ones(n, np.float32), 10**6)
    if weights is not None:
        chunks = dataclasses.replace(chunks, weight=np.array(weights, np.float32))
    aim = objective(ObjectivePlan("translation", options={"pair_tokens": tokens}), None, LENGTH)
    return Passes(
        chunks, None, 0.0, length=tokens, overhead=0, resample=draw, pack=False, batch=1, seed=3,
        arrange=aim.arrange,
    )  # fmt: skip


def test_a_pass_has_every_pair_once_in_batches_of_similar_length():
    sides = np.random.default_rng(0).integers(1, 40, (300, 2))
    passes = passes_of(sides, 200)
    seen = []
    for number in range(2):
        rows = passes.rows(number)
        assert sorted(rows.order.tolist()) == list(range(300))
        batches = [sides[row] for row in rows.between(0, len(rows))]
        assert all(len(b) * b.max() <= 200 for b in batches)
        assert len(batches) * 200 < 1.15 * sides.max(1).sum()
        seen.append(rows.order.tolist())
    assert seen[0] != seen[1]
    assert passes_of(sides, 200).rows(0).order.tolist() == seen[0]


def test_scale_makes_the_mean_target_token_count_once():
    """Equation 1 of TADPOLE, over target tokens."""
    sides = np.random.default_rng(1).integers(1, 40, (80, 2))
    passes = passes_of(sides, 200, np.linspace(0, 3, 80))
    assert float(passes.scale @ sides[:, 1]) / sides[:, 1].sum() == pytest.approx(1, rel=1e-5)


def test_pairs_that_are_too_long_or_empty_are_left_out():
    sides = np.array([[3, 9], [10, 2], [2, 10], [0, 4], [4, 0], [9, 9]])
    chunks = whole_pairs(sides, np.arange(6, dtype=np.float32), 9, store=1)
    assert chunks.text.tolist() == [0, 5]
    assert (chunks.begin.tolist(), chunks.length.tolist()) == ([3, 9], [9, 9])
    assert chunks.weight.tolist() == [0, 5]
    assert len(whole_pairs(np.empty((0, 2), np.int64), np.ones(0, np.float32), 9)) == 0


def test_held_out_pairs_share_no_side_with_the_others():
    chance = np.random.default_rng(2)
    keys = chance.integers(0, 150, (400, 2)).astype(np.uint64)
    keys[:, 1] += 1000
    chunks = whole_pairs(np.ones((400, 2), np.int64), np.ones(400, np.float32), 9)
    train, held = split_heldout(chunks, keys, 5, seed=0)
    assert len(held) == 5
    apart = set(keys[held.text].ravel().tolist())
    assert not any(apart & set(pair) for pair in keys[train.text].tolist())
    alike = [i for i in range(400) if apart & set(keys[i].tolist())]
    assert sorted([*train.text.tolist(), *alike]) == list(range(400))
    none = exclude_keys(chunks, keys, keys[:, 1])
    assert len(none) == 0


# --------------------------------------------------------------------------------- the plan


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model.init": "mini"}, "<model.init"),
        ({"objective.name": "mlm", "model.init": "base"}, "<model.init"),
        ({"adapter.kind": "lora", "model.init": "", "model.name": "x"}, "<adapter.kind"),
        ({"objective.whole_word": True}, "<objective.whole_word"),
        ({"objective.name": "causal", "objective.smoothing": 0.2}, "<objective.smoothing"),
        ({"objective.smoothing": 1.0}, "<objective.smoothing"),
        ({"objective.pair_tokens": "many"}, "<objective.pair_tokens"),
    ],
)
def test_settings_that_do_not_suit_are_refused(settings, named):
    plan = AdaptPlan()
    for path, value in ({"model.init": "tiny", "objective.name": "translation"} | settings).items():
        plan = plan.with_value(path, value)
    with pytest.raises(UsageError, match=named.strip("<")):
        plan.check()


def test_stored_pairs_are_read_back(tmp_path):
    pairs = [([5, 6, 7], [8, 9]), ([10], [11, 12, 13])]
    tokens = stored_pairs(tmp_path, pairs)
    assert tokens.sides.tolist() == [[4, 3], [2, 4]]
    assert tokens.ids(1, 0, 2).tolist() == [10, 3]
    assert isinstance(translation_of(tmp_path / "x", pairs=pairs * 9).objective, Translation)


@pytest.mark.slow
def test_it_learns(tmp_path):
    """Held-out loss falls far below that of equal probabilities, log 40."""
    texts = chains(300, most=8)
    work = translation_of(
        tmp_path, pairs=[(t, t) for t in texts], max_steps=40, learning_rate=1e-2, batch=4
    )
    losses = [r["heldout"]["task"] for r in train(work, TrainingListener()) if "heldout" in r]
    assert losses[-1] < math.log(40) - 0.2


def test_a_pair_longer_than_a_batch_is_alone():
    assert cut_batches(np.array([3, 3, 3, 50, 3]), 9).tolist() == [0, 3, 4, 5]
    assert cut_batches(np.array([3]), 9).tolist() == [0, 1]
