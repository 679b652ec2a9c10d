"""From a manifest row to the request a model speaks: every setting resolved, none left to chance.

Precedence: the row, then the flag, then the checkpoint's generation_config.json, then the built-in
    default.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import TypeVar

from models.base import ModelInfo, Sampling, SpeechRequest
from tts_cli.config import RunConfig
from tts_cli.manifest.row import Row

SECONDS_PER_BYTE = 0.075  # of UTF-8: typical speech, in English and Chinese alike
# A row's cap when neither row nor flag gives one: three times that is a runaway.
CAP_S = 5.12
CAP_S_PER_BYTE = 0.24

Value = TypeVar("Value")


def usual_s(text: str) -> float:
    """Seconds that speech of a text usually takes."""
    return SECONDS_PER_BYTE * len(text.encode())


def build_request(row: Row, config: RunConfig, info: ModelInfo) -> SpeechRequest:
    """Resolve one row."""
    voice = row.voice
    if voice is None and row.ref_audio is None:
        voice = config.voice
    if voice is None and info.voices:
        voice = info.voices[0]
    seed = row.seed if row.seed is not None else row_seed(config.seed, row.id)
    return SpeechRequest(
        text=row.text,
        voice=voice,
        language=row.language or config.language,
        instruct=row.instruct,
        layout=config.layout,
        sampling=build_sampling(row, config, info.sampling),
        seed=seed,
        max_frames=frame_cap(row, config, info),
        ref_audio=row.ref_audio,
        ref_text=row.ref_text,
        clone_mode=row.clone_mode,
    )


def row_seed(run_seed: int, row_id: str) -> int:
    """The seed of a row that names none: 63 bits of a hash of run seed and id."""
    digest = hashlib.sha256(f"{run_seed}\n{row_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def retry_request(request: SpeechRequest, attempt: int) -> SpeechRequest:
    """The request of attempt 2, 3, ...: the same but for a seed derived from the first one's."""
    return replace(request, seed=row_seed(request.seed, f"attempt {attempt}"))


def build_sampling(row: Row, config: RunConfig, defaults: Sampling) -> Sampling:
    """The row's sampling settings; `greedy` holds for all codebooks unless subtalker_greedy says
    otherwise.
    """
    names = [field.name for field in fields(Sampling) if not field.name.endswith("greedy")]
    values = {
        name: first(getattr(row, name), getattr(config, name), getattr(defaults, name))
        for name in names
    }
    is_greedy = first(row.greedy, True if config.greedy else None, defaults.greedy)
    is_rest_greedy = first(
        row.subtalker_greedy, row.greedy, True if config.greedy else None, defaults.subtalker_greedy
    )
    return replace(defaults, **values, greedy=is_greedy, subtalker_greedy=is_rest_greedy)


def frame_cap(row: Row, config: RunConfig, info: ModelInfo) -> int:
    """Frames the row may keep."""
    if row.max_frames is not None:
        return row.max_frames
    seconds = row.max_seconds if row.max_seconds is not None else config.max_seconds
    if seconds is not None:
        return max(1, int(seconds / info.frame_s + 1e-6))
    cap_s = CAP_S + CAP_S_PER_BYTE * len(row.text.encode())
    return min(info.max_frames, round(cap_s / info.frame_s))


def first(*values: Value | None) -> Value:
    """The first value that is given."""
    return next(value for value in values if value is not None)
