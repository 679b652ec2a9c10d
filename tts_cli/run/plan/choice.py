"""Whether the take that somebody chose still fits its row, which take a speech is to be, and how
many of them an earlier run has spoken already.
"""

from __future__ import annotations

import json
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from tts_cli.config import RunConfig
from tts_cli.output.journal import Journal
from tts_cli.output.record import EXTRA, HELD, OWN
from tts_cli.output.run_log import RunLog
from tts_cli.output.takes import Place

if TYPE_CHECKING:
    from models.base import SpeechRequest
    from tts_cli.voices.resolve import Need

Line = dict[str, Any]

_WHICH_ROWS = ("only", "shard", "limit")  # settings


def fits(line: Line, request: SpeechRequest, content: str, need: Need | None) -> bool:
    """Whether a recorded take is speech of what a row asks for now, drawn as it may be.

    Args:
        line: of the take. What is older than `content_hash` is compared by the fields it has.
        content: the row's `content_hash`.
    """
    if found := line.get("content_hash"):
        return bool(found == content)
    spoken = line.get("spoken_text")
    return (
        (line.get("text") if spoken is None else spoken) == request.text
        and line.get("voice") == request.voice
        and line.get("language") == request.language
        and line.get("instruct") == request.instruct
        and line.get("clone_mode") == request.clone_mode
        and line.get("ref_sha256") == (None if need is None else need.ref_sha256)
    )


def place_of(
    journal: Journal | None,
    row_id: str,
    *,
    is_in_place: bool,
    is_held: bool,
    has_extras: bool,
) -> Place:
    """Which take a row's own speech is to be.

    Args:
        is_in_place: the same speech is made again. What came out well keeps its number for good.
        is_held: it is to stay, whatever seed later runs have.
        has_extras: more takes are spoken of the row.
    """
    role = HELD if is_held else OWN
    top = 0 if journal is None else journal.top(row_id)
    if journal is None or (file := journal.file(row_id)) is None:
        is_free = journal is None or journal.status(row_id, 1) is None
        return Place(1 if is_free else top + 1, role, has_extras or top > 0)
    if is_in_place or not journal.was_spoken(row_id, file.take):
        return Place(file.take, role, has_extras or top > 1)
    # The number of one that only ever failed is free.
    return Place(top + journal.was_spoken(row_id, top), role, True)


def extra_places(
    journal: Journal | None, row_id: str, own: Place | None, extras: int
) -> list[Place]:
    """Which takes the further speeches of a row are to be: the first numbers that no line has, be
    they those of a run that was killed.

    Args:
        own: where its own goes; None: it is not spoken.
    """
    taken = 1 if own is None else own.take
    numbers = (
        take
        for take in count(2)
        if take != taken and (journal is None or journal.status(row_id, take) is None)
    )
    return [Place(take, EXTRA, True) for take in islice(numbers, extras)]


class ServedTakes:
    """Takes that a run for `--takes` has spoken that did not come to its end: the same command goes
    on with them. Behind one that did, it asks for as many more.
    """

    def __init__(self, config: RunConfig, journal: Journal) -> None:
        self._journal = journal
        self._most = config.takes
        self._ended: set[str] = set()
        self._since = ""  # when the last run began that was of these rows, or more, and has ended
        mine = json.loads(json.dumps(config.as_dict()))
        for run in RunLog(journal.path.parent).lines():
            settings = run.get("settings")
            if run.get("exit_code") not in (0, 1) or not isinstance(settings, dict):
                continue
            self._ended.add(str(run.get("run_id")))
            is_of_mine = all(settings.get(name) in (None, [], mine[name]) for name in _WHICH_ROWS)
            if settings.get("takes") and is_of_mine:
                self._since = max(self._since, str(run.get("started")))

    def count(self, row_id: str) -> int:
        """How many of a row's, as many as are asked for at most."""
        num_served = 0
        for take in range(self._journal.top(row_id), 1, -1):
            line = self._journal.line(row_id, take)
            num_served += line is not None and self._is_served(line)
        return min(num_served, self._most)

    def _is_served(self, line: Line) -> bool:
        run_id, started = line.get("run_id"), str(line.get("started") or "")
        is_extra = line.get("role") in (EXTRA, HELD)
        return is_extra and run_id not in (None, *self._ended) and started > self._since
