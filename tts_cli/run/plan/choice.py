"""Whether the take that somebody chose still fits its row, and which take a speech is to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tts_cli.output.journal import Journal
from tts_cli.output.record import EXTRA, HELD, OWN
from tts_cli.output.takes import Place

if TYPE_CHECKING:
    from models.base import SpeechRequest
    from tts_cli.voices.resolve import Need

Line = dict[str, Any]


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
        is_in_place: the same speech is made again, or there is none that could be replaced.
        is_held: it is to stay, whatever seed later runs have.
        has_extras: more takes are spoken of the row.
    """
    role = HELD if is_held else OWN
    top = 0 if journal is None else journal.top(row_id)
    if journal is None or (file := journal.file(row_id)) is None:
        is_free = journal is None or journal.status(row_id, 1) is None
        return Place(1 if is_free else top + 1, role, has_extras or top > 0)
    if is_in_place or journal.status(row_id, file.take) != "ok":
        return Place(file.take, role, has_extras or top > 1)
    # The number of one that failed is free.
    return Place(top if journal.status(row_id, top) == "failed" else top + 1, role, True)


def extra_places(
    journal: Journal | None, row_id: str, own: Place | None, extras: int
) -> list[Place]:
    """Which takes the further speeches of a row are to be.

    Args:
        own: where its own goes; None: it is not spoken.
    """
    first = 1 + max(1 if own is None else own.take, 0 if journal is None else journal.top(row_id))
    return [Place(first + number, EXTRA, True) for number in range(extras)]
