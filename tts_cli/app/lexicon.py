"""Show how words are spoken with the settings of a run: lexicon and normalizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.plan.checkpoint import read_info
from tts_cli.plan.checks import check_settings
from tts_cli.text.frontend import TextFrontend
from tts_cli.text.languages import named_language
from tts_cli.text.unicode import clean_unicode
from tts_cli.text.words import strip_markup
from tts_cli.voices.voice_store import VoiceStore


def read_words(
    words: Iterable[str], config: RunConfig
) -> tuple[TextFrontend, list[dict[str, Any]]]:
    """What reads them, and each as it is read. Raises UsageError, SetupError."""
    info = read_info(config)
    check_settings(config, info, VoiceStore(config.voice_dir))
    care = TextFrontend.of(config, info)
    language = named_language(config.language, info.languages)
    words = map(clean_unicode, words)
    if config.strip_markup:
        words = map(strip_markup, words)
    return care, [_read(word, care, language) for word in words]


def _read(word: str, care: TextFrontend, language: str) -> dict[str, Any]:
    """One word, how it is spoken, and what says so, each once."""
    reading = care.read(word, language)
    by = (
        "normalizer" if edit.line is None else f"{care.lexicon.path}:{edit.line}"
        for edit in reading.edits
    )
    return {"written": word, "spoken": reading.spoken, "by": list(dict.fromkeys(by))}
