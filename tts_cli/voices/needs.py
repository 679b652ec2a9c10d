"""Find the reference recording or the voice file of a row before weights are loaded.
`voice_loader.py` turns it into a voice during the run.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tts_cli.core import VoiceKey
from tts_cli.errors import RowError
from tts_cli.voices.recording import (
    Facts,
    Reference,
    hear,
    load_reference,
    read_facts,
    reference_digest,
    transcript_problem,
)
from tts_cli.voices.voice_store import VoiceStore

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest, Voice
    from tts_cli.config import RunConfig


T = TypeVar("T")

REMEMBERED_FILES = 4096
MAX_MADE_S, MAX_MADE_BYTES = 20.0, 400  # maximum of a generated voice's audio and text


def reference_silence_s(config: RunConfig, info: ModelInfo) -> float:
    """Return the seconds of silence after a reference in mode icl."""
    return info.ref_silence_s if config.ref_silence is None else config.ref_silence


class ReferenceFiles:
    """Facts about files by path, failures included. Each file is read once. References must be in
    `root`; None: in any folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root
        self._heard: OrderedDict[str, tuple[str, ...] | RowError] = OrderedDict()
        self._facts: OrderedDict[str, Facts | RowError] = OrderedDict()

    def heard(self, path: str) -> tuple[str, ...]:
        return self._remember(self._heard, path, hear)

    def facts(self, path: str) -> Facts:
        return self._remember(self._facts, path, read_facts)

    def _remember(
        self,
        known: OrderedDict[str, T | RowError],
        path: str,
        read: Callable[[str, Path | None], T],
    ) -> T:
        if path not in known:
            try:
                known[path] = read(path, self.root)
            except RowError as error:
                known[path] = error
            if len(known) > REMEMBERED_FILES:
                known.popitem(last=False)
        known.move_to_end(path)
        found = known[path]
        if isinstance(found, RowError):
            raise found.with_traceback(None)
        return found


class Cloning:
    """Finds what rows clone. Without `voices`, those are the user's, and no generated ones."""

    def __init__(
        self, config: RunConfig, info: ModelInfo, voices: VoiceStore | None = None
    ) -> None:
        self.info = info
        self.silence_s = reference_silence_s(config, info)
        self.files = ReferenceFiles(config.ref_root)
        self.voices = voices or VoiceStore(config.voice_dir)

    def need(self, request: SpeechRequest) -> VoiceKey | None:
        """Return what a request clones, or None. Raises RowError if that cannot be used."""
        if not self.info.can_clone:
            return None
        if request.ref_audio is None:
            return None if request.voice is None else self._stored(request.voice)
        facts = self.files.facts(request.ref_audio)
        mode, text = request.clone_mode or "xvec", request.ref_text
        digest = reference_digest(facts.content, mode, text, self.silence_s)
        if mode == "xvec":
            return VoiceKey(digest, 0, 0, facts.content)
        rate_hz = self.info.sample_rate_hz
        seconds = facts.header.most_seconds + self.silence_s
        frames = math.ceil((seconds * rate_hz + 2) / self.info.samples_per_frame)
        return VoiceKey(digest, frames, len((text or "").encode()), facts.content)

    def least(self, request: SpeechRequest) -> VoiceKey | None:
        """Return the least that a request needs, without reading a recording. Raises RowError."""
        if request.ref_audio is None or not self.info.can_clone:
            need = self.need(request)
            return VoiceKey("", 1, 1) if need is not None and not need.digest else need
        if request.clone_mode != "icl":
            return VoiceKey("", 0, 0)
        return VoiceKey("", 1, len((request.ref_text or "").encode()))

    def transcript_problem(self, path: str, text: str | None) -> str | None:
        """Return why a transcript cannot belong to a recording, or None. Raises RowError."""
        frames, rate_hz = (header := self.files.facts(path).header).frames, header.rate_hz
        if text is None or frames is None:
            return None
        return transcript_problem(text, frames / rate_hz)

    def voice(self, request: SpeechRequest, digest: str) -> Voice | None:
        """Return the voice of a request for the model, or None if a recording must be encoded.
        Raises RowError if its voice file was changed or is unusable.
        """
        if request.ref_audio is not None:
            return None
        name = request.voice or ""
        stored = self.voices.require(name, self.info)
        if stored.digest != digest:
            raise RowError(f"voice {name!r} was changed during the run")
        return stored.to_voice()

    def load(self, request: SpeechRequest, digest: str) -> Reference:
        reference = load_reference(
            request.ref_audio or "",
            self.files.root,
            mode=request.clone_mode or "xvec",
            text=request.ref_text,
            rate_hz=self.info.sample_rate_hz,
            silence_s=self.silence_s,
        )
        if reference.digest != digest:
            raise RowError(f"ref_audio {request.ref_audio!r} was changed during the run")
        return reference

    def _stored(self, name: str) -> VoiceKey:
        stored = self.voices.find(name, self.info)
        if stored is None:
            frames = math.ceil((MAX_MADE_S + self.silence_s) / self.info.frame_s) + 1
            return VoiceKey("", frames, MAX_MADE_BYTES)
        text_bytes = len((stored.text or "").encode())
        return VoiceKey(stored.digest, stored.num_frames, text_bytes, mode=stored.mode)
