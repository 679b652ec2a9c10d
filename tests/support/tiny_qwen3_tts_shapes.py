"""Official name and shape of every tensor of a tiny Qwen3-TTS checkpoint."""

from __future__ import annotations

from tiny_qwen3_tts_configs import (
    NUM_RESERVED,
    SPEAKER_ENCODER,
    TEXT_VOCAB,
    Spec,
    Transformer,
    codec_config,
)

Shapes = dict[str, tuple[int, ...]]


def _block(prefix: str, hidden: int, inner: int, heads: int, kv_heads: int, head_dim: int, has_qk_norm: bool) -> Shapes:
    shapes = {
        "self_attn.q_proj.weight": (heads * head_dim, hidden),
        "self_attn.k_proj.weight": (kv_heads * head_dim, hidden),
        "self_attn.v_proj.weight": (kv_heads * head_dim, hidden),
        "self_attn.o_proj.weight": (hidden, heads * head_dim),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if has_qk_norm:
        shapes |= {"self_attn.q_norm.weight": (head_dim,), "self_attn.k_norm.weight": (head_dim,)}
    return {prefix + name: shape for name, shape in shapes.items()}


def main_shapes(spec: Spec) -> Shapes:
    """Every tensor of model.safetensors: talker, code predictor and, for base, the speaker encoder."""
    h, p = spec.hidden, spec.predictor_hidden
    shapes: Shapes = {
        "talker.model.text_embedding.weight": (TEXT_VOCAB, spec.text_hidden),
        "talker.model.codec_embedding.weight": (spec.codebook_size + NUM_RESERVED, h),
        "talker.model.norm.weight": (h,),
        "talker.text_projection.linear_fc1.weight": (spec.text_hidden, spec.text_hidden),
        "talker.text_projection.linear_fc1.bias": (spec.text_hidden,),
        "talker.text_projection.linear_fc2.weight": (h, spec.text_hidden),
        "talker.text_projection.linear_fc2.bias": (h,),
        "talker.codec_head.weight": (spec.codebook_size + NUM_RESERVED, h),
        "talker.code_predictor.model.norm.weight": (p,),
    }
    for i in range(spec.layers):
        prefix = f"talker.model.layers.{i}."
        shapes |= _block(prefix, h, spec.intermediate, spec.heads, spec.kv_heads, spec.head_dim, True)
    heads, kv_heads = spec.predictor_heads, spec.predictor_kv_heads
    for i in range(spec.predictor_layers):
        prefix = f"talker.code_predictor.model.layers.{i}."
        shapes |= _block(prefix, p, spec.predictor_intermediate, heads, kv_heads, spec.head_dim, True)
    for i in range(spec.num_codebooks - 1):
        shapes[f"talker.code_predictor.model.codec_embedding.{i}.weight"] = (spec.codebook_size, h)
        shapes[f"talker.code_predictor.lm_head.{i}.weight"] = (spec.codebook_size, p)
    if h != p:
        shapes["talker.code_predictor.small_to_mtp_projection.weight"] = (p, h)
        shapes["talker.code_predictor.small_to_mtp_projection.bias"] = (p,)
    if spec.type == "base":
        shapes |= speaker_encoder_shapes(h)
    return shapes


def speaker_encoder_shapes(enc_dim: int) -> Shapes:
    """speaker_encoder.*: the tensors only base checkpoints have."""
    channels, kernels = SPEAKER_ENCODER["enc_channels"], SPEAKER_ENCODER["enc_kernel_sizes"]
    scale, attention, squeeze = (SPEAKER_ENCODER[f"enc_{k}"] for k in ("res2net_scale", "attention_channels", "se_channels"))
    wide, part = channels[-1], channels[0] // scale
    convs: Shapes = {"blocks.0.conv": (channels[0], SPEAKER_ENCODER["mel_dim"], kernels[0])}
    for i in range(1, len(channels) - 1):
        width = channels[i]
        convs[f"blocks.{i}.tdnn1.conv"] = (width, channels[i - 1], 1)
        for j in range(scale - 1):
            convs[f"blocks.{i}.res2net_block.blocks.{j}.conv"] = (part, part, kernels[i])
        convs[f"blocks.{i}.tdnn2.conv"] = (width, width, 1)
        convs[f"blocks.{i}.se_block.conv1"] = (squeeze, width, 1)
        convs[f"blocks.{i}.se_block.conv2"] = (width, squeeze, 1)
    convs |= {
        "mfa.conv": (wide, wide, 1),
        "asp.tdnn.conv": (attention, 3 * wide, 1),
        "asp.conv": (wide, attention, 1),
        "fc": (enc_dim, 2 * wide, 1),
    }
    return _with_bias({f"speaker_encoder.{name}": shape for name, shape in convs.items()})


def decoder_shapes(spec: Spec) -> Shapes:
    """decoder.*: the vocoder."""
    config = codec_config(spec)["decoder_config"]
    latent, code, hidden = config["latent_dim"], config["codebook_dim"], config["hidden_size"]
    shapes: Shapes = {}
    for name, count in (("rvq_first", 1), ("rvq_rest", spec.num_codebooks - 1)):
        prefix = f"decoder.quantizer.{name}."
        shapes[prefix + "input_proj.weight"] = (code // 2, code, 1)
        shapes[prefix + "output_proj.weight"] = (code, code // 2, 1)
        for i in range(count):
            shapes[f"{prefix}vq.layers.{i}._codebook.cluster_usage"] = (spec.codebook_size,)
            shapes[f"{prefix}vq.layers.{i}._codebook.embedding_sum"] = (spec.codebook_size, code // 2)
    convs: Shapes = {"decoder.pre_conv.conv": (latent, code, 3)}
    prefix = "decoder.pre_transformer."
    convs |= {prefix + "input_proj": (hidden, latent), prefix + "output_proj": (latent, hidden)}
    shapes[prefix + "norm.weight"] = (hidden,)
    for i in range(config["num_hidden_layers"]):
        layer = f"{prefix}layers.{i}."
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        shapes |= _block(layer, hidden, config["intermediate_size"], heads, kv_heads, config["head_dim"], False)
        shapes |= {layer + "self_attn_layer_scale.scale": (hidden,), layer + "mlp_layer_scale.scale": (hidden,)}
    for i, ratio in enumerate(spec.upsampling_ratios):
        prefix = f"decoder.upsample.{i}."
        shapes[prefix + "0.conv.weight"] = (latent, latent, ratio)
        shapes[prefix + "0.conv.bias"] = (latent,)
        convs |= {
            prefix + "1.dwconv.conv": (latent, 1, 7),
            prefix + "1.pwconv1": (4 * latent, latent),
            prefix + "1.pwconv2": (latent, 4 * latent),
        }
        shapes |= {f"{prefix}1.{name}": (latent,) for name in ("gamma", "norm.weight", "norm.bias")}
    width = spec.decoder_dim
    convs["decoder.decoder.0.conv"] = (width, latent, 7)
    for i, rate in enumerate(spec.upsample_rates, 1):
        prefix, half = f"decoder.decoder.{i}.block.", width // 2
        shapes |= {prefix + "0.alpha": (width,), prefix + "0.beta": (width,)}
        shapes |= {prefix + "1.conv.weight": (width, half, 2 * rate), prefix + "1.conv.bias": (half,)}
        for j in (2, 3, 4):
            shapes |= {f"{prefix}{j}.act{a}.{name}": (half,) for a in (1, 2) for name in ("alpha", "beta")}
            convs |= {f"{prefix}{j}.conv1.conv": (half, half, 7), f"{prefix}{j}.conv2.conv": (half, half, 1)}
        width = half
    last = len(spec.upsample_rates) + 1
    shapes |= {f"decoder.decoder.{last}.alpha": (width,), f"decoder.decoder.{last}.beta": (width,)}
    convs[f"decoder.decoder.{last + 1}.conv"] = (1, width, 7)
    return shapes | _with_bias(convs)


def audio_encoder_shapes(spec: Spec) -> Shapes:
    """encoder.*: the Mimi encoder that cloning needs and speaking does not."""
    config = codec_config(spec)["encoder_config"]
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    inner_code = config["vector_quantization_hidden_dimension"]
    width = config["num_filters"]
    convs: Shapes = {"encoder.encoder.layers.0.conv": (width, 1, config["kernel_size"])}
    for i, ratio in enumerate(reversed(config["upsampling_ratios"])):
        first = 1 + 3 * i
        convs[f"encoder.encoder.layers.{first}.block.1.conv"] = (width // 2, width, config["residual_kernel_size"])
        convs[f"encoder.encoder.layers.{first}.block.3.conv"] = (width, width // 2, 1)
        convs[f"encoder.encoder.layers.{first + 2}.conv"] = (2 * width, width, 2 * ratio)
        width *= 2
    last = 2 + 3 * len(config["upsampling_ratios"])
    convs[f"encoder.encoder.layers.{last}.conv"] = (hidden, width, config["last_kernel_size"])
    shapes = _with_bias(convs) | {"encoder.downsample.conv.weight": (hidden, hidden, 4)}
    for i in range(config["num_hidden_layers"]):
        prefix = f"encoder.encoder_transformer.layers.{i}."
        shapes |= {f"{prefix}self_attn.{name}_proj.weight": (hidden, hidden) for name in "qkvo"}
        shapes |= {prefix + "mlp.fc1.weight": (inner, hidden), prefix + "mlp.fc2.weight": (hidden, inner)}
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {f"{prefix}{name}.weight": (hidden,), f"{prefix}{name}.bias": (hidden,)}
        for name in ("self_attn", "mlp"):
            shapes[f"{prefix}{name}_layer_scale.scale"] = (hidden,)
    for name, count in (("semantic", 1), ("acoustic", config["num_quantizers"] - 1)):
        prefix = f"encoder.quantizer.{name}_residual_vector_quantizer."
        shapes[prefix + "input_proj.weight"] = (inner_code, hidden, 1)
        shapes[prefix + "output_proj.weight"] = (hidden, inner_code, 1)
        for i in range(count):
            book = f"{prefix}layers.{i}.codebook."
            shapes |= {book + "initialized": (1,), book + "cluster_usage": (config["codebook_size"],)}
            shapes[book + "embed_sum"] = (config["codebook_size"], config["codebook_dim"])
    return shapes


def _with_bias(convs: Shapes) -> Shapes:
    """Each layer's weight, and a bias of its output width."""
    return {
        name + kind: shape if kind == ".weight" else shape[:1]
        for name, shape in convs.items()
        for kind in (".weight", ".bias")
    }


