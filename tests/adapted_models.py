"""Tiny random models with an adapter, as the tests of every adapter need them."""

import pytest

from corpusfit.training.adapter import add_adapter, save_adapter, trainable_parameters
from corpusfit.training.contract import Base
from corpusfit.training.models import fingerprint

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


MORE = {
    "Bert": {},
    "GPT2": {"n_inner": 48, "n_embd": 32, "n_layer": 2, "n_head": 4},
    "Longformer": {"attention_window": [4, 4], "pad_token_id": 1},
}
"""Settings of some architectures besides the small sizes."""


CAUSAL = {
    *("GPT2", "Llama", "GPTNeoX", "Qwen3", "Gemma2", "Mixtral", "XLNet", "Mamba"),
    *("DeepseekV2", "DeepseekV3", "Glm4Moe", "Ernie4_5_Moe", "Afmoe"),
}


def build(name, more, head=True, seed=0):
    """A random model, with weights large enough for a wrong sum to show."""
    torch.manual_seed(seed)
    settings = {**SMALL, "initializer_range": 0.3, **more}
    if name == "XLNet":
        del settings["max_position_embeddings"]
    config = getattr(transformers, f"{name}Config")(**settings)
    kind = "AutoModelForCausalLM" if name in CAUSAL else "AutoModelForMaskedLM"
    auto = getattr(transformers, kind if head else "AutoModel")
    return auto.from_config(config).eval()


def disturb(model, seed=1):
    """Set all trainable weights to random numbers, as if trained."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in trainable_parameters(model).values():
            p.normal_(0, 0.1, generator=generator)


IDS = torch.tensor([[5, 17, 33, 80, 9, 44], [7, 7, 51, 20, 98, 3]])


def states(model):
    with torch.no_grad():
        return model(input_ids=IDS)[0]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Folders with a BERT and a GPT-2, each with its head."""
    found = {}
    for name in ("Bert", "GPT2"):
        folder = tmp_path_factory.mktemp(name)
        build(name, MORE[name]).save_pretrained(folder)
        found[name] = folder
    return found


class FakeTokenizer:
    """A tokenizer that can only be saved."""

    def save_pretrained(self, folder):
        (folder / "tokenizer_config.json").write_text("{}")


def adapted(folder, plan, auto):
    """The model in a folder with a random adapter."""
    model = auto.from_pretrained(folder).eval()
    add_adapter(model, plan, seed=3)
    disturb(model)
    return model


def save(model, plan, base, out):
    save_adapter(model, FakeTokenizer(), plan, Base(str(base), fingerprint(base)), out)
    return out
