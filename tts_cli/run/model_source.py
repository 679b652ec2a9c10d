"""Which checkpoint a run speaks with, and what it offers: the one named, or the sample voice that
travels with the tool. No torch: a checkpoint is described from its small files.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from models.base import ModelInfo
from models.checkpoint.files import CheckpointError
from models.registry import describe, is_synthetic, load_prompt_counter
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.run.needs import Count

CHECKOUT_FOLDER = Path("samples") / "voice" / "checkpoint"
INSTALLED_FOLDER = "sample_voice"  # pyproject.toml puts it there


def sample_voice() -> Path:
    """The embedded checkpoint's folder: in the checkout, or inside the installed package.

    Raises:
        SetupError: neither is there, so the installation is incomplete.
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / INSTALLED_FOLDER
    for folder in (package.parent / CHECKOUT_FOLDER, installed):
        if (folder / "config.json").is_file():
            return folder
    raise SetupError(
        f"the sample voice is not where it should be ({installed})",
        remedy="install tts-cli again, or name a checkpoint with --model",
    )


def model_source(model: str | None) -> str:
    """The source `models.registry` takes for a `--model` value."""
    return str(sample_voice()) if model is None else model


def model_label(model: str | None) -> str:
    """How messages and reports name the model."""
    return "sample voice" if model is None else model


def never_ends(model: str | None) -> bool:
    """Whether a `--model` value stands for random weights, which never end their speech."""
    return model is not None and is_synthetic(model)


def prompt_counter(config: RunConfig) -> Count:
    """What counts the tokens of a request's prompt, with so many reference frames; its tokenizer is
    read once. Raises SetupError.
    """
    try:
        return _prompt_counter(model_source(config.model), config.revision)
    except CheckpointError as error:
        raise SetupError(str(error)) from None


@lru_cache(maxsize=1)
def _prompt_counter(source: str, revision: str | None) -> Count:
    return load_prompt_counter(source, revision)


def read_info(config: RunConfig) -> ModelInfo:
    """What the run's checkpoint offers, from its small files. Raises SetupError."""
    try:
        return describe(model_source(config.model), config.revision)
    except CheckpointError as error:
        raise SetupError(
            str(error), remedy="see `tts-cli voices --help` for what --model takes"
        ) from None


def model_facts(config: RunConfig, info: ModelInfo) -> dict[str, Any]:
    """What run.json says of the model."""
    return {
        "source": model_label(config.model),
        "family": info.family,
        "type": info.type,
        "size": info.size,
        "identity": info.identity,
        "licence": None if info.licence is None else info.licence.name,
        "default_voice": config.voice or (info.voices[0] if info.voices else None),
    }
