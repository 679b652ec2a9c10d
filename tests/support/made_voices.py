"""Generated voices without synthesis: complete files of a recipe, in an output folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from spoken_folders import tone
from workbench import Workbench

from tts_cli.audio.file import encode_codes
from tts_cli.voices.voice_file import StoredVoice
from tts_cli.voices.voice_store import VoiceStore

NAME = "voice-0123456789ab"
VOICE = f".voices/{NAME}"
SAYS = "The boat left the harbor after five."
STORED = StoredVoice(
    embedding=np.zeros(1, np.float32),
    codes=np.arange(20, dtype=np.int16).reshape(5, 4),
    text=SAYS,
    mode="icl",
    identity="abc",
    model="fish_speech 4b dual_ar",
    sample_rate_hz=8000,
    reference="0" * 64,
    created_by="tts-cli 0.2.0",
)


def keep(
    out: Path, voice: str = VOICE, *, hz: float = 220.0, models: str = "a", **facts: Any
) -> Path:
    """Make a voice for the checkpoints of some identities. Returns the folder of voices.

    Args:
        hz: of what it says; another one is another voice.
        models: a letter each.
    """
    made = VoiceStore(out=out)
    of = {"character": "Ann", "description": None}
    codes = np.full((5, 4), int(hz), np.int16)
    known = {"of": of, "text": SAYS, "audio_s": 0.5, "created_by": "tts-cli 0.2.0", **facts}
    made.keep(voice, known, tone(0.5, hz=hz), encode_codes(codes))
    for identity in models:
        info: Any = SimpleNamespace(identity=identity)
        made.keep_for(info, voice, replace(STORED, codes=codes, identity=identity))
    assert made.out_folder is not None
    return made.out_folder


def names(out: Path) -> dict[str, bytes]:
    """Return the names of the files in the folder of voices."""
    return {path.name: path.read_bytes() for path in (out / ".voices").iterdir()}


def voice_files(bench: Workbench, out: str = "out") -> dict[str, bytes]:
    """The same in a folder that a workbench has written to, by their paths in it."""
    files = bench.out(out).files
    return {name: data for name, data in files.items() if name.startswith(".voices/")}
