"""Add voices to tasks: the prompt thread reads recordings, and the engine encodes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, NamedTuple

from tts_cli.core import Task, VoiceKey
from tts_cli.errors import RowError
from tts_cli.voices.needs import Cloning

if TYPE_CHECKING:
    from models.base import Voice
    from tts_cli.voices.encoding import VoiceCache, VoiceFuture

MAX_WAITING = 256  # tasks that wait for their voices
WAIT_S = 0.2  # between two checks whether the run was stopped


class TaskWithVoice(NamedTuple):
    task: Task
    voice: Voice | None = None  # None: it clones none, or an error
    ticket: VoiceFuture | None = None  # of its recording, in the first task that names it
    error: str | None = None  # reason why the voice is missing


class VoiceLoader:
    """Add voices to tasks. Only the prompt thread uses it."""

    def __init__(self, cloning: Cloning, cache: VoiceCache) -> None:
        self.cloning = cloning
        self.cache = cache
        self.load_s = 0.0  # time of reading, checking and resampling

    def attach(
        self, tasks: Iterable[Task | TaskWithVoice | None], stop: threading.Event
    ) -> Iterator[TaskWithVoice]:
        """Yield tasks, those that clone as soon as their voices are encoded. Ends early when `stop`
        is set. None among `tasks` means that no task has come for a while, so those that wait are
        checked.
        """
        waiting: list[tuple[TaskWithVoice, VoiceFuture]] = []
        for task in tasks:
            if stop.is_set():
                return
            if task is None:
                yield from _finished(waiting, 0.0)
                continue
            if isinstance(task, TaskWithVoice):
                yield task
                continue
            if task.need is None:
                yield TaskWithVoice(task)
                continue
            found, ticket = self._begin(task, task.need)
            if ticket is None:
                yield found
            else:
                waiting.append((found, ticket))
            while waiting and not stop.is_set():
                is_full = len(waiting) >= MAX_WAITING or not self.cache.has_room
                yield from _finished(waiting, WAIT_S if is_full else 0.0)
                if not is_full:
                    break
        while waiting and not stop.is_set():
            yield from _finished(waiting, WAIT_S)

    def _begin(self, task: Task, need: VoiceKey) -> tuple[TaskWithVoice, VoiceFuture | None]:
        """Return a task, and the future of its voice, or None if the voice is known or in error."""
        try:
            voice = self.cloning.voice(task.request, need.digest)
        except RowError as error:
            return TaskWithVoice(task, error=str(error)), None
        if voice is not None:
            return TaskWithVoice(task, voice), None
        if (ticket := self.cache.find(need.digest)) is not None:
            return TaskWithVoice(task), ticket
        started_s = time.perf_counter()
        try:
            ticket = self.cache.submit(self.cloning.load(task.request, need.digest))
            found = TaskWithVoice(task, ticket=ticket)
        except RowError as error:
            ticket, found = self.cache.fail(need.digest, error), TaskWithVoice(task)
        self.load_s += time.perf_counter() - started_s
        return found, ticket


def _finished(
    waiting: list[tuple[TaskWithVoice, VoiceFuture]], timeout_s: float
) -> list[TaskWithVoice]:
    """Remove the tasks from `waiting` whose voices are encoded or failed. Return them."""
    if timeout_s:
        wait({ticket.voice for _, ticket in waiting}, timeout_s, FIRST_COMPLETED)
    done, rest = [], []
    for found, ticket in waiting:
        if not ticket.voice.done():
            rest.append((found, ticket))
        elif (error := ticket.voice.exception()) is not None:
            done.append(found._replace(error=str(error)))
        else:
            done.append(found._replace(voice=ticket.voice.result()))
    waiting[:] = rest
    return done
