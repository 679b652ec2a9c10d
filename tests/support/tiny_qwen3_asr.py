"""Checkpoints of random weights with every file that released ones have: Qwen3-ASR, and the forced
aligner, whose template puts two marks behind each word.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tiny_whisper import byte_letters

SPECIALS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|audio_start|>", "<|audio_end|>", "<|audio_pad|>", "<timestamp>", "<asr_text>"),
)
TEMPLATE = """{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% for part in message.content -%}
{%- if part.type == 'audio' -%}<|audio_start|><|audio_pad|><|audio_end|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}<|im_end|>
{% endfor -%}"""
ALIGNER_TEMPLATE = """{%- for part in messages[0].content -%}
{%- if part.type == 'audio' -%}<|audio_start|><|audio_pad|><|audio_end|>
{%- else -%}{{ part.text }}<timestamp><timestamp>{%- endif -%}
{%- endfor -%}"""


def write_tiny_qwen3_asr(
    folder: Path, *, labels: int = 0, seed: int = 0, scale: float = 8.0
) -> Path:
    """Write a checkpoint. Needs a transformers that has the family.

    Args:
        labels: moments that an aligner tells apart; 0: it is a recogniser.
        scale: of the weights, by what they are initialised with: wide enough that what is heard
            depends on what is said.
    """
    import torch

    transformers: Any = importlib.import_module("transformers")
    vocabulary = {letter: place for place, letter in enumerate(byte_letters())}
    tokenizer = transformers.Qwen2Tokenizer(
        vocab=vocabulary,
        merges=[],
        unk_token=None,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={
            "audio_token": "<|audio_pad|>",
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
        },
    )
    tokenizer.add_tokens([transformers.AddedToken(name, special=True) for name in SPECIALS])
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIALS}
    config = transformers.Qwen3ASRConfig(
        audio_config={
            "num_mel_bins": 16,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "d_model": 32,
            "output_dim": 32,
            "downsample_hidden_size": 8,
        },
        text_config={
            "model_type": "qwen3",
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "max_position_embeddings": 2048,
        },
        audio_token_id=ids["<|audio_pad|>"],
        timestamp_token_id=ids["<timestamp>"],
        pad_token_id=ids["<|endoftext|>"],
        eos_token_id=ids["<|im_end|>"],
        **({"num_labels": labels} if labels else {}),
    )
    torch.manual_seed(seed)
    of = "TokenClassification" if labels else "ConditionalGeneration"
    model = getattr(transformers, f"Qwen3ASRFor{of}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    model.save_pretrained(folder)
    features = transformers.Qwen3ASRFeatureExtractor(feature_size=16)
    template = ALIGNER_TEMPLATE if labels else TEMPLATE
    processor = transformers.Qwen3ASRProcessor(features, tokenizer, chat_template=template)
    processor.save_pretrained(folder)
    return folder
