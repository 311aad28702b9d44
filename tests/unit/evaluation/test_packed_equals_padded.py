"""One packed step of fine-tuning against transformers on the padded batch: loss and gradients."""

from itertools import pairwise

import numpy as np
import pytest

from corpusfit.evaluation import finetune as finetuning
from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Task

torch = pytest.importorskip("torch", reason="the extra train is not installed")
tf = pytest.importorskip("transformers", reason="the extra train is not installed")

WORDS = ["the", "kinase", "binds", "receptor", "with", "high", "affinity", "of", "aspirin", "zebra"]
PIECES = [*sorted({letter for word in WORDS for letter in word}), *WORDS[:-1]]
PIECES += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
V = len(PIECES) + len(SPECIAL)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
WIDE = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
WINDOW = {
    "local_attention": 16,
    "global_attn_every_n_layers": 2,
    "pad_token_id": 0,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
SHAPES = {
    "bert": lambda: tf.BertConfig(**WIDE, **NO_DROPOUT),
    "roberta": lambda: tf.RobertaConfig(
        **{**WIDE, "max_position_embeddings": 66}, **NO_DROPOUT, pad_token_id=1
    ),
    "distilbert": lambda: tf.DistilBertConfig(
        vocab_size=V,
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=48,
        max_position_embeddings=64,
        initializer_range=0.2,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
    ),
    "albert": lambda: tf.AlbertConfig(
        **WIDE, **NO_DROPOUT, embedding_size=16, classifier_dropout_prob=0.0
    ),
    "electra": lambda: tf.ElectraConfig(**WIDE, **NO_DROPOUT, embedding_size=16),
    "deberta-v2": lambda: tf.DebertaV2Config(
        **WIDE,
        **NO_DROPOUT,
        pooler_dropout=0.0,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=32,
    ),
    "modernbert": lambda: tf.ModernBertConfig(**WIDE, **WINDOW),
    "gpt2": lambda: tf.GPT2Config(
        vocab_size=V,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=64,
        initializer_range=0.2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        classifier_dropout=0.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    ),
}
ALONE = {"deberta-v2", "gpt2"}  # one text per row
HEADS = {
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
}


def tokenizer_of(name):
    """[CLS] and [SEP] around each text, nothing for GPT-2; padding is 1 for RoBERTa, else 0."""
    from tokenizers import BertWordPieceTokenizer, Tokenizer, models, pre_tokenizers

    special = ["[UNK]", "[PAD]", *SPECIAL[2:]] if name == "roberta" else SPECIAL
    vocabulary = {piece: i for i, piece in enumerate([*special, *PIECES])}
    if name == "gpt2":
        backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        names = {"unk_token": "[UNK]", "pad_token": "[PAD]"}
    else:
        backend = BertWordPieceTokenizer(vocabulary)._tokenizer
        names = {f"{kind.lower()}_token": f"[{kind}]" for kind in ("PAD", "UNK", "CLS", "SEP")}
        names["mask_token"] = "[MASK]"
    return tf.PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **names)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Folder of a random model of an architecture, with a head for a kind of task."""
    folders = {}

    def folder_of(name, kind):
        if (name, kind) not in folders:
            folder = folders[name, kind] = tmp_path_factory.mktemp(name) / kind
            torch.manual_seed(0)
            config = SHAPES[name]()
            config.num_labels = 3
            getattr(tf, HEADS[kind]).from_config(config).save_pretrained(folder)
            tokenizer_of(name).save_pretrained(folder)
        return folders[name, kind]

    return folder_of


def task_of(kind):
    """Ten examples of 1 to 12 words, one of which has five tokens, with three labels."""
    rng = np.random.default_rng(4)
    sentences = [[str(w) for w in rng.choice(WORDS, n)] for n in (3, 1, 12, 7, 5, 2, 9, 4, 6, 8)]
    if kind == "tagging":
        labels = [rng.integers(0, 3, len(words)).tolist() for words in sentences]
        train = Examples(sentences, labels)
    else:
        train = Examples([[" ".join(words)] for words in sentences], [[i % 3] for i in range(10)])
    names = ("O", "B-A", "I-A")
    return Task("words", kind, names, 3, train, train.take([0]), train.take([0]))


def padded(task, tokenizer):
    """All training examples, padded as by transformers' collators."""
    split = task.kind == "tagging"
    texts = task.train.pieces if split else task.train.texts()
    found = tokenizer(texts, is_split_into_words=split, padding=True, return_tensors="pt")
    if not split:
        return {**found, "labels": torch.tensor(task.train.flat, dtype=torch.int64)}
    labels = torch.full_like(found["input_ids"], -100)
    for i, gold in enumerate(task.train.labels):
        for place, (before, word) in enumerate(pairwise([None, *found.word_ids(i)])):
            if word is not None and word != before:
                labels[i, place] = gold[word]
    return {**found, "labels": labels}


def gradients(model):
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


class Step:
    """The first step of `finetune`, and the same step by transformers."""

    def __init__(self, task, plan, monkeypatch):
        self.task = task
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._open, self._words = finetuning.open_with_head, finetuning.TaskVocabulary
        self._lay_out = finetuning.to_batch
        for name in ("open_with_head", "TaskVocabulary", "to_batch"):
            monkeypatch.setattr(finetuning, name, getattr(self, f"_seen_{name.lower()}"))
        handle = register_optimizer_step_pre_hook(self._before_adamw)
        try:
            self.loss = finetune(task, plan, 0).history[0]["loss"]
        finally:
            handle.remove()

    def _seen_open_with_head(self, plan, *args):
        headed = self._open(plan, *args)
        self.packing, model = headed.network.packing, headed.network.predictor.model
        self.model = model
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad and not parameter.any():  # an adapter starts at zero
                    parameter.normal_(0.0, 0.1)
        out = model(**padded(self.task, tf.AutoTokenizer.from_pretrained(plan.name)))
        out.loss.backward()
        self.wanted_loss, self.wanted = out.loss.item(), gradients(model)
        model.zero_grad()
        return headed

    def _seen_taskvocabulary(self, *args):
        self.numbers = self._words(*args)
        return self.numbers

    def _seen_to_batch(self, encoded, numbers, rows, words):
        if len(numbers) == len(self.task.train):
            self.rows = len(rows)
        return self._lay_out(encoded, numbers, rows, words)

    def _before_adamw(self, *_):
        self.found = gradients(self.model)

    def as_whole_table(self, name, gradient):
        """A gradient of the reduced embedding matrix, in the rows of the whole one."""
        theirs = self.wanted[name]
        if gradient.shape == theirs.shape and name != self._table():
            return gradient
        whole = torch.zeros(len(self.numbers.number), gradient.shape[1])
        whole[: len(gradient)] = gradient
        return whole[self.numbers.number][: len(theirs)]

    def _table(self):
        table = self.model.get_input_embeddings().weight
        return next((n for n, p in self.model.named_parameters() if p is table), "")


def check(task, plan, name, monkeypatch):
    # gradients are compared as they are, without a limit to their norm
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.zeros(()))
    step = Step(task, plan, monkeypatch)
    assert (step.packing is None) == (name in ALONE)
    assert (step.rows == len(task.train)) == (name in ALONE)
    assert step.loss == pytest.approx(step.wanted_loss, rel=1e-5)
    assert set(step.found) >= {n for n, g in step.wanted.items() if g.any()}
    largest = max(float(g.abs().max()) for g in step.wanted.values())
    for parameter, gradient in step.found.items():
        ours = step.as_whole_table(parameter, gradient)
        torch.testing.assert_close(
            ours, step.wanted[parameter], rtol=1e-5, atol=1e-5 * largest, msg=parameter
        )
    assert largest > 0.01


def plan_of(folder, adapter=""):
    settings = [f"model.name={folder}", f"model.adapter={adapter}", "finetune.epochs=1"]
    settings += ["finetune.batch=10", "finetune.device=cpu", "finetune.precision=fp32"]
    return EvaluatePlan().with_overrides(settings)


@pytest.mark.parametrize("kind", sorted(HEADS))
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_packed_step_equals_a_padded_one(name, kind, folder_of, monkeypatch):
    check(task_of(kind), plan_of(folder_of(name, kind)), name, monkeypatch)


@pytest.mark.parametrize("kind", sorted(HEADS))
@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_with_an_adapter_too(name, kind, folder_of, monkeypatch):
    check(task_of(kind), plan_of(folder_of(name, kind), "lora"), name, monkeypatch)
