"""Offer values of settings: for completion in a shell, and those of a checkpoint.

Uses no torch and no network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from models.base import ModelInfo
from tts_cli.config import RunConfig
from tts_cli.core import Status
from tts_cli.errors import SetupError
from tts_cli.plain import open_plain
from tts_cli.plan.checkpoint import read_info
from tts_cli.setting import SAMPLING_FLAGS
from tts_cli.sources.ids import is_recorded_id
from tts_cli.store.entry import JournalEntry
from tts_cli.text.frontend import LANGUAGES
from tts_cli.voices.voice_store import VoiceStore

MAX_IDS = 200
MAX_JOURNAL_BYTES = 8 << 20


def checkpoint_settings(model: str | None) -> dict[str, Any]:
    """Return the settings of a checkpoint by name; empty if it is not on this machine."""
    if model is not None and not os.path.isdir(model):
        return {}
    try:
        info = read_info(RunConfig(model=model))
    except SetupError:
        return {}
    found = {name: getattr(info.sampling, name) for name in SAMPLING_FLAGS}
    return {**found, "voice": info.voices[0]} if info.voices else found


def completions(setting: str, given: Mapping[str, Any], start: str) -> list[str]:
    """Return the values of a setting that start with the typed text, ignoring letter case.

    Errors give an empty list, because a shell shows no messages on Tab. `given` has the other
    flags.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # only of this process, which ends after completion
    try:
        found = _OFFERS[setting](given, start)
        return [name for name in found if name.casefold().startswith(start.casefold())]
    except Exception:
        return []


def _info(given: Mapping[str, Any]) -> ModelInfo:
    return read_info(RunConfig(model=given.get("model"), revision=given.get("revision")))


def _voices(given: Mapping[str, Any], start: str) -> Iterator[str]:
    info = _info(given)
    if not info.takes_voice_files:
        yield from info.voices
    else:
        folder = given.get("voice_dir")
        yield from VoiceStore(None if folder is None else Path(folder)).names()


def _devices(given: Mapping[str, Any], start: str) -> Iterator[str]:
    yield from ("auto", "cpu")
    gpus = Path("/proc/driver/nvidia/gpus")
    count = len(list(gpus.iterdir())) if gpus.is_dir() else 0
    if count:
        yield "cuda"
    yield from (f"cuda:{number}" for number in range(count))


def _ids(given: Mapping[str, Any], start: str) -> Iterator[str]:
    out: Any = given.get("out")
    found: dict[str, None] = {}
    with open_plain(Path(out) / "timings.jsonl") as file:
        for line in file.read(MAX_JOURNAL_BYTES).splitlines():
            if (take := JournalEntry.decode(line)) is None:
                continue
            if take.status is Status.REMOVED:
                found.pop(take.id, None)
            elif is_recorded_id(take.id) and take.id.startswith(start):
                found[take.id] = None
            if len(found) >= MAX_IDS:
                break
    yield from found


_OFFERS: dict[str, Callable[[Mapping[str, Any], str], Iterable[str]]] = {
    "voice": _voices,
    "language": lambda given, _: _info(given).languages,
    "normalize": lambda *_: ("auto", "off", *LANGUAGES),
    "device": _devices,
    "verify_device": _devices,
    "only": _ids,
}
