"""The hashes that tell whether a row is done: of the speech that was asked for, and of its
delivery.

`request_hash` covers all that reaches the model, `delivery_hash` what happens to the audio behind
it. `content_hash` tells whether a take that somebody chose still fits its row.

A field that is added to one of the dataclasses they cover carries, as `as_before` in its metadata,
the value that means what was done before there was the field. While it holds that value it is left
out, so that folders written before stay done:

    pace: float = field(default=1.0, metadata={"as_before": 1.0})
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.base import SpeechRequest
    from models.sampling import Sampling

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_SAMPLING = '"sampling":null'  # stands once: quotes inside of texts are escaped
_last: tuple[Sampling, str] | None = None


@dataclass(frozen=True)
class Delivery:
    """What is made of a row's samples."""

    format: str
    subtype: str
    rate_hz: int
    highpass_hz: float | None = field(default=None, metadata={"as_before": None})
    trim: str | None = field(default=None, metadata={"as_before": None})  # what is kept, how cut
    pad_s: tuple[float, float] | None = field(default=None, metadata={"as_before": None})
    # What is measured, the level, the highest true peak; a name such as ebu stands for them.
    level: tuple[str, float, float] | None = field(default=None, metadata={"as_before": None})


def request_hash(
    request: SpeechRequest,
    model: str,
    ref_digest: str | None = None,
    split: Mapping[str, float] | None = None,
) -> str:
    """What makes two requests the same speech.

    Args:
        request: of the first attempt, all settings resolved.
        model: `ModelInfo.identity`.
        ref_digest: of the reference or voice file that is cloned; takes the place of its path.
        split: how it is taken apart and joined; None: it is spoken in one.
    """
    return _hash_request(request, _request_values(request, model, ref_digest, split))


def content_hash(
    request: SpeechRequest,
    model: str,
    ref_digest: str | None = None,
    split: Mapping[str, float] | None = None,
) -> str:
    """What makes two requests speech of the same content, however it is drawn: all of
    `request_hash` but seed, sampling, cap and shapes.
    """
    values = _request_values(request, model, ref_digest, split)
    for name in ("seed", "sampling", "max_frames", "shapes"):
        values.pop(name, None)
    return _sha256(_encode(values))


def delivery_hash(delivery: Delivery) -> str:
    """What makes two files of the same speech the same."""
    return _sha256(_encode(_values(delivery)))


def _request_values(
    request: SpeechRequest,
    model: str,
    ref_digest: str | None,
    split: Mapping[str, float] | None,
) -> dict[str, Any]:
    values = _values(request)
    values["sampling"] = None  # for `_hash_request`
    del values["clone"]  # ref_digest says what it is made of
    if ref_digest is not None:
        values["ref_audio"] = ref_digest
    values["model"] = model
    if split is not None:
        values["split"] = dict(split)
    return values


def _values(settings: Any) -> dict[str, Any]:
    """A dataclass's fields by name, but for those that mean: as before."""
    values = dict(vars(settings))
    for name, value in _as_before(settings.__class__):
        if values[name] == value:
            del values[name]
    return values


@cache
def _as_before(settings: Hashable) -> tuple[tuple[str, Any], ...]:
    """The fields that may mean: as before, and the values by which they do."""
    found = ((entry.name, entry.metadata) for entry in fields(settings))  # type: ignore[arg-type]
    return tuple((name, about["as_before"]) for name, about in found if "as_before" in about)


def _hash_request(request: SpeechRequest, values: dict[str, Any]) -> str:
    sampling = f'"sampling":{_encode_sampling(request.sampling)}'
    return _sha256(_encode(values).replace(_SAMPLING, sampling, 1))


def _encode_sampling(sampling: Sampling) -> str:
    """JSON of settings that most rows share: half of all that is encoded for a row.

    The last ones are known again by identity: 1 and 1.0 are equal, but their hashes are not.
    """
    global _last
    known = _last
    if known is None or known[0] is not sampling:
        known = _last = (sampling, _encode(_values(sampling)))
    return known[1]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
