"""The hashes of a request: `request_hash` covers everything that reaches the model; `content_hash`
tells whether a pinned take still fits its row. `Encoder.delivery_hash` is the third: of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tts_cli.hashing import encode, sha256_of, values_of

if TYPE_CHECKING:
    from models.base import SpeechRequest
    from models.sampling import Sampling

_SAMPLING = '"sampling":null'  # stands once: quotes inside of texts are escaped
_last: tuple[Sampling, str] | None = None


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
    return sha256_of(encode(values))


def _request_values(
    request: SpeechRequest,
    model: str,
    ref_digest: str | None,
    split: Mapping[str, float] | None,
) -> dict[str, Any]:
    values = values_of(request)
    values["sampling"] = None  # for `_hash_request`
    del values["clone"]  # ref_digest says what it is made of
    if ref_digest is not None:
        values["ref_audio"] = ref_digest
    values["model"] = model
    if split is not None:
        values["split"] = dict(split)
    return values


def _hash_request(request: SpeechRequest, values: dict[str, Any]) -> str:
    sampling = f'"sampling":{_encode_sampling(request.sampling)}'
    return sha256_of(encode(values).replace(_SAMPLING, sampling, 1))


def _encode_sampling(sampling: Sampling) -> str:
    """JSON of settings that most rows share: half of all that is encoded for a row.

    The last ones are known again by identity: 1 and 1.0 are equal, but their hashes are not.
    """
    global _last
    known = _last
    if known is None or known[0] is not sampling:
        known = _last = (sampling, encode(values_of(sampling)))
    return known[1]
