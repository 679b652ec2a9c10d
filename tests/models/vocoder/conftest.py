from __future__ import annotations

import pytest
import torch
from tiny_qwen3_tts import write_checkpoint

from models.checkpoint.weights import read_tensors
from models.qwen3_tts.codec import Vocoder
from models.qwen3_tts.config import VocoderConfig


@pytest.fixture(scope="package")
def real(tmp_path_factory: pytest.TempPathFactory) -> Vocoder:
    """The tiny checkpoint's vocoder."""
    root = write_checkpoint(tmp_path_factory.mktemp("voice"), "custom_voice_wide")
    folder, cpu = root / "speech_tokenizer", torch.device("cpu")
    tensors = {k: v for k, v in read_tensors(folder, cpu).items() if k.startswith("decoder.")}
    return Vocoder.from_tensors(
        VocoderConfig.from_folder(folder), tensors, torch.float32, "speech tokenizer"
    )
