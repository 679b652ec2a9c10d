"""Read reference recordings, which are untrusted files.

A recording must be a regular file, which is checked after it was opened. Its header must state a
valid rate, at most 30 s, at most 64 MiB of decoded audio, and no more bytes than the file has. It
is decoded in blocks up to the length in the header, so a small file cannot become a large one.
Mixing and resampling follow the official package: the mean of the channels in float32, and soxr at
high quality.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from models.pace import reading_s
from tts_cli.audio.file import in_blocks, resample
from tts_cli.errors import RowError

if TYPE_CHECKING:
    from pathlib import Path

    import soundfile

Samples = np.ndarray[Any, Any]

log = logging.getLogger(__name__)

MIN_SECONDS, MAX_SECONDS = 1.0, 30.0
MAX_DECODED_BYTES = 64 * 2**20  # at 8 bytes a sample, the widest a decoder may use
MAX_FILE_BYTES = MAX_DECODED_BYTES
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
MAX_CHANNELS = 6  # 5.1; files with more are multitrack sessions
MIN_RMS = 1e-4  # -80 dBFS around the mean; the noise of an empty room is louder
FACTOR, PAUSES_S = 3.0, 2.0  # times the usual time that a transcript may take, and silence
CLIPPED_AT = 1 - 2**-15  # full scale of 16 bits, less one step
CLIPPED_SHARE = 0.2  # of samples; audible distortion, which is a warning
SILENT_BELOW = 3e-3  # -50 dBFS, below breath and rustle
SILENT_START_S = 3.0
MAX_PEAK = 16.0  # full scale is 1; more is a file of integers stored as floats

_ADVICE = "5 to 15 s are best"
_CONVERT = "convert it to WAV or FLAC"
_SHOWN_CHARS = 120  # of a path
_BLOCK_FRAMES = 65_536
_UNKNOWN_FRAMES = 2**62  # libsndfile gives about 2**63 if the header has no length
_SHORTFALL = re.compile(r":\s*(\d+)\s*\(should be (\d+)\)")  # libsndfile's log on a cut file
_MP3_SLACK_FRAMES = 2 * 1152  # its header counts frames of 1152 samples, and may miscount
_OGG_PAGE_BYTES, _OGG_LAST_PAGE = 65_307, 4


@dataclass(frozen=True)
class SoundHeader:
    """The header of a file, checked against the limits."""

    rate_hz: int
    channels: int
    frames: int | None  # samples per channel; None: the format does not state them

    @property
    def most_seconds(self) -> float:
        return MAX_SECONDS if self.frames is None else self.frames / self.rate_hz


@dataclass(frozen=True)
class Facts:
    """A file that can be a reference according to its header."""

    header: SoundHeader
    content: str  # sha256 of its bytes


@dataclass(frozen=True, eq=False)
class Reference:
    samples: Samples  # (n,) float32, mono, at the model's rate
    mode: str  # icl or xvec
    text: str | None  # transcript; None for xvec
    num_silence: int  # samples of silence to append for the codes of icl
    digest: str


def reference_digest(content: str, mode: str, text: str | None, silence_s: float) -> str:
    """Return the hash of a reference: equal for the same file, mode, transcript and silence."""
    parts = [content, mode] if mode == "xvec" else [content, mode, text, silence_s]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_facts(path: str, root: Path | None = None) -> Facts:
    """Check a file without decoding it. Raises RowError, with its name and the reason, if it cannot
    be a reference. It must be in `root`; None: in any folder.
    """
    with _named(path), opened(path, root, MAX_FILE_BYTES, f"--ref-root {root}") as handle:
        with _sound(handle) as sound:
            header = _check_header(sound, handle)
        return Facts(header, sha256(handle, MAX_FILE_BYTES))


def load_reference(
    path: str, root: Path | None, *, mode: str, text: str | None, rate_hz: int, silence_s: float
) -> Reference:
    """Read, check, mix and resample a reference. Raises RowError with its name and the reason.

    Args:
        rate_hz: sample rate of the model.
        silence_s: seconds of silence after the recording; icl only.
    """
    content, native_hz, samples = _read(path, root)
    for oddity in _oddities(samples, native_hz):
        log.warning("ref_audio %s %s", _tail(path), oddity)
    is_icl = mode == "icl"
    return Reference(
        samples=resampled(samples, native_hz, rate_hz),
        mode=mode,
        text=text if is_icl else None,
        num_silence=round(silence_s * rate_hz) if is_icl else 0,
        digest=reference_digest(content, mode, text, silence_s),
    )


def transcript_problem(text: str, seconds: float) -> str | None:
    """Return why a text cannot be the transcript of a recording, or None."""
    usual_s = reading_s(text)
    if usual_s / FACTOR <= seconds <= usual_s * FACTOR + PAUSES_S:
        return None
    return (
        f"ref_text takes about {usual_s:.1f} s to say, but ref_audio is {seconds:.1f} s long; "
        "give exactly the words of the recording"
    )


def hear(path: str, root: Path | None = None) -> tuple[str, ...]:
    """Decode a file, and return warnings about it. Raises RowError as `load_reference`."""
    _, rate_hz, samples = _read(path, root)
    return tuple(f"ref_audio {_tail(path)} {oddity}" for oddity in _oddities(samples, rate_hz))


def _read(path: str, root: Path | None) -> tuple[str, int, Samples]:
    """Return the SHA-256 of a file, its rate, and (n,) float32 samples. Raises RowError."""
    with _named(path), opened(path, root, MAX_FILE_BYTES, f"--ref-root {root}") as handle:
        before = os.fstat(handle)
        content = sha256(handle, MAX_FILE_BYTES)
        with _sound(handle) as sound:
            header = _check_header(sound, handle)
            samples = _decode(sound, header)
        after = os.fstat(handle)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise RowError("changed while it was read")
        _judge(samples)
    return content, header.rate_hz, samples


def resampled(samples: Samples, native_rate_hz: int, rate_hz: int) -> Samples:
    """Resample (n,) to (ceil(n * rate / native),) samples, as librosa 0.10 does with soxr HQ."""
    if native_rate_hz == rate_hz:
        return samples
    size = math.ceil(len(samples) * (float(rate_hz) / native_rate_hz))
    changed = resample(samples, native_rate_hz, rate_hz, is_clipped=False)[:size]
    return np.pad(changed, (0, size - len(changed)))


@contextmanager
def _named(path: str) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        raise RowError(f"ref_audio {_tail(path)} {error}") from None


def _tail(path: str) -> str:
    return repr(path if len(path) <= _SHOWN_CHARS else "..." + path[-_SHOWN_CHARS:])


@contextmanager
def _sound(handle: int) -> Iterator[soundfile.SoundFile]:
    """Open a descriptor with libsndfile, and convert its errors to RowError."""
    import soundfile

    os.lseek(handle, 0, os.SEEK_SET)  # libsndfile starts at the position of the descriptor
    try:
        with soundfile.SoundFile(handle, closefd=False) as sound:
            yield sound
    except soundfile.LibsndfileError as error:
        reason = str(error.error_string).removeprefix("Error :").strip().rstrip(".")
        reason = reason or f"error {error.code}"
        raise RowError(f"cannot be decoded: {reason[:1].lower()}{reason[1:]}", _CONVERT) from None
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise RowError(
            f"cannot be decoded: {str(error) or type(error).__name__}", _CONVERT
        ) from None


def _check_header(sound: soundfile.SoundFile, handle: int) -> SoundHeader:
    rate_hz, channels, frames = sound.samplerate, sound.channels, sound.frames
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
        raise RowError(
            f"has a sample rate of {rate_hz} Hz; it must be {MIN_RATE_HZ} to {MAX_RATE_HZ}"
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise RowError(f"has {channels} channels; the maximum is {MAX_CHANNELS}")
    header = SoundHeader(rate_hz, channels, frames if frames < _UNKNOWN_FRAMES else None)
    if any(int(claimed) > int(found) for claimed, found in _SHORTFALL.findall(sound.extra_info)):
        raise RowError("is shorter than its header states: it is cut off, or its header is wrong")
    if sound.format == "OGG" and not _has_last_ogg_page(handle):
        raise RowError("is cut off: its last page is missing")
    if header.frames is not None:
        if header.frames <= 0:
            raise RowError("contains no audio")
        if header.frames > MAX_SECONDS * rate_hz:
            length = f"{header.frames / rate_hz:.1f} s"
            raise RowError(f"is {length} long; the maximum is {MAX_SECONDS:g} s; {_ADVICE}")
        if 8 * header.frames * channels > MAX_DECODED_BYTES:
            raise RowError(
                f"is {8 * header.frames * channels / 2**20:.0f} MiB once decoded; the "
                f"maximum is {MAX_DECODED_BYTES >> 20}; use fewer channels or a lower rate"
            )
        if header.frames < MIN_SECONDS * rate_hz:
            raise RowError(_too_short(header.frames, rate_hz))
    return header


def _too_short(frames: int, rate_hz: int) -> str:
    return f"is {frames / rate_hz:.2f} s long; the minimum is {MIN_SECONDS:g} s"


def _has_last_ogg_page(handle: int) -> bool:
    """Whether the file ends with a complete page that is marked as the last of its stream."""
    size = os.fstat(handle).st_size
    position = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, max(0, size - 2 * _OGG_PAGE_BYTES), os.SEEK_SET)
    tail = os.read(handle, 2 * _OGG_PAGE_BYTES)
    os.lseek(handle, position, os.SEEK_SET)
    page = tail[tail.rfind(b"OggS") :] if b"OggS" in tail else b""
    if len(page) < 27:
        return False
    segments = page[27 : 27 + page[26]]
    is_whole = len(segments) == page[26] and len(page) >= 27 + page[26] + sum(segments)
    return is_whole and bool(page[5] & _OGG_LAST_PAGE)


def _decode(sound: soundfile.SoundFile, header: SoundHeader) -> Samples:
    """Return (n,) float32 mono samples, at most as many as the header states."""
    longest = int(MAX_SECONDS * header.rate_hz)
    limit = longest + 1 if header.frames is None else header.frames
    limit = min(limit, MAX_DECODED_BYTES // (8 * header.channels))
    blocks: list[Samples] = []
    count, peak = 0, 0.0
    for block in in_blocks(sound, _BLOCK_FRAMES):
        if count >= limit:
            break
        block = block[: limit - count]
        if not np.isfinite(block).all():
            raise RowError("contains values that are not numbers (NaN or infinity)")
        peak = max(peak, float(np.abs(block).max()))
        if peak > MAX_PEAK:
            raise RowError(f"contains samples as large as {peak:g}; full scale is 1")
        blocks.append(block.mean(axis=1, dtype=np.float32))
        count += len(block)
    slack = max(_MP3_SLACK_FRAMES, limit // 50) if sound.format in ("MP3", "MPEG") else 0
    if header.frames is not None and count < limit - slack:
        raise RowError(
            f"is cut off: {count / header.rate_hz:.2f} of {limit / header.rate_hz:.2f} s can be "
            "decoded"
        )
    if count > longest:
        raise RowError(f"is longer than {MAX_SECONDS:g} s; {_ADVICE}")
    if count < MIN_SECONDS * header.rate_hz:
        raise RowError(_too_short(count, header.rate_hz))
    mono = np.concatenate(blocks)
    if peak > MIN_RMS and not np.any(np.abs(mono) > peak * 1e-3):
        raise RowError("has channels that cancel each other out when mixed to mono")
    return mono


def _judge(samples: Samples) -> None:
    mean = float(samples.mean(dtype=np.float64))
    rms = float(np.sqrt(np.mean(np.square(samples - mean, dtype=np.float64))))
    if rms >= MIN_RMS:
        return
    if abs(mean) >= MIN_RMS:
        raise RowError(f"contains no sound, only a constant offset of {mean:.3g}")
    level = f"{20 * math.log10(rms):.0f} dBFS" if rms else "nothing but zeros"
    raise RowError(f"is silent ({level}; the minimum is {20 * math.log10(MIN_RMS):.0f} dBFS)")


def _oddities(samples: Samples, rate_hz: int) -> list[str]:
    """Return warnings about a recording that is usable, but not good."""
    found = []
    sizes = np.abs(samples)
    share = np.count_nonzero(sizes >= CLIPPED_AT) / len(sizes)
    if share >= CLIPPED_SHARE:
        found.append(f"is clipped in {share:.0%} of its samples; record it more quietly")
    silence_s = int(np.argmax(sizes >= SILENT_BELOW)) / rate_hz
    if silence_s >= SILENT_START_S:
        found.append(f"begins with {silence_s:.1f} s of silence; trim it")
    return found


_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_OPEN |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def opened(
    path: str, root: Path | None, max_bytes: int, root_name: str | None = None
) -> Iterator[int]:
    """Open a regular file that is not empty, and yield its descriptor. Opening never blocks.

    Args:
        root: folder that must contain the file after links are resolved; None: any folder.
        root_name: name of the root in messages.
    Raises:
        RowError: the file cannot be opened; the message continues a sentence that starts with its
            name.
    """
    try:
        handle = _open_plain(path) if root is None else _open_inside(path, root, root_name)
    except FileNotFoundError:
        raise RowError("does not exist") from None
    except PermissionError:
        raise RowError("cannot be read; check its permissions") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RowError(f"cannot be opened: {reason}") from None
    try:
        size = os.fstat(handle).st_size
        if not size:
            raise RowError("is empty")
        if size > max_bytes:
            raise RowError(f"has {size:,} bytes; the maximum is {max_bytes:,}")
        yield handle
    finally:
        os.close(handle)


def _open_plain(path: str, flags: int = 0, folder: int | None = None) -> int:
    _require_plain(os.stat(path, dir_fd=folder))  # opening a device may have side effects
    handle = os.open(path, _OPEN | flags, dir_fd=folder)
    try:
        _require_plain(os.fstat(handle))
    except RowError:
        os.close(handle)
        raise
    return handle


def _require_plain(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise RowError("is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise RowError("is not a regular file")


def _open_inside(path: str, root: Path, root_name: str | None) -> int:
    """Open a file by its resolved path, from the root down and without following links, so that a
    link that is created meanwhile has no effect.
    """
    top, real = os.path.realpath(root), os.path.realpath(path)
    inside = os.path.relpath(real, top)
    parts = inside.split(os.sep)
    if parts[0] == os.pardir or os.path.isabs(inside):
        raise RowError(f"is outside of {root_name or root}")
    if os.open not in os.supports_dir_fd:
        return _open_plain(real, _NOFOLLOW)
    folder_flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)
    folder = os.open(top, folder_flags)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, folder_flags | _NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return _open_plain(parts[-1], _NOFOLLOW, folder)
    finally:
        os.close(folder)


def sha256(handle: int, max_bytes: int) -> str:
    """Return the SHA-256 of an open file. Raises RowError if it has too many bytes."""
    digest = hashlib.sha256()
    os.lseek(handle, 0, os.SEEK_SET)
    count = 0
    while block := os.read(handle, 1 << 20):
        count += len(block)
        if count > max_bytes:
            raise RowError("grows while it is being read")
        digest.update(block)
    return digest.hexdigest()
