"""Turn a take's samples into the contents of its files: post-processing, loudness, encoding."""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tts_cli.audio.file import NO_TAGS, check_format, encode, encode_codes, resample, to_float
from tts_cli.audio.tags import Tags
from tts_cli.core import AS_SYNTHESIZED, Encoded, FilePace, Result, Task
from tts_cli.errors import RowError, UsageError
from tts_cli.hashing import encode as encode_json
from tts_cli.hashing import hashed_values, sha256_of

if TYPE_CHECKING:
    import numpy as np

    from tts_cli.audio.content_credentials import Signer
    from tts_cli.audio.treatment import PostProcessing, PostProcessReport
    from tts_cli.audio.watermark import Watermark
    from tts_cli.config import RunConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """The settings that turn the samples of a row into a file."""

    format: str
    subtype: str
    rate_hz: int
    highpass_hz: float | None = field(default=None, metadata={"as_before": None})
    trim: str | None = field(default=None, metadata={"as_before": None})  # margin of a trimmed end
    pad_s: tuple[float, float] | None = field(default=None, metadata={"as_before": None})
    # Measure, level and highest true peak; names such as ebu are resolved.
    level: tuple[str, float, float] | None = field(default=None, metadata={"as_before": None})
    kbps: int | None = field(default=None, metadata={"as_before": None})
    preset: str | None = field(default=None, metadata={"as_before": None})
    pace: tuple[float, float | None] | None = field(default=None, metadata={"as_before": None})
    mark: str | None = field(default=None, metadata={"as_before": None})


def delivery_hash(delivery: Delivery) -> str:
    """Return the hash that two files of the same speech share if their delivery is the same."""
    return sha256_of(encode_json(hashed_values(delivery)))


class Encoder:
    """Encodes the audio of takes with the settings of a run; any thread may use it.

    Args:
        native_rate_hz: sample rate of the samples.
    Raises:
        UsageError, SetupError: format, subtype and rate are not possible; see `check_format`.
    """

    def __init__(self, config: RunConfig, native_rate_hz: int) -> None:
        self.format = config.format
        self.suffix = f".{config.format}"
        self.native_rate_hz = native_rate_hz
        self.rate_hz = config.sample_rate or native_rate_hz
        self.kbps = config.bitrate
        self.subtype = check_format(config.format, config.subtype, self.rate_hz, self.kbps)
        from tts_cli.audio.treatment import TRIM_MARGIN_S, PostProcessing  # and numpy with it

        self.treatment = treatment = PostProcessing.of(config)
        treatment.require_packages()
        target, preset = treatment.target, treatment.preset
        self.delivery = Delivery(
            self.format,
            self.subtype,
            self.rate_hz,
            treatment.highpass_hz,
            f"{TRIM_MARGIN_S:g} s" if treatment.is_trimmed else None,
            treatment.pad_s if any(treatment.pad_s) else None,
            None if target is None else (target.by, target.level_db, target.ceiling_dbtp),
            kbps=self.kbps,
            preset=None if preset is None else preset.name,
            mark=config.mark,
        )
        self.signer, self.watermark = signer_of(config), watermark_of(config)
        self.delivery_hash = delivery_hash(self.delivery)  # of most rows
        self.has_codes = config.save_codes

    def delivery_hash_of(self, pace: FilePace) -> str:
        """Return the hash of the delivery of a row with this pace."""
        if pace == AS_SYNTHESIZED:
            return self.delivery_hash
        return delivery_hash(replace(self.delivery, pace=(pace.speed, pace.fit_s)))

    @property
    def accepts_int16(self) -> bool:
        """Whether int16 samples are enough, because files have 16 bits at the native rate."""
        is_native = self.subtype == "PCM_16" and self.rate_hz == self.native_rate_hz
        return is_native and self.treatment.is_none and self.watermark is None

    def encode(
        self,
        samples: np.ndarray[Any, Any],
        codes: np.ndarray[Any, Any] | None = None,
        tags: Tags = NO_TAGS,
        pace: FilePace = AS_SYNTHESIZED,
    ) -> Encoded:
        """Encode a take's files in memory.

        Args:
            samples: (n,) float32 in [-1, 1] or int16, at the native rate; n >= 1.
            codes: (F, K) integers, used only if the run saves codes.
            tags: title, voice and comment of the file.
            pace: of the file.
        Raises:
            RowError: the samples are empty or not finite.
        """

        def make(treatment: PostProcessing) -> tuple[bytes, PostProcessReport | None]:
            """Return a file, and what was done to its samples; None: they were resampled at
            most.
            """
            applied, rates_hz = None, (self.native_rate_hz, self.rate_hz)
            if treatment.is_none or not len(samples):
                processed = resample(samples, *rates_hz)
            else:
                shaped, applied = treatment.shape(to_float(samples), self.native_rate_hz)
                at_rate = resample(shaped, *rates_hz, is_clipped=False)
                processed, applied = treatment.level(at_rate, self.rate_hz, applied)
            if self.watermark is not None:
                processed = self.watermark.added(to_float(processed), self.rate_hz)
            given = self.rate_hz, self.format, self.subtype, tags, self.kbps
            return encode(processed, *given), applied

        treatment = self.treatment if pace == AS_SYNTHESIZED else replace(self.treatment, pace=pace)
        preset, target = treatment.preset, treatment.target
        if preset is None or target is None:
            data, applied = make(treatment)
            misses = [] if applied is None else treatment.misses(applied)
        else:
            (data, applied), facts = preset.meet(
                target,
                lambda target: make(replace(treatment, target=target)),
                lambda made: io.BytesIO(made[0]),
            )
            is_silent = facts.level_db(preset.measure) is None
            misses = [] if is_silent else preset.misses(facts)
        if self.signer is not None:
            data = self.signer.signed(data, self.format, tags.title)
        if applied is not None:
            misses = misses + treatment.slot_misses(applied, len(samples) / self.native_rate_hz)
        coded = encode_codes(codes) if codes is not None and self.has_codes else None
        return Encoded(
            audio=data,
            codes=coded,
            num_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            codes_sha256=None if coded is None else hashlib.sha256(coded).hexdigest(),
            num_samples=len(samples),
            applied=applied,
            remarks=tuple(misses),
        )


def signer_of(config: RunConfig) -> Signer | None:
    """Return the signer of --mark. Raises UsageError, SetupError: files cannot be signed."""
    if not config.has_mark("c2pa"):
        return None
    if config.mark_key is None:
        raise UsageError(
            "--mark c2pa: needs --mark-key",
            "give your PEM file, or make one with: tts-cli mark key mark.pem",
        )
    from tts_cli.audio.content_credentials import Signer, check_markable

    check_markable(config.format)
    return Signer(config.mark_key)


def watermark_of(config: RunConfig) -> Watermark | None:
    """Return the watermark of --mark. Raises SetupError: its package is missing."""
    if not config.has_mark("watermark"):
        return None
    from tts_cli.audio.watermark import Watermark  # and torch with it

    return Watermark()


def encoded(task: Task, spoken: Result, make: Callable[..., Encoded], comment: str) -> Result:
    """Return a result with files in place of its samples and codes, or with the reason why it has
    none. Any thread may call it.

    Args:
        make: see `AudioWriter.make`.
        comment: written into every file, see `tags.comment_of`.
    Raises:
        DiskFull, StoppedEarly: see `AudioWriter.make`.
    """
    if spoken.samples is None:
        return spoken
    started_s = time.perf_counter()
    is_truncated = spoken.error is not None
    take = task.place.file_take
    tags = Tags.of_row(task.id, task.request.voice, comment)
    files, problem = None, None
    try:
        files = make(task.id, spoken.samples, spoken.codes, is_truncated, take, tags, task.pace)
    except RowError as error:
        log.debug("row %s cannot be written", task.id, exc_info=True)
        problem = str(error)
    return replace(
        spoken,
        samples=None,
        codes=None,
        encoded=files,
        unwritable=problem,
        encode_ms=1000 * (time.perf_counter() - started_s),
    )
