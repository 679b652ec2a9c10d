"""The anchor: one row whose speech is the reference of all rows that nothing else gives a voice.

Codes that were kept of it are the reference as it stands: nothing is encoded again, and no format
or rate of the audio file changes them. Without them its audio file is a recording like any other.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.errors import RowError
from tts_cli.voices.recording import MAX_SECONDS, MIN_SECONDS, read_facts, reference_digest
from tts_cli.voices.resolve import Need

if TYPE_CHECKING:
    import numpy as np

    from models.base import ModelInfo, SpeechRequest, Voice


@dataclass(frozen=True, eq=False)
class Anchor:
    """The anchor's speech, or what is known of it before there is any."""

    id: str
    path: str  # of its audio file; what rows that clone it have for `ref_audio`
    text: str  # what it says
    need: Need  # of rows that clone it; no digest: it is still to be spoken
    codes: np.ndarray[Any, Any] | None = None  # (F, K) int16; None: its audio is encoded

    @property
    def is_spoken(self) -> bool:
        """Whether there is speech to clone."""
        return bool(self.need.digest)

    def given_to(self, request: SpeechRequest) -> SpeechRequest:
        """The request of a row that is to have its voice."""
        return replace(request, ref_audio=self.path, ref_text=self.text, clone_mode="icl")

    def is_voice_of(self, request: SpeechRequest) -> bool:
        """Whether a request was given it."""
        given = (request.ref_audio, request.ref_text, request.clone_mode)
        return given == (self.path, self.text, "icl")

    @property
    def least(self) -> Need:
        """What rows that clone it are certain to need."""
        return self.need if self.is_spoken else replace(self.need, num_frames=1)

    def voice(self, info: ModelInfo) -> Voice | None:
        """The voice in the kept codes; None where there are none."""
        if self.codes is None:
            return None
        import torch

        from models.base import Voice

        codes = torch.from_numpy(self.codes.astype("int64"))
        return Voice(torch.zeros(0), codes, self.text, "icl", info.identity, self.need.digest)


def unspoken_anchor(row_id: str, path: Path, text: str, max_frames: int, info: ModelInfo) -> Anchor:
    """An anchor that is to be spoken, with the most that rows can need of it."""
    frames = min(max_frames, math.ceil(MAX_SECONDS / info.frame_s))
    return Anchor(row_id, str(path), text, Need("", frames, len(text.encode())))


def read_anchor(
    row_id: str, path: Path, codes_path: Path | None, text: str, info: ModelInfo, silence_s: float
) -> Anchor:
    """An anchor that was spoken.

    Args:
        path, codes_path: of its audio, and of its codes, which need not be there; None: its audio
            is encoded.
        text: what it says.
        silence_s: seconds behind a recording that is encoded.
    Raises:
        RowError: it is no reference.
    """
    if codes_path is not None and codes_path.is_file():
        codes = read_codes(codes_path, info)
        _check_length(len(codes) * info.frame_s)
        content = json.dumps([codes.shape, text, info.identity]).encode() + codes.tobytes()
        need = Need(hashlib.sha256(content).hexdigest(), len(codes), len(text.encode()))
        return Anchor(row_id, str(path), text, need, codes)
    facts = read_facts(str(path))
    seconds = facts.header.most_seconds + silence_s
    frames = math.ceil((seconds * info.sample_rate_hz + 2) / info.samples_per_frame)
    digest = reference_digest(facts.content, "icl", text, silence_s)
    need = Need(digest, frames, len(text.encode()), facts.content)
    return Anchor(row_id, str(path), text, need)


def _check_length(seconds: float) -> None:
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise RowError(
            f"lasts {seconds:.2f} s; {MIN_SECONDS:g} to {MAX_SECONDS:g} s are taken for a reference"
        )


def read_codes(path: Path, info: ModelInfo) -> np.ndarray[Any, Any]:
    """(F, K) int16, F >= 1. Raises RowError."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        codes = load(path.read_bytes())["codes"]
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RowError(f"has codes that cannot be read ({path.name}): {error}") from None
    if codes.dtype != np.int16 or codes.ndim != 2 or codes.shape[1] != info.num_codebooks:
        raise RowError(f"has codes of another kind than (frames, {info.num_codebooks}) int16")
    if not codes.size or codes.min() < 0:
        raise RowError("has codes below 0, or none")
    return np.ascontiguousarray(codes)
