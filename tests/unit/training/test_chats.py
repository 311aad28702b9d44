"""Conversations as token ids and their loss, against `apply_chat_template` and labels of -100."""

import json
import re
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from corpusfit.core.errors import ModelError, StrictError, UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard
from corpusfit.embed.prediction import Predictor
from corpusfit.text.rejects import RefusedError
from corpusfit.training import chats
from corpusfit.training.batches import ChunkTokens, Passes
from corpusfit.training.chats import ChatEncoder, Chats, conversation_in
from corpusfit.training.chunks import chunks_of
from corpusfit.training.contract import Network
from corpusfit.training.objectives import objective
from corpusfit.training.packing import find_packing
from corpusfit.training.plan import AdaptPlan, ModelPlan, ObjectivePlan
from corpusfit.training.special_tokens import special_tokens_of
from corpusfit.training.token_store import ChatTokens, Tokens, read_tally
from corpusfit.training.tokenising import TokeniseTexts
from corpusfit.training.trainer import Heldout

tf = pytest.importorskip("transformers", reason="the extra train is not installed")

MARKS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<|head|>", "<|eot|>"]
# each marks the assistant's turns: without the marks they are found by rendering beginnings
TEMPLATES = {
    "chatml": (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n"
        "{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "llama3": (
        "{{ bos_token }}{% for m in messages %}<|head|>{{ m.role }}<|head|>\n\n"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}<|eot|>"
        "{% endgeneration %}{% else %}{{ m.content | trim }}<|eot|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|head|>assistant<|head|>\n\n{% endif %}"
    ),
    "mistral": (
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}"
        "{% if m.role == 'system' %}{% set ns.system = m.content + '\n\n' %}"
        "{% elif m.role == 'user' %}[INST] {{ ns.system + m.content }} [/INST]"
        "{% set ns.system = '' %}"
        "{% elif m.role == 'assistant' %}{% generation %} {{ m.content }}{{ eos_token }}"
        "{% endgeneration %}{% else %}{{ raise_exception('Only user and assistant') }}{% endif %}"
        "{% endfor %}"
    ),
    "qwen": (
        "{% if tools %}<|im_start|>system\n# Tools\n{% for tool in tools %}{{ tool | tojson }}\n"
        "{% endfor %}<|im_end|>\n{% endif %}{% for m in messages %}"
        "{% if m.role == 'assistant' %}<|im_start|>assistant\n{% generation %}{{ m.content }}"
        "{% for call in m.tool_calls %}<tool_call>\n"
        '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
        "\n</tool_call>{% endfor %}<|im_end|>\n{% endgeneration %}"
        "{% elif m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m.content }}\n"
        "</tool_response><|im_end|>\n{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
}
# the reasoning of the last turn alone, as Qwen3 writes it
LAST_ONLY = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last %}<think></think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def said(*contents, system="", **more):
    roles = ["user", "assistant"]
    messages = [{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)]
    first = [{"role": "system", "content": system}] if system else []
    return {"messages": first + messages, **more}


CHATS = [
    said("What is 2 and 2?", "It is 4."),
    said("Grüß dich!", "Hallo 🎉", "Wie geht es?", "  Gut. \n", system="Answer in German."),
    said("One", "Two", "Three", "Four", "Five", "Six 日本", "Seven"),
]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
ARGUMENTS = {"city": "Paris", "days": [1, 2]}


def called(arguments):
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    return {
        "messages": [
            {"role": "user", "content": "The weather in Paris?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "name": "weather", "content": '{"celsius": 20}'},
            {"role": "assistant", "content": "It is 20 degrees.", "tool_calls": None},
        ],
        "tools": [WEATHER],
    }


def tokenizer_of(template, *, begins=False):
    """A byte-level tokenizer with a chat template; with `begins` it adds `<s>` itself, too."""
    words = [*MARKS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    made.add_special_tokens(MARKS)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A" if begins else "$A", special_tokens=[("<s>", 0)] if begins else []
    )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", chat_template=template
    )


def messages_of(value):
    return [
        message for part in conversation_in({"messages": value}, "messages") for message in part
    ]


def unmarked(template):
    return re.sub(r"\{% (end)?generation %\}", "", template)


def encoder_of(tmp_path, template, loss_on="assistant", length=10_000, **options):
    folder = tmp_path / "tokenizer"
    tokenizer_of(template, **options).save_pretrained(folder)
    return ChatEncoder(folder, Chats(loss_on, length, ()), None)


def clean(row):
    """A row in the form that transformers wants."""
    return {"conversation": messages_of(row["messages"]), "tools": row.get("tools")}


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("form", ["marked", "unmarked"])
def test_ids_and_turns_are_those_of_transformers(tmp_path, name, begins, form):
    marked = TEMPLATES[name]
    template = marked if form == "marked" else unmarked(marked)
    encoder = encoder_of(tmp_path, template, begins=begins)
    peer = tokenizer_of(marked, begins=begins)
    rows = [*CHATS, called(ARGUMENTS), called(json.dumps(ARGUMENTS))] if name == "qwen" else CHATS
    for row in rows:
        expected = peer.apply_chat_template(
            **clean(row), return_dict=True, return_assistant_tokens_mask=True
        )
        found = encoder.encode("", row, "messages")
        assert list(found.ids) == expected["input_ids"]
        assert found.counted.tolist() == [bool(n) for n in expected["assistant_masks"]]
        assert 0 < found.counted.sum() < len(found.ids)
        assert list(found.ids).count(0) == (name in ("llama3", "mistral"))


def test_a_call_is_rendered_once_and_nulls_are_left_out(tmp_path):
    encoder = encoder_of(tmp_path, TEMPLATES["qwen"])
    found = [encoder.encode("", called(a), "messages") for a in (ARGUMENTS, json.dumps(ARGUMENTS))]
    assert list(found[0].ids) == list(found[1].ids)
    text = encoder.tokenizer.decode(found[0].ids)
    assert '"arguments": {"city": "Paris", "days": [1, 2]}' in text
    assert "# Tools" in text
    assert "None" not in text


def test_nulls_in_json_that_is_a_string_are_as_transformers_has_them(tmp_path):
    """No table has made them, as it makes those of objects whose rows have other fields."""
    properties = {"city": {"type": "string", "default": None}, "days": {"enum": [None, 1]}}
    parameters = {"type": "object", "properties": properties}
    tools = [{"type": "function", "function": {**WEATHER["function"], "parameters": parameters}}]
    arguments = {"city": None, "days": [None, 1]}
    row = called(json.dumps(arguments)) | {"tools": json.dumps(tools)}
    found = encoder_of(tmp_path, TEMPLATES["qwen"]).encode("", row, "messages")
    messages = messages_of(row["messages"])
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == arguments
    expected = tokenizer_of(TEMPLATES["qwen"]).apply_chat_template(messages, tools=tools)
    assert list(found.ids) == list(expected["input_ids"])


def test_names_of_sharegpt_and_content_in_parts():
    sharegpt = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
    parts = [{"type": "text", "text": "a"}]
    openai = [{"role": "user", "content": parts}, {"role": "assistant", "content": "b"}]
    expected = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    found = [[{k: m[k] for k in ("role", "content")} for m in messages_of(sharegpt)]]
    found.append(messages_of(openai))
    assert found == [expected, expected]
    assert [messages_of(value) for value in ("a", [], ["a"], [{"content": "a"}], None)] == [[]] * 5


@pytest.mark.slow
@pytest.mark.parametrize("form", ["marked", "unmarked"])
@pytest.mark.parametrize("loss_on", ["all", "assistant"])
def test_a_long_conversation_ends_with_the_last_turn_that_fits(tmp_path, loss_on, form):
    template = TEMPLATES["llama3"] if form == "marked" else unmarked(TEMPLATES["llama3"])
    whole = CHATS[2]["messages"]
    peer = tokenizer_of(template)
    ends = [len(peer.apply_chat_template(whole[:n], return_dict=False)) for n in (2, 4, 6)]
    for length in sorted({end + by for end in ends for by in (-1, 0, 1)} - {ends[2] + 1}):
        encoder = encoder_of(tmp_path, template, loss_on, length)
        fits = [n for n, end in zip((2, 4, 6), ends, strict=True) if end <= length]
        if not fits:
            with pytest.raises(RefusedError, match=f"too long.*{length}"):
                encoder.encode("", CHATS[2], "messages")
            continue
        found = encoder.encode("", CHATS[2], "messages")
        alone = encoder.encode("", {"messages": whole[: fits[-1]]}, "messages")
        assert found.cut
        assert not alone.cut
        assert list(found.ids) == list(alone.ids)
        assert found.counted.tolist() == alone.counted.tolist()
        assert found.counted[-1]


def test_completions(tmp_path):
    encoder = encoder_of(tmp_path, LAST_ONLY, "completion")
    decode = encoder.tokenizer.decode

    def counted(row, field="messages", text=""):
        found = encoder.encode(text, row, field)
        return decode(np.array(found.ids)[found.counted])

    assert counted(CHATS[2]) == "<think></think>Six 日本<|im_end|>\n"
    messages = CHATS[0]["messages"]
    row = {"prompt": messages[:1], "completion": messages[1:]}
    field = "{prompt}{completion}"
    assert counted(row, field) == "<think></think>It is 4.<|im_end|>\n"
    # of strings no template is used, as the field's template says what the text is
    row = {"prompt": "2 and 2?", "completion": "4"}
    assert counted(row, "{prompt} = {completion}.", "2 and 2? = 4.") == "4."
    assert counted(row, r"{prompt}\n{completion}", "2 and 2?\n4") == "4"


def test_what_is_refused(tmp_path):
    unstable = encoder_of(tmp_path, LAST_ONLY)
    with pytest.raises(ModelError, match=r"\{% generation %\}.*`objective\.loss_on=completion`"):
        unstable.encode("", CHATS[1], "messages")
    unstable.encode("", CHATS[0], "messages")  # one turn is found
    strict = encoder_of(tmp_path, TEMPLATES["mistral"])
    for row, reason in (
        (said("nobody answers"), "without a turn"),
        ({"messages": "a string"}, "no conversation"),
        (called(ARGUMENTS), "Only user and assistant"),
    ):
        with pytest.raises(RefusedError, match=reason):
            strict.encode("a string", row, "messages")
    calls = encoder_of(tmp_path, TEMPLATES["qwen"])
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": "no list"}]
    with pytest.raises(RefusedError, match="chat template"):
        calls.encode("", {"messages": turns}, "messages")
    ends = encoder_of(tmp_path, TEMPLATES["mistral"], "completion")
    with pytest.raises(RefusedError, match="loss is on"):
        ends.encode("2 and 2?", {"prompt": "2 and 2?", "completion": ""}, "{prompt}{completion}")


def test_rows_that_are_only_measured_may_be_texts(tmp_path):
    folder = tmp_path / "tokenizer"
    tokenizer_of(TEMPLATES["chatml"]).save_pretrained(folder)
    encoder = ChatEncoder(folder, Chats("assistant", 100, (0,), plain=True), 1)
    found = encoder.encode("a text", None, "text")
    assert encoder.tokenizer.decode(found.ids) == "<s>a text</s>"
    assert found.counted.tolist() == [False, *[True] * 7]


def test_tools_are_read_from_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from corpusfit import text as corpus

    path = tmp_path / "chats.parquet"
    rows = [called(json.dumps(ARGUMENTS)), {**CHATS[0], "tools": None}]
    rows[0]["tools"] = json.dumps(rows[0]["tools"])
    pq.write_table(pa.Table.from_pylist(rows), path)
    read = ReadPlan(text_field="messages")
    sources = corpus.find([str(path)], read, role="data")
    found = [
        row.fields for shard in corpus.shards(sources, read) for row in corpus.rows(shard, read)
    ]
    assert [sorted(fields) for fields in found] == [["messages", "tools"], ["messages"]]
    encoder = encoder_of(tmp_path, TEMPLATES["qwen"])
    plain = called(json.dumps(ARGUMENTS))
    expected = encoder.encode("", plain, "messages")
    assert list(encoder.encode("", found[0], "messages").ids) == list(expected.ids)


@pytest.mark.parametrize("form", ["marked", "unmarked"])
def test_the_assistant_may_begin(tmp_path, form):
    template = TEMPLATES["llama3"] if form == "marked" else unmarked(TEMPLATES["llama3"])
    encoder = encoder_of(tmp_path, template)
    greeting = [{"role": "assistant", "content": " assistant "}, *CHATS[0]["messages"]]
    found = encoder.encode("", {"messages": greeting}, "messages")
    text = encoder.tokenizer.decode(np.array(found.ids)[found.counted])
    assert text == "assistant<|eot|>It is 4.<|eot|>"


def test_a_second_token_that_begins_a_text_is_left_out(tmp_path):
    encoder = encoder_of(tmp_path, TEMPLATES["mistral"].replace("[INST] ", ""))
    row = said("<s>rendered already", "yes")
    assert list(encoder.encode("", row, "messages").ids).count(0) == 1


def test_the_day_does_not_change_the_ids(tmp_path):
    template = "{{ strftime_now('%d %b %Y') }}" + TEMPLATES["chatml"]
    encoder = encoder_of(tmp_path, template)
    assert encoder.tokenizer.decode(encoder.encode("", CHATS[0], "messages").ids).startswith(
        "26 Jul 2024"
    )


@pytest.mark.parametrize("loss_on", ["all", "assistant", "completion"])
@pytest.mark.parametrize("name", ["chatml", "llama3"])
def test_the_loss_is_that_of_labels_of_minus_100(tmp_path, name, loss_on):
    """Packed, in micro-batches and weighted: the same as each conversation alone."""
    import torch

    length = 128
    tokenizer = tokenizer_of(TEMPLATES[name], begins=True)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    rows = [*CHATS[:2], said("a", "b"), said("c", "d" * 20, "e", "f"), said("no answer")]
    job = TokeniseTexts(
        ReadPlan(text_field="messages"),
        ("a.jsonl",),
        tmp_path / "tokenizer",
        tmp_path,
        1,
        chats=Chats(loss_on, length, (0,)),
    )
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    job.start()(Shard(0, 0, "jsonl", 0, 0, lines, (), 0))
    tokens = (Tokens if loss_on == "all" else ChatTokens).open(tmp_path)
    tally = read_tally(tmp_path, 0)
    assert len(tally["rejects"]) == (0 if loss_on == "all" else 1)
    assert tally["documents"] + len(tally["rejects"]) == len(tokens) == len(rows)

    torch.manual_seed(0)
    config = tf.GPT2Config(
        vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=length, initializer_range=0.2
    )
    model = tf.GPT2LMHeadModel._from_config(config, attn_implementation="eager").eval()
    special = special_tokens_of(tokenizer, "it", 300)
    bare = special_tokens_of(tokenizer_of(TEMPLATES[name]), "it", 300)
    aim = objective(ObjectivePlan("causal", loss_on=loss_on), bare, length)
    predictor = Predictor(model)
    packing = find_packing(predictor, special, length, causal=True)
    assert packing is not None
    weights = np.linspace(0.5, 1.5, len(rows)).astype(np.float32)
    chunks = chunks_of(tokens, length, weights)
    counted = None if loss_on == "all" else tokens.counts[chunks.text]
    passes = Passes(
        chunks,
        None,
        0.0,
        length=length,
        overhead=0,
        resample=False,
        pack=True,
        batch=4,
        seed=0,
        counted=counted,
    )
    given = passes.rows(0)
    assert len(given) < len(chunks)  # some share a row
    laid = ChunkTokens(passes.chunks, (tokens,), passes.scale, passes.frequency)
    network = Network(predictor, model, packing, precision="fp32")
    keys = np.arange(len(given), dtype=np.uint64)
    total, count = 0.0, 0
    with torch.no_grad():
        for micro in aim.micro_batches(laid, given.between(0, len(given)), keys, 2, length):
            total += float(aim.losses(network, micro)[0])
            count += len(micro.at)

    # somebody else's: transformers' own mask and loss, a conversation at a time
    losses, predicted, masses = [], [], []
    for row in [rows[i] for i in chunks.text.tolist()]:
        conversation = messages_of(row["messages"])
        coded = tokenizer.apply_chat_template(
            conversation, return_dict=True, return_assistant_tokens_mask=True
        )
        ids, mask = torch.tensor(coded["input_ids"]), torch.tensor(coded["assistant_masks"]) > 0
        if loss_on == "completion":
            before = tokenizer.apply_chat_template(
                conversation[:-1], add_generation_prompt=True, return_dict=False
            )
            mask = torch.arange(len(ids)) >= len(before)
        labels = ids if loss_on == "all" else ids.masked_fill(~mask, -100)
        with torch.no_grad():
            losses.append(float(model(input_ids=ids[None], labels=labels[None]).loss))
        predicted.append(int((labels[1:] != -100).sum()))
        masses.append(len(ids) if loss_on == "all" else predicted[-1])
    assert count == sum(predicted)
    w = weights[chunks.text].astype(np.float64)
    factors = w / (w @ masses / np.sum(masses))
    expected = np.sum(factors * losses * np.array(predicted)) / np.sum(predicted)
    assert total / count == pytest.approx(expected, abs=1e-5)

    held = Heldout.of({"task": (tokens, chunks)}, aim, rows=3, seed=1)
    mean = float(np.dot(losses, predicted) / np.sum(predicted))
    assert held.losses(aim, network)["task"] == pytest.approx(mean, abs=1e-5)


def test_strict_stops_at_a_conversation_that_is_refused(tmp_path):
    tokenizer_of(TEMPLATES["chatml"]).save_pretrained(tmp_path / "tokenizer")
    read = ReadPlan(text_field="messages", strict=True)
    chats = Chats("assistant", 100, ())
    job = TokeniseTexts(read, ("a.jsonl",), tmp_path / "tokenizer", tmp_path, None, chats=chats)
    line = (json.dumps(CHATS[0]) + "\n" + json.dumps(said("no answer")) + "\n").encode()
    with pytest.raises(StrictError, match=r"a\.jsonl, row 1: .*without a turn"):
        job.start()(Shard(0, 0, "jsonl", 0, 0, line, (), 0))


def test_the_setting_is_of_causal_models():
    with pytest.raises(UsageError, match=r"`objective\.loss_on`.*`objective\.name=causal`"):
        AdaptPlan(ModelPlan("m"), objective=ObjectivePlan(loss_on="assistant")).check()


@pytest.mark.parametrize("template", [TEMPLATES["chatml"], unmarked(TEMPLATES["chatml"])])
def test_the_loss_is_not_on_messages_of_weight_0(tmp_path, template):
    """OpenAI's format for fine-tuning; they are read all the same."""
    row = said("hello", "first", "again", "second")
    encoder = encoder_of(tmp_path, template)
    whole = encoder.encode("", row, "messages")
    row["messages"][1]["weight"], row["messages"][3]["weight"] = 0, 1
    found = encoder.encode("", row, "messages")
    assert found.ids == whole.ids
    counted = encoder.tokenizer.decode(np.array(found.ids)[found.counted])
    assert "second" in counted
    assert "first" not in counted
    assert found.counted.sum() < whole.counted.sum()


@pytest.mark.parametrize("form", ["marked", "unmarked"])
def test_a_first_turn_that_only_calls_a_tool_counts(tmp_path, form):
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    first = {"role": "assistant", "content": "", "tool_calls": [call]}
    row = {"messages": [first, *said("hello", "good day")["messages"]]}
    template = TEMPLATES["qwen"] if form == "marked" else unmarked(TEMPLATES["qwen"])
    encoder = encoder_of(tmp_path, template)
    found = encoder.encode("", row, "messages")
    counted = encoder.tokenizer.decode(np.array(found.ids)[found.counted])
    assert '"name": "f"' in counted
    assert "good day" in counted
    assert "hello" not in counted


LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
GROWING = "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = X %}{% endfor %}"
ENDLESS = {
    "loops": LOOPS,
    "loops that write": LOOPS.replace("{% endfor %}", "aaaa{% endfor %}", 1),
    "numbers": GROWING.replace("'a'", "3").replace("X", "ns.s * ns.s"),
    "lorem ipsum": "{{ lipsum(n=1000000000) }}",
    "text": "{{ 'a' * 9000000 }}",
}
VAST = {
    "a product": "{{ 'a' * 10000000000 }}",
    "doubling": GROWING.replace("X", "ns.s ~ ns.s"),
    "lists": GROWING.replace("'a'", "[1]").replace("X", "ns.s + ns.s"),
    "a join": "{{ ('a' * 9999999).join(range(99999) | map('string')) }}",
    "a width": "{{ '%10000000000d' % 1 }}{{ 'a' | center(10000000000) }}",
    "an indent": "{{ messages | tojson(indent=2000000000) }}",
}


# the error may come while Hypothesis measures a collection of garbage; then it comes once more
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", [*ENDLESS, *(VAST if sys.platform == "linux" else ())])
def test_a_template_without_end_refuses_a_few_rows_then_the_model(tmp_path, monkeypatch, name):
    monkeypatch.setattr(chats, "_SECONDS", 0.5)
    monkeypatch.setattr(chats, "_MEMORY", 1 << 28)
    template = "{% if messages[0].content == 'One' %}X{% endif %}{{ messages[0].content }}"
    encoder = encoder_of(tmp_path, template.replace("X", {**ENDLESS, **VAST}[name]), "all")
    for _ in range(2):
        with pytest.raises(RefusedError, match="takes too much"):
            encoder.encode("", CHATS[2], "messages")
        assert len(encoder.encode("", CHATS[0], "messages").ids) == len("What is 2 and 2?")
    with pytest.raises(ModelError, match="chat template"):
        encoder.encode("", CHATS[2], "messages")


def test_a_long_conversation_is_not_taken_for_a_template_without_end(tmp_path):
    encoder = encoder_of(tmp_path, TEMPLATES["chatml"], "all", length=10**7)
    assert len(encoder.encode("", said("a" * 300_000, "b"), "messages").ids) > 300_000


def test_a_template_that_computes_powers_is_refused(tmp_path):
    with pytest.raises(ModelError, match="power"):
        encoder_of(tmp_path, "{{ 10 ** 10 ** 10 }}")
    encoder = encoder_of(tmp_path, "**Chat** {{ '**' ~ messages[0].content }}", "all")
    assert encoder.tokenizer.decode(encoder.encode("", CHATS[2], "messages").ids) == (
        "**Chat** **One"
    )
