"""Return the versions of installed packages, and the commit of the checkout."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "tts-cli",
    "torch",
    "triton",
    "transformers",
    "numpy",
    "ray",
    "soundfile",
    "soxr",
    "pyloudnorm",
    "safetensors",
)

OWN_PACKAGE = PACKAGES[:1]


def versions(packages: Iterable[str] | None = None) -> dict[str, str | None]:
    """Return installed versions without importing the packages; None: not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES if packages is None else packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """Return the checkout's commit, with `+` if it has changes; None outside a checkout."""
    folder = Path(__file__).resolve().parent

    def git(*args: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None
