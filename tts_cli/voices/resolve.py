"""What a row's voice is made of: a reference recording or a voice file, known before a weight is
read, and turned into a voice while rows are spoken.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tts_cli.errors import RowError
from tts_cli.voices.folder import VoiceFolder
from tts_cli.voices.recording import (
    Facts,
    Header,
    Reference,
    load_reference,
    read_facts,
    read_header,
    reference_digest,
)

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest, Voice
    from tts_cli.config import RunConfig
    from tts_cli.voices.encode_queue import Ticket, VoiceCache

T = TypeVar("T")

REMEMBERED_FILES = 4096
MAX_WAITING = 256  # rows that wait for their voices
WAIT_S = 0.2  # between two looks at whether the run was stopped


@dataclass(frozen=True)
class Need:
    """The voice a row needs."""

    digest: str
    num_frames: int  # at most this many reference frames stand in its prompt
    num_bytes: int  # UTF-8 bytes of the transcript


def reference_silence_s(config: RunConfig, info: ModelInfo) -> float:
    """Seconds of silence that follow a reference of mode icl."""
    return info.ref_silence_s if config.ref_silence is None else config.ref_silence


class ReferenceFiles:
    """Remembers what was found out about files, failures included, by path.

    Args:
        root: the folder references must lie in; None for anywhere.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root
        self._headers: OrderedDict[str, Header | RowError] = OrderedDict()
        self._facts: OrderedDict[str, Facts | RowError] = OrderedDict()

    def header(self, path: str) -> Header:
        """`read_header`, once a path."""
        return self._remember(self._headers, path, read_header)

    def facts(self, path: str) -> Facts:
        """`read_facts`, once a path."""
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
    """Finds what rows clone.

    Args:
        info: the run's checkpoint.
    """

    def __init__(self, config: RunConfig, info: ModelInfo) -> None:
        self.info = info
        self.silence_s = reference_silence_s(config, info)
        self.files = ReferenceFiles(config.ref_root)
        self.folder = VoiceFolder(config.voices)

    def need(self, request: SpeechRequest) -> Need | None:
        """What a request clones, None where nothing.

        Raises:
            RowError: its reference or its voice file cannot be used.
        """
        if not self.info.can_clone:
            return None
        if request.ref_audio is None:
            return None if request.voice is None else self._stored(request.voice)
        facts = self.files.facts(request.ref_audio)
        mode, text = request.clone_mode or "xvec", request.ref_text
        digest = reference_digest(facts.content, mode, text, self.silence_s)
        if mode == "xvec":
            return Need(digest, 0, 0)
        rate_hz = self.info.sample_rate_hz
        seconds = facts.header.most_seconds + self.silence_s
        frames = math.ceil((seconds * rate_hz + 2) / self.info.samples_per_frame)
        return Need(digest, frames, len((text or "").encode()))

    def voice(self, name: str, digest: str) -> Voice:
        """A voice file as the model takes it. Raises RowError."""
        stored = self.folder.require(name, self.info)
        if stored.digest != digest:
            raise RowError(f"voice {name!r} was changed while the run was going")
        return stored.to_voice()

    def load(self, request: SpeechRequest, digest: str) -> Reference:
        """The recording of a request. Raises RowError."""
        assert request.ref_audio is not None
        reference = load_reference(
            request.ref_audio,
            self.files.root,
            mode=request.clone_mode or "xvec",
            text=request.ref_text,
            rate_hz=self.info.sample_rate_hz,
            silence_s=self.silence_s,
        )
        if reference.digest != digest:
            raise RowError(f"ref_audio {request.ref_audio!r} was changed while the run was going")
        return reference

    def _stored(self, name: str) -> Need:
        stored = self.folder.require(name, self.info)
        return Need(stored.digest, stored.num_frames, len((stored.text or "").encode()))


@dataclass(eq=False)
class VoicedRow:
    """A row with what it clones; `synthesis.PlannedRow` adds the rest."""

    id: str
    request: SpeechRequest
    hash: str
    need: Need | None = None
    problem: str | None = None  # why its voice could not be made
    encoding: Ticket | None = None  # the reference's, of the row that named it first


class VoiceStage:
    """Gives rows their voices: reads recordings in the planner's thread, while the engine encodes
    those read before.
    """

    def __init__(self, cloning: Cloning, cache: VoiceCache) -> None:
        self.cloning = cloning
        self.cache = cache
        self.load_s = 0.0  # reading, checking and resampling

    def attach(self, rows: Iterator[Any], stop: threading.Event) -> Iterator[Any]:
        """Pass rows on, those that clone with `request.clone` or `problem` set once their voice is
        there; the others, and what is no `VoicedRow`, at once. Ends early when `stop` is set.
        """
        waiting: list[tuple[VoicedRow, Ticket]] = []
        for row in rows:
            if not isinstance(row, VoicedRow) or row.need is None:
                yield row
                continue
            ticket = self._begin(row)
            if ticket is None:
                yield row
            else:
                waiting.append((row, ticket))
            while waiting and not stop.is_set():
                is_full = len(waiting) >= MAX_WAITING or not self.cache.has_room
                yield from self._finished(waiting, WAIT_S if is_full else 0.0)
                if not is_full:
                    break
        while waiting and not stop.is_set():
            yield from self._finished(waiting, WAIT_S)

    def _begin(self, row: VoicedRow) -> Ticket | None:
        """The ticket of a row's reference; None where its voice is known, or cannot be had."""
        request, need = row.request, row.need
        assert need is not None
        if request.ref_audio is None:
            try:
                voice = self.cloning.voice(request.voice or "", need.digest)
                row.request = replace(request, clone=voice)
            except RowError as error:
                row.problem = str(error)
            return None
        ticket = self.cache.find(need.digest)
        if ticket is None:
            started_s = time.perf_counter()
            try:
                reference = self.cloning.load(request, need.digest)
            except RowError as error:
                ticket = self.cache.fail(need.digest, error)
            else:
                ticket = row.encoding = self.cache.submit(reference)
            self.load_s += time.perf_counter() - started_s
        return ticket

    def _finished(
        self, waiting: list[tuple[VoicedRow, Ticket]], timeout_s: float
    ) -> list[VoicedRow]:
        """Take the rows whose voices are there out of `waiting`."""
        if timeout_s:
            wait({ticket.voice for _, ticket in waiting}, timeout_s, FIRST_COMPLETED)
        done, rest = [], []
        for row, ticket in waiting:
            if _settle(row, ticket):
                done.append(row)
            else:
                rest.append((row, ticket))
        waiting[:] = rest
        return done


def _settle(row: VoicedRow, ticket: Ticket) -> bool:
    """Give a row its voice or its problem; False if there is neither yet."""
    if not ticket.voice.done():
        return False
    error = ticket.voice.exception()
    if error is not None:
        row.problem = str(error)
    else:
        row.request = replace(row.request, clone=ticket.voice.result())
    return True
