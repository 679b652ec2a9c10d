"""Examine an installation: what synthesis needs, what is missing, and how to get it."""

from __future__ import annotations

import importlib
import os
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from models import registry
from tts_cli.errors import SetupError, first_line
from tts_cli.extras import all_extras, remedy_of
from tts_cli.named import shown_size
from tts_cli.plan import checkpoint
from tts_cli.startup import TORCH

MIN_FREE_BYTES = 2 * 10**9


@dataclass
class Finding:
    name: str
    status: str  # ok, note or missing; missing: no synthesis is possible
    detail: str
    remedy: str = ""


def all_findings() -> list[Finding]:
    found = [*packages(), *extras(), *devices(), *kernels(), *caches()]
    return [*found, sample_voice(), *licences()]


def packages() -> list[Finding]:
    found = []
    needed = {
        "torch": TORCH,
        "transformers": "pip install transformers",
        "safetensors": "pip install safetensors",
        "soundfile": "pip install soundfile",
        "soxr": "pip install soxr",
        "huggingface_hub": "pip install huggingface-hub",
    }
    for name, remedy in needed.items():
        try:
            version = getattr(importlib.import_module(name), "__version__", "present")
            found.append(Finding(name, "ok", str(version)))
        except Exception as error:  # a broken package may raise anything
            found.append(Finding(name, "missing", first_line(error), remedy))
    return found


def extras() -> list[Finding]:
    found = []
    for name, extra in all_extras().items():
        if problems := extra.problems():
            detail = f"{'; '.join(problems)}, for {extra.serves}"
            found.append(Finding(f"extra {name}", "note", detail, remedy_of(name)))
        else:
            there = (f"{package.name} {version(package.name)}" for package in extra.packages)
            found.append(Finding(f"extra {name}", "ok", f"{', '.join(there)}, for {extra.serves}"))
    return found


def devices() -> list[Finding]:
    if (torch := _torch()) is None:
        return []
    found = [Finding("cpu", "ok", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads")]
    if not torch.cuda.is_available():
        built = torch.version.cuda
        detail = f"torch {torch.__version__} finds no CUDA device"
        remedy = "check the driver with nvidia-smi" if built else "this torch is a CPU build"
        return [*found, Finding("cuda", "note", detail, remedy)]
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
        capability = f"{properties.major}.{properties.minor}"
        detail = (
            f"{properties.name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free, "
            f"capability {capability}, CUDA {torch.version.cuda}, driver {driver_version()}"
        )
        found.append(Finding(f"cuda:{index}", "ok", detail))
    return found


def _torch() -> Any:
    try:
        import torch
    except (ImportError, OSError):
        return None
    return torch


def driver_version() -> str:
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split()
    except OSError:
        return "unknown"
    numbers = [word for word in words if word[:1].isdigit() and "." in word]
    return numbers[0] if numbers else "unknown"


def kernels() -> list[Finding]:
    """Check which kernels will be used. On a CUDA device a test kernel is compiled and launched."""
    if (torch := _torch()) is None:
        return []
    try:
        from kernels.launch.dispatch import AUTO
        from kernels.launch.probe import probe, remedy_for, tools
    except (ImportError, OSError):
        return []
    if not torch.cuda.is_available():
        return [Finding("kernels", "ok", AUTO.describe())]
    device = torch.device("cuda", 0)
    found = "; ".join(f"{name} {where}" for name, where in tools(device).items())
    failure = probe(device)
    if failure is None:
        return [
            Finding(
                "kernels", "ok", f"{AUTO.describe(device)}, a test kernel was compiled; {found}"
            )
        ]
    detail = (
        f"using the slower PyTorch reference, because Triton does not work ({failure}); {found}"
    )
    return [Finding("kernels", "note", detail, remedy_for(failure))]


def caches() -> list[Finding]:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    hub_home = os.environ.get("HF_HOME") or Path(cache) / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(hub_home) / "hub")
    triton = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
    found = []
    for name, folder in (("hub cache", hub), ("kernel cache", triton)):
        state = "there" if folder.is_dir() else "not created yet"
        place = folder
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        status = "ok" if free > MIN_FREE_BYTES else "note"
        remedy = "" if free > MIN_FREE_BYTES else "free some space; a checkpoint takes 2 to 5 GB"
        found.append(Finding(name, status, f"{folder} ({state}), {shown_size(free)} free", remedy))
    return found


def licences() -> list[Finding]:
    found = []
    for licence in registry.licences():
        status = "note" if checkpoint.accepted_on(licence) is None else "ok"
        found.append(Finding("licence", status, checkpoint.describe_consent(licence)))
    return found


def sample_voice() -> Finding:
    try:
        return Finding("sample voice", "ok", str(checkpoint.sample_voice()))
    except SetupError as error:
        return Finding("sample voice", "missing", error.message, error.remedy or "")
