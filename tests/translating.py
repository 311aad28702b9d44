"""Tiny models that translate, for tests: random ones, and one taught a language of few words."""

import random

__all__ = ["WORDS", "built", "pair_of", "taught", "write_pairs"]

COMMON = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}


def built(folder, word_pieces, kind, seed, longest=48):
    """A random model of a kind, with a tokenizer that ends sentences by [SEP]."""
    import torch
    import transformers

    folder.mkdir()
    trained = folder / "trained.json"
    word_pieces.save(str(trained))
    special = {"pad_token": "[PAD]", "eos_token": "[SEP]", "unk_token": "[UNK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(trained), model_max_length=longest, **special
    )
    trained.unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    size = word_pieces.get_vocab_size()
    if kind == "t5":
        config = transformers.T5Config(
            vocab_size=size, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, **COMMON
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        config = transformers.MarianConfig(
            vocab_size=size,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            max_position_embeddings=longest,
            init_std=0.3,
            forced_eos_token_id=3,
            bos_token_id=2,
            **COMMON,
        )
        model = transformers.MarianMTModel(config)
    model.save_pretrained(folder)
    return folder


WORDS = {
    "der": "the",
    "hund": "dog",
    "katze": "cat",
    "baum": "tree",
    "haus": "house",
    "rot": "red",
    "alt": "old",
    "klein": "small",
    "sieht": "sees",
    "liebt": "loves",
}
"""The whole vocabulary of the language that `taught` teaches."""


def pair_of(chance):
    """A text of two to seven words, drawn by a `random.Random`, and its translation."""
    words = chance.choices(list(WORDS), k=chance.randint(2, 7))
    return " ".join(words), " ".join(WORDS[word] for word in words)


def write_pairs(folder, **splits):
    """A folder of line-aligned files: so many pairs of each split, all of one seed."""
    folder.mkdir()
    for number, (split, n) in enumerate(splits.items()):
        pairs = [pair_of(random.Random(1_000 * number + i)) for i in range(n)]
        for side, language in enumerate(("de", "en")):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text)
    return folder


def taught(folder, steps, seed=0):
    """A Marian model with a word-level tokenizer, after some steps on pairs of `pair_of`."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = ["[PAD]", "[SEP]", "[UNK]", *WORDS, *WORDS.values()]
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 1)]
    )
    special = {"pad_token": "[PAD]", "eos_token": "[SEP]", "unk_token": "[UNK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=32, **special
    )
    sides = {"layers": 1, "attention_heads": 4, "ffn_dim": 64}
    config = transformers.MarianConfig(
        vocab_size=len(vocabulary),
        d_model=32,
        max_position_embeddings=32,
        dropout=0.0,
        scale_embedding=True,
        init_std=0.1,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
        bos_token_id=0,
        **{f"{s}_{k}": v for s in ("encoder", "decoder") for k, v in sides.items()},
    )
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config)
    learning = torch.optim.Adam(model.parameters(), 4e-3)
    chance = random.Random(seed)
    for _ in range(steps):
        sources, targets = zip(*(pair_of(chance) for _ in range(16)), strict=True)
        batch = tokenizer(list(sources), padding=True, return_tensors="pt")
        labels = tokenizer(text_target=list(targets), padding=True, return_tensors="pt").input_ids
        loss = model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            labels=labels.masked_fill(labels == 0, -100),
        ).loss
        learning.zero_grad()
        loss.backward()
        learning.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
