"""Voices to clone, encoded by our own model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from models.base import SpeechRequest, Voice
from models.slots.model import SpeechModel


def encode(model: SpeechModel, wave: Tensor, text: str | None = None) -> Voice:
    """A voice of one reference; with a text it is cloned in context."""
    mode = "xvec" if text is None else "icl"
    ((embedding, codes),) = model.encode_voices([wave], [mode])
    return as_voice(model, embedding, codes, text)


def as_voice(
    model: SpeechModel, embedding: Tensor, codes: Tensor | None, text: str | None = None
) -> Voice:
    """A voice of given vectors and codes."""
    return Voice(
        embedding=embedding.float().cpu().clone(),
        codes=None if codes is None else codes.long().cpu().clone(),
        text=text,
        mode="xvec" if codes is None else "icl",
        identity=model.info.identity,
        digest=f"{hash(embedding.sum().item())}{text}",
    )


def random_voice(model: SpeechModel, width: int, frames: int, codebook_size: int) -> Voice:
    """Return a random voice for cloning in context."""
    codes = torch.randint(0, codebook_size, (frames, model.info.num_codebooks))
    return as_voice(model, torch.randn(width), codes, "what it says")


def cloned(model: Any, rows: list[SpeechRequest], frames: int) -> list[SpeechRequest]:
    """Return rows in turn behind a short reference, one of so many frames, and a vector alone."""
    width = model.config.talker.width
    voices = [random_voice(model, width, length, 64) for length in (9, frames)]
    voices.append(as_voice(model, torch.randn(width), None))
    return [replace(row, clone=voices[row.seed % 3]) for row in rows]
