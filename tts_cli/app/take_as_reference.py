"""Use a synthesized row as the reference of a voice.

If the row's codes are stored and its checkpoint clones by codes alone, the codes are the reference.
Otherwise its audio is used like a recording: lossless audio, or audio decoded from codes of a
shared codec, or the row's file.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from models.base import ModelInfo, Voice
from models.registry import load_prompts, pace_of, shares_codec
from tts_cli.app.encode import Run, SourceFolder
from tts_cli.app.pick import Choice, find_take, parse_choice
from tts_cli.audio.file import encode
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.engine import stored_codes
from tts_cli.engine.kernels import with_fallback
from tts_cli.engine.made_voices import coded_voice, require_usable
from tts_cli.engine.session import LocalSession
from tts_cli.errors import RowError, UsageError
from tts_cli.plan.checkpoint import model_source
from tts_cli.sources.row import build_row
from tts_cli.store import sources
from tts_cli.store.entry import JournalEntry
from tts_cli.text.pauses import without_pauses
from tts_cli.text.words import is_wordless
from tts_cli.voices.needs import reference_silence_s
from tts_cli.voices.recording import (
    MAX_SECONDS,
    MIN_SECONDS,
    Reference,
    load_reference,
    reference_digest,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TakeAsReference:
    out: Path
    record: JournalEntry
    is_file: bool  # whether it is the row's current take
    run: Run | None  # run that synthesized it; None: unknown

    def reference(self, mode: str | None, info: ModelInfo, config: RunConfig) -> Reference | Voice:
        """Return a recording, or a finished voice of codes. Raises UsageError for neither."""
        silence_s = reference_silence_s(config, info)
        # A checkpoint without speaker embeddings clones by codes alone.
        takes_codes = "xvec" not in info.clone_modes and mode != "xvec" and not silence_s
        try:
            kept, codes = self._find(info, takes_codes)
            values = {"text": ".", "ref_audio": str(kept.path), "ref_text": self.text(info)}
            row = require_row({**values, "clone_mode": mode})
            content = kept.sha256 or ""
            if codes is not None:
                content = hashlib.sha256(str(codes.shape).encode() + codes.tobytes()).hexdigest()
            digest = reference_digest(content, row.clone_mode or "xvec", row.ref_text, silence_s)
            if codes is None:
                found = load_recording(row, info, replace(config, ref_root=self.out))
                if content and found.digest != digest:
                    raise RowError(f"{kept.path} has changed since the run")
                return found
            if takes_codes:
                return _voice(codes, row.ref_text, digest, info, config)
            return replace(self._decoded(codes, row, info, config), digest=digest)
        except (RowError, UsageError) as error:
            remedy = error.remedy or "choose another row or take, or a recording with --ref-audio"
            message = f"{self.out}: row '{self.record.id}': {error.message}"
            raise UsageError(message, remedy) from None

    def text(self, info: ModelInfo) -> str:
        """Return the words of the take, without pauses and markup of its model. Raises RowError."""
        record = self.record
        pace = pace_of((self.run and self.run.family) or info.family)
        written = record.text if record.spoken_text is None else record.spoken_text
        said = without_pauses(written or "")
        said = " ".join((pace.without_markup(said) if pace else said).split())
        if is_wordless(said):
            raise RowError("its journal entry has no text")
        if record.is_runaway:
            log.warning("row '%s' was cut off and may not contain all of its text", record.id)
        return said

    def _find(
        self, info: ModelInfo, takes_codes: bool
    ) -> tuple[sources.AudioSource, sources.Array | None]:
        """Return the best source for a voice, and its (F, K) int64 codes if these are the source.

        Codes are preferred to lossless audio if `takes_codes`. Raises RowError if no source is
        usable.
        """
        out, record, run = self.out, self.record, self.run
        has_codec = (
            run is not None
            and record.clone_model in (None, info.identity)
            and (run.identity == info.identity or shares_codec(info, run.family, run.size))
        )
        rate_hz = info.sample_rate_hz
        finders = [partial(sources.find_source, out, record, rate_hz, has_codec)]
        if takes_codes and has_codec:
            finders.insert(0, partial(sources.find_codes, out, record))
        for look in finders:
            try:
                kept = look()
                if kept.kind == "audio":
                    return kept, None
                return kept, stored_codes.read_codes(kept, record, info.num_codebooks)
            except RowError as error:
                log.info("row '%s': %s", record.id, error)
        kept = sources.find_file(out, record)
        log.warning("row '%s': %s is used as it is", record.id, kept.path)
        return kept, None

    def _decoded(
        self, codes: sources.Array, row: Row, info: ModelInfo, config: RunConfig
    ) -> Reference:
        """Return the audio of codes as a recording. Raises RowError, UsageError."""
        with closing(LocalSession(config, info)) as session:
            model = session.loaded.model
            num_codes = getattr(model, "num_entries", None)
            if num_codes is not None and codes.max() >= num_codes:
                raise RowError("its codes were made by another model")
            decode = partial(stored_codes.decode, codes, self.record, model, is_int16=True)
            samples = with_fallback(decode, model)
        with tempfile.TemporaryDirectory(prefix="tts-cli-voice-") as scratch:
            audio = Path(scratch) / "speech.wav"
            audio.write_bytes(encode(samples, info.sample_rate_hz, "wav", "PCM_16"))
            return load_recording(
                replace(row, ref_audio=str(audio)), info, replace(config, ref_root=None)
            )


def _voice(
    codes: sources.Array, text: str | None, digest: str, info: ModelInfo, config: RunConfig
) -> Voice:
    """Return a voice that consists of codes, without loading weights. Raises RowError."""
    if not MIN_SECONDS <= (seconds := len(codes) * info.frame_s) <= MAX_SECONDS:
        raise RowError(f"is {seconds:.2f} s long; it must be {MIN_SECONDS:g} to {MAX_SECONDS:g} s")
    voice = coded_voice(codes, text, info, digest)
    prompt, _, _ = load_prompts(model_source(config.model), config.revision)
    require_usable(voice, info, prompt)
    return voice


def take_as_reference(out: Path, take: str) -> TakeAsReference:
    """Return a row's current take, or the named one. Raises UsageError if it does not exist."""
    spoken = SourceFolder(out, RunConfig())
    journal = spoken.journal
    choice = parse_choice(take) if "=" in take else None
    file = journal.file(choice.row_id if choice else take)
    record = find_take(journal, out, choice or Choice(take, file.take if file else 1))
    return TakeAsReference(
        out, record, file is not None and file.take == record.take, spoken.run_of(record)
    )


def require_row(values: Mapping[str, Any]) -> Row:
    """Check values as those of a manifest's row. Raises UsageError."""
    row = build_row({"id": "voice", **values}, line=1, number=1, folder="")
    if isinstance(row, BadRow):
        raise UsageError(row.message)
    return row


def load_recording(row: Row, info: ModelInfo, config: RunConfig) -> Reference:
    try:
        return load_reference(
            row.ref_audio or "",
            config.ref_root,
            mode=row.clone_mode or "xvec",
            text=row.ref_text,
            rate_hz=info.sample_rate_hz,
            silence_s=reference_silence_s(config, info),
        )
    except RowError as error:
        raise UsageError(str(error)) from None
