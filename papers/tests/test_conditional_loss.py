"""Losses are transformers' own, one step is an influence, and a scorer stands alone."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load

from corpusfit.core import artifacts
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.types import text_array
from corpusfit.scoring import registry
from corpusfit_papers.methods import conditional_loss
from corpusfit_papers.methods.conditional_loss import DRAWS, WORDLESS, ConditionalLoss
from corpusfit_papers.network import row_losses

pytestmark = pytest.mark.slow

NEAR = [
    f"the {name} inhibitor binds the receptor with {how} affinity"
    for name in ("kinase", "aspirin", "cyclooxygenase", "small", "high")
    for how in ("high", "small", "the")
]
FAR = [
    f"investors sold {what} before the quarterly results of the {of}"
    for what in ("shares", "words", "the model")
    for of in ("market", "investors", "model", "shares")
]
BACKGROUND = text_array(FAR)
KINDS = ("tiny_lm", "tiny_gpt")


@pytest.fixture(scope="module", autouse=True)
def few_texts():
    """The adaptation reads fewer texts, for tests of seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditional_loss, "READ", 300)
        yield


@pytest.fixture(scope="module", params=KINDS)
def folder(request):
    """A folder with a tiny random language model, masked or causal."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def scorer(folder):
    """Adapted to the near texts in a few large steps."""
    method = ConditionalLoss(model=str(folder), max_steps=10, learning_rate=1e-3)
    return method.fit(text_array(NEAR), BACKGROUND, seed=3)


def model_of(folder, weights):
    """The folder's model by transformers alone, with a scorer's weights."""
    causal = "GPT2" in (folder / "config.json").read_text("utf-8")
    auto = "AutoModelForCausalLM" if causal else "AutoModelForMaskedLM"
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    model.load_state_dict(load(weights.tobytes()), strict=False)
    return model


def loss_of(model, scorer, text):
    """Transformers' own mean loss of a text's predicted tokens, over the draws."""
    labels, inputs = [], []
    for row in scorer._reading.rows([text], stream=0, draws=DRAWS):
        causal = scorer.mask < 0
        inputs.append(row.ids)
        expected = np.full(len(row.ids), -100)
        expected[row.at + causal] = row.labels
        labels.append(expected)
    ids, wanted = (torch.from_numpy(np.stack(each)) for each in (inputs, labels))
    return model(input_ids=ids, labels=wanted).loss


def test_scores_are_differences_of_the_losses_of_transformers(folder, scorer):
    texts = [*NEAR[:4], *FAR[:3], "a small model reads small words, and unknown ones in pieces."]
    before, after = (model_of(folder, w) for w in (scorer.before, scorer.after))
    with torch.no_grad():
        expected = [
            [loss_of(model, scorer, text).item() for model in (before, after)] for text in texts
        ]
        opened = [
            row_losses(p, scorer._reading.rows([text], stream=0, draws=DRAWS), scorer.fill)
            for text in texts
            for p in scorer._predictors[:1]
        ]
    np.testing.assert_allclose([o.mean() for o in opened], [b for b, _ in expected], atol=1e-5)
    falls = [b - a for b, a in expected]
    np.testing.assert_allclose(scorer.score(text_array(texts)), falls, atol=2e-5)


def test_a_causal_model_predicts_every_token_but_the_first(tiny_gpt):
    """The tokenizer adds none before it. The whole loss is transformers' on the text alone."""
    scorer = ConditionalLoss(model=str(tiny_gpt), max_steps=1).fit(
        text_array(NEAR[:2]), BACKGROUND, seed=0
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_gpt)
    ids = tokenizer(NEAR[0], return_tensors="pt")["input_ids"]
    (row,) = scorer._reading.rows([NEAR[0]], stream=0, draws=DRAWS)
    assert row.labels.tolist() == ids[0, 1:].tolist()
    with torch.no_grad():
        expected = model_of(tiny_gpt, scorer.before)(input_ids=ids, labels=ids).loss
        found = row_losses(scorer._predictors[0], [row], scorer.fill).mean()
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)


def test_a_masked_model_predicts_a_share_of_the_tokens_in_draws_without_repeats(tiny_lm):
    scorer = ConditionalLoss(model=str(tiny_lm), max_steps=1).fit(
        text_array(NEAR), BACKGROUND, seed=0
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_lm)
    text = " ".join(NEAR)
    ids = np.array(tokenizer(text, truncation=True, max_length=64)["input_ids"])
    rows = scorer._reading.rows(["the kinase", text], stream=0, draws=DRAWS)
    drawn = [row for row in rows if row.text == 1]
    assert len(drawn) == DRAWS
    places = np.concatenate([row.at for row in drawn])
    assert len(set(places)) == len(places) == DRAWS * np.ceil(0.15 * 62)
    assert not {0, 63} & set(places)  # [CLS] and [SEP]
    for row in drawn:
        assert (row.ids[row.at] == tokenizer.mask_token_id).all()
        assert (np.delete(row.ids, row.at) == np.delete(ids, row.at)).all()
        assert (row.labels == ids[row.at]).all()
    (alone, *_) = scorer._reading.rows([text], stream=0, draws=DRAWS)
    assert (alone.at == drawn[0].at).all()
    (other,) = scorer._reading.rows([text], stream=1, draws=1)
    assert set(other.at) != set(alone.at)


def test_one_step_is_to_first_order_an_influence(folder, monkeypatch, tmp_path):
    """Against the gradients of autograd: their product with the change that Adam made.

    Its first step is the rate times g / (|g| + 1e-8), nearly the sign of the target's mean
    gradient g.
    """
    if "gpt" in folder.name:  # its weights are so large that a small step is not linear
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        folder = shutil.copytree(folder, tmp_path / "gpt")
        with torch.no_grad():
            for weight in model.parameters():
                weight.div_(4)
        model.save_pretrained(folder)
    # few passes, in float32 as the gradients to compare with
    monkeypatch.setattr(conditional_loss, "READ", 2 * len(NEAR))
    monkeypatch.setattr("corpusfit.embed.hardware.cpu_has_bf16", lambda: False)
    rate = 1e-5
    method = ConditionalLoss(model=str(folder), max_steps=1, learning_rate=rate)
    scorer = method.fit(text_array(NEAR), BACKGROUND, seed=3)
    change = {
        name: load(scorer.after.tobytes())[name].double() - weight.double()
        for name, weight in load(scorer.before.tobytes()).items()
    }
    model = model_of(folder, scorer.before)
    weights = dict(model.named_parameters())
    mean, count = dict.fromkeys(weights, 0.0), 0
    passes = range(1, 1 + conditional_loss.READ // len(NEAR))
    rows = [
        row
        for stream in passes
        for row in scorer._reading.rows(NEAR, stream=stream + conditional_loss.READ * 3, draws=1)
    ]
    for row in rows:
        expected = np.full(len(row.ids), -100)
        expected[row.at + (scorer.mask < 0)] = row.labels
        ids, wanted = (torch.from_numpy(a)[None] for a in (row.ids, expected))
        model.zero_grad()
        (model(input_ids=ids, labels=wanted).loss * len(row.labels)).backward()
        mean = {n: mean[n] + w.grad.double() for n, w in weights.items() if w.grad is not None}
        count += len(row.labels)
    norm = sum(float((g / count).square().sum()) for g in mean.values()) ** 0.5
    clear = {name: (g / count).abs() > 1e-3 * norm for name, g in mean.items()}
    assert sum(int(each.sum()) for each in clear.values()) > 1_000
    for name, gradient in mean.items():
        moved = change[name][clear[name]] / rate
        assert torch.allclose(moved, -gradient[clear[name]].sign(), atol=0.05)

    texts = NEAR + FAR
    products = []
    for text in texts:
        model.zero_grad()
        loss_of(model, scorer, text).backward()
        gradients = {n: w.grad for n, w in weights.items() if w.grad is not None}
        products.append(-sum(float((g.double() * change[n]).sum()) for n, g in gradients.items()))
    found = scorer.score(text_array(texts))
    assert np.corrcoef(found, products)[0, 1] > 0.99
    assert found == pytest.approx(products, abs=0.1 * np.abs(products).max())


def test_texts_like_the_target_score_above_others(scorer):
    near = ["high affinity binds the small receptor", "the inhibitor of the kinase receptor"]
    far = ["the market sold results", "quarterly shares of investors before the market"]
    inside, outside = (scorer.score(text_array(texts)).mean() for texts in (near, far))
    assert inside > outside


def test_a_score_depends_on_the_text_alone(scorer):
    texts = text_array([*NEAR, *FAR, "the kinase " * 200])
    whole = scorer.score(texts)
    alone = np.concatenate([scorer.score(texts[i : i + 1]) for i in range(len(texts))])
    np.testing.assert_allclose(alone, whole, atol=1e-5)
    order = np.random.default_rng(0).permutation(len(texts))
    np.testing.assert_allclose(scorer.score(texts.take(order)), whole[order], atol=1e-5)


def test_odd_texts_and_targets(folder):
    method = ConditionalLoss(model=str(folder), max_steps=3, learning_rate=1e-3, length=32)
    scorer = method.fit(text_array(["the kinase"]), BACKGROUND, seed=0)
    long = "the kinase binds " * 5_000
    found = scorer.score(text_array(["", long, long + "more", "naïve 測試 \x00", "the kinase"]))
    assert np.isfinite(found).all()
    assert found[0] == WORDLESS
    assert found[1] == pytest.approx(found[2], abs=1e-5)
    # nothing to learn from: nothing changes
    empty = method.fit(text_array([""]), BACKGROUND, seed=0)
    assert (empty.before == empty.after).all()
    assert empty.score(text_array(NEAR)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("most", "sizes"), [(10, [10]), (40, [15, 15, 10])])
def test_a_number_of_texts_is_read_in_as_many_steps_as_set(tiny_lm, monkeypatch, most, sizes):
    read, steps = [], []
    rows, adam = conditional_loss.Reading.rows, torch.optim.Adam.step

    def reading(self, texts, **more):
        read.append(texts)
        return rows(self, texts, **more)

    def stepping(self):
        steps.append(1)
        return adam(self)

    monkeypatch.setattr(conditional_loss.Reading, "rows", reading)
    monkeypatch.setattr(torch.optim.Adam, "step", stepping)
    monkeypatch.setattr(conditional_loss, "READ", most)
    ConditionalLoss(model=str(tiny_lm), max_steps=7).fit(text_array(NEAR), BACKGROUND, seed=0)
    assert [len(texts) for texts in read] == sizes
    assert [len(set(texts)) for texts in read] == sizes
    assert len(steps) == 7


@pytest.mark.slow
def test_a_stored_scorer_needs_nothing_but_its_file(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    method = ConditionalLoss(model=str(copy), max_steps=5, learning_rate=1e-3)
    scorer = method.fit(text_array(NEAR), BACKGROUND, seed=1)
    same = method.fit(text_array(NEAR), BACKGROUND, seed=1)
    other = method.fit(text_array(NEAR), BACKGROUND, seed=2)
    assert (scorer.after == same.after).all()
    assert (scorer.after != other.after).any()
    expected = scorer.score(BACKGROUND)
    artifacts.store(tmp_path / "scorer", "conditional_loss", scorer)
    shutil.rmtree(copy)
    again = artifacts.restore(tmp_path / "scorer", registry.scorer_class)
    assert (again.score(BACKGROUND) == expected).all()
    assert str(tmp_path) not in again.config + again.tokenizer


def test_what_is_no_language_model_is_refused_before_anything_is_read(tiny_encoder, tmp_path):
    with pytest.raises(UsageError, match=r"`method\.model` must .*`method\.model=distilbert"):
        _ = ConditionalLoss().files
    with pytest.raises(ModelError, match=r"BertModel.*`method\.model=distilbert"):
        _ = ConditionalLoss(model=str(tiny_encoder)).files
    with pytest.raises(UsageError, match=r"^`method\.model` must "):
        _ = ConditionalLoss(model="/no/such/folder").files
    with pytest.raises(ModelError, match=r"^`method\.model` .*config\.json"):
        _ = ConditionalLoss(model=str(tmp_path)).files


def test_weights_that_are_missing_or_not_of_a_language_model_are_refused(tiny_encoder, tmp_path):
    """An encoder whose config.json claims a head: transformers would fill it at random."""
    claims = shutil.copytree(tiny_encoder, tmp_path / "claims")
    config = json.loads((claims / "config.json").read_text("utf-8"))
    for name, reason in (("BertForMaskedLM", "missing"), ("BertLMHeadModel", "missing|causal")):
        config["architectures"] = [name]
        (claims / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelError, match=reason):
            ConditionalLoss(model=str(claims)).fit(text_array(NEAR), BACKGROUND, seed=0)


def test_a_model_that_diverges_is_refused(tiny_gpt, monkeypatch):
    def diverging(self):
        self.param_groups[0]["params"][0].data[0] = np.nan

    monkeypatch.setattr(torch.optim.Adam, "step", diverging)
    with pytest.raises(UsageError, match=r"method\.learning_rate.*0\.5"):
        ConditionalLoss(model=str(tiny_gpt), learning_rate=0.5).fit(
            text_array(NEAR), BACKGROUND, seed=0
        )


def test_files_and_settings(folder):
    names = {file.rsplit("/", 1)[1] for file in ConditionalLoss(model=str(folder)).files}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    with pytest.raises(UsageError, match=r"method\.length.*7"):
        ConditionalLoss(length=7)
