"""List the voices of a checkpoint, voice files and generated voices."""

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


class CheckpointVoices(NamedTuple):
    info: ModelInfo
    source: str  # name of the checkpoint
    accepted: str | None  # when its licence was accepted
    consent: str | None  # the same in words; None: no licence must be accepted
    folder: Path  # folder of voice files
    files: list[dict[str, Any]]


def checkpoint_voices(config: RunConfig) -> CheckpointVoices:
    info = read_info(config)
    licence = info.licence
    if config.accept_licence:
        require_consent(licence, config)
    own = VoiceStore(config.voice_dir)
    return CheckpointVoices(
        info,
        model_label(config.model),
        None if licence is None else accepted_on(licence),
        None if licence is None else describe_consent(licence),
        own.path,
        list_voices(own, info),
    )


def list_voices(folder: VoiceStore, info: ModelInfo) -> list[dict[str, Any]]:
    """Return every voice file, and why this checkpoint cannot use it."""
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


def generated_voices_in(out: Path) -> tuple[VoiceStore, list[dict[str, Any]]]:
    voices = VoiceStore(out=out)
    return voices, [generated_voice_facts(voice, *whole) for voice, whole in voices.generated()]


def generated_voice_facts(
    voice: str,
    made: GeneratedVoice | None,
    stored: Mapping[str, StoredVoice],
    problems: Sequence[str],
) -> dict[str, Any]:
    """Return the facts of a generated voice as JSON values, even if its files are incomplete."""
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
