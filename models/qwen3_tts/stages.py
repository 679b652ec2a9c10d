"""The parts of a frame and of a run as separately timed stages, with modelled bytes and operations.

The model counts what must be moved and computed at least: every weight once a pass, the keys and
values a row attends to, two operations a multiply-add. Activations, which caches hold, are left
out, so achieved rates read a little low.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from models.timing import Stage
from models.transformer import TransformerConfig

if TYPE_CHECKING:
    from models.qwen3_tts.model import Qwen3TTS


def cache_bytes_a_position(shape: TransformerConfig, itemsize: int) -> int:
    """Keys and values of one position in all layers."""
    return 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * itemsize


def frame_stages(model: Qwen3TTS, batch: int, position: int) -> list[Stage]:
    """Stages of one frame for slots 0..batch-1 that stand at `position`.

    The draws of the other codebooks are part of the code predictor; the last stage times all
    draws of a frame alone, to show what they cost.
    """
    config, itemsize = model.config, model.dtype.itemsize
    talker, predictor = config.talker, config.predictor
    num_rest = config.num_codebooks - 1
    talker_weights = talker.num_weights + config.vocab_size * talker.width
    head = config.predictor_vocab_size * predictor.width
    projection = talker.width * predictor.width if model.predictor.projection is not None else 0
    pass_weights = predictor.num_weights + head + projection
    cache = batch * position * cache_bytes_a_position(talker, itemsize)
    attention = 4 * batch * position * talker.num_layers * talker.num_heads * talker.head_dim
    logits = torch.randn(batch, config.vocab_size, device=model.device).to(model.dtype)
    rest = torch.randn(batch, config.predictor_vocab_size, device=model.device).to(model.dtype)

    def sample() -> None:
        model.draw_first(batch, logits)
        _, hints = model._hints(batch)
        slots = model.slots
        uniform = model.sampling.draws(slice(0, batch), slots.frame[:batch], num_rest + 1)
        for codebook in range(1, num_rest + 1):
            model.sampling.rest(
                batch, rest, uniform[:, codebook], hints, slots.work[:batch, codebook]
            )

    predictor_ops = 2 * batch * (num_rest * pass_weights + predictor.num_weights + projection)
    return [
        Stage(
            "code predictor",
            lambda: model.predict(batch),
            itemsize * num_rest * pass_weights,
            predictor_ops,
        ),
        Stage(
            "talker",
            lambda: model.step(batch),
            itemsize * talker_weights + cache,
            2 * batch * talker_weights + attention,
        ),
        Stage(
            "sampling (of both)",
            sample,
            itemsize * batch * (config.vocab_size + num_rest * config.predictor_vocab_size),
            0,
        ),
    ]
