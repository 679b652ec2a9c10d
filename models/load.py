"""Loads the networks of a checkpoint. Stored and random tensors have the same official names, and
are handled alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.launch.dispatch import AUTO, Kernels
from models.checkpoint.weights import random_tensors, read_tensors
from models.family import Folder, MadeUp, NetworkPart, Source, describe, named, read
from models.slots.model import SpeechModel

SYNTHETIC_STD = 0.02  # of random weights: the usual initialization of the released configurations
LOUDNESS = 0.005  # of a random vocoder's last convolution: samples of about 0.1, none clipped


def load(
    source: Source,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    use_graphs: bool = False,
    kernels: Kernels | None = None,
) -> SpeechModel:
    """Load all networks onto a device. Arguments and errors are those of `registry.load_model`."""
    device = torch.device(device)
    dtype = dtype or (torch.bfloat16 if device.type == "cuda" else torch.float32)
    info, reader = describe(source), read(source)
    is_made_up = isinstance(source, MadeUp)
    networks = {}
    with torch.inference_mode(is_made_up):
        for part in source.parts:
            kind = torch.float32 if part.is_float32 else dtype
            tensors = _tensors(source, part, device, kind)
            what = f"{source.place}: {part.name}"
            network = named(part.network).from_tensors(part.config, tensors, kind, what)
            networks[part.name] = network
        if is_made_up:  # rows run to their frame cap, and samples are neither silent nor clipped
            networks["model"].talker.head.weight[source.config.main.eos] = 0
            networks["vocoder"].last_conv.weight *= LOUDNESS
    return named(source.family.model)(use_graphs, reader, info, networks, kernels or AUTO)


def _tensors(
    source: Source, part: NetworkPart, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Return all tensors of a part: stored ones, or random ones with a seed per part."""
    if isinstance(source, Folder):
        return read_tensors(source.folder / part.where, device, part.table.shapes.__contains__)
    seed = source.seed * len(source.parts) + source.parts.index(part)
    generator = torch.Generator(device).manual_seed(seed)
    if part.name == "model":
        return random_tensors(part.table, generator, dtype, SYNTHETIC_STD)
    return random_tensors(part.table, generator, torch.float32)
