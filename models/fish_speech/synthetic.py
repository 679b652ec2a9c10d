"""Random weights in the released size, so that hardware can be judged before any download.

Sizes: the released `fishaudio/s2-pro`. End of speech is made unlikely, so rows run to their frame
cap and lengths are known in advance.
"""

from __future__ import annotations

import torch

from models.base import ModelInfo
from models.checkpoint.random import randomise
from models.decoder.config import TransformerConfig
from models.device.graphs import EAGER, cuda_capturers
from models.fish_speech.code_predictor import CodePredictor
from models.fish_speech.codec.config import CodecConfig
from models.fish_speech.codec.load import random_encoder, random_vocoder
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.loader import model_info
from models.fish_speech.model import FishSpeech
from models.fish_speech.talker import Talker

FIRST_TEXT_ID = 1000  # byte b of a text becomes id 1000 + b
MARKERS = {
    "<|im_start|>": 151644,
    "<|im_end|>": 151645,
    "<|voice|>": 151673,
    "system": 8948,
    "user": 872,
    "assistant": 77091,
}


def released_config(num_layers: int = 36, predictor_layers: int = 4) -> FishSpeechConfig:
    """The configuration of S2 Pro, with fewer layers where a test wants less."""
    talker = TransformerConfig(2560, 9728, num_layers, 32, 8, 128, 1e6, 1e-6, 32768)
    predictor = TransformerConfig(
        2560, 9728, predictor_layers, 32, 8, 128, 1e6, 1e-6, 11, has_qk_norm=False
    )
    return FishSpeechConfig(
        talker=talker,
        text_vocab_size=155776,
        predictor=predictor,
        num_codebooks=10,
        codebook_size=4096,
        semantic_start=151678,
        end=151645,
    )


def tokenize(text: str) -> list[int]:
    """Bytes as ids; the template's markers count as one id each, as in the released tokenizer."""
    ids: list[int] = []
    while text:
        for marker, value in MARKERS.items():
            if text.startswith(marker):
                ids.append(value)
                text = text[len(marker) :]
                break
        else:
            ids.extend(FIRST_TEXT_ID + byte for byte in text[0].encode())
            text = text[1:]
    return ids


def describe_synthetic(name: str) -> ModelInfo:
    """What the made-up checkpoint offers. Its weights are nobody's, so it has no licence."""
    info = model_info(released_config(), CodecConfig.released(), f"synthetic:{name}")
    return ModelInfo(**{**vars(info), "licence": None})


@torch.inference_mode()
def load_synthetic(
    name: str,
    device: torch.device,
    dtype: torch.dtype,
    use_graphs: bool,
    seed: int = 0,
    config: FishSpeechConfig | None = None,
) -> FishSpeech:
    """Draw the weights on the device; the same seed and device give the same weights.

    Args:
        config: another one than the released, for tests.
    """
    config = config or released_config()
    generator = torch.Generator(device).manual_seed(seed)
    codec = CodecConfig.released()
    with torch.device("meta"):
        networks = Talker(config), CodePredictor(config, codec.residual_codes)
    talker, predictor = (randomise(network, device, dtype, generator) for network in networks)
    talker.head.weight[config.eos] = 0
    vocoder = random_vocoder(device, dtype, generator)
    voices = random_encoder(device, generator)
    capturers = cuda_capturers(device) if use_graphs else EAGER
    info = describe_synthetic(name)
    return FishSpeech(config, info, tokenize, talker, predictor, vocoder, capturers, voices)
