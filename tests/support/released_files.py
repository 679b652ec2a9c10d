"""The small files of the released Qwen3-TTS checkpoints, as they are (folder `released`)."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

RELEASED = Path(__file__).parent / "released"
CHECKPOINTS = tuple(sorted(path.name for path in RELEASED.glob("Qwen3-TTS-*")))
COMMON = RELEASED / "common"  # the same in all of them
UNCHANGED = (  # files without a size
    "preprocessor_config.json",
    "speech_tokenizer/preprocessor_config.json",
    "speech_tokenizer/configuration.json",
)


def read(path: str) -> dict[str, Any]:
    """A JSON file of `released`, as a copy of the caller's own."""
    return copy.deepcopy(_parsed(path))


def put(section: dict[str, Any], **values: Any) -> None:
    """Change values of a released object; a key it lacks raises."""
    for key, value in values.items():
        if key not in section:
            raise KeyError(f"{key}: no key of the released file")
        section[key] = value


@functools.cache
def _parsed(path: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((RELEASED / path).read_text(encoding="utf-8"))
    return values
