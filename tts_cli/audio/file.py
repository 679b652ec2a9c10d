"""Encode samples into the bytes of an audio file, in memory.

WAV files are written here, so that the same samples always give the same bytes (libsndfile puts a
time stamp into float files). libsndfile writes the other formats.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tts_cli.audio.bit_rate import check_bit_rate, encoder_options
from tts_cli.audio.tags import Tags, put_tags, wav_chunk
from tts_cli.errors import RowError, SetupError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import soundfile

    Samples = np.ndarray[Any, Any]


class AudioFormat(NamedTuple):
    """A file format. `config.SUBTYPES` has its name and sample formats."""

    media_type: str  # the part after audio/
    container: str  # libsndfile's name
    coding: str | None = None  # libsndfile's name of a lossy format's subtype; None: lossless
    bytes_per_s: float = 0.0  # of a lossy format with its usual bit rate
    rates_hz: tuple[int, ...] | None = None  # its sample rates; None: any

    @property
    def is_lossy(self) -> bool:
        return self.coding is not None


_MP3_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_OPUS_RATES_HZ = (8000, 12000, 16000, 24000, 48000)
FORMATS = {
    "wav": AudioFormat("wav", "WAV"),
    "flac": AudioFormat("flac", "FLAC"),
    "ogg": AudioFormat("ogg", "OGG", "VORBIS", 10_000.0),
    "mp3": AudioFormat("mpeg", "MP3", "MPEG_LAYER_III", 10_000.0, _MP3_RATES_HZ),
    "opus": AudioFormat("ogg", "OGG", "OPUS", 6_000.0, _OPUS_RATES_HZ),
}
NOT_FINITE = "the audio contains values that are not numbers"
LOSSLESS_SUBTYPES = ("PCM_16", "PCM_24", "FLOAT")
_BLOCK = 65_536  # samples per call of libsndfile, whose Vorbis encoder overflows on more
_WAV_TAGS = {  # format tag, bits per sample
    "PCM_16": (1, 16),
    "PCM_24": (1, 24),
    "FLOAT": (3, 32),
    "ALAW": (6, 8),
    "ULAW": (7, 8),
}
NO_TAGS = Tags(software="")


def check_format(format: str, subtype: str, rate_hz: int, kbps: int | None = None) -> str:
    """Check that audio can be written in a format, before any is synthesized. Return the subtype to
    use; lossy formats have their own.

    Args:
        kbps: bit rate of a lossy format; None: the format's own.
    Raises:
        UsageError: the format does not support the sample rate or the bit rate.
        SetupError: libsndfile is too old for the format.
    """
    about = FORMATS[format]
    if about.rates_hz is not None and rate_hz not in about.rates_hz:
        rates = ", ".join(map(str, about.rates_hz))
        raise UsageError(
            f"{format} does not support {rate_hz} Hz",
            remedy=f"use --sample-rate with one of {rates}",
        )
    coding = about.coding or subtype
    if format != "wav":
        import soundfile

        if not soundfile.check_format(about.container, coding):
            raise SetupError(
                f"libsndfile {soundfile.__libsndfile_version__} cannot write {format}",
                remedy="install a newer soundfile, or use --format wav",
            )
    check_bit_rate(format, rate_hz, kbps)
    return coding


def resample(
    samples: Samples, native_rate_hz: int, rate_hz: int, *, is_clipped: bool = True
) -> Samples:
    """Change the sample rate: (n,) to (n * rate / native,).

    Args:
        is_clipped: clip samples to [-1, 1] first.
    """
    if rate_hz == native_rate_hz:
        return samples
    import soxr

    values = to_float(samples) if is_clipped else samples
    changed: Samples = soxr.resample(values, native_rate_hz, rate_hz)
    return changed


def encode(
    samples: Samples,
    rate_hz: int,
    format: str,
    subtype: str,
    tags: Tags = NO_TAGS,
    kbps: int | None = None,
) -> bytes:
    """Encode a mono file. Raises RowError: the samples are empty or not finite.

    Args:
        samples: (n,) float32, clipped to [-1, 1], or int16.
        subtype: as `check_format` returned it.
        kbps: bit rate of a lossy format; None: the format's own.
    """
    assert samples.ndim == 1, samples.shape
    if not len(samples):
        raise RowError("there is no audio: it ended before its first frame")
    if format == "wav":
        data, end = wav_data(samples, subtype), wav_chunk(tags)
        header = wav_header(len(samples), rate_hz, subtype, len(end))
        return b"".join((header, data, b"\0" * (len(data) % 2), end))
    import soundfile

    values = to_float(samples)
    if subtype == "PCM_16":
        values = to_int16(samples)
    elif subtype == "PCM_24":
        values = _to_int24(samples) << 8  # libsndfile reads the upper 24 of 32 bits
    buffer = io.BytesIO()
    options = {"format": FORMATS[format].container}
    options |= encoder_options(format, rate_hz, kbps)
    with soundfile.SoundFile(buffer, "w", rate_hz, 1, subtype, **options) as file:
        put_tags(file, tags)
        for start in range(0, len(values), _BLOCK):
            file.write(values[start : start + _BLOCK])
    return buffer.getvalue()


def encode_codes(codes: Samples) -> bytes:
    """Encode a safetensors file with the tensor `codes`, (F, K) int16."""
    import numpy as np
    from safetensors.numpy import save

    assert codes.ndim == 2, codes.shape
    assert codes.size == 0 or 0 <= codes.min() <= codes.max() < 2**15, (codes.min(), codes.max())
    return save({"codes": np.ascontiguousarray(codes, dtype=np.int16)})


def to_int16(samples: Samples) -> Samples:
    """Clip to [-1, 1], scale by 32767 and round half to even; int16 passes through.
    `vocoder.to_int16` does the same on the device.
    """
    import numpy as np

    if samples.dtype == np.int16:
        return samples
    scaled: Samples = np.rint(_clipped(samples) * np.float32(32767)).astype(np.int16)
    return scaled


def to_float(samples: Samples) -> Samples:
    """Convert to float32 in [-1, 1]."""
    import numpy as np

    if samples.dtype == np.int16:
        samples = samples.astype(np.float32) / np.float32(32767)
    return _clipped(samples)


def _to_int24(samples: Samples) -> Samples:
    import numpy as np

    scaled: Samples = np.rint(to_float(samples).astype(np.float64) * 8_388_607).astype(np.int32)
    return scaled


def _clipped(samples: Samples) -> Samples:
    import numpy as np

    if not np.isfinite(samples).all():
        raise RowError(NOT_FINITE)
    clipped: Samples = np.clip(samples, -1, 1).astype(np.float32, copy=False)
    return clipped


def wav_data(samples: Samples, subtype: str) -> bytes:
    if subtype == "PCM_16":
        return to_int16(samples).astype("<i2", copy=False).tobytes()
    if subtype == "PCM_24":
        return _to_int24(samples).astype("<i4").view("u1").reshape(-1, 4)[:, :3].tobytes()
    if subtype in ("ALAW", "ULAW"):
        return _companded(samples, subtype)
    return to_float(samples).astype("<f4").tobytes()


def _companded(samples: Samples, subtype: str) -> bytes:
    """Encode samples in 8 bits of telephony (ITU-T G.711) with libsndfile."""
    import soundfile

    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", 8_000, 1, subtype, format="RAW") as file:
        file.write(to_int16(samples))
    return buffer.getvalue()


def wav_header(num_samples: int, rate_hz: int, subtype: str, end_bytes: int = 0) -> bytes:
    """Return the bytes before the samples of a mono WAV file.

    Args:
        end_bytes: length of the chunks after the samples, see `wav_chunk`.
    """
    tag, bits = _WAV_TAGS[subtype]
    width = bits // 8
    form = struct.pack("<HHIIHH", tag, 1, rate_hz, rate_hz * width, width, bits)
    fact = b""
    if tag != 1:
        form, fact = form + b"\0\0", b"fact" + struct.pack("<II", 4, num_samples)
    form = b"fmt " + struct.pack("<I", len(form)) + form
    size = struct.pack("<I", wav_bytes(num_samples, subtype) + end_bytes - 8)
    data = struct.pack("<I", num_samples * width)
    return b"RIFF" + size + b"WAVE" + form + fact + b"data" + data


def wav_bytes(num_samples: int, subtype: str) -> int:
    """Return the size of the file that `encode` makes of this many samples, without tags."""
    tag, bits = _WAV_TAGS[subtype]
    data = num_samples * bits // 8
    return (44 if tag == 1 else 58) + data + data % 2


def in_blocks(file: soundfile.SoundFile, num_frames: int) -> Iterator[Samples]:
    """Yield the samples of an open file from its start: (n, channels) float32, n <= `num_frames`.

    The file is marked as not seekable, because `SoundFile` seeks after every read. In an MP3 that
    drops the decoder's state: the first samples of the next block would be wrong, with errors on
    stderr.
    """
    file.seekable = lambda: False
    while len(block := file.read(num_frames, dtype="float32", always_2d=True)):
        yield block


def is_whole_audio(path: Path) -> bool:
    """Return whether a file of any format can be decoded to its end. Raises OSError."""
    import soundfile

    if is_whole_wav(path):
        return True
    try:
        with soundfile.SoundFile(path) as file:
            if file.format == "WAV":
                return False
            num_frames: int = file.frames
            return 0 < num_frames == sum(map(len, in_blocks(file, _BLOCK)))
    except soundfile.LibsndfileError:
        return False


def is_whole_wav(path: Path) -> bool:
    """Return whether a WAV file is as long as its header states. Raises OSError."""
    with open(path, "rb") as file:
        header = file.read(12)
        size = file.seek(0, 2)
    if len(header) < 12 or header[:4] != b"RIFF" or header[8:] != b"WAVE":
        return False
    return int.from_bytes(header[4:8], "little") + 8 == size
