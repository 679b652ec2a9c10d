"""A Whisper checkpoint of random weights, with every file that a released one has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "zh", "de")
SPECIALS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    *(f"<|{code}|>" for code in LANGUAGES),
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)


def byte_letters() -> list[str]:
    """The letters that stand for bytes in byte-level tokenizers, as GPT-2 has them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters |= {byte: chr(256 + place) for place, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]


def write_tiny_whisper(
    folder: Path, *, seed: int = 0, scale: float = 4.0, half: bool = False, **sizes: Any
) -> Path:
    """Write a checkpoint.

    Args:
        scale: of the weights, by what they are initialised with: wide enough that what is heard
            depends on what is said.
        half: store bfloat16.
        sizes: of `WhisperConfig`, in place of tiny ones.
    """
    import torch
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {letter: place for place, letter in enumerate(byte_letters())}
    ids = {name: len(vocabulary) + place for place, name in enumerate(SPECIALS)}
    settings: dict[str, Any] = {
        "vocab_size": len(vocabulary) + len(SPECIALS),
        "num_mel_bins": 80,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_target_positions": 48,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|endoftext|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        **sizes,
    }
    torch.manual_seed(seed)
    config = WhisperConfig(**settings)
    model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    if half:
        model = model.to(torch.bfloat16)
    generation = {
        "bos_token_id": settings["bos_token_id"],
        "eos_token_id": settings["eos_token_id"],
        "pad_token_id": settings["pad_token_id"],
        "decoder_start_token_id": settings["decoder_start_token_id"],
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "is_multilingual": True,
        "lang_to_id": {f"<|{code}|>": ids[f"<|{code}|>"] for code in LANGUAGES},
        "task_to_id": {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]},
        "max_length": settings["max_target_positions"],
        "suppress_tokens": [],
        "begin_suppress_tokens": [],
        "return_timestamps": False,
    }
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").write_text(json.dumps(generation))
    WhisperFeatureExtractor(feature_size=settings["num_mel_bins"]).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = {
        "tokenizer_class": "WhisperTokenizer",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": settings["max_target_positions"],
        "additional_special_tokens": list(SPECIALS[1:]),
        "added_tokens_decoder": {
            str(number): {"content": name, "special": True, "normalized": False}
            for name, number in ids.items()
        },
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "added_tokens.json").write_text(json.dumps(ids))
    (folder / "normalizer.json").write_text(json.dumps({"colour": "color", "waggon": "wagon"}))
    return folder
