"""Turn a take's samples into the contents of its files: post-processing, loudness, encoding."""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tts_cli.audio.file import NO_TAGS, check_format, encode, encode_codes, resample, to_float
from tts_cli.audio.tags import Tags
from tts_cli.core import AS_SYNTHESIZED, Encoded, FilePace, Result, Task
from tts_cli.errors import RowError, UsageError
from tts_cli.hashing import encode as encode_json
from tts_cli.hashing import sha256_of

if TYPE_CHECKING:
    import numpy as np

    from tts_cli.audio.content_credentials import Signer
    from tts_cli.audio.treatment import PostProcessing, PostProcessReport
    from tts_cli.audio.watermark import Watermark
    from tts_cli.config import RunConfig

log = logging.getLogger(__name__)


class Encoder:
    """Encodes the audio of takes with the settings of a run; any thread may use it. Raises
    UsageError, SetupError, see `check_format`.

    Args:
        native_rate_hz: sample rate of the samples.
    """

    def __init__(self, config: RunConfig, native_rate_hz: int) -> None:
        self.format = config.format
        self.suffix = f".{config.format}"
        self.native_rate_hz = native_rate_hz
        self.rate_hz = config.sample_rate or native_rate_hz
        self.kbps = config.bitrate
        self.subtype = check_format(config.format, config.subtype, self.rate_hz, self.kbps)
        from tts_cli.audio.treatment import PostProcessing  # and numpy with it

        self.treatment = PostProcessing.of(config)
        self.treatment.require_packages()
        self._mark = config.mark
        self.signer, self.watermark = signer_of(config), watermark_of(config)
        self._usual_hash = self._hash_of(self.treatment)  # of most rows
        self.has_codes = config.save_codes

    def delivery_hash_of(self, pace: FilePace = AS_SYNTHESIZED) -> str:
        """Return a hash that is equal for files of the same speech with this pace if they have
        the same format and post-processing.
        """
        if pace == AS_SYNTHESIZED:
            return self._usual_hash
        return self._hash_of(replace(self.treatment, pace=pace))

    def _hash_of(self, treatment: PostProcessing) -> str:
        values = {"format": self.format, "subtype": self.subtype, "rate_hz": self.rate_hz}
        later = {**treatment.hashed_values(), "kbps": self.kbps, "mark": self._mark}
        given = {name: value for name, value in later.items() if value is not None}
        return sha256_of(encode_json(values | given))

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
        Raises:
            RowError: the samples are empty or not finite.
        """

        def make(treatment: PostProcessing) -> tuple[bytes, PostProcessReport | None]:
            """Return a file, and the changes to its samples; None: at most resampled."""
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
