"""Find what a row's file can be made of without speaking: audio without loss, else its codes.

Folders are not trusted. A line of the journal names no file that is opened: what belongs to a row
follows from its id, must be a plain file inside of the folder, and audio must be what was written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from tts_cli.audio.file import LOSSLESS_SUBTYPES, is_whole_wav, to_int16
from tts_cli.audio.join import join_again
from tts_cli.core import Finish, Unfinished
from tts_cli.errors import RowError
from tts_cli.store.files import CODES_SUFFIX, ORIGINAL_SUFFIX, PlainFiles, hash_of
from tts_cli.store.take import UNFINISHED, Take
from tts_cli.manifest.ids import TAKES, id_problem
from tts_cli.text.pauses import without_pauses

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

Array = np.ndarray[Any, Any]

AUDIO_SUFFIXES = (".wav", ".flac")
MAX_SECONDS = 7_200.0  # of one row's audio; 20,000 characters are 25 minutes
MAX_CODES_BYTES = 64 << 20
PART_CONTEXT = 25  # frames of a reference before parts after the first; chunks have as many


@dataclass(frozen=True)
class Kept:
    """A file that a row's audio can be had from."""

    kind: str  # audio or codes
    path: Path
    bytes: int
    sha256: str | None  # as recorded; None: nobody wrote it down

    def as_source(self, out: Path, into: Path) -> dict[str, Any]:
        """What a line of the folder `into` says of a file in `out`."""
        path = self.path.relative_to(out).as_posix() if out == into else None
        return {
            "kind": self.kind,  # [`audio`, `codes`] kind of the source
            # [text] path of the source file, relative to the folder; null: in another folder
            "path": path,
            "bytes": self.bytes,  # size of the source file
            "sha256": self.sha256,  # SHA-256 of the source file; null: not recorded
        }


def find_kept(
    out: Path,
    record: Take,
    native_rate_hz: int,
    has_model: bool = True,
    is_file: bool = True,
) -> Kept:
    """The file that a row's audio can be had from.

    Args:
        out: the folder of the journal.
        record: the row's last line.
        native_rate_hz: of the checkpoint.
        has_model: codes can be decoded.
        is_file: the line is of the row's file, not of another take.
    Raises:
        RowError: there is none, and why.
    """
    if problem := id_problem(record.id):
        raise RowError(f"id {record.id!r} {problem}")
    if not record.is_ok:
        raise RowError(why_failed(record))
    try:
        return _find_audio(out, record, native_rate_hz, is_file)
    except RowError as error:
        why = str(error)
    try:
        codes = find_codes(out, record, is_file)
        _require_decodable(record)
    except RowError as error:
        raise RowError(f"{why}; {error}") from None
    if not has_model:
        raise RowError(f"{why}; the model that made its codes is not available")
    return codes


def find_codes(out: Path, record: Take, is_file: bool = True) -> Kept:
    """The codes that were kept of a row, or of another take of it. Raises RowError."""
    name = record.id if is_file else f"{TAKES}/{record.id}/{record.take}"
    path = out / f"{name}{CODES_SUFFIX}"
    if not os.path.lexists(path):
        raise RowError("no codes were saved")
    if record.finish_reason is Finish.WORDLESS or not record.frames:
        raise RowError("it has no codes")
    return Kept("codes", path, _plain_size(out, path), None)


def find_file(out: Path, record: Take) -> Kept:
    """The audio file of a take, whatever was done to it. Raises RowError."""
    suffix = PurePosixPath(record.path or "").suffix
    names = (f"{record.id}{suffix}", f"{TAKES}/{record.id}/{record.take}{suffix}")
    if record.path not in names:
        raise RowError("its journal entry names no audio file")
    path = out / str(record.path)
    return Kept("audio", path, _plain_size(out, path), record.sha256)


def why_failed(record: Take) -> str:
    """Why nothing can be made of a row whose line says that it failed."""
    if record.unfinished is Unfinished.REPLACING:
        why = UNFINISHED[record.unfinished]
        return f"{why}: run that command again, or any other that writes into its folder"
    return "it failed when it was synthesized"


def read_audio(kept: Kept) -> Array:
    """(n,) samples, int16 or float32, of a file that is what was written. Raises RowError."""
    import soundfile

    try:
        if kept.sha256 is not None and kept.path.stat().st_size == kept.bytes:
            with open(kept.path, "rb") as file:
                if hash_of(file) != kept.sha256:
                    raise RowError(f"{kept.path} has changed since the run")
        subtype = soundfile.info(kept.path).subtype
        kind = "int16" if subtype == "PCM_16" else "float64" if subtype == "PCM_24" else "float32"
        samples, _ = soundfile.read(kept.path, dtype=kind)
    except (soundfile.LibsndfileError, OSError) as error:
        raise RowError(f"{kept.path} cannot be read: {error}") from error
    if subtype == "PCM_24":  # as `audio_file` writes them; int16 has such a scale of its own
        samples = (samples * (8_388_608 / 8_388_607)).astype(np.float32)
    return np.asarray(samples)


def read_codes(kept: Kept, record: Take, num_codebooks: int, num_codes: int | None = None) -> Array:
    """(F, K) int64 codes of a row. Raises RowError for what cannot be its codes."""
    try:
        if kept.path.stat().st_size > MAX_CODES_BYTES:
            raise RowError(f"{kept.path} is far too large")
        found = load(kept.path.read_bytes()).get("codes")
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise RowError(f"{kept.path} cannot be read: {error}") from error
    if found is None or found.dtype != np.int16 or found.shape != (record.frames, num_codebooks):
        raise RowError(
            f"{kept.path} does not contain the {record.frames} frames of {num_codebooks} "
            "codes of its journal entry"
        )
    if found.min() < 0 or (num_codes is not None and found.max() >= num_codes):
        raise RowError(f"{kept.path} contains codes that the model does not have")
    return found.astype(np.int64)


def decode(codes: Array, record: Take, model: SpeechModel, is_int16: bool) -> Array:
    """(n,) samples of a row, its parts joined as they were, in int16 if a run would have had them
    so: cut ends fade, and round.
    """
    import torch

    rate_hz = model.info.sample_rate_hz
    frames = _part_frames(record)
    pieces = np.split(codes, np.cumsum(frames)[:-1])
    is_free = len(pieces) > 1 and record.voice is None and record.clone_mode is None
    waves = []
    device = getattr(model, "device", "cpu")
    parts = [torch.from_numpy(piece).to(device) for piece in pieces]
    for index, part in enumerate(parts):
        front = parts[0][-PART_CONTEXT:] if is_free and index else None
        (wave,) = model.decode_audio([part], [front])
        samples = wave.float().cpu().numpy()
        waves.append(to_int16(samples) if is_int16 else samples)
    gaps = [
        max(0, round((after["start_s"] - before["end_s"]) * rate_hz))
        for before, after in zip(record.parts, record.parts[1:], strict=False)
    ]
    if sum(gaps) > MAX_SECONDS * rate_hz:
        raise RowError("its journal entry contains impossible pauses")
    return join_again(waves, gaps, rate_hz)


def _find_audio(out: Path, record: Take, native_rate_hz: int, is_file: bool) -> Kept:
    """Its own file, or the one that this was made of. Raises RowError."""
    source = record.source
    if source is not None and source.get("kind") == "audio" and source.get("path") is not None:
        described: Mapping[str, Any] = source
    elif record.applied is not None:
        raise RowError("its audio was already processed (loudness, filter, trim or padding)")
    elif source is not None and source.get("kind") not in ("audio", "codes"):
        raise RowError("its journal entry is invalid")
    else:
        described = {"path": record.path, "bytes": record.bytes, "sha256": record.sha256}
    plain_own = {f"{record.id}{suffix}" for suffix in AUDIO_SUFFIXES}
    plain = plain_own | {f"{TAKES}/{record.id}/{record.take}{suffix}" for suffix in AUDIO_SUFFIXES}
    name, size, digest = described.get("path"), described.get("bytes"), described.get("sha256")
    if name not in plain | {f"{one}{ORIGINAL_SUFFIX}" for one in plain}:
        raise RowError(f"its audio, {str(name)[:80]!r}, is in a lossy format")
    if not isinstance(digest, str):
        digest = None
    has_takes = str(record.path).startswith(f"{TAKES}/{record.id}/")
    path = out / str(name)
    if described is not source and has_takes and is_file:
        path = _in_use(out / f"{record.id}{path.suffix}", path)
    found = _plain_size(out, path)
    if isinstance(size, int) and size and found != size:
        # A WAV of another size that agrees with its header was edited by somebody, and counts.
        # But what has a row's own name may be another take since.
        is_edited = path.suffix == ".wav" and is_whole_wav(path)
        if not is_edited or (has_takes and described is source and str(name) in plain_own):
            raise RowError(f"{path} has changed since the run")
        digest = None
    _check_audio(path, native_rate_hz)
    return Kept("audio", path, found, digest)


def _in_use(own: Path, take: Path) -> Path:
    """The row's own file, where somebody has put another one in the place of its take; links are
    not followed.
    """
    try:
        found = os.lstat(own)
        is_same = os.path.samestat(found, os.lstat(take))
    except OSError:
        return take
    return own if stat.S_ISREG(found.st_mode) and not is_same else take


def _check_audio(path: Path, native_rate_hz: int) -> None:
    import soundfile

    try:
        about = soundfile.info(path)
    except (soundfile.LibsndfileError, OSError) as error:
        raise RowError(f"{path} cannot be read: {error}") from error
    if about.format not in ("WAV", "FLAC") or about.subtype not in LOSSLESS_SUBTYPES:
        raise RowError(f"{path} is in a lossy format")
    if about.channels != 1 or not 0 < about.frames <= MAX_SECONDS * about.samplerate:
        raise RowError(f"{path} is not the audio of a row")
    if about.samplerate != native_rate_hz:
        raise RowError(f"{path} was resampled")


def _require_decodable(record: Take) -> None:
    """Raise RowError where its codes alone are not its audio."""
    if record.clone_mode == "icl":
        raise RowError("its codes continue a reference recording, which was not saved")
    if record.text is not None and without_pauses(record.text) != record.text:
        raise RowError("its text has pause marks, which its codes do not contain")


def _plain_size(out: Path, path: Path) -> int:
    """Bytes of a plain file inside of the folder, links not followed. Raises RowError."""
    if not os.path.lexists(path):
        raise RowError(f"{path} is missing")
    size = PlainFiles(out).size(path)
    if size is None:
        raise RowError(f"{path} is not a regular file of the folder")
    return size


def _part_frames(record: Take) -> list[int]:
    """Frames of each part, which are the row's together. Raises RowError."""
    if not record.parts:
        return [record.frames]
    try:
        frames = [int(part["frames"]) for part in record.parts]
        places = [float(part[name]) for part in record.parts for name in ("start_s", "end_s")]
    except (TypeError, ValueError, KeyError, OverflowError):
        raise RowError("its journal entry does not describe its pieces") from None
    if min(frames) < 1 or sum(frames) != record.frames or not np.isfinite(places).all():
        raise RowError("its journal entry does not describe its pieces")
    return frames
