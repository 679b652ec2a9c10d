"""The main weight file's tensors: official names and shapes of talker and code predictor; no torch.

A Base checkpoint's file holds the speaker encoder as well, which is none of these.
"""

from __future__ import annotations

from models.checkpoint.files import Shapes
from models.decoder.config import TransformerConfig
from models.qwen3_tts.config import Qwen3TTSConfig


def official_shapes(config: Qwen3TTSConfig) -> Shapes:
    """Official name and shape of every tensor of talker and code predictor."""
    width, narrow, text = config.talker.width, config.predictor.width, config.text_width
    shapes: Shapes = {
        "talker.model.text_embedding.weight": (config.text_vocab_size, text),
        "talker.model.codec_embedding.weight": (config.vocab_size, width),
        "talker.codec_head.weight": (config.vocab_size, width),
    }

    def affine(name: str, outputs: int, inputs: int) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        shapes[f"{name}.bias"] = (outputs,)

    affine("talker.text_projection.linear_fc1", text, text)
    affine("talker.text_projection.linear_fc2", width, text)
    shapes |= _stack("talker.model", config.talker)
    predictor, books = "talker.code_predictor", config.predictor_vocab_size
    shapes |= _stack(f"{predictor}.model", config.predictor)
    for index in range(config.num_codebooks - 1):
        shapes[f"{predictor}.model.codec_embedding.{index}.weight"] = (books, width)
        shapes[f"{predictor}.lm_head.{index}.weight"] = (books, narrow)
    if width != narrow:
        affine(f"{predictor}.small_to_mtp_projection", narrow, width)
    return shapes


def _stack(name: str, config: TransformerConfig) -> Shapes:
    """The layers of a transformer, and its last norm."""
    width, head = config.width, config.head_dim
    queries, keys = config.num_heads * head, config.num_kv_heads * head
    layer = {
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "self_attn.q_norm": (head,),
        "self_attn.k_norm": (head,),
        "mlp.gate_proj": (config.mlp_width, width),
        "mlp.up_proj": (config.mlp_width, width),
        "mlp.down_proj": (width, config.mlp_width),
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
    }
    shapes: Shapes = {f"{name}.norm.weight": (width,)}
    for index in range(config.num_layers):
        shapes |= {f"{name}.layers.{index}.{part}.weight": shape for part, shape in layer.items()}
    return shapes
