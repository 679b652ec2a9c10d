"""Estimate the length of rows' audio, its size on disk, and the speed of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.audio.file import FORMATS
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.events import Event, Events
from tts_cli.store.run_file import RunLog, read_report
from tts_cli.text.pauses import has_pauses, sum_of_pauses
from tts_cli.text.words import SILENCE_S, usual_s

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest

MIN_PACE_S = 20.0  # seconds of expected audio before a folder's own pace is used


def estimate_plan(events: Events, config: RunConfig, info: ModelInfo) -> tuple[float, int]:
    """Return the seconds of audio that a plan will synthesize, and the bytes of its files."""
    audio_s = events.total(Event.PENDING, "audio_s") + events.total(Event.EXTRA_TAKES, "audio_s")
    if config.out is not None:
        audio_s *= measured_pace(config.out, info.identity) or 1.0
    num_files = events.num(Event.PENDING) + events.total(Event.EXTRA_TAKES, "takes")
    num_files += events.num(Event.REENCODE)
    all_s = audio_s + events.total(Event.REENCODE, "audio_s")
    return audio_s, estimate_disk_bytes(all_s, int(num_files), config, info)


def estimate_audio_s(request: SpeechRequest, info: ModelInfo, is_silent: bool = False) -> float:
    """Estimate the audio length of a row in seconds, never above its maximum."""
    if is_silent and has_pauses(request.text):
        return sum_of_pauses(request.text)
    text = request.text if info.pace is None else info.pace.without_markup(request.text)
    seconds = SILENCE_S if is_silent else usual_s(text)
    return min(seconds, request.max_frames * info.frame_s)


def estimate_disk_bytes(audio_s: float, rows: int, config: RunConfig, info: ModelInfo) -> int:
    """Estimate the bytes of `rows` files with `audio_s` seconds in all."""
    rate_hz = config.sample_rate or info.sample_rate_hz
    width = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4, "ULAW": 1, "ALAW": 1}[config.subtype]
    packed = 0.65 if config.format == "flac" else 1.0
    per_second = FORMATS[config.format].bytes_per_s or packed * rate_hz * width
    per_row = 4096 + 700  # a partly used block, a line of timings.jsonl
    if config.save_codes:
        per_row += 4096
        per_second += 2 * info.num_codebooks / info.frame_s
    return int(audio_s * per_second + rows * per_row)


def measured_xrt(out: Path) -> float | None:
    """Return the seconds of audio per second of the folder's last run, or None."""
    try:
        xrt = read_report(out)["totals"]["xrt"]
    except (OSError, SetupError, TypeError, KeyError):
        return None
    return float(xrt) if isinstance(xrt, (int, float)) and 0 < xrt < 1e9 else None


def measured_pace(out: Path, identity: str) -> float | None:
    """Return the audio per expected second of a model's runs; None: too little audio."""
    audio_s = expected_s = 0.0
    try:
        for line in RunLog(out).lines():
            totals = line.get("totals")
            if totals is not None and line.get("model", {}).get("identity") == identity:
                audio_s += float(totals["audio_s"])
                expected_s += float(totals["expected_s"])
    except (OSError, SetupError, TypeError, KeyError, ValueError):
        return None
    pace = audio_s / expected_s if expected_s >= MIN_PACE_S else 0.0
    return pace if 0.1 < pace < 10 else None
