"""Tiny models, built and saved here: a few thousand random weights and a tokenizer trained on
three sentences, so that no test needs a download."""

import pytest

CORPUS = [
    "the binding of aspirin to cyclooxygenase is irreversible",
    "the kinase inhibitor binds the receptor with high affinity",
    "a small model reads small words, and unknown ones in pieces.",
]

TEXTS = [
    "the kinase binds",
    "",
    "a small model reads small words, and unknown ones in pieces. " * 3,
    "aspirin",
    "the binding of aspirin to the receptor is irreversible",
    "high affinity",
    "naïve Ångström 測試",
]


@pytest.fixture(scope="session")
def texts():
    return list(TEXTS)


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory):
    """A folder with a random two-layer GPT-2: no padding token, no cls token."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2Model, GPT2TokenizerFast

    folder = tmp_path_factory.mktemp("models") / "gpt2"
    folder.mkdir()
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(CORPUS, vocab_size=300, special_tokens=["<|endoftext|>"])
    trained.save(str(folder / "trained.json"))
    tokenizer = GPT2TokenizerFast(
        tokenizer_file=str(folder / "trained.json"),
        eos_token="<|endoftext|>",
        bos_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        model_max_length=64,
    )
    (folder / "trained.json").unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2Model(config).save_pretrained(folder)
    return folder
