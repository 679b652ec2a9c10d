"""Official name and shape of every tensor of a tiny Qwen3-TTS checkpoint."""

from __future__ import annotations

from tiny_qwen3_tts_configs import (
    TEXT_VOCAB,
    Spec,
    Transformer,
    codec_config,
    speaker_encoder_sizes,
)

Shapes = dict[str, tuple[int, ...]]


def _block(prefix: str, shape: Transformer, head_dim: int, has_qk_norm: bool) -> Shapes:
    queries, keys = shape.heads * head_dim, shape.kv_heads * head_dim
    shapes = {
        "self_attn.q_proj.weight": (queries, shape.width),
        "self_attn.k_proj.weight": (keys, shape.width),
        "self_attn.v_proj.weight": (keys, shape.width),
        "self_attn.o_proj.weight": (shape.width, queries),
        "mlp.gate_proj.weight": (shape.mlp_width, shape.width),
        "mlp.up_proj.weight": (shape.mlp_width, shape.width),
        "mlp.down_proj.weight": (shape.width, shape.mlp_width),
        "input_layernorm.weight": (shape.width,),
        "post_attention_layernorm.weight": (shape.width,),
    }
    if has_qk_norm:
        shapes |= {f"self_attn.{name}_norm.weight": (head_dim,) for name in "qk"}
    return {prefix + name: value for name, value in shapes.items()}


def main_shapes(spec: Spec) -> Shapes:
    """Every tensor of model.safetensors; base has a speaker encoder as well."""
    width, narrow = spec.talker.width, spec.predictor.width
    shapes: Shapes = {
        "talker.model.text_embedding.weight": (TEXT_VOCAB, spec.text_width),
        "talker.model.codec_embedding.weight": (spec.vocab_size, width),
        "talker.model.norm.weight": (width,),
        "talker.text_projection.linear_fc1.weight": (spec.text_width, spec.text_width),
        "talker.text_projection.linear_fc1.bias": (spec.text_width,),
        "talker.text_projection.linear_fc2.weight": (width, spec.text_width),
        "talker.text_projection.linear_fc2.bias": (width,),
        "talker.codec_head.weight": (spec.vocab_size, width),
        "talker.code_predictor.model.norm.weight": (narrow,),
    }
    for i in range(spec.talker.layers):
        shapes |= _block(f"talker.model.layers.{i}.", spec.talker, spec.head_dim, True)
    prefix = "talker.code_predictor."
    for i in range(spec.predictor.layers):
        shapes |= _block(f"{prefix}model.layers.{i}.", spec.predictor, spec.head_dim, True)
    for i in range(spec.num_codebooks - 1):
        shapes[f"{prefix}model.codec_embedding.{i}.weight"] = (spec.codebook_size, width)
        shapes[f"{prefix}lm_head.{i}.weight"] = (spec.codebook_size, narrow)
    if width != narrow:
        shapes |= _with_bias({f"{prefix}small_to_mtp_projection": (narrow, width)})
    if spec.type == "base":
        shapes |= speaker_encoder_shapes(spec)
    return shapes


def speaker_encoder_shapes(spec: Spec) -> Shapes:
    """speaker_encoder.*: the tensors only base checkpoints have."""
    sizes = speaker_encoder_sizes(spec)
    channels, kernels, scale = (
        sizes["enc_channels"],
        sizes["enc_kernel_sizes"],
        sizes["enc_res2net_scale"],
    )
    attention, squeeze = sizes["enc_attention_channels"], sizes["enc_se_channels"]
    wide, part = channels[-1], channels[0] // scale
    convs: Shapes = {"blocks.0.conv": (channels[0], sizes["mel_dim"], kernels[0])}
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
        "fc": (spec.talker.width, 2 * wide, 1),
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
            book = f"{prefix}vq.layers.{i}._codebook."
            shapes[book + "cluster_usage"] = (spec.codebook_size,)
            shapes[book + "embedding_sum"] = (spec.codebook_size, code // 2)
    convs: Shapes = {"decoder.pre_conv.conv": (latent, code, 3)}
    prefix = "decoder.pre_transformer."
    convs |= {prefix + "input_proj": (hidden, latent), prefix + "output_proj": (latent, hidden)}
    shapes[prefix + "norm.weight"] = (hidden,)
    sizes = Transformer(
        hidden,
        config["intermediate_size"],
        config["num_hidden_layers"],
        config["num_attention_heads"],
        config["num_key_value_heads"],
    )
    for i in range(sizes.layers):
        layer = f"{prefix}layers.{i}."
        shapes |= _block(layer, sizes, config["head_dim"], False)
        shapes |= {f"{layer}{name}_layer_scale.scale": (hidden,) for name in ("self_attn", "mlp")}
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
        shapes |= _snake(prefix + "0", width)
        shapes[prefix + "1.conv.weight"] = (width, half, 2 * rate)  # transposed: inputs first
        shapes[prefix + "1.conv.bias"] = (half,)
        for unit in (2, 3, 4):
            shapes |= _snake(f"{prefix}{unit}.act1", half) | _snake(f"{prefix}{unit}.act2", half)
            convs[f"{prefix}{unit}.conv1.conv"] = (half, half, 7)
            convs[f"{prefix}{unit}.conv2.conv"] = (half, half, 1)
        width = half
    last = len(spec.upsample_rates) + 1
    shapes |= _snake(f"decoder.decoder.{last}", width)
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
        first, kernel = 1 + 3 * i, config["residual_kernel_size"]
        convs[f"encoder.encoder.layers.{first}.block.1.conv"] = (width // 2, width, kernel)
        convs[f"encoder.encoder.layers.{first}.block.3.conv"] = (width, width // 2, 1)
        convs[f"encoder.encoder.layers.{first + 2}.conv"] = (2 * width, width, 2 * ratio)
        width *= 2
    last = 2 + 3 * len(config["upsampling_ratios"])
    convs[f"encoder.encoder.layers.{last}.conv"] = (hidden, width, config["last_kernel_size"])
    shapes = _with_bias(convs) | {"encoder.downsample.conv.weight": (hidden, hidden, 4)}
    for i in range(config["num_hidden_layers"]):
        prefix = f"encoder.encoder_transformer.layers.{i}."
        shapes |= {f"{prefix}self_attn.{name}_proj.weight": (hidden, hidden) for name in "qkvo"}
        shapes[prefix + "mlp.fc1.weight"] = (inner, hidden)
        shapes[prefix + "mlp.fc2.weight"] = (hidden, inner)
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
            shapes[book + "initialized"] = (1,)
            shapes[book + "cluster_usage"] = (config["codebook_size"],)
            shapes[book + "embed_sum"] = (config["codebook_size"], config["codebook_dim"])
    return shapes


def _snake(name: str, channels: int) -> Shapes:
    return {f"{name}.alpha": (channels,), f"{name}.beta": (channels,)}


def _with_bias(convs: Shapes) -> Shapes:
    """Each layer's weight, and a bias of its output width."""
    return {
        name + kind: shape if kind == ".weight" else shape[:1]
        for name, shape in convs.items()
        for kind in (".weight", ".bias")
    }
