"""Which checkpoint a run speaks with: the one named, or the sample voice that travels with the
tool.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from tts_cli.errors import SetupError

CHECKOUT_FOLDER = Path("samples") / "voice" / "checkpoint"
PACKAGE = "tts_cli.sample_voice"


def sample_voice() -> Path:
    """The embedded checkpoint's folder: in the installed package, or in the checkout.

    Raises:
        SetupError: neither is there, so the installation is incomplete.
    """
    checkout = Path(__file__).resolve().parent.parent / CHECKOUT_FOLDER
    if (checkout / "config.json").is_file():
        return checkout
    try:
        installed = Path(str(resources.files(PACKAGE)))
    except ModuleNotFoundError:
        installed = checkout
    if (installed / "config.json").is_file():
        return installed
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
