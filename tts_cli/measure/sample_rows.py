"""The fixed rows that `warmup` and `profile` run: the same text for everybody, so that figures
compare.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.base import Prompt, SpeechModel, SpeechRequest, Voice
from models.device.buckets import is_power_of_two
from tts_cli.errors import UsageError

TEXT = "The quick brown fox jumps over the lazy dog, and nobody minds."


def sample_prompts(model: SpeechModel, count: int, max_frames: int) -> list[Prompt]:
    """Prompts of equal length: the checkpoint's voices in turn, one seed each."""
    info = model.info
    voices = info.voices or (None,)
    instruct = "a calm voice" if info.needs_instruct else None
    clone = sample_clone(model) if info.needs_reference else None
    return [
        model.prompt(
            SpeechRequest(
                TEXT,
                voice=voices[row % len(voices)],
                instruct=instruct,
                sampling=info.sampling,
                seed=row,
                max_frames=max_frames,
                clone=clone,
            )
        )
        for row in range(count)
    ]


def sample_references(model: SpeechModel, count: int, seconds: float) -> list[torch.Tensor]:
    """Tones that stand for recordings, (n,) float32 each."""
    rate_hz = model.info.sample_rate_hz
    time_s = torch.arange(round(seconds * rate_hz)) / rate_hz
    return [0.3 * torch.sin(2 * torch.pi * (110 + 10 * row) * time_s) for row in range(count)]


def sample_clone(model: SpeechModel) -> Voice:
    """A voice for a Base checkpoint: the embedding of a tone, so that prompts are as long as those
    of other checkpoints.
    """
    embedding, _ = model.encode_voices(sample_references(model, 1, 2.0), ["xvec"])[0]
    return Voice(embedding.float().cpu(), None, None, "xvec", model.info.identity, "sample")


def parse_batches(text: str) -> list[int]:
    """`1,16,64` as a list of powers of two. Raises UsageError."""
    try:
        batches = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UsageError(
            f"--batches {text!r}: must be numbers with commas, such as 1,16,64"
        ) from None
    wrong = [batch for batch in batches if not is_power_of_two(batch) or batch > 1024]
    if wrong:
        raise UsageError(f"--batches: {wrong[0]} is not a power of two up to 1024")
    return batches


def parse_names(flag: str, text: str, known: Sequence[str]) -> list[str]:
    """`frame,vocoder` as a list of known names. Raises UsageError."""
    names = text.split(",")
    wrong = [name for name in names if name not in known]
    if wrong:
        raise UsageError(f"{flag}: {wrong[0]!r} is none of {', '.join(known)}")
    return names
