"""The fixed rows that `warmup` and `profile` run: the same text for everybody, so that figures
compare.
"""

from __future__ import annotations

from models.base import Prompt, SpeechModel, SpeechRequest
from models.buckets import is_power_of_two
from tts_cli.errors import UsageError

TEXT = "The quick brown fox jumps over the lazy dog, and nobody minds."


def sample_prompts(model: SpeechModel, count: int, max_frames: int) -> list[Prompt]:
    """Prompts of equal length: the checkpoint's voices in turn, one seed each."""
    info = model.info
    voices = info.voices or (None,)
    instruct = "a calm voice" if info.type == "voice_design" else None
    return [
        model.plan(
            SpeechRequest(
                TEXT,
                voice=voices[row % len(voices)],
                instruct=instruct,
                sampling=info.sampling,
                seed=row,
                max_frames=max_frames,
            )
        )
        for row in range(count)
    ]


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
