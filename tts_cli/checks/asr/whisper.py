"""Whisper takes 30 s at a time: every window costs the same, and shorter ones are padded. The
spectrogram is computed on the device. Transcripts have no timestamps.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from models.checkpoint.files import CheckpointError, read_json
from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.checkpoint import CheckpointRecognizer

log = logging.getLogger(__name__)

MAX_TOKENS = 220  # of a window; people say up to 130 in 30 s
MAX_SPELLINGS = 10_000


class Whisper(CheckpointRecognizer):
    kind, needs = "whisper", "4.57"

    def _load(self, library: Any, folder: Path) -> Any:
        only_these: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        model = library.WhisperForConditionalGeneration.from_pretrained(
            folder, use_safetensors=True, dtype=self.dtype, **only_these
        )
        self._features = library.WhisperFeatureExtractor.from_pretrained(folder, **only_these)
        self._tokenizer = library.WhisperTokenizerFast.from_pretrained(folder, **only_these)
        self._settings = model.generation_config
        self._settings.max_length = None  # `MAX_TOKENS` is the limit
        codes = getattr(self._settings, "lang_to_id", None) or {}
        self.codes = frozenset(str(token).strip("<|>") for token in codes)
        if not getattr(self._settings, "is_multilingual", True):
            self.languages = ("en",)
        self.spellings = _spellings(folder)
        return model

    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        features = self._features(
            samples, sampling_rate=sound.RATE_HZ, return_tensors="pt", device=str(self.device)
        ).input_features
        max_tokens = int(self._model.config.max_target_positions) - 8  # after the prompt
        told: dict[str, Any] = {"max_new_tokens": min(MAX_TOKENS, max_tokens)}
        if getattr(self._settings, "is_multilingual", False):
            told["task"] = "transcribe"
            if language is not None:
                told["language"] = language
        with self._inference():
            tokens = self._model.generate(
                features.to(self.device, self.dtype),
                do_sample=False,
                num_beams=1,
                return_timestamps=False,
                **told,
            )
        return [
            str(text) for text in self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        ]


def _spellings(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return British spellings and the American ones, if the checkpoint has them."""
    path = folder / "normalizer.json"
    if not path.is_file():
        return ()
    try:
        values = read_json(path)
    except CheckpointError as error:
        log.warning("%s: ignored: %s", path, error)
        return ()
    if not isinstance(values, dict) or len(values) > MAX_SPELLINGS:
        log.warning("%s: ignored, because it is not a table of spellings", path)
        return ()
    return tuple((ours, theirs) for ours, theirs in values.items() if isinstance(theirs, str))
