"""In bfloat16 our talker, code predictor and vocoder are as near to float32 as the official ones.

Same random weights, same inputs, 64 teacher-forced frames or random codes; the official package in
float32 is the truth for both. Where it is not installed these tests are skipped.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import official_package as official
import official_vocoder
import pytest
import tiny_qwen3_tts as tiny
import tiny_vocoder
import torch
from torch import Tensor

from models.registry import load_model

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not official.is_installed(), reason="needs the qwen-tts package"),
    pytest.mark.filterwarnings("ignore"),
]
NUM_FRAMES = 64
MOST = 1.1  # times the official error
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A talker of 12 layers x 512 and a code predictor of 5 layers x 256."""
    spec = replace(
        tiny.SPECS["custom_voice"],
        talker=tiny.Transformer(512, 1536, 12, 8, 4),
        predictor=tiny.Transformer(256, 768, 5, 4, 2),
        head_dim=64,
    )
    return tiny.write_checkpoint(tmp_path_factory.mktemp("rounding"), spec)


def talker_inputs(model: Any) -> Tensor:
    """(T, D) float32, but of bfloat16 values: sums of random codes' embeddings."""
    generator = torch.Generator().manual_seed(0)
    size, num_codebooks = model.config.predictor_vocab_size, model.config.num_codebooks
    codes = torch.randint(size, (NUM_FRAMES, num_codebooks), generator=generator)
    x = model.talker.embed_codec(codes[:, 0])
    for codebook in range(1, num_codebooks):
        x = x + model.predictor.embed(codes[:, codebook], codebook)
    return x.bfloat16().float()


@torch.inference_mode()
def official_logits(folder: Path, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """First-codebook logits (T, V) and the others' (T, K - 1, V) of the official modules.

    The code predictor reads rows of `x`, shifted, as its embeddings.
    """
    talker = official.load_model(folder).model.talker.to(x.device, dtype)
    length = x.shape[0]
    positions = torch.arange(length, device=x.device).expand(3, 1, -1)
    hidden = talker.model(
        inputs_embeds=x[None].to(dtype), position_ids=positions, use_cache=False
    ).last_hidden_state
    predictor = talker.code_predictor
    num_codebooks = len(predictor.lm_head) + 1
    frames = torch.stack([x.roll(shift, 0) for shift in range(num_codebooks)], 1).to(dtype)
    states = predictor.model(
        inputs_embeds=predictor.small_to_mtp_projection(frames), use_cache=False
    ).last_hidden_state
    rest = [head(states[:, index + 1]) for index, head in enumerate(predictor.lm_head)]
    return talker.codec_head(hidden)[0].float(), torch.stack(rest, 1).float()


@torch.inference_mode()
def our_logits(model: Any, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same of our modules, position by position over their caches."""
    length, num_codebooks = x.shape[0], model.config.num_codebooks
    model.allocate(length, length, length)
    x = x.to(dtype)
    first = []
    for position in range(length):
        at = torch.tensor([position], device=x.device)
        hidden = model.talker.decoder.run(x[position : position + 1].clone(), at)[0]
        first.append(model.talker.logits(hidden))
    predictor, rest = model.predictor, []
    for position in range(num_codebooks):
        at = torch.full((length,), position, device=x.device)
        hidden = predictor.decoder.run(predictor.project(x.roll(position, 0)), at)[0]
        if position:
            rest.append(predictor.logits(hidden, position))
    return torch.cat(first).float(), torch.stack(rest, 1).float()


@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_logits_are_as_near_to_float32(folder: Path, device: str) -> None:
    wide = load_model(str(folder), "cpu", torch.float32)
    x = talker_inputs(wide)
    truth = official_logits(folder, x, torch.float32)
    ours_wide = our_logits(wide, x, torch.float32)
    x = x.to(device)
    theirs = official_logits(folder, x, torch.bfloat16)
    ours = our_logits(load_model(str(folder), device, torch.bfloat16), x, torch.bfloat16)
    for name, true, same, ref, own in zip(
        ("talker", "code predictor"), truth, ours_wide, theirs, ours, strict=True
    ):
        assert float((same - true).norm() / true.norm()) < 1e-5, name
        errors = [float((each.cpu() - true).norm() / true.norm()) for each in (own, ref)]
        print(f"{device} {name}: ours {100 * errors[0]:.3f} %, official {100 * errors[1]:.3f} %")
        assert 1e-4 < errors[1] < 0.2, name
        assert errors[0] <= MOST * errors[1], (name, errors)


def snr_db(found: Tensor, true: Tensor) -> float:
    """Signal to error in decibels."""
    return float(20 * torch.log10(true.norm() / (found.cpu().float() - true).norm()))


@pytest.mark.parametrize("device", DEVICES)
@torch.inference_mode()
def test_bfloat16_samples_are_as_near_to_float32(device: str) -> None:
    """A vocoder of the released rates, 96 channels at its end like the released one on a GPU."""
    sizes: dict[str, Any] = {"decoder_dim": 1536 if device == "cuda" else 192, "latent_dim": 64}
    config = tiny_vocoder.config("released_rates", **sizes)
    tensors = tiny_vocoder.random_tensors(config, seed=5)
    values = tiny_vocoder.tokenizer_config("released_rates", **sizes)["decoder_config"]
    codes = tiny_vocoder.random_codes(config, 2, 60)
    official_decoder = official_vocoder.build(values, tensors)
    true = official_decoder(codes)[:, 0]
    codes = codes.to(device)
    theirs = official_decoder.to(device, torch.bfloat16)(codes)[:, 0]
    ours = tiny_vocoder.build(config, tensors, device, torch.bfloat16)(codes)
    figures = [snr_db(each, true) for each in (ours, theirs)]
    print(f"{device} vocoder: ours {figures[0]:.1f} dB, official {figures[1]:.1f} dB")
    assert 5 < figures[1] < 70
    assert figures[0] >= figures[1] - 0.5, figures
