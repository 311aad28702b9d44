"""Fine-tuning against gradients worked out by hand, and against itself in other batches."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed.transformer import load_transformer
from corpusfit_papers.finetune import (
    Examples,
    Tuned,
    Tuning,
    accumulate,
    encoder_folder,
    finetune,
    open_tuned,
    write_folder,
)
from corpusfit_papers.methods.domain_finetune import DomainFinetune

TOPICS = (
    "the kinase inhibitor binds the receptor with high affinity in aspirin",
    "a small model reads words and unknown ones in pieces of paper",
)
FAST = Tuning(epochs=3, learning_rate=1e-3, batch=16, seed=5)


def prose(side, n, seed=0):
    rng = np.random.default_rng([seed, side])
    words = TOPICS[side].split()
    return [" ".join(rng.choice(words, rng.integers(4, 12))) for _ in range(n)]


@pytest.fixture(params=["tiny_encoder", "tiny_gpt2"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def plain(folder):
    plan = EmbedPlan(precision="fp32", device="cpu", unit_length=False)
    return load_transformer(folder, plan, "plain")


def examples(encoder, weight=1.0):
    ids = encoder.tokens(prose(0, 12) + prose(1, 10) + ["", "kinase " * 500])
    labels = np.repeat(np.float32([1, 0]), 12)
    return Examples(ids, labels, np.where(labels == 1, 1, weight).astype(np.float32))


def gradients(encoder, given, step, budget, slope=0.3):
    """Gradients of one step by parameter, behind a head with weights from -slope to slope."""
    import torch

    head = torch.nn.Linear(encoder.dim, 1)
    with torch.no_grad():
        head.weight[0] = torch.linspace(-slope, slope, encoder.dim)
    torch.nn.init.zeros_(head.bias)
    encoder.model.zero_grad()
    loss = accumulate(encoder, head, given, np.asarray(step), budget, bf16=False)
    found = {
        k: p.grad.numpy().copy() for k, p in encoder.model.named_parameters() if p.grad is not None
    }
    return loss, {**found, "head": head.weight.grad.numpy()[0], "bias": head.bias.grad.numpy()}


def logits(tuned, texts):
    return open_tuned(tuned).encode(texts) @ tuned.head[:-1] + tuned.head[-1]


def test_the_encoders_gradient_is_a_difference_quotient(plain):
    import torch

    given = examples(plain)
    _, found = gradients(plain, given, range(24), 64)
    name, weight = max(
        ((k, p) for k, p in plain.model.named_parameters() if "bias" in k and k in found),
        key=lambda pair: np.abs(found[pair[0]]).max(),
    )
    at, h = int(np.abs(found[name]).argmax()), 1e-2
    losses = []
    for by in (h, -2 * h):
        with torch.no_grad():
            weight[at] += by
        losses.append(gradients(plain, given, range(24), 64)[0])
    assert (losses[0] - losses[1]) / (2 * h) == pytest.approx(found[name][at], rel=0.05)


def test_a_weight_of_two_is_the_text_twice(tiny_encoder):
    plan = EmbedPlan(precision="fp32", device="cpu", unit_length=False)
    encoder = load_transformer(tiny_encoder, plan, "plain")
    given = examples(encoder, weight=2.0)
    once = dataclasses.replace(given, weights=np.ones(24, np.float32))
    loss, weighed = gradients(encoder, given, range(24), 64)
    same, twice = gradients(encoder, once, [*range(24), *range(12, 24)], 64)
    assert loss == pytest.approx(same, rel=1e-5)
    np.testing.assert_allclose(weighed["head"], twice["head"], rtol=1e-4, atol=1e-6)


def test_all_of_the_encoder_is_trained(tiny_encoder):
    from safetensors.numpy import load, load_file

    before = load_file(tiny_encoder / "model.safetensors")
    after = load(finetune(tiny_encoder, prose(0, 8), prose(1, 8), 1.0, FAST).weights.tobytes())
    assert after.keys() == before.keys()
    still = {k for k in before if (before[k] == after[k]).all()}
    assert {k for k in still if not k.startswith("pooler.")} == set()


def test_the_same_seed_gives_the_same_bits_and_another_others(tiny_encoder):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(1)
        expected = torch.rand(3)
        torch.manual_seed(1)
        tuned = [
            finetune(
                tiny_encoder, prose(0, 20), prose(1, 30), 1.0, dataclasses.replace(FAST, seed=s)
            )
            for s in (5, 5, 6)
        ]
        assert (torch.rand(3) == expected).all()  # the caller's own chance goes on as it was
    finally:
        torch.set_num_threads(threads)
    first, again, other = ((t.weights.tobytes(), t.head.tobytes()) for t in tuned)
    assert first == again
    assert first[0] != other[0]


def test_the_written_folder_is_what_transformers_and_embedders_read(folder, tmp_path):
    import torch
    from safetensors.numpy import load_file
    from transformers import AutoModel, AutoTokenizer

    tuned = finetune(folder, prose(0, 8), prose(1, 8), 1.0, FAST)
    written = tmp_path / "tuned"
    write_folder(tuned, written)
    model, loading = AutoModel.from_pretrained(written, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(written)
    text = "the kinase binds unknown words"
    with torch.no_grad():
        states = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    head = load_file(written / "head.safetensors")
    by_hand = states.mean(0).numpy() @ head["weight"] + head["bias"][0]
    assert logits(tuned, [text])[0] == pytest.approx(by_hand, abs=0.05)  # one of them in bf16
    plan = EmbedPlan(precision="fp32", device="cpu", unit_length=False)
    again = load_transformer(encoder_folder(str(written)), plan, "again")
    np.testing.assert_allclose(again.encode([text])[0], states.mean(0), atol=1e-5)
    assert again.max_length == tuned.length == 64


def test_an_encoder_decoder_trains_its_encoder(tiny_encoder, tmp_path):
    from transformers import T5Config, T5Model

    folder = shutil.copytree(tiny_encoder, tmp_path / "t5")
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    T5Model(T5Config(vocab_size=200, **sizes)).save_pretrained(folder)
    tuned = finetune(folder, prose(0, 8), prose(1, 8), 1.0, FAST)
    assert np.isfinite(logits(tuned, ["the kinase", ""])).all()
    with pytest.raises(ModelError, match="encoder-decoder"):
        write_folder(tuned, tmp_path / "written")


def test_a_rate_that_diverges_is_named(tiny_encoder):
    wild = dataclasses.replace(FAST, learning_rate=1e30)
    with pytest.raises(UsageError, match=r"method\.learning_rate.*1e\+30"):
        finetune(tiny_encoder, prose(0, 8), prose(1, 8), 1.0, wild)


def test_what_is_no_transformer_is_refused(tiny_encoder, tmp_path):
    static = tmp_path / "static"
    static.mkdir()
    (static / "config.json").write_text('{"model_type": "model2vec"}')
    for name in ("static", str(static)):
        with pytest.raises((UsageError, ModelError), match=r"method\.embedder.*minilm"):
            encoder_folder(name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"config\.json"):
        encoder_folder(str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"^`method\.embedder` must "):
        encoder_folder(str(tmp_path / "missing"))
    files = {name: DomainFinetune(embedder=name).files for name in ("minilm", str(tiny_encoder))}
    assert files["minilm"] == ()
    assert str(tiny_encoder / "model.safetensors") in files[str(tiny_encoder)]


def test_small_batches_add_up_to_one_big_one(plain):
    given = examples(plain)
    loss, whole = gradients(plain, given, range(24), 100_000)
    less, parts = gradients(plain, given, range(24), 40)
    assert less == pytest.approx(loss, rel=1e-5)
    assert len(whole) > 10
    for name, gradient in whole.items():
        np.testing.assert_allclose(parts[name], gradient, rtol=1e-3, atol=1e-5, err_msg=name)


def test_the_gradient_is_that_of_logistic_regression_by_hand(plain):
    """At a zero head every probability is one half: dL/dw = mean of (1/2 - y) v, weighted."""
    given = examples(plain, weight=3.0)
    loss, found = gradients(plain, given, range(24), 64, slope=0.0)
    vectors = plain.encode_ids(list(given.ids))
    pull = given.weights * (0.5 - given.labels) / given.weights.sum()
    assert loss == pytest.approx(np.log(2), rel=1e-6)
    np.testing.assert_allclose(found["head"], pull @ vectors, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["bias"], pull.sum(), rtol=1e-5)


@pytest.mark.slow
def test_two_topics_are_told_apart(folder):
    long = dataclasses.replace(FAST, epochs=8, learning_rate=3e-3)
    tuned = finetune(folder, prose(0, 60), prose(1, 60), 1.0, long)
    inside, outside = (logits(tuned, prose(side, 100, seed=1)) for side in (0, 1))
    assert np.mean(np.r_[inside > 0, outside < 0]) > 0.95


def test_an_encoder_of_a_run_asks_for_no_code_of_the_hub():
    config = json.dumps({"model_type": "bert", "attn_implementation": "org/kernel"})
    none = dict.fromkeys(("weights", "tokenizer", "head", "length"))
    with pytest.raises(ModelError, match="org/kernel"):
        open_tuned(Tuned(config=config, **none))
