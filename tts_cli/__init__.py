"""Offline batch text-to-speech: a command line, `tts-cli`, and a library.

    from tts_cli import Speaker

    with Speaker() as speaker:
        speaker.say("Good morning.").save("morning.wav")

Nothing heavy is imported before one of these names is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tts_cli.core import Row
    from tts_cli.errors import (
        Cancelled,
        ManifestError,
        RowError,
        SetupError,
        SpeakerBusy,
        StoppedEarly,
        TtsCliError,
        UsageError,
    )
    from tts_cli.library.settings import RowFields, RowValues, Settings
    from tts_cli.library.speaker import Speaker
    from tts_cli.library.speech import Speech, SpeechPart, Timings

__all__ = [
    "Cancelled",
    "ManifestError",
    "Row",
    "RowError",
    "RowFields",
    "RowValues",
    "Settings",
    "SetupError",
    "Speaker",
    "SpeakerBusy",
    "Speech",
    "SpeechPart",
    "StoppedEarly",
    "Timings",
    "TtsCliError",
    "UsageError",
]
_PLACES = {
    "core": ("Row",),
    "library.settings": ("RowFields", "RowValues", "Settings"),
    "library.speaker": ("Speaker",),
    "library.speech": ("Speech", "SpeechPart", "Timings"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return a public name from the module that defines it (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
