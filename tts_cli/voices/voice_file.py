"""Voice files: `NAME.voice.safetensors`, checked as a whole and bound to a checkpoint.

The tensors are `embedding` (D,) float32 and, for icl, `codes` (R, K) int16. The metadata has the
checkpoint, mode, transcript and recording, and a hash of everything, so that a damaged or edited
file is found before it is used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field
from safetensors import SafetensorError
from safetensors.numpy import load

from models.base import Voice
from tts_cli.errors import RowError
from tts_cli.named import shown
from tts_cli.sources.mapping import MAX_NAME_CHARS
from tts_cli.sources.row import MAX_TEXT_CHARS

if TYPE_CHECKING:
    from models.base import ModelInfo

FORMAT, VERSION = "tts-cli voice", "1"
SUFFIX = ".voice.safetensors"
MAX_FILE_BYTES = 4 * 2**20
MAX_WIDTH = 65_536
_MAX_HEADER_BYTES = 2**20
_TYPES = {"embedding": ("float32", 1), "codes": ("int16", 2)}  # tensor -> dtype and dimensions
_TAGS = {"float32": "F32", "int16": "I16"}
_REMEDY = "make it again with `tts-cli voices add --overwrite`"


_Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]


class _Metadata(Struct):
    mode: Literal["icl", "xvec"]
    identity: _Name
    model: _Name
    sample_rate_hz: Annotated[str, Meta(pattern="^[1-9][0-9]{0,5}$")]
    reference: _Name
    created_by: _Name
    content: _Name
    text: Annotated[str, Meta(max_length=MAX_TEXT_CHARS)] | None = None


class _Header(Struct):
    metadata: dict[str, str] = field(name="__metadata__")


@dataclass(frozen=True, eq=False)
class StoredVoice:
    embedding: np.ndarray[Any, Any]  # (D,) float32
    codes: np.ndarray[Any, Any] | None  # (R, K) int16; None for xvec
    text: str | None  # transcript; None for xvec
    mode: str  # icl or xvec
    identity: str  # of the checkpoint
    model: str  # the checkpoint's name, for messages
    sample_rate_hz: int
    reference: str  # SHA-256 of the recording and of what icl adds
    created_by: str  # tool and version

    @property
    def num_frames(self) -> int:
        return 0 if self.codes is None else len(self.codes)

    @property
    def digest(self) -> str:
        """Hash of everything that shapes speech."""
        facts = [self.mode, self.text, self.identity, self.sample_rate_hz, self.reference]
        parts = [json.dumps(facts).encode(), _bytes(self.embedding)]
        if self.codes is not None:
            parts += [json.dumps(self.codes.shape).encode(), _bytes(self.codes)]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "text": self.text,
            "frames": self.num_frames,
            "model": self.model,
            "identity": self.identity,
            "sample_rate_hz": self.sample_rate_hz,
            "created_by": self.created_by,
        }

    def problem(self, info: ModelInfo) -> str | None:
        """Return why a checkpoint cannot use it, or None."""
        if self.identity != info.identity:
            return (
                f"was made with another checkpoint ({self.model}, {self.identity}), not with "
                f"{checkpoint_name(info)} ({info.identity}); {_REMEDY}"
            )
        if self.sample_rate_hz != info.sample_rate_hz:
            return f"has {self.sample_rate_hz} Hz, but the checkpoint has {info.sample_rate_hz}"
        if self.codes is not None and self.codes.shape[1] != info.num_codebooks:
            return (
                f"has {self.codes.shape[1]} codebooks, but the checkpoint has {info.num_codebooks}"
            )
        return None

    def to_voice(self) -> Voice:
        import torch

        codes = None if self.codes is None else torch.from_numpy(self.codes.astype("int64"))
        embedding = torch.from_numpy(self.embedding.copy())
        return Voice(embedding, codes, self.text, self.mode, self.identity, self.digest)


def checkpoint_name(info: ModelInfo) -> str:
    return f"{info.family} {info.size} {info.type}"


def encode(voice: StoredVoice) -> bytes:
    """Return the bytes of a voice file, always the same for the same voice."""
    tensors = {"embedding": voice.embedding}
    if voice.codes is not None:
        tensors["codes"] = voice.codes
    header: dict[str, Any] = {"__metadata__": _metadata(voice)}
    body = b""
    for name, values in tensors.items():
        end = len(body) + values.nbytes
        dtype = _TAGS[str(values.dtype)]
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [len(body), end]}
        body += _bytes(values)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def _metadata(voice: StoredVoice) -> dict[str, str]:
    names = ("mode", "identity", "model", "sample_rate_hz", "reference", "created_by")
    facts = {name: str(getattr(voice, name)) for name in names}
    metadata = {"format": FORMAT, "version": VERSION, **facts, "content": voice.digest}
    if voice.text is not None:
        metadata["text"] = voice.text
    return metadata


def decode(data: bytes) -> StoredVoice:
    """Return the voice in a file's bytes. Raises RowError; its message continues a sentence that
    starts with the file's name.
    """
    metadata = _metadata_of(data)
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RowError(f"is not a safetensors file: {error}") from None
    wanted = _TYPES if metadata.mode == "icl" else ("embedding",)
    if set(tensors) != set(wanted):
        names = shown(", ".join(sorted(tensors)))
        raise RowError(f"contains the tensors {names} instead of {', '.join(sorted(wanted))}")
    for name, values in tensors.items():
        dtype, dimensions = _TYPES[name]
        if (str(values.dtype), values.ndim) != (dtype, dimensions):
            raise RowError(f"has a tensor {name} that is not {dtype} with {dimensions} dimensions")
    embedding, codes = tensors["embedding"], tensors.get("codes")
    if not 1 <= len(embedding) <= MAX_WIDTH:
        raise RowError(f"has an embedding of {len(embedding)} values")
    if not np.isfinite(embedding).all():
        raise RowError("has an embedding with values that are not numbers")
    if codes is not None:
        if not codes.size:
            raise RowError("has no codes, but the mode icl")
        if codes.min() < 0:
            raise RowError(f"has the code {codes.min()}, which is below 0")
    voice = StoredVoice(
        embedding,
        codes,
        metadata.text if metadata.mode == "icl" else None,
        metadata.mode,
        metadata.identity,
        metadata.model,
        int(metadata.sample_rate_hz),
        metadata.reference,
        metadata.created_by,
    )
    if voice.digest != metadata.content:
        raise RowError(f"was damaged or edited: its content does not match its hash; {_REMEDY}")
    return voice


def _metadata_of(data: bytes) -> _Metadata:
    size = int.from_bytes(data[:8], "little") if len(data) >= 8 else 0
    if not 2 <= size <= min(_MAX_HEADER_BYTES, len(data) - 8):
        raise RowError("is not a safetensors file")
    try:
        found = msgspec.json.decode(data[8 : 8 + size], type=_Header).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RowError(f"is not a voice file of tts-cli: {error}") from None
    if found.get("format") != FORMAT:
        raise RowError("is not a voice file of tts-cli")
    if (version := found.get("version")) != VERSION:
        raise RowError(f"has version {shown(version)}; the supported version is {VERSION}")
    try:
        metadata = msgspec.convert(found, _Metadata)
    except msgspec.ValidationError as error:
        raise RowError(f"has wrong metadata: {error}") from None
    if metadata.mode == "icl" and metadata.text is None:
        raise RowError("has no text in its metadata, but the mode icl")
    return metadata


def _bytes(values: np.ndarray[Any, Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
