"""Which module reads a checkpoint: found by the `model_type` its config.json names, imported when
asked for.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.checkpoint.files import CheckpointError, resolve

if TYPE_CHECKING:
    import torch

    from models.base import Licence, ModelInfo, SpeechModel
    from models.checkpoint.files import Conversion

# model_type -> module with describe(folder) and load(folder, device, dtype, use_graphs)
FAMILIES = {
    "qwen3_tts": "models.qwen3_tts.loader",
    "fish_qwen3_omni": "models.fish_speech.loader",
}
# name -> module with describe_synthetic(name) and load_synthetic(name, device, dtype, use_graphs)
SYNTHETIC = {
    "qwen3-tts-0.6b": "models.qwen3_tts.synthetic",
    "qwen3-tts-1.7b": "models.qwen3_tts.synthetic",
    "qwen3-tts-0.6b-base": "models.qwen3_tts.synthetic",
    "qwen3-tts-1.7b-base": "models.qwen3_tts.synthetic",
    "fish-s2-pro": "models.fish_speech.synthetic",
}
# model_type -> module with convert(folder), for families whose release is not all safetensors
CONVERTERS = {"fish_qwen3_omni": "models.fish_speech.codec.convert"}
# name of a family -> module with LICENCE, for weights whose terms must be accepted first
LICENCES = {"fish_speech": "models.fish_speech.licence"}
SYNTHETIC_PREFIX = "synthetic:"


def describe(source: str, revision: str | None = None) -> ModelInfo:
    """What a checkpoint offers, from its small files; no weight is read.

    Args:
        source: a folder, a hub repository id, or `synthetic:NAME`.
    Raises:
        CheckpointError: it cannot be found or read.
    """
    info: ModelInfo
    if source.startswith(SYNTHETIC_PREFIX):
        name, module = _synthetic(source)
        info = module.describe_synthetic(name)
    else:
        folder = resolve(source, revision)
        info = _family(folder).describe(folder)
    return info


def load_model(
    source: str,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    revision: str | None = None,
    use_graphs: bool = False,
) -> SpeechModel:
    """Load a checkpoint's weights.

    Args:
        source: a folder, a hub repository id, or `synthetic:NAME`.
        device: the meta device shows whether names and shapes fit, and reads no weight.
        dtype: None for float32 on a CPU and bfloat16 on a GPU.
        use_graphs: prepare CUDA graph capture; ignored on a CPU.
    Raises:
        CheckpointError: it cannot be found, or its tensors do not fit.
    """
    import torch

    device = torch.device(device)
    if dtype is None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    use_graphs = use_graphs and device.type == "cuda"
    model: SpeechModel
    if source.startswith(SYNTHETIC_PREFIX):
        name, module = _synthetic(source)
        model = module.load_synthetic(name, device, dtype, use_graphs)
    else:
        folder = resolve(source, revision)
        model = _family(folder).load(folder, device, dtype, use_graphs)
    return model


def convert(source: str, revision: str | None = None) -> Conversion | None:
    """Turn what a checkpoint keeps in other formats into safetensors, in its own folder.

    Returns:
        None where all of it is safetensors already.
    Raises:
        CheckpointError: it cannot be found or written, or is not what it should be.
    """
    folder = resolve(source, revision)
    kind = _model_type(folder)
    if kind not in CONVERTERS:
        return None
    conversion: Conversion = importlib.import_module(CONVERTERS[kind]).convert(folder)
    return conversion


def licences() -> list[Licence]:
    """The licences that some family's weights ask to be accepted."""
    return [importlib.import_module(module).LICENCE for module in LICENCES.values()]


def _synthetic(source: str) -> tuple[str, Any]:
    name = source.removeprefix(SYNTHETIC_PREFIX)
    if name not in SYNTHETIC:
        raise CheckpointError(f"no synthetic model {name!r}; there are {', '.join(SYNTHETIC)}")
    return name, importlib.import_module(SYNTHETIC[name])


def _family(folder: Path) -> Any:
    return importlib.import_module(FAMILIES[_model_type(folder)])


def _model_type(folder: Path) -> str:
    """The family that a folder's config.json names."""
    path = folder / "config.json"
    try:
        kind = json.loads(path.read_text(encoding="utf-8")).get("model_type")
    except FileNotFoundError:
        raise CheckpointError(f"{folder}: no config.json; is this a checkpoint folder?") from None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(f"{path}: model_type {kind!r} is not one of {', '.join(FAMILIES)}")
    return kind
