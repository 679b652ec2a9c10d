"""The codec of the `fish-speech` package, and vLLM-Omni's, as oracles where they are on the path.

No product code uses them. Only their module trees and `encode`/`decode` are run, so packages for
training and audio files that are not installed are replaced by empty modules while they are
imported, and no package's `__init__` is executed.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.decoder.config import TransformerConfig
from models.dual_ar.config import CodecConfig


class _CodecMixin:
    """A stand-in for the class of descript-audio-codec, whose methods are for files and tools."""

    def get_delay(self) -> int:
        return 0


STAND_INS: dict[str, dict[str, Any]] = {  # module: what is imported from it
    "audiotools": {"AudioSignal": object},
    "audiotools.ml": {"BaseModel": nn.Module},
    "dac.model": {},
    "dac.model.base": {"CodecMixin": _CodecMixin},
    "hydra": {},
    "librosa": {},
    "omegaconf": {"OmegaConf": object},
}
PACKAGES = {  # oracle: packages whose folders hold its modules
    "fish_speech": ("fish_speech", "fish_speech.models", "fish_speech.models.dac", "dac", "dac.nn"),
    "vllm_omni": (
        "vllm_omni",
        "vllm_omni.model_executor",
        "vllm_omni.model_executor.models",
        "vllm_omni.model_executor.models.fish_speech",
    ),
}
ORACLES = tuple(PACKAGES)
NEEDED = {"fish_speech": ("fish_speech", "dac", "einops"), "vllm_omni": ("vllm_omni",)}


def is_installed(oracle: str = "fish_speech") -> bool:
    """Whether an oracle's code can be found; imports nothing."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED[oracle])


@contextmanager
def _bare_packages(oracle: str) -> Iterator[None]:
    """Packages as mere folders, and stand-ins for what is not installed."""
    modules: dict[str, types.ModuleType] = {}
    for name in PACKAGES[oracle]:
        top, _, rest = name.partition(".")
        spec = importlib.util.find_spec(top)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(next(iter(spec.submodule_search_locations)), *rest.split("."))
        modules[name] = types.ModuleType(name)
        modules[name].__path__ = [str(folder)]
    for name, values in STAND_INS.items() if oracle == "fish_speech" else ():
        modules[name] = types.ModuleType(name)
        vars(modules[name]).update(values)
        modules[name].__path__ = []
    for name, module in modules.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    before = set(sys.modules)
    sys.modules.update(modules)
    try:
        yield
    finally:
        tops = {name.partition(".")[0] for name in modules}
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in tops:
                del sys.modules[name]


def build(config: CodecConfig, tensors: dict[str, Tensor], oracle: str = "fish_speech") -> Any:
    """A float32 `DAC` on the CPU with the given tensors, which must be all of its parameters."""
    with warnings.catch_warnings(), _bare_packages(oracle):
        warnings.simplefilter("ignore")
        if oracle == "fish_speech":
            codec = importlib.import_module("fish_speech.models.dac.modded_dac")
            quantizer = importlib.import_module("fish_speech.models.dac.rvq")
        else:
            name = "vllm_omni.model_executor.models.fish_speech.dac_modules"
            codec = quantizer = importlib.import_module(name)
        dac = _dac(config, codec, quantizer)
    result = dac.load_state_dict(tensors, strict=False)
    stale = [name for name in result.missing_keys if name.endswith(("freqs_cis", "causal_mask"))]
    assert sorted(stale) == sorted(result.missing_keys), result.missing_keys
    assert not result.unexpected_keys, result.unexpected_keys
    return dac.float().eval().requires_grad_(False)


def _dac(config: CodecConfig, codec: Any, quantizer: Any) -> Any:
    def arguments(sizes: TransformerConfig, **unused: Any) -> Any:
        return codec.ModelArgs(
            block_size=sizes.max_positions,
            n_layer=sizes.num_layers,
            n_head=sizes.num_heads,
            dim=sizes.width,
            intermediate_size=sizes.mlp_width,
            head_dim=sizes.head_dim,
            rope_base=sizes.rope_theta,
            norm_eps=sizes.norm_eps,
            dropout_rate=0.0,
            attn_dropout_rate=0.0,
        )

    def frames() -> Any:
        return codec.WindowLimitedTransformer(
            config=arguments(config.frames),
            input_dim=config.latent_dim,
            window_size=config.frames.window,
        )

    blocks = [0] * (len(config.encoder_strides) - 1) + [config.steps.num_layers]
    dac = codec.DAC(
        encoder_dim=config.encoder_dim,
        encoder_rates=list(config.encoder_strides),
        decoder_dim=config.decoder_dim,
        decoder_rates=list(config.upsample_rates),
        quantizer=quantizer.DownsampleResidualVectorQuantize(
            input_dim=config.latent_dim,
            n_codebooks=config.num_codebooks - 1,
            codebook_dim=config.code_dim,
            quantizer_dropout=0.0,
            codebook_size=config.residual_codes,
            semantic_codebook_size=config.semantic_codes,
            downsample_factor=list(reversed(config.upsampling_ratios)),
            pre_module=frames(),
            post_module=frames(),
        ),
        sample_rate=config.sample_rate_hz,
        encoder_transformer_layers=blocks,
        decoder_transformer_layers=[0] * len(config.upsample_rates),
        transformer_general_config=lambda **values: arguments(config.steps, **values),
    )
    # Both are fixed in the official code, as 512 steps and four frames' worth of hops.
    dac.encoder.block[len(config.encoder_strides)].block[-1].window_size = config.steps.window
    dac.frame_length = config.samples_per_frame
    return dac


@torch.no_grad()
def decode(dac: Any, codes: Tensor) -> Tensor:
    """(B, K, F) to (B, F * samples_per_frame)."""
    samples, _ = dac.decode(codes.clone(), torch.full((len(codes),), codes.shape[2]))
    return samples[:, 0]


@torch.no_grad()
def encode(dac: Any, wave: Tensor) -> Tensor:
    """(n,) to (F, K)."""
    codes, _ = dac.encode(wave[None, None], torch.tensor([len(wave)]))
    return codes[0].t().contiguous()
