"""Rows get their voices on the way to the engine: recordings are read in the thread that makes
prompts, while the engine encodes those read before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from typing import TYPE_CHECKING

from tts_cli.core import Need, SpeechRow
from tts_cli.errors import RowError
from tts_cli.voices.needs import Cloning

if TYPE_CHECKING:
    from tts_cli.voices.encoding import Ticket, VoiceCache

MAX_WAITING = 256  # rows that wait for their voices
WAIT_S = 0.2  # between two looks at whether the run was stopped


class VoiceStage:
    """Gives rows their voices. Belongs to the thread that makes prompts."""

    def __init__(self, cloning: Cloning, cache: VoiceCache) -> None:
        self.cloning = cloning
        self.cache = cache
        self.load_s = 0.0  # reading, checking and resampling

    def attach(
        self, rows: Iterable[SpeechRow | None], stop: threading.Event
    ) -> Iterator[SpeechRow]:
        """Pass rows on, those that clone with `request.clone` or `error` set once their voice is
        there, the others at once. Ends early when `stop` is set.

        Args:
            rows: None among them: no row has come for a while, so look after those that wait.
        """
        waiting: list[tuple[SpeechRow, Ticket]] = []
        for row in rows:
            if row is None:
                yield from self._finished(waiting, 0.0)
                continue
            if row.need is None:
                yield row
                continue
            ticket = self._begin(row, row.need)
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

    def _begin(self, row: SpeechRow, need: Need) -> Ticket | None:
        """The ticket of a row's reference; None where its voice is known, or cannot be had."""
        request = row.request
        try:
            voice = self.cloning.voice(request, need.digest)
        except RowError as error:
            row.error = str(error)
            return None
        if voice is not None:
            row.request = replace(request, clone=voice)
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
        self, waiting: list[tuple[SpeechRow, Ticket]], timeout_s: float
    ) -> list[SpeechRow]:
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


def _settle(row: SpeechRow, ticket: Ticket) -> bool:
    """Give a row its voice or its problem; False if there is neither yet."""
    if not ticket.voice.done():
        return False
    error = ticket.voice.exception()
    if error is not None:
        row.error = str(error)
    else:
        row.request = replace(row.request, clone=ticket.voice.result())
    return True
