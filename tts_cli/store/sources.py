"""Find the source of a row's file, to make it again without synthesis: lossless audio, else its
codes.

Folders are not trusted: the names of a row's files follow from its id, they must be plain files
inside of the folder, and audio must be unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tts_cli.audio.file import FORMATS, LOSSLESS_SUBTYPES, is_whole_wav
from tts_cli.core import Finish
from tts_cli.errors import RowError
from tts_cli.sources.ids import TAKES, id_problem
from tts_cli.store.entry import REPLACED, JournalEntry
from tts_cli.store.files import (
    CODES_SUFFIX,
    SOURCE_MARK,
    PlainFiles,
    audio_suffix,
    file_sha256,
    take_name,
)
from tts_cli.text.pauses import without_pauses

Array = np.ndarray[Any, Any]

# Suffixes of lossless files -> the names that libsndfile has for their formats.
_LOSSLESS = {f".{name}": one.container for name, one in FORMATS.items() if not one.is_lossy}
_ORIGINAL = ".original"  # in earlier versions, after the name of a source
MAX_SECONDS = 7_200.0  # of one row's audio; 20,000 characters are 25 minutes


@dataclass(frozen=True)
class AudioSource:
    kind: str  # audio or codes
    path: Path
    bytes: int
    sha256: str | None  # as recorded; None: not recorded

    def as_source(self, out: Path, into: Path) -> dict[str, Any]:
        """Return the field `source` of an entry in the folder `into`, for a file in `out`."""
        path = self.path.relative_to(out).as_posix() if out == into else None
        return {
            "kind": self.kind,  # [`audio`, `codes`] kind of the source
            # [text] path of the source file, relative to the folder; null: in another folder
            "path": path,
            "bytes": self.bytes,  # size of the source file
            "sha256": self.sha256,  # SHA-256 of the source file; null: not recorded
        }


def find_source(
    out: Path, record: JournalEntry, native_rate_hz: int, has_model: bool = True
) -> AudioSource:
    """Return the file that a take's audio can be made from. Raises RowError with the reason if none
    exists.

    Args:
        out: the folder of the journal.
        record: the take's entry, with the present path of its file.
        native_rate_hz: of the checkpoint.
        has_model: codes can be decoded.
    """
    if problem := id_problem(record.id):
        raise RowError(f"id {record.id!r} {problem}")
    if not record.is_ok:
        raise RowError(why_failed(record))
    try:
        return _find_audio(out, record, native_rate_hz)
    except RowError as error:
        why = str(error)
    try:
        codes = find_codes(out, record)
        _require_decodable(record)
    except RowError as error:
        raise RowError(f"{why}; {error}") from None
    if not has_model:
        raise RowError(f"{why}; the model that made its codes is not available")
    return codes


def find_codes(out: Path, record: JournalEntry) -> AudioSource:
    """Return the saved codes of a take. Raises RowError."""
    own = f"{record.id}{audio_suffix(record.path)}"
    is_current = record.path in (None, own)
    name = f"{record.id if is_current else f'{TAKES}/{record.id}/{record.take}'}{CODES_SUFFIX}"
    path = out / name
    if not os.path.lexists(path):
        raise RowError("no codes were saved")
    if record.finish_reason is Finish.WORDLESS or not record.frames:
        raise RowError("it has no codes")
    return AudioSource("codes", path, _plain_size(out, path), record.codes_sha256)


def find_file(out: Path, record: JournalEntry) -> AudioSource:
    """Return the audio file of a take, which may have been processed. Raises RowError."""
    suffix = PurePosixPath(record.path or "").suffix
    names = (f"{record.id}{suffix}", take_name(record.id, record.take, suffix))
    if record.path not in names:
        raise RowError("its journal entry names no audio file")
    path = out / str(record.path)
    return AudioSource("audio", path, _plain_size(out, path), record.sha256)


def why_failed(record: JournalEntry) -> str:
    if record.error == REPLACED:
        return f"{REPLACED}: run that command again, or any other that writes into its folder"
    return "it failed when it was synthesized"


def read_audio(source: AudioSource) -> Array:
    """Return the samples of an unchanged file: (n,) int16 or float32. Raises RowError."""
    import soundfile

    try:
        if source.sha256 is not None and source.path.stat().st_size == source.bytes:
            with open(source.path, "rb") as file:
                if file_sha256(file) != source.sha256:
                    raise RowError(f"{source.path} has changed since the run")
        subtype = soundfile.info(source.path).subtype
        kind = "int16" if subtype == "PCM_16" else "float64" if subtype == "PCM_24" else "float32"
        samples, _ = soundfile.read(source.path, dtype=kind)
    except (soundfile.LibsndfileError, OSError) as error:
        raise RowError(f"{source.path} cannot be read: {error}") from error
    if subtype == "PCM_24":  # the scale of `audio_file`; int16 has its scale already
        samples = (samples * (8_388_608 / 8_388_607)).astype(np.float32)
    return np.asarray(samples)


def _find_audio(out: Path, record: JournalEntry, native_rate_hz: int) -> AudioSource:
    """Return a take's file, or the file that it was made from. Raises RowError."""
    source = record.source
    own = f"{record.id}{audio_suffix(record.path)}"
    if source is not None and source.get("kind") == "audio" and source.get("path") is not None:
        described: Mapping[str, Any] = source
    elif record.applied is not None:
        raise RowError("its audio was already processed (loudness, filter, trim or padding)")
    elif source is not None and source.get("kind") not in ("audio", "codes"):
        raise RowError("its journal entry is invalid")
    else:
        described = {"path": record.path, "bytes": record.bytes, "sha256": record.sha256}
    name, size, digest = described.get("path"), described.get("bytes"), described.get("sha256")
    if not _is_name_of(str(name), record):
        raise RowError(f"its audio, {str(name)[:80]!r}, is in a lossy format")
    if not isinstance(digest, str):
        digest = None
    path = out / str(name)
    found = _plain_size(out, path)
    if isinstance(size, int) and size and found != size:
        # A WAV of another size that agrees with its header was edited by a user, and counts; but a
        # file with the row's own name may be another take now.
        is_edited = path.suffix == ".wav" and is_whole_wav(path)
        if not is_edited or (described is source and str(name) == own):
            raise RowError(f"{path} has changed since the run")
        digest = None
    _check_audio(path, native_rate_hz)
    return AudioSource("audio", path, found, digest)


def _is_name_of(name: str, record: JournalEntry) -> bool:
    """Whether a name is one of lossless audio of a take, in this version or an earlier one."""
    path = PurePosixPath(name.removesuffix(_ORIGINAL))
    names = {f"{record.id}{path.suffix}", take_name(record.id, record.take, path.suffix)}
    is_source = name == take_name(record.id, record.take, f"{SOURCE_MARK}{path.suffix}")
    return path.suffix in _LOSSLESS and (str(path) in names or is_source)


def _check_audio(path: Path, native_rate_hz: int) -> None:
    import soundfile

    try:
        about = soundfile.info(path)
    except (soundfile.LibsndfileError, OSError) as error:
        raise RowError(f"{path} cannot be read: {error}") from error
    if about.format not in _LOSSLESS.values() or about.subtype not in LOSSLESS_SUBTYPES:
        raise RowError(f"{path} is in a lossy format")
    if about.channels != 1 or not 0 < about.frames <= MAX_SECONDS * about.samplerate:
        raise RowError(f"{path} is not the audio of a row")
    if about.samplerate != native_rate_hz:
        raise RowError(f"{path} was resampled")


def _require_decodable(record: JournalEntry) -> None:
    """Raise RowError if a take's codes alone are not its audio."""
    if record.clone_mode == "icl":
        raise RowError("its codes continue a reference recording, which was not saved")
    if record.text is not None and without_pauses(record.text) != record.text:
        raise RowError("its text has pause marks, which its codes do not contain")


def _plain_size(out: Path, path: Path) -> int:
    """Return the bytes of a plain file in the folder; links are not followed. Raises RowError."""
    if not os.path.lexists(path):
        raise RowError(f"{path} is missing")
    size = PlainFiles(out).size(path)
    if size is None:
        raise RowError(f"{path} is not a regular file of the folder")
    return size
