"""Voices as files: `NAME.voice.safetensors` in a folder, whole, checked and bound to a checkpoint.

The tensors are `embedding` (D,) float32 and, for icl, `codes` (R, K) int16; the metadata says of
which checkpoint, mode, transcript and recording they are. A hash over all of it stands in the
metadata too, so that a damaged or edited file is found out before it is spoken with.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
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
MAX_FILE_BYTES = 4 * 2**20
MAX_WIDTH = 65_536
_MAX_HEADER_BYTES = 2**20
_TYPES = {"embedding": ("float32", 1), "codes": ("int16", 2)}  # tensor -> dtype and dimensions
_TAGS = {"float32": "F32", "int16": "I16"}
# Fields of a voice in the metadata.
_TOLD = ("mode", "identity", "model", "sample_rate_hz", "reference", "created_by")
_REMEDY = "make it again with `tts-cli voices add --overwrite`"


@dataclass(frozen=True, eq=False)
class StoredVoice:
    """What a voice file holds."""

    embedding: np.ndarray[Any, Any]  # (D,) float32
    codes: np.ndarray[Any, Any] | None  # (R, K) int16; None for xvec
    text: str | None  # transcript; None for xvec
    mode: str  # icl or xvec
    identity: str  # of the checkpoint
    model: str  # the checkpoint's name, for messages
    sample_rate_hz: int
    reference: str  # sha256 of the recording's bytes and what icl takes besides
    created_by: str  # tool and version

    @property
    def num_frames(self) -> int:
        """Reference frames that stand in the prompt."""
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
        """What it is, as JSON can hold it."""
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
        """Why a checkpoint cannot speak with it, or None."""
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
        """As the model takes it."""
        import torch

        codes = None if self.codes is None else torch.from_numpy(self.codes.astype("int64"))
        embedding = torch.from_numpy(self.embedding.copy())
        return Voice(embedding, codes, self.text, self.mode, self.identity, self.digest)


def checkpoint_name(info: ModelInfo) -> str:
    """How messages name a checkpoint."""
    return f"{info.family} {info.size} {info.type}"


def encode(voice: StoredVoice) -> bytes:
    """The bytes of a voice file: the same for the same voice, which safetensors does not promise of
    its metadata.
    """
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
    told = {name: str(getattr(voice, name)) for name in _TOLD}
    metadata = {"format": FORMAT, "version": VERSION, **told, "content": voice.digest}
    if voice.text is not None:
        metadata["text"] = voice.text
    return metadata


def decode(data: bytes) -> StoredVoice:
    """The voice in a file's bytes. Raises RowError."""
    entries, metadata = _header(data)
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RowError(f"is not a safetensors file: {error}") from None
    for name, (dtype, dimensions) in _TYPES.items():
        values = tensors.get(name)
        is_right = values is None or (str(values.dtype) == dtype and values.ndim == dimensions)
        if (values is None) == (name in entries) or not is_right:
            raise RowError("has a header that does not match its tensors")
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
    told: dict[str, Any] = {name: metadata[name] for name in _TOLD}
    told["sample_rate_hz"] = int(told["sample_rate_hz"])
    voice = StoredVoice(embedding, codes, metadata.get("text"), **told)
    if voice.digest != metadata["content"]:
        raise RowError(f"was damaged or edited: its content does not match its hash; {_REMEDY}")
    return voice


def _header(data: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensor entries and metadata, all of the right kinds. Raises RowError."""
    size = int.from_bytes(data[:8], "little") if len(data) >= 8 else 0
    if not 2 <= size <= min(_MAX_HEADER_BYTES, len(data) - 8):
        raise RowError("is not a safetensors file")
    try:
        entries = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        raise RowError("is not a safetensors file: its header is not JSON") from None
    if not isinstance(entries, dict):
        raise RowError("is not a safetensors file: its header is not an object")
    metadata = entries.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise RowError("is not a voice file of tts-cli")
    if metadata.get("version") != VERSION:
        raise RowError(
            f"has version {shown(metadata.get('version'))}; the supported version is {VERSION}"
        )
    required = {*_TOLD, "content"}
    if metadata.get("mode") == "icl":
        required.add("text")
    for name in sorted(required):
        if not isinstance(metadata.get(name), str):
            raise RowError(f"has no {name} in its metadata")
        if len(metadata[name]) > (MAX_TEXT_CHARS if name == "text" else MAX_NAME_CHARS):
            raise RowError(f"has a {name} of {len(metadata[name])} characters")
    if metadata["mode"] not in ("icl", "xvec"):
        raise RowError(f"has the mode {shown(metadata['mode'])}; the modes are icl and xvec")
    rate = metadata["sample_rate_hz"]
    if not (rate.isascii() and rate.isdigit() and len(rate) <= 6 and int(rate)):
        raise RowError(f"has the sample rate {shown(rate)}")
    wanted = {"embedding", "codes"} if metadata["mode"] == "icl" else {"embedding"}
    if set(entries) != wanted:
        found = shown(", ".join(sorted(entries)))
        raise RowError(f"contains the tensors {found} instead of {', '.join(sorted(wanted))}")
    for name, entry in entries.items():
        dtype, dimensions = _TYPES[name]
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if (
            not isinstance(shape, list)
            or len(shape) != dimensions
            or entry.get("dtype") != _TAGS[dtype]
        ):
            raise RowError(f"has a tensor {name} that is not {dtype} with {dimensions} dimensions")
    kept = metadata if metadata["mode"] == "icl" else {**metadata, "text": None}
    return entries, kept


def _bytes(values: np.ndarray[Any, Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
