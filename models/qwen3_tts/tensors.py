"""The main weight file's tensors: talker and code predictor. Without torch.

A Base checkpoint's file holds the speaker encoder as well, which is none of these.
"""

from __future__ import annotations

from models.checkpoint.table import Table
from models.decoder.tensors import LayerNames, add_layers
from models.qwen3_tts.config import Qwen3TTSConfig

LAYER = LayerNames(
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    o="self_attn.o_proj",
    gate_up=("mlp.gate_proj", "mlp.up_proj"),
    down="mlp.down_proj",
    input_norm="input_layernorm",
    post_norm="post_attention_layernorm",
    q_norm="self_attn.q_norm",
    k_norm="self_attn.k_norm",
    scales=("self_attn_layer_scale.scale", "mlp_layer_scale.scale"),
)


def network_table(config: Qwen3TTSConfig) -> Table:
    """Every tensor of talker and code predictor."""
    width, narrow, text = config.talker.width, config.predictor.width, config.text_width
    table, theirs, ours = Table(), "talker.model", "talker"
    rows = config.text_vocab_size, config.vocab_size
    table.keep(f"{theirs}.text_embedding.weight", f"{ours}.text_embedding.weight", rows[0], text)
    table.keep(f"{theirs}.codec_embedding.weight", f"{ours}.codec_embedding.weight", rows[1], width)
    table.keep("talker.codec_head.weight", f"{ours}.head.weight", rows[1], width)
    table.affine("talker.text_projection.linear_fc1", "talker.text_fc1", text, text)
    table.affine("talker.text_projection.linear_fc2", "talker.text_fc2", width, text)
    add_layers(table, theirs, "talker.decoder", config.talker, LAYER)

    theirs, ours = "talker.code_predictor", "predictor"
    add_layers(table, f"{theirs}.model", f"{ours}.decoder", config.predictor, LAYER)
    for name, tables, size in (
        ("model.codec_embedding", "embeddings", width),
        ("lm_head", "heads", narrow),
    ):
        books = [
            table.hold(f"{theirs}.{name}.{index}.weight", config.predictor_vocab_size, size)
            for index in range(config.num_codebooks - 1)
        ]
        table.make(f"{ours}.{tables}.weight", "stack", *books)
    if width != narrow:
        table.affine(f"{theirs}.small_to_mtp_projection", f"{ours}.projection", narrow, width)
    return table
