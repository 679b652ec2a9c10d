"""The parts of a frame as separately timed stages, with modelled bytes and operations.

The model counts what must be moved and computed at least: every weight once a pass, the keys and
values a row attends to, two operations a multiply-add. Activations, which caches hold, are left
out, so achieved rates read a little low.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from models.decoder.kv_cache import cache_bytes
from models.device.spans import Stage
from models.slots.runner import FrameModel


def frame_stages(model: FrameModel, batch: int, position: int) -> list[Stage]:
    """Stages of one frame for slots 0..batch-1 that stand at `position`.

    The draws of the other codebooks are part of the code predictor; the last stage times all
    draws of a frame alone, to show what they cost.
    """
    num_first, num_codes = len(model.talker.head.weight), model.predictor.heads.weight.shape[1]
    projection = model.predictor.projection_weights
    config, itemsize = model.config, model.dtype.itemsize
    talker, predictor = config.talker, config.predictor
    num_rest = config.num_codebooks - 1
    talker_weights = talker.num_weights + num_first * talker.width
    pass_weights = predictor.num_weights + num_codes * predictor.width + projection
    cache = batch * cache_bytes(talker, position, model.dtype)
    attention = 4 * batch * position * talker.num_layers * talker.num_heads * talker.head_dim
    logits = torch.randn(batch, num_first, device=model.device).to(model.dtype)
    rest = torch.randn(batch, num_codes, device=model.device).to(model.dtype)

    def sample() -> None:
        model.draw_first(batch, logits)
        slots = model.slots
        uniform = model.sampling.draws(slice(0, batch), slots.frame[:batch], num_rest + 1)
        for codebook in range(1, num_rest + 1):
            out = slots.work[:batch, codebook]
            model.sampling.rest(batch, rest, uniform[:, codebook], out)

    def in_frame(run: Callable[[], object]) -> Callable[[], None]:
        def limited() -> None:
            with model.frame_threads(batch):
                run()

        return limited

    return [
        Stage(
            "code predictor",
            in_frame(lambda: model.predict(batch)),
            itemsize * num_rest * pass_weights,
            2 * batch * (num_rest * pass_weights + predictor.num_weights + projection),
        ),
        Stage(
            "talker",
            in_frame(lambda: model.step(batch)),
            itemsize * talker_weights + cache,
            2 * batch * talker_weights + attention,
        ),
        Stage(
            "sampling (of both)",
            in_frame(sample),
            itemsize * batch * (num_first + num_rest * num_codes),
            0,
        ),
    ]
