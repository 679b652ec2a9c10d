"""Which checkpoint a run speaks with: the one named, or the sample voice that travels with the
tool.
"""

from __future__ import annotations

from pathlib import Path

from tts_cli.errors import SetupError

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


def is_synthetic(model: str | None) -> bool:
    """Whether a `--model` value stands for random weights, which never end their speech."""
    return model is not None and model.startswith("synthetic:")
