"""Random weights in the released sizes, so that hardware can be judged before any download.

Sizes: the released checkpoints (reference: their config.json and tensor shapes). End of speech is
made unlikely, so rows run to their frame cap and lengths are known in advance.
"""

from __future__ import annotations

import torch

from models.base import ModelInfo
from models.checkpoint.random import by_fan_in, randomise
from models.decoder.config import TransformerConfig
from models.device.graphs import EAGER, cuda_capturers
from models.qwen3_tts.code_predictor import CodePredictor
from models.qwen3_tts.codec.speech_encoder import SpeechEncoder
from models.qwen3_tts.codec.speech_encoder_config import SpeechEncoderConfig
from models.qwen3_tts.codec.vocoder import Vocoder
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.qwen3_tts.codec.vocoder_weights import expected_shapes
from models.qwen3_tts.config import CodecIds, Qwen3TTSConfig, TextIds
from models.qwen3_tts.loader import model_info
from models.qwen3_tts.model import Qwen3TTS
from models.qwen3_tts.speaker import SpeakerEncoder
from models.qwen3_tts.speaker_config import SpeakerConfig
from models.qwen3_tts.talker import Talker
from models.qwen3_tts.voice_encoder import VoiceEncoder
from models.sampling import Sampling

BASE_SUFFIX = "-base"
WIDTHS = {"qwen3-tts-0.6b": ("0b6", 1024, 3072), "qwen3-tts-1.7b": ("1b7", 2048, 6144)}
NUM_CODEBOOKS = 16
CODEBOOK_SIZE = 2048
FIRST_TEXT_ID = 1000  # byte b of a text becomes id 1000 + b
LOUDNESS = 0.005  # of the vocoder's last convolution: samples of about 0.1


def config_for(name: str) -> Qwen3TTSConfig:
    """The configuration of a released CustomVoice size, with one made-up speaker, or Base size."""
    is_base = name.endswith(BASE_SUFFIX)
    size, width, mlp_width = WIDTHS[name.removesuffix(BASE_SUFFIX)]

    def transformer(width: int, mlp_width: int, num_layers: int) -> TransformerConfig:
        return TransformerConfig(width, mlp_width, num_layers, 16, 8, 128, 1e6, 1e-6, 32768)

    return Qwen3TTSConfig(
        model_type="base" if is_base else "custom_voice",
        model_size=size,
        talker=transformer(width, mlp_width, 28),
        vocab_size=3072,
        text_vocab_size=151936,
        text_width=2048,
        num_codebooks=NUM_CODEBOOKS,
        predictor=transformer(1024, 3072, 5),
        predictor_vocab_size=CODEBOOK_SIZE,
        codec=CodecIds(2148, 2149, 2150, 2154, 2155, 2156, 2157),
        text=TextIds(151671, 151672, 151673),
        languages={"english": 2050, "chinese": 2055},
        speakers={} if is_base else {"synthetic": 3066},
        dialects={},
        sampling=Sampling(),
        max_new_tokens=8192,
    )


def vocoder_config() -> VocoderConfig:
    """The released speech tokenizer's decoder."""
    return VocoderConfig(
        num_codebooks=NUM_CODEBOOKS,
        codebook_size=CODEBOOK_SIZE,
        codebook_dim=512,
        latent_dim=1024,
        width=512,
        mlp_width=1024,
        num_layers=8,
        num_heads=16,
        num_kv_heads=16,
        head_dim=64,
        window=72,
        rope_theta=10000.0,
        norm_eps=1e-5,
        max_frames=8000,
        upsampling_ratios=(2, 2),
        upsample_rates=(8, 5, 4, 3),
        decoder_dim=1536,
        sample_rate_hz=24000,
    )


def speaker_config(width: int) -> SpeakerConfig:
    """The released speaker encoder of a talker's width."""
    return SpeakerConfig(
        width=width,
        num_mels=128,
        channels=(512, 512, 512, 512, 1536),
        kernels=(5, 3, 3, 3, 1),
        dilations=(1, 2, 3, 4, 1),
        attention_width=128,
        scale=8,
        squeeze_width=128,
    )


def speech_encoder_config() -> SpeechEncoderConfig:
    """The released speech tokenizer's encoder."""
    return SpeechEncoderConfig(
        num_codebooks=NUM_CODEBOOKS,
        num_stored_codebooks=32,
        codebook_size=CODEBOOK_SIZE,
        codebook_dim=256,
        width=512,
        mlp_width=2048,
        num_layers=8,
        num_heads=8,
        num_kv_heads=8,
        head_dim=64,
        rope_theta=10000.0,
        norm_eps=1e-5,
        num_filters=64,
        kernel=7,
        residual_kernel=3,
        last_kernel=3,
        compress=2,
        strides=(4, 5, 6, 8),
        halving_kernel=4,
        sample_rate_hz=24000,
    )


def tokenize(text: str) -> list[int]:
    """Bytes as ids; the template's markers count as one id each, as in the released tokenizer."""
    markers = {"<|im_start|>": 151644, "<|im_end|>": 151645, "assistant": 77091, "user": 872}
    ids: list[int] = []
    while text:
        for marker, value in markers.items():
            if text.startswith(marker):
                ids.append(value)
                text = text[len(marker) :]
                break
        else:
            ids.extend(FIRST_TEXT_ID + byte for byte in text[0].encode())
            text = text[1:]
    return ids


def describe_synthetic(name: str) -> ModelInfo:
    """What the made-up checkpoint offers."""
    config = config_for(name)
    can_clone = config.model_type == "base"
    return model_info(config, vocoder_config(), f"synthetic:{name}", can_clone)


@torch.inference_mode()
def load_synthetic(
    name: str, device: torch.device, dtype: torch.dtype, use_graphs: bool, seed: int = 0
) -> Qwen3TTS:
    """Draw the weights on the device; the same seed and device give the same weights."""
    config = config_for(name)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.device("meta"):
        networks = Talker(config), CodePredictor(config)
    talker, predictor = (randomise(network, device, dtype, generator) for network in networks)
    talker.codec_head.weight[config.codec.eos] = 0
    vocoder = _vocoder(device, dtype, generator)
    voices = None
    if config.model_type == "base":
        voices = _voice_encoder(config.talker.width, device, dtype, generator)
    capturers = cuda_capturers(device) if use_graphs else EAGER
    info = describe_synthetic(name)
    return Qwen3TTS(config, info, tokenize, talker, predictor, vocoder, capturers, voices)


def _vocoder(device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Vocoder:
    """A vocoder of official tensors: scaled by fan-in, so that its samples are neither silent nor
    clipped.
    """
    config = vocoder_config()
    tensors = {
        name: by_fan_in(name, shape, device, generator)
        for name, shape in expected_shapes(config).items()
    }
    # The residual stream grows on its way; without this, all samples would be clipped.
    tensors["decoder.decoder.6.conv.weight"] *= LOUDNESS
    return Vocoder.from_state(config, tensors, device, dtype)


def _voice_encoder(
    width: int, device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> VoiceEncoder:
    """Both encoders, scaled by fan-in, so that signals neither vanish nor blow up."""
    with torch.device("meta"):
        shapes = SpeakerEncoder(speaker_config(width)).state_dict()
    tensors = {
        f"speaker_encoder.{name}": by_fan_in(name, value.shape, device, generator)
        for name, value in shapes.items()
    }
    speaker = SpeakerEncoder.from_state(speaker_config(width), tensors, dtype)
    with torch.device("meta"):
        speech = SpeechEncoder(speech_encoder_config())
    state = {
        name: by_fan_in(name, value.shape, device, generator)
        for name, value in speech.state_dict().items()
    }
    speech.load_state_dict(state, assign=True)
    return VoiceEncoder(speaker, speech.requires_grad_(False).eval())
