"""Special tokens around a text, against what each tokenizer writes itself."""

import numpy as np
import pytest
import transformers as tf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from corpusfit.core.errors import ModelError
from corpusfit.evaluation.encoding import NOWHERE, encode
from corpusfit.evaluation.task import Examples
from corpusfit.training.batches import ChunkTokens, lay_out
from corpusfit.training.chunks import cut_chunks
from corpusfit.training.objectives import objective
from corpusfit.training.plan import ObjectivePlan
from corpusfit.training.special_tokens import backend_tokenizer, special_tokens_of
from corpusfit.training.token_store import ShardTokens, Tokens, write_part

MARKS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "<s>", "</s>", "[gMASK]"]
BASES = "CGT"  # no "a", and no token for what is unknown
ROLES = {"pad_token": "[PAD]", "bos_token": "<s>", "eos_token": "</s>"}


def template(single):
    ids = {token: i for i, token in enumerate(MARKS)}
    used = [(token, ids[token]) for token in MARKS if token in single]
    return processors.TemplateProcessing(single=single, special_tokens=used)


def pairs(post=None, letters=BASES, **options):
    """A BPE tokenizer of single letters."""
    words = [*MARKS, *letters]
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    made.add_special_tokens(MARKS)
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if post is not None:
        made.post_processor = post
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, **ROLES, **options)


def bytes_of(**options):
    """A byte-level tokenizer, as of GPT-2, Llama 3 and Qwen."""
    words = [*MARKS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    made.add_special_tokens(MARKS)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = options.pop("post", None) or processors.ByteLevel(trim_offsets=False)
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, **ROLES, **options)


def pieces(post=None):
    """A Unigram tokenizer that begins a text with a space, as of T5 and XLM-R."""
    words = [*MARKS, "▁", *BASES]
    made = Tokenizer(models.Unigram([(word, -1.0) for word in words], unk_id=3))
    made.add_special_tokens(MARKS)
    made.normalizer = normalizers.Prepend("▁")
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    if post is not None:
        made.post_processor = post
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, **ROLES)


def word_pieces():
    """A BERT tokenizer."""
    words = [*MARKS, *BASES]
    made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    made.add_special_tokens(MARKS)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, **ROLES)


BERT, ENDED = "[CLS] $A [SEP]", "$A </s>"
KINDS = {
    "dna": (lambda: pairs(template(BERT)), (1,), (2,)),
    "dna without a template": (pairs, (), ()),
    "dna with a beginning": (lambda: pairs(add_bos_token=True), (4,), ()),
    "dna with both ends": (lambda: pairs(add_bos_token=True, add_eos_token=True), (4,), (5,)),
    "thai": (lambda: pairs(template(BERT), "กขค"), (1,), (2,)),
    "two before": (lambda: pairs(template("[gMASK] <s> $A [SEP] </s>")), (6, 4), (2, 5)),
    "gpt2": (bytes_of, (), ()),
    "llama": (lambda: bytes_of(post=template("<s> $A")), (4,), ()),
    "byte level and template": (
        lambda: bytes_of(
            post=processors.Sequence(
                [processors.ByteLevel(trim_offsets=False), template("<s> $A </s>")]
            )
        ),
        (4,),
        (5,),
    ),
    "roberta": (
        lambda: bytes_of(post=processors.RobertaProcessing(("</s>", 5), ("<s>", 4))),
        (4,),
        (5,),
    ),
    "t5": (lambda: pieces(template(ENDED)), (), (5,)),
    "xlnet": (lambda: pieces(template("$A:0 [SEP]:0 [CLS]:2")), (), (2, 1)),
    "bert": (word_pieces, (1,), (2,)),
}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """A tokenizer, from its files, with its special tokens before and after a text."""
    make, before, after = KINDS[request.param]
    make().save_pretrained(tmp_path)
    return tf.PreTrainedTokenizerFast.from_pretrained(tmp_path), before, after


def test_special_tokens_are_the_tokenizers_own(kind):
    tokenizer, before, after = kind
    special = special_tokens_of(tokenizer, "m", 10_000)
    assert (special.prefix, special.suffix) == (before, after)
    backend = backend_tokenizer(tokenizer, "m")
    for text in ("CGT G", "a", ""):
        ids = backend.encode(text, add_special_tokens=False).ids
        assert tokenizer(text)["input_ids"] == [*special.prefix, *ids, *special.suffix]


def test_words_in_tokens_are_evaluated_between_them(kind):
    tokenizer, before, after = kind
    special = special_tokens_of(tokenizer, "m", 10_000)
    examples = Examples([["C", "G"], ["a"]], [[0, 0], [0]])
    found = encode(examples, "tagging", backend_tokenizer(tokenizer, "m"), special, 32)
    own = tokenizer("C G")["input_ids"]
    assert found.ids[0].tolist() == own
    there = [place for place in found.places[0] if place != NOWHERE]
    assert len(there) == 2 * (len(own) > len(before) + len(after))
    assert all(len(before) <= place < len(own) - len(after) for place in there)


def test_the_end_of_a_text_stands_once_and_only_there(tmp_path):
    """A causal model's tokenizer with `add_eos_token` would end each text twice, and its parts."""
    tokenizer = pairs(add_bos_token=True, add_eos_token=True)
    special = special_tokens_of(tokenizer, "m", 100)
    aim = objective(ObjectivePlan("causal"), special)
    ids = np.array([7, 8, 9, 7, 5], np.uint16)  # four letters and the end, as the job writes them
    one = np.ones(1, np.float32)
    key = np.zeros(1, np.uint64)
    part = ShardTokens(["t.jsonl"], np.zeros(1, np.int64), ids, np.array([0, 5]), key)
    write_part(tmp_path, 0, part, {"rejects": []})
    tokens = Tokens.open(tmp_path)
    chunks = cut_chunks(tokens.lengths, one, 4 - aim.overhead())
    whole = ChunkTokens(chunks, (tokens,), np.ones(len(chunks)), np.ones(len(chunks)))
    rows = lay_out(whole, [np.array([i]) for i in range(len(chunks))], aim.special, 0)
    assert rows.ids.tolist() == [[4, 7, 8, 9], [4, 7, 5, 0]]


def test_a_slow_tokenizer_is_refused():
    class Slow:
        backend_tokenizer = None

    with pytest.raises(ModelError, match="slow tokenizer"):
        special_tokens_of(Slow(), "m", 10)
