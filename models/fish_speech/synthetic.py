"""Random weights in the released size, so that hardware can be judged before any download.

Sizes: the released `fishaudio/s2-pro`. End of speech is made unlikely, so rows run to their frame
cap and lengths are known in advance.
"""

from __future__ import annotations

import torch

from models.base import Prompts
from models.checkpoint.random import byte_tokenizer, randomise
from models.device.graphs import EAGER, cuda_capturers
from models.fish_speech.code_predictor import FishCodePredictor
from models.fish_speech.codec.config import CodecConfig
from models.fish_speech.codec.load import random_encoder, random_vocoder
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.info import describe_synthetic
from models.fish_speech.model import FishSpeech
from models.fish_speech.prompt import prompt_builder
from models.fish_speech.talker import FishTalker

tokenize = byte_tokenizer(
    {
        "<|im_start|>": 151644,
        "<|im_end|>": 151645,
        "<|voice|>": 151673,
        "system": 8948,
        "user": 872,
        "assistant": 77091,
    }
)


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
    config = config or FishSpeechConfig.released()
    generator = torch.Generator(device).manual_seed(seed)
    codec = CodecConfig.released()
    with torch.device("meta"):
        talker, predictor = FishTalker(config), FishCodePredictor(config, codec.residual_codes)
    for network in (talker, predictor):
        randomise(network, device, dtype, generator)
    talker.head.weight[config.eos] = 0
    vocoder = random_vocoder(device, dtype, generator)
    voices = random_encoder(device, generator)
    capturers = cuda_capturers(device) if use_graphs else EAGER
    info = describe_synthetic(name)
    return FishSpeech(config, info, tokenize, talker, predictor, vocoder, capturers, voices)


def prompts(name: str) -> Prompts:
    """What lays requests out."""
    config = FishSpeechConfig.released()
    return prompt_builder(config, tokenize), config.talker.width, config.num_codebooks
