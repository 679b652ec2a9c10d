"""Tasks as a plan makes them, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from models.base import SpeechRequest
from tts_cli.core import Piece, Row, Task


def task_of(row_id: str, request: SpeechRequest, number: int = 1, **more: Any) -> Task:
    """A task of one piece, of which nothing is known.

    Args:
        more: fields of the task, and `usual_s`, `least_frames`, `attempts_before` of the piece.
    """
    known = {name: more.pop(name) for name in [*more] if name in Piece.__dataclass_fields__}
    piece = Piece(request, (0, len(request.text)), **known)
    return Task(Row(number, number, row_id, request.text), request, (piece,), **more)


def joined_task(row_id: str, *requests: SpeechRequest, pause_s: float = 0.0, **more: Any) -> Task:
    """A task of pieces that are sentences of one text, a space between them.

    Args:
        more: fields of the task, and `usual_s` of each piece.
    """
    pieces, place, usual_s = [], 0, more.pop("usual_s", 0.0)
    for request in requests:
        end = place + len(request.text)
        piece = Piece(request, (place, end), "sentence", pause_after_s=pause_s, usual_s=usual_s)
        pieces.append(piece)
        place = end + 1
    pieces[-1] = replace(pieces[-1], boundary=None, pause_after_s=None)
    text = " ".join(request.text for request in requests)
    whole = replace(requests[0], text=text)
    return Task(Row(1, 1, row_id, text), whole, tuple(pieces), **more)
