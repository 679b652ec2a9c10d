"""List voices: of a checkpoint, in files, and made by runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from models.base import ModelInfo
from tts_cli.config import RunConfig
from tts_cli.errors import RowError
from tts_cli.plan.checkpoint import (
    accepted_on,
    describe_consent,
    model_label,
    read_info,
    require_consent,
)
from tts_cli.sources.ids import voice_label
from tts_cli.voices.generated import GeneratedVoice
from tts_cli.voices.voice_file import StoredVoice
from tts_cli.voices.voice_store import VoiceStore


class Offered(NamedTuple):
    """What a checkpoint can speak as."""

    info: ModelInfo
    source: str  # of the checkpoint
    accepted: str | None  # when its licence was
    consent: str | None  # that in words; None: it has no licence
    folder: Path  # of voice files
    files: list[dict[str, Any]]


def offered(config: RunConfig) -> Offered:
    """What the checkpoint can speak as. Raises UsageError, SetupError."""
    info = read_info(config)
    licence = info.licence
    if config.accept_licence:
        require_consent(licence, config)
    own = VoiceStore(config.voice_dir)
    return Offered(
        info,
        model_label(config.model),
        None if licence is None else accepted_on(licence),
        None if licence is None else describe_consent(licence),
        own.path,
        list_voices(own, info),
    )


def list_voices(folder: VoiceStore, info: ModelInfo) -> list[dict[str, Any]]:
    """Every voice file, and why this checkpoint cannot speak with it."""
    found: list[dict[str, Any]] = []
    for name in folder.names():
        try:
            stored = folder.load(name)
        except RowError as error:
            found.append({"name": name, "problem": str(error)})
            continue
        problem = stored.problem(info)
        if not info.can_clone:
            problem = f"a {info.type} checkpoint cannot clone"
        found.append({"name": name, "problem": problem, **stored.facts()})
    return found


def made_in(out: Path) -> tuple[VoiceStore, list[dict[str, Any]]]:
    """The voices that runs have made for an output folder. Raises SetupError."""
    voices = VoiceStore(out=out)
    return voices, [made_facts(voice, *whole) for voice, whole in voices.generated()]


def made_facts(
    voice: str,
    made: GeneratedVoice | None,
    stored: Mapping[str, StoredVoice],
    problems: Sequence[str],
) -> dict[str, Any]:
    """What a made voice is, as JSON can hold it; nothing of it need be whole."""
    gone = [] if made or problems else [f"{voice}.json does not exist"]
    return {
        "voice": voice,
        "name": voice_label(voice),
        "of": None if made is None else made.shown,
        "audio_s": None if made is None else made.audio_s,
        "says": None if made is None else made.text,
        "wav": None if made is None else str(made.path),
        "checkpoints": sorted({one.model for one in stored.values()}),
        "problem": "; ".join([*problems, *gone]) or None,
    }
