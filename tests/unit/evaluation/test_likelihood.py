"""Likelihoods of causal models: bits per byte, against plain loops."""

import copy
import json
import math
import random
import shutil

import numpy as np
import pytest

from corpusfit.core.errors import EmptyInputError, InputError, ModelError, UsageError
from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation import likelihood
from corpusfit.evaluation.finetune import answer_task
from corpusfit.evaluation.likelihood import open_decoder
from corpusfit.evaluation.plan import EvaluatePlan, TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.training.adapter import add_adapter, save_adapter
from corpusfit.training.contract import Base
from corpusfit.training.models import fingerprint
from corpusfit.training.plan import AdapterPlan

torch = pytest.importorskip("torch", reason="the extra train is not installed")
transformers = pytest.importorskip("transformers", reason="the extra train is not installed")

CPU = Hardware("cpu", "fp32", 64)
WORDS = ["kinase", "inhibitor", "affinity", "shares", "market", "results", "café", "東京"]


def texts(n, seed, most=30):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, most))) for _ in range(n)]


@pytest.fixture(scope="module")
def opened(tiny_gpt):
    """The model and tokenizer, opened by transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_gpt).eval()
    return model, transformers.AutoTokenizer.from_pretrained(tiny_gpt)


def plan_of(model, *settings):
    given = [f"model.name={model}", "finetune.device=cpu", *settings]
    return EvaluatePlan().with_overrides(given).check()


def read(path, kind):
    return read_task(str(path), TaskPlan(kind=kind), seed=0)


def log_likelihood(model, ids, at):
    """The log-likelihood of the token at a place, from those before it alone."""
    with torch.no_grad():
        logits = model(torch.tensor([ids[:at]])).logits[0, -1].double()
    return float(logits.log_softmax(-1)[ids[at]])


def test_bits_are_those_of_the_loss_of_transformers(tiny_gpt, opened, jsonl):
    model, tokenizer = opened
    own = texts(12, 2)
    outcome = answer_task(
        read(jsonl("held.jsonl", own), "language_modeling"), plan_of(tiny_gpt), seed=0
    )
    bits = []
    for text in own:
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])
        with torch.no_grad():
            loss = model(ids, labels=ids).loss
        bits.append(float(loss) * (ids.shape[1] - 1) / math.log(2))
    np.testing.assert_allclose(outcome.predicted["test"], bits, rtol=1e-5)
    per_byte = sum(bits) / sum(len(text.encode()) for text in own)
    score = outcome.scores["test"]["neg_bits_per_byte"]
    assert score == pytest.approx(-per_byte, rel=1e-5)


@pytest.mark.parametrize("length", [7, 8, 9, 16, 17, 40])
def test_long_texts_are_read_in_windows_that_predict_each_token_once(tiny_gpt, opened, length):
    """Each that is counted: in a conversation some windows have none."""
    model, _ = opened
    decoder = open_decoder(str(tiny_gpt), CPU, 8)
    tokens = np.random.default_rng(length).integers(1, 250, length).tolist()
    whole = [0, *tokens]
    counted = np.isin(np.arange(length + 1), [0, *range(9, 17)], invert=True)
    expected = 0.0
    for at in np.flatnonzero(counted):
        end = min(-(-at // 8) * 8, length)  # the last token that its window predicts
        expected += log_likelihood(model, whole[max(0, end - 8) :], at - max(0, end - 8))
    windows = list(decoder.windows(whole, counted))
    assert sum(len(predicted) for _, predicted in windows) == counted.sum()
    assert max(len(ids) for ids, _ in windows) <= 9
    assert decoder.log_likelihoods(windows).sum() == pytest.approx(expected, rel=1e-5)


def test_batches_change_nothing_but_rounding(tiny_gpt, jsonl, monkeypatch):
    task = read(jsonl("held.jsonl", texts(20, 3)), "language_modeling")
    found = []
    for tokens in (1, 100, 4_096):
        monkeypatch.setattr(likelihood, "_MAX_BATCH_TOKENS", tokens)
        plan = plan_of(tiny_gpt, "likelihood.context=24")
        found.append(answer_task(task, plan, seed=0).predicted["test"])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-5)


MARKED = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content | trim }}{{ eos_token }}\n{% endgeneration %}{% else %}"
    "{{ m.content }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def conversation(*turns):
    roles = ("system", *["user", "assistant"] * len(turns))
    said = [{"role": r, "content": c} for r, c in zip(roles, ("Be kind.", *turns), strict=False)]
    return {"messages": said}


@pytest.fixture(scope="module")
def chat_gpt(tiny_gpt, tmp_path_factory):
    """The model with a chat template that does not mark the assistant's turns."""
    folder = shutil.copytree(tiny_gpt, tmp_path_factory.mktemp("chat") / "gpt")
    unmarked = MARKED.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    (folder / "chat_template.jinja").write_text(unmarked)
    return folder


def read_chats(path, loss_on, field="messages"):
    plan = TaskPlan(kind="language_modeling", text_field=field, loss_on=loss_on)
    return read_task(str(path), plan, seed=0)


@pytest.mark.parametrize("loss_on", ["all", "assistant", "completion"])
def test_conversations_are_measured_on_the_tokens_of_training(chat_gpt, opened, jsonl, loss_on):
    model, tokenizer = opened[0], copy.deepcopy(opened[1])
    tokenizer.chat_template = MARKED
    rows = [conversation("a kinase?", " é, yes "), conversation("one", "two", "three", "yes 東京")]
    task = read_chats(jsonl("chats.jsonl", rows), loss_on)
    on = (f"task.loss_on={loss_on}", "task.text_field=messages", "task.kind=language_modeling")
    outcome = answer_task(task, plan_of(chat_gpt, *on), seed=0)
    bits, sizes = [], []
    for row in rows:
        messages = row["messages"]
        coded = tokenizer.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True
        )
        ids, mask = torch.tensor(coded["input_ids"]), torch.tensor(coded["assistant_masks"]) > 0
        assert int((ids == tokenizer.bos_token_id).sum()) == 1 + len(messages) // 2  # no second one
        counted = [m for m in messages if m["role"] == "assistant"]
        if loss_on == "completion":
            before = tokenizer.apply_chat_template(
                messages[:-1], add_generation_prompt=True, return_dict=False
            )
            mask, counted = torch.arange(len(ids)) >= len(before), counted[-1:]
        elif loss_on == "all":
            mask, counted = torch.ones(len(ids)) > 0, messages
        labels = ids.masked_fill(~mask, -100)
        with torch.no_grad():
            loss = model(input_ids=ids[None], labels=labels[None]).loss
        bits.append(float(loss) * int((labels[1:] != -100).sum()) / math.log(2))
        sizes.append(sum(len(m["content"].encode()) for m in counted))
    np.testing.assert_allclose(outcome.predicted["test"], bits, rtol=1e-5)
    score = outcome.scores["test"]["neg_bits_per_byte"]
    assert score == pytest.approx(-sum(bits) / sum(sizes), rel=1e-5)


def test_completions_of_fields_need_no_chat_template(tiny_gpt, opened, jsonl):
    model, tokenizer = opened
    rows = jsonl("rows.jsonl", [{"q": "the kinase", "a": "is 東京"}, {"q": "market", "a": ""}])
    task = read_chats(rows, "completion", "{q} = {a}")
    assert task.notes[0].startswith("1 of 2 rows of test")
    on = ("task.loss_on=completion", "task.kind=language_modeling", "task.text_field={q} = {a}")
    outcome = answer_task(task, plan_of(tiny_gpt, *on), seed=0)
    before, ids = (tokenizer(t)["input_ids"] for t in ("the kinase = ", "the kinase = is 東京"))
    ids.append(tokenizer.eos_token_id)
    nats = sum(log_likelihood(model, ids, at) for at in range(len(before), len(ids)))
    assert outcome.predicted["test"] == [pytest.approx(-nats / math.log(2), rel=1e-5)]
    assert outcome.sums["test"][0][2] == [len("is 東京".encode())]


def test_conversations_that_cannot_be_measured_are_named(chat_gpt, tiny_gpt, jsonl, tmp_path):
    rows = [conversation("a", "b"), conversation("nobody answers"), {"messages": "a string"}]
    path = jsonl("chats.jsonl", rows)
    task = read_chats(path, "assistant")
    assert len(task.test) == 1
    assert "2 of 3 rows of test" in task.notes[0]
    assert "without a turn of the assistant" in task.notes[0]
    on = ("task.loss_on=assistant", "task.text_field=messages", "task.kind=language_modeling")
    with pytest.raises(ModelError, match=r"no chat template.*`task\.loss_on=assistant`"):
        answer_task(task, plan_of(tiny_gpt, *on), seed=0)
    strict = shutil.copytree(chat_gpt, tmp_path / "strict")
    refusing = "{{ raise_exception('System role not supported') }}"
    (strict / "chat_template.jinja").write_text(refusing)
    with pytest.raises(InputError, match=r"1 of 1 conversations.*System role not supported"):
        answer_task(task, plan_of(strict, *on), seed=0)
    # a template that writes earlier turns in another way than the last one
    (strict / "chat_template.jinja").write_text(
        MARKED.replace("{% generation %}", "").replace(
            "{% endgeneration %}", "{% if loop.last %}!{% endif %}"
        )
    )
    several = read_chats(jsonl("several.jsonl", [conversation("a", "b", "c", "d")]), "assistant")
    with pytest.raises(ModelError, match=r"`task\.loss_on=completion`"):
        answer_task(several, plan_of(strict, *on), seed=0)
    with pytest.raises(UsageError, match=r"`task\.loss_on`.*`task\.kind=language_modeling`"):
        plan_of(chat_gpt, "task.loss_on=assistant")


def test_an_adapter_is_opened_on_its_base(tiny_gpt, opened, tmp_path):
    model, tokenizer = copy.deepcopy(opened[0]), opened[1]
    plan = AdapterPlan("lora", save="apart")
    add_adapter(model, plan, seed=0)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0, 0.5)
    save_adapter(model, tokenizer, plan, Base(str(tiny_gpt), fingerprint(tiny_gpt)), tmp_path)
    ids = [0, 40, 50, 60, 70]
    expected = log_likelihood(model.eval(), ids, 4)
    found = open_decoder(str(tmp_path), CPU, None).log_likelihoods([(ids, np.array([4]))])
    assert found[0] == pytest.approx(expected, rel=1e-4)
    assert abs(log_likelihood(opened[0], ids, 4) - expected) > 0.1


def test_a_model_that_is_not_causal_is_refused(tiny_lm, jsonl):
    task = read(jsonl("held.jsonl", texts(2, 2)), "language_modeling")
    with pytest.raises(ModelError, match=r"model\.name.*attention is not causal.*gpt2"):
        answer_task(task, plan_of(tiny_lm), seed=0)


def test_a_tokenizer_without_a_first_token_is_refused(tiny_gpt, tmp_path, jsonl):
    folder = shutil.copytree(tiny_gpt, tmp_path / "endless")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for name in ("bos_token", "eos_token", "unk_token"):
        config.pop(name, None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    with pytest.raises(ModelError, match="bos_token"):
        open_decoder(str(folder), CPU, None)


def test_a_model_without_a_limit_reads_as_much_as_is_asked(tmp_path, tiny_gpt):
    config = transformers.MambaConfig(
        vocab_size=400, hidden_size=16, num_hidden_layers=1, state_size=4
    )
    torch.manual_seed(0)
    model = transformers.MambaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    for path in tiny_gpt.glob("tokenizer*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert open_decoder(str(tmp_path), CPU, None, default_context=2_048).context == 2_048
    assert open_decoder(str(tmp_path), CPU, 4_096).context == 4_096
    decoder = open_decoder(str(tmp_path), CPU, 8)
    sequences = [([0, 5, 9, 7], np.arange(1, 4)), ([0, 3], np.arange(1, 2))]
    expected = [sum(log_likelihood(model, s, at) for at in range(1, len(s))) for s, _ in sequences]
    np.testing.assert_allclose(decoder.log_likelihoods(sequences), expected, rtol=1e-4)


def test_plain_text_is_read_from_files_and_folders(tmp_path, jsonl):
    (tmp_path / "held.txt").write_text("One text\nof two lines.\n\nAnother.\n")
    task = read(tmp_path / "held.txt", "language_modeling")
    assert task.test.texts() == ["One text\nof two lines.", "Another."]
    assert (len(task.train), len(task.dev)) == (0, 0)
    jsonl("task/dev.jsonl", ["a b", "c"])
    jsonl("task/test.jsonl", ["d", "", {"other": "e"}])
    task = read(tmp_path / "task", "language_modeling")
    assert (task.dev.texts(), task.test.texts()) == (["a b", "c"], ["d"])
    assert task.notes[0].startswith("2 of 3 rows of test")


def test_text_that_is_missing_is_an_error(tmp_path, jsonl):
    with pytest.raises(EmptyInputError, match="text_field"):
        read(jsonl("empty.jsonl", ["", " "]), "language_modeling")
    with pytest.raises(EmptyInputError, match="test"):
        read(jsonl("none.jsonl", []), "language_modeling")
    jsonl("task/train.jsonl", ["a"])
    with pytest.raises(InputError, match="named test"):
        read(tmp_path / "task", "language_modeling")
