"""Qwen3-ASR is told the language by its name in front of its answer, where that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tts_cli.listen.hearing import recogniser as sound
from tts_cli.listen.hearing.checkpoint import CheckpointRecogniser

MAX_TOKENS = 400  # of a window; people say up to 130 words in 30 s
# What it can be told to hear; Cantonese and Filipino have no code of two letters.
CODES = frozenset(
    (
        *("ar", "zh", "cs", "da", "nl", "en", "fi", "fr", "de", "el", "hi", "hu", "id", "it"),
        *("ja", "ko", "mk", "ms", "fa", "pl", "pt", "ro", "ru", "es", "sv", "th", "tr", "vi"),
    )
)


class Qwen3Asr(CheckpointRecogniser):
    """See `CheckpointRecogniser`."""

    kind, needs, codes = "qwen3_asr", "5.17", CODES

    def _load(self, library: Any, folder: Path) -> Any:
        only_these: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        self._processor = library.Qwen3ASRProcessor.from_pretrained(folder, **only_these)
        return library.Qwen3ASRForConditionalGeneration.from_pretrained(
            folder, use_safetensors=True, dtype=self.dtype, **only_these
        )

    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        """See `CheckpointRecogniser`."""
        import torch

        asked = self._processor.apply_transcription_request(
            audio=samples, language=None if language is None else [language] * len(samples)
        ).to(self.device, self.dtype)
        with torch.inference_mode():
            tokens = self._model.generate(**asked, do_sample=False, max_new_tokens=MAX_TOKENS)
        said = tokens[:, asked["input_ids"].shape[1] :]
        return list(self._processor.decode(said, return_format="transcription_only"))
