"""Find the marks of audio files: Content Credentials and watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile

from tts_cli import signals
from tts_cli.audio.content_credentials import SOURCE_TYPE, read_credentials
from tts_cli.errors import SetupError
from tts_cli.extras import all_extras

DETECTED = 0.5  # score from which on a file has a watermark
MAX_SECONDS = 60.0  # of a file that are searched for a watermark


def found_marks(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the marks of each file. Raises SetupError if neither package is installed."""
    names = ("mark", "watermark")
    missing = [name for name in names if any(one.problem() for one in all_extras()[name].packages)]
    if len(missing) == len(names):
        raise SetupError("mark verify needs c2pa-python, resemble-perth or both", "install one")
    score = None
    if "watermark" not in missing:
        from tts_cli.audio.watermark import Watermark

        score = Watermark().score
    facts = []
    for file in files:
        signals.check()
        one: dict[str, Any] = {"path": str(file), "is_valid": False, "watermark": None}
        one["credentials_read"] = "mark" not in missing
        found = read_credentials(file) if one["credentials_read"] else None
        if found is not None:
            one |= {"is_valid": found.is_valid, "signer": found.signer}
            one |= {"is_trusted": found.is_trusted, "problems": list(found.problems)}
            one["is_generated"] = found.source_type == SOURCE_TYPE
        if score is not None and file.suffix != ".m4b":
            one["watermark"] = round(score(*_samples(file)), 3)
        one["is_marked"] = one["is_valid"] or (one["watermark"] or 0.0) >= DETECTED
        facts.append(one)
    return facts


def _samples(file: Path) -> tuple[Any, int]:
    with soundfile.SoundFile(file) as audio:
        block = audio.read(round(MAX_SECONDS * audio.samplerate), "float32", always_2d=True)
        return block[:, 0], audio.samplerate
