"""Read the saved codes of a take, and decode them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from tts_cli.audio.file import to_int16
from tts_cli.audio.join import rejoin
from tts_cli.engine.pieces import REFERENCE_END_FRAMES
from tts_cli.errors import RowError
from tts_cli.store.entry import JournalEntry
from tts_cli.store.sources import MAX_SECONDS, Array, AudioSource

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

MAX_CODES_BYTES = 64 << 20


def read_codes(
    source: AudioSource, record: JournalEntry, num_codebooks: int, num_codes: int | None = None
) -> Array:
    """Return the (F, K) int64 codes of a row. Raises RowError if the file cannot have its codes."""
    try:
        if source.path.stat().st_size > MAX_CODES_BYTES:
            raise RowError(f"{source.path} is far too large")
        found = load(source.path.read_bytes()).get("codes")
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise RowError(f"{source.path} cannot be read: {error}") from error
    if found is None or found.dtype != np.int16 or found.shape != (record.frames, num_codebooks):
        raise RowError(
            f"{source.path} does not contain the {record.frames} frames of {num_codebooks} "
            "codes of its journal entry"
        )
    if found.min() < 0 or (num_codes is not None and found.max() >= num_codes):
        raise RowError(f"{source.path} contains codes that the model does not have")
    return found.astype(np.int64)


def decode(codes: Array, record: JournalEntry, model: SpeechModel, is_int16: bool) -> Array:
    """Return the (n,) samples of a row, with its pieces joined as in its run.

    `is_int16` must be as in the run, because the ends of pieces fade and are rounded.
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
        front = parts[0][-REFERENCE_END_FRAMES:] if is_free and index else None
        (wave,) = model.decode_audio([part], [front])
        samples = wave.float().cpu().numpy()
        waves.append(to_int16(samples) if is_int16 else samples)
    gaps = [
        max(0, round((after["start_s"] - before["end_s"]) * rate_hz))
        for before, after in zip(record.parts, record.parts[1:], strict=False)
    ]
    if sum(gaps) > MAX_SECONDS * rate_hz:
        raise RowError("its journal entry contains impossible pauses")
    return rejoin(waves, gaps, rate_hz)


def _part_frames(record: JournalEntry) -> list[int]:
    """Return the frames of each piece. Raises RowError if they do not add up to the row's."""
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
