"""Tiny random models that translate, for tests: the words are nonsense, the mechanics are not."""

from __future__ import annotations

__all__ = ["built"]

COMMON = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}


def built(folder, word_pieces, kind, seed):
    """A random model of a kind, with a tokenizer that ends sentences by [SEP]."""
    import torch
    import transformers

    folder.mkdir()
    trained = folder / "trained.json"
    word_pieces.save(str(trained))
    special = {"pad_token": "[PAD]", "eos_token": "[SEP]", "unk_token": "[UNK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(trained), model_max_length=48, **special
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
            max_position_embeddings=48,
            init_std=0.3,
            forced_eos_token_id=3,
            bos_token_id=2,
            **COMMON,
        )
        model = transformers.MarianMTModel(config)
    model.save_pretrained(folder)
    return folder
