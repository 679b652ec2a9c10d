"""The decoder of the official package's speech tokenizer, with given config and weights."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import official_package
from torch import Tensor

from models.qwen3_tts.tensors import UNUSED

CODEC = "qwen_tts.core.tokenizer_12hz"


def build(decoder_config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """A float32 `Qwen3TTSTokenizerV2Decoder` on the CPU.

    The tensors must be all it has, but for those that decoding does not use.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        official_package.load()
        configuration = importlib.import_module(f"{CODEC}.configuration_qwen3_tts_tokenizer_v2")
        modeling = importlib.import_module(f"{CODEC}.modeling_qwen3_tts_tokenizer_v2")
        config = configuration.Qwen3TTSTokenizerV2DecoderConfig(**decoder_config)
        decoder = modeling.Qwen3TTSTokenizerV2Decoder(config).float().eval()
    state = {name.removeprefix("decoder."): value.float() for name, value in tensors.items()}
    missing, unexpected = decoder.load_state_dict(state, strict=False)
    assert sorted(missing) == sorted(name.removeprefix("decoder.") for name in UNUSED), missing
    assert not unexpected, unexpected
    return decoder.requires_grad_(False)
