"""Sizes of the sample voice: the Qwen3-TTS 12 Hz architecture, scaled down.

Field names are those of the official `config.json`, so the dictionaries go into the checkpoint
unchanged.
"""

from __future__ import annotations

CODEBOOK_SIZE = 256  # entries of one codebook
NUM_CODEBOOKS = 16  # K: codes of one frame
TEXT_VOCAB = 320  # 256 bytes and the special tokens, rounded up
WIDTH = 256  # of the talker

SPECIAL_TOKENS = {
    "<|endoftext|>": 256,
    "<|im_start|>": 257,
    "<|im_end|>": 258,
    "assistant": 259,
    "user": 260,
    "<tts_pad>": 261,
    "<tts_text_bos>": 262,
    "<tts_text_eod>": 263,
}

DECODER = {
    "codebook_size": CODEBOOK_SIZE,
    "hidden_size": 160,
    "latent_dim": 192,
    "codebook_dim": 128,
    "max_position_embeddings": 8000,
    "rope_theta": 10000,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 40,
    "attention_bias": False,
    "sliding_window": 16,
    "intermediate_size": 480,
    "layer_scale_initial_scale": 0.1,
    "rms_norm_eps": 1e-5,
    "num_hidden_layers": 4,
    "num_quantizers": NUM_CODEBOOKS,
    "upsample_rates": (8, 5, 4, 3),
    "upsampling_ratios": (2, 2),
    "decoder_dim": 384,
}

# Neither trained nor shipped: the official class always builds an encoder, so the config names a
# token one.
ENCODER = {
    "sampling_rate": 24000,
    "audio_channels": 1,
    "hidden_size": 32,
    "num_filters": 2,
    "num_residual_layers": 1,
    "upsampling_ratios": [8, 6, 5, 4],
    "codebook_size": CODEBOOK_SIZE,
    "codebook_dim": 8,
    "num_quantizers": NUM_CODEBOOKS,
    "vector_quantization_hidden_dimension": 8,
    "num_semantic_quantizers": 1,
    "upsample_groups": 32,
    "num_hidden_layers": 1,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "frame_rate": 12.5,
    "rope_theta": 10000.0,
}

TALKER = {
    "vocab_size": CODEBOOK_SIZE + 1024,
    "hidden_size": WIDTH,
    "intermediate_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "num_code_groups": NUM_CODEBOOKS,
    "text_hidden_size": WIDTH,
    "text_vocab_size": TEXT_VOCAB,
    "rope_theta": 10000.0,
    "rope_scaling": {"interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default"},
    "codec_pad_id": CODEBOOK_SIZE + 100,
    "codec_bos_id": CODEBOOK_SIZE + 101,
    "codec_eos_token_id": CODEBOOK_SIZE + 102,
    "codec_think_id": CODEBOOK_SIZE + 106,
    "codec_nothink_id": CODEBOOK_SIZE + 107,
    "codec_think_bos_id": CODEBOOK_SIZE + 108,
    "codec_think_eos_id": CODEBOOK_SIZE + 109,
    "codec_language_id": {"english": CODEBOOK_SIZE + 2},
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
}

PREDICTOR = {
    "vocab_size": CODEBOOK_SIZE,
    "hidden_size": 192,
    "intermediate_size": 576,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "num_code_groups": NUM_CODEBOOKS,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
}

VOICES = {
    "michael": "arthur",
    "heart": "clara",
    "fenrir": "ewan",
}  # the teacher's voice -> the speaker's name


def speaker_ids() -> dict[str, int]:
    """Speaker name -> row of the talker's codec embedding."""
    return {name: CODEBOOK_SIZE + 900 + index for index, name in enumerate(VOICES.values())}
