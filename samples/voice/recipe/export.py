"""Write trained weights as a checkpoint in the layout of the released Qwen3-TTS models."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from config import DECODER, ENCODER, PREDICTOR, SPECIAL_TOKENS, TALKER, speaker_ids
from safetensors.torch import save_file
from torch import Tensor

State = dict[str, Tensor]
MAX_FRAMES = 512  # of one text, by default
MODEL_MAX_LENGTH = 4096  # tokens, for the tokenizer's config


def byte_characters() -> list[str]:
    """The visible character that stands for each byte in GPT-2 style vocabularies."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    characters, spare = [], 256
    for byte in range(256):
        if byte in visible:
            characters.append(chr(byte))
        else:
            characters.append(chr(spare))
            spare += 1
    return characters


def _layer_shapes(prefix: str, sizes: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Official names and shapes of the layers and the last norm of one transformer."""
    width, inner, head = sizes["hidden_size"], sizes["intermediate_size"], sizes["head_dim"]
    queries, keys = sizes["num_attention_heads"] * head, sizes["num_key_value_heads"] * head
    shapes: dict[str, tuple[int, ...]] = {f"{prefix}.norm.weight": (width,)}
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "self_attn.q_norm": (head,),
        "self_attn.k_norm": (head,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    for index in range(sizes["num_hidden_layers"]):
        for name, shape in layer.items():
            shapes[f"{prefix}.layers.{index}.{name}.weight"] = shape
    return shapes


def talker_shapes(
    talker: dict[str, Any] = TALKER, predictor: dict[str, Any] = PREDICTOR
) -> dict[str, tuple[int, ...]]:
    """Official name -> shape of every weight of talker and code predictor."""
    width, text_width = talker["hidden_size"], talker["text_hidden_size"]
    inner, entries = predictor["hidden_size"], predictor["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "talker.codec_head.weight": (talker["vocab_size"], width),
        "talker.model.codec_embedding.weight": (talker["vocab_size"], width),
        "talker.model.text_embedding.weight": (talker["text_vocab_size"], text_width),
        "talker.text_projection.linear_fc1.weight": (text_width, text_width),
        "talker.text_projection.linear_fc1.bias": (text_width,),
        "talker.text_projection.linear_fc2.weight": (width, text_width),
        "talker.text_projection.linear_fc2.bias": (width,),
    }
    shapes.update(_layer_shapes("talker.model", talker))
    prefix = "talker.code_predictor"
    shapes.update(_layer_shapes(f"{prefix}.model", predictor))
    if inner != width:  # the official module has no projection between equal widths
        shapes[f"{prefix}.small_to_mtp_projection.weight"] = (inner, width)
        shapes[f"{prefix}.small_to_mtp_projection.bias"] = (inner,)
    for index in range(predictor["num_code_groups"] - 1):
        shapes[f"{prefix}.model.codec_embedding.{index}.weight"] = (entries, width)
        shapes[f"{prefix}.lm_head.{index}.weight"] = (entries, inner)
    return shapes


def talker_weights(state: State, shapes: dict[str, tuple[int, ...]]) -> State:
    """The weights to ship, in bfloat16, from the official model's state.

    Raises:
        ValueError: names the weights that are missing, unexpected or of another shape.
    """
    problems = [
        name
        for name, shape in shapes.items()
        if name not in state or tuple(state[name].shape) != shape
    ]
    problems += [name for name in state if name.startswith("talker.") and name not in shapes]
    if problems:
        raise ValueError(f"weights missing, unexpected or of another shape: {sorted(problems)}")
    return {name: state[name].bfloat16().contiguous() for name in state if name in shapes}


def decoder_weights(state: State) -> State:
    """The codec decoder's weights in float16 under their official names."""
    return {f"decoder.{name}": value.half().contiguous() for name, value in state.items()}


def model_config() -> dict[str, Any]:
    """`config.json`."""
    common = {
        "attention_bias": False,
        "attention_dropout": 0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "initializer_range": 0.02,
        "use_sliding_window": False,
    }
    predictor = {
        **PREDICTOR,
        "model_type": "qwen3_tts_talker_code_predictor",
        **common,
        "layer_types": ["full_attention"] * PREDICTOR["num_hidden_layers"],
    }
    speakers = speaker_ids()
    talker = {
        **TALKER,
        "code_predictor_config": predictor,
        "model_type": "qwen3_tts_talker",
        "spk_id": speakers,
        "spk_is_dialect": dict.fromkeys(speakers, False),
        **common,
    }
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "tiny",
        "tts_model_type": "custom_voice",
        # Keys of this project's: no instruction was in the training; of 180 test sentences the
        # fastest has 0.72 frames a letter, the median 0.93; no longer text was trained;
        # figures as digits were never learnt well.
        "takes_instruct": False,
        "least_frames_per_letter": 0.7,
        "longest_chars": 300,
        "normalizes": True,
        "im_start_token_id": SPECIAL_TOKENS["<|im_start|>"],
        "im_end_token_id": SPECIAL_TOKENS["<|im_end|>"],
        "assistant_token_id": SPECIAL_TOKENS["assistant"],
        "tts_pad_token_id": SPECIAL_TOKENS["<tts_pad>"],
        "tts_bos_token_id": SPECIAL_TOKENS["<tts_text_bos>"],
        "tts_eos_token_id": SPECIAL_TOKENS["<tts_text_eod>"],
        "talker_config": talker,
    }


def generation_config(temperature: float, subtalker_temperature: float) -> dict[str, Any]:
    """`generation_config.json`."""
    return {
        "do_sample": True,
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": 50,
        "repetition_penalty": 1.0,
        "subtalker_dosample": True,
        "subtalker_temperature": subtalker_temperature,
        "subtalker_top_p": 1.0,
        "subtalker_top_k": 50,
        "max_new_tokens": MAX_FRAMES,
    }


def tokenizer_config() -> dict[str, Any]:
    """`tokenizer_config.json`: the tokens added to the 256 bytes."""
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    added = {
        str(token_id): {"content": token, **flags, "special": token.startswith("<")}
        for token, token_id in SPECIAL_TOKENS.items()
    }
    special = [token for token in SPECIAL_TOKENS if token.startswith("<")]
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": [token for token in special if token != "<|endoftext|>"],
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "model_max_length": MODEL_MAX_LENGTH,
        "split_special_tokens": False,
        "processor_class": "Qwen3TTSProcessor",
    }


def processor_config() -> dict[str, Any]:
    """`preprocessor_config.json`."""
    return {
        "padding_side": "left",
        "padding_value": 0.0,
        "processor_class": "Qwen3TTSProcessor",
        "return_attention_mask": True,
    }


def codec_config(decoder_dim: int = DECODER["decoder_dim"]) -> dict[str, Any]:
    """`speech_tokenizer/config.json`; the encoder it names is a token one and is not shipped."""
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": 16,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": {
            **DECODER,
            "decoder_dim": decoder_dim,
            "attention_dropout": 0.0,
            "hidden_act": "silu",
        },
        "encoder_config": ENCODER,
    }


def codec_processor_config() -> dict[str, Any]:
    """`speech_tokenizer/preprocessor_config.json`."""
    return {
        "chunk_length_s": None,
        "feature_extractor_type": "EncodecFeatureExtractor",
        "feature_size": 1,
        "overlap": None,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
        "sampling_rate": 24000,
    }


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write indented ASCII JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def write_checkpoint(
    talker: State, decoder: State, out: Path, temperature: float, subtalker_temperature: float
) -> None:
    """Write all files of a checkpoint.

    Args:
        talker: state of the official model; what is not the talker's is left out.
        decoder: state of the official codec decoder, without a prefix.
    """
    codec = out / "speech_tokenizer"
    codec.mkdir(parents=True, exist_ok=True)
    metadata = {"format": "pt"}
    save_file(talker_weights(talker, talker_shapes()), out / "model.safetensors", metadata)
    write_json(out / "config.json", model_config())
    settings = generation_config(temperature, subtalker_temperature)
    write_json(out / "generation_config.json", settings)
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())}
    write_json(out / "vocab.json", vocabulary)
    (out / "merges.txt").write_text("#version: 0.2\n")
    write_json(out / "tokenizer_config.json", tokenizer_config())
    write_json(out / "preprocessor_config.json", processor_config())
    save_file(decoder_weights(decoder), codec / "model.safetensors", metadata)
    width = decoder["decoder.0.conv.weight"].shape[0]  # today's voice has a narrower one
    write_json(codec / "config.json", codec_config(width))
    write_json(codec / "preprocessor_config.json", codec_processor_config())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("talker", type=Path, help="talker.pt from train.py")
    parser.add_argument("codec", type=Path, help="codec.pt from train.py")
    parser.add_argument("out", type=Path, help="checkpoint folder to write")
    parser.add_argument("--temperature", type=float, default=0.3, help="of the talker (0.3)")
    parser.add_argument(
        "--subtalker-temperature", type=float, default=0.05, help="of the code predictor (0.05)"
    )
    args = parser.parse_args()
    talker, decoder = (
        torch.load(path, weights_only=True, map_location="cpu")
        for path in (args.talker, args.codec)
    )
    write_checkpoint(talker, decoder, args.out, args.temperature, args.subtalker_temperature)
    size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"checkpoint {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
