"""The tags of an audio file: title, voice, model, and a comment that its speech is synthetic.

WAV files get a LIST chunk after the samples, which readers that stop there ignore. libsndfile
writes the tags of the other formats (Vorbis comments, ID3 in MP3). Tags do not change from run to
run, so that the same speech has the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tts_cli.sources.ids import voice_label

if TYPE_CHECKING:
    from models.base import ModelInfo

SOFTWARE = "tts-cli"
SYNTHETIC = "synthetic speech"
MAX_TEXT_BYTES = 1_000  # UTF-8, per field
_WAV_NAMES = {  # in the order of the chunk
    "title": b"INAM",
    "artist": b"IART",
    "album": b"IPRD",
    "comment": b"ICMT",
    "software": b"ISFT",
}


@dataclass(frozen=True)
class Tags:
    title: str = ""  # the row's id, or the chapter's title
    artist: str = ""  # the voice
    album: str = ""  # the book
    comment: str = ""
    software: str = SOFTWARE

    @classmethod
    def of_row(cls, row_id: str, voice: str | None, comment: str) -> Tags:
        return cls(row_id, voice_label(voice) or "", comment=comment)

    def texts(self) -> dict[str, str]:
        """Return the fields that are not empty, on one line each and shortened."""
        return {name: text for name in _WAV_NAMES if (text := _plain(getattr(self, name)))}


def comment_of(info: ModelInfo) -> str:
    """Return the comment on a model's speech, from the model's files. Their path is left out: it
    is private, and differs between machines.
    """
    return comment_of_model(vars(info))


def comment_of_model(model: Mapping[str, Any]) -> str:
    """Return the comment for a model as in run.json, where any field may be missing."""
    words = [str(model.get(name) or "") for name in ("family", "size", "type", "identity")]
    return f"synthetic speech; model {' '.join(filter(None, words))}" if any(words) else SYNTHETIC


def wav_chunk(tags: Tags) -> bytes:
    """Return the LIST chunk of a WAV file, in UTF-8; of even length. Empty without tags."""
    chunks = b"".join(_wav_text(name, getattr(tags, field)) for field, name in _WAV_NAMES.items())
    return b"LIST" + struct.pack("<I", 4 + len(chunks)) + b"INFO" + chunks if chunks else b""


@lru_cache(maxsize=64)  # all but the title are the same from row to row
def _wav_text(name: bytes, text: str) -> bytes:
    data = _plain(text).encode() + b"\0"
    padding = b"\0" * (len(data) % 2)
    return name + struct.pack("<I", len(data)) + data + padding if len(data) > 1 else b""


def put_tags(file: Any, tags: Tags) -> None:
    """Set the tags of a `soundfile.SoundFile`, before its first sample."""
    for name, text in tags.texts().items():
        setattr(file, name, text)


def _plain(text: str) -> str:
    """Return a text without line breaks and control characters, cut to the limit of a field."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    shown = " ".join(text.split())
    return shown.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
