"""The main weight files' tensors: official names and shapes of talker and code predictor; no torch.

The codec's are in `codec/weights.py`.
"""

from __future__ import annotations

from models.checkpoint.files import Shapes
from models.decoder.config import TransformerConfig
from models.fish_speech.config import FishSpeechConfig

TEXT, AUDIO = "text_model.model.", "audio_decoder."


def official_shapes(config: FishSpeechConfig) -> Shapes:
    """Official name and shape of every tensor of talker and code predictor."""
    width, narrow, codes = config.talker.width, config.predictor.width, config.codebook_size
    return {
        f"{TEXT}embeddings.weight": (config.text_vocab_size, width),
        f"{AUDIO}codebook_embeddings.weight": (config.num_codebooks * codes, width),
        f"{AUDIO}embeddings.weight": (codes, narrow),
        f"{AUDIO}output.weight": (codes, narrow),
        **_stack(TEXT, config.talker),
        **_stack(AUDIO, config.predictor),
    }


def _stack(prefix: str, config: TransformerConfig) -> Shapes:
    """The layers of a transformer, and its last norm."""
    width, head = config.width, config.head_dim
    queries, keys = config.num_heads * head, config.num_kv_heads * head
    layer: Shapes = {
        "attention.wqkv": (queries + 2 * keys, width),
        "attention.wo": (width, queries),
        "feed_forward.w1": (config.mlp_width, width),
        "feed_forward.w3": (config.mlp_width, width),
        "feed_forward.w2": (width, config.mlp_width),
        "attention_norm": (width,),
        "ffn_norm": (width,),
    }
    if config.has_qk_norm:
        layer |= {"attention.q_norm": (head,), "attention.k_norm": (head,)}
    shapes: Shapes = {f"{prefix}norm.weight": (width,)}
    for index in range(config.num_layers):
        shapes |= {f"{prefix}layers.{index}.{part}.weight": shape for part, shape in layer.items()}
    return shapes
