"""The official package, imported where newer versions of transformers would break it."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

# What the package imports and training does not use.
STAND_INS: dict[str, tuple[str, ...]] = {
    "einops": ("rearrange", "repeat"),
    "librosa": (),
    "librosa.filters": ("mel",),
    "onnxruntime": (),
    "soundfile": (),
    "sox": (),
    "torchaudio": (),
    "torchaudio.compliance": (),
    "torchaudio.compliance.kaldi": (),
}
# Arguments of the mask builders that newer versions call otherwise.
RENAMED = {"input_embeds": "inputs_embeds", "past_key_values": "cache"}


def _plain_rope(config: Any, device: Any = None, **_: Any) -> tuple[Any, float]:
    """RoPE without scaling, which newer versions no longer list."""
    import torch

    theta = getattr(config, "rope_theta", None) or 10000.0
    steps = torch.arange(0, config.head_dim, 2).float().to(device) / config.head_dim
    return 1.0 / theta**steps, 1.0


def _is_there(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _renamed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A mask builder that takes the arguments the package knows, whatever they are called now."""
    known = inspect.signature(inspect.unwrap(function)).parameters

    def call(**given: Any) -> Any:
        for old, new in RENAMED.items():
            if old in given and old not in known:
                given[new] = given.pop(old)
        return function(**{name: value for name, value in given.items() if name in known})

    return call


def load() -> None:
    """Make `qwen_tts` importable: call before importing anything of it."""
    if "qwen_tts" in sys.modules:
        return
    from transformers import MimiConfig, masking_utils
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.utils import generic

    ROPE_INIT_FUNCTIONS.setdefault("default", _plain_rope)
    if not hasattr(MimiConfig(), "rope_theta"):
        MimiConfig.rope_theta = 10000.0
    masks = ("create_causal_mask", "create_sliding_window_causal_mask")
    builders = {name: getattr(masking_utils, name) for name in masks}
    for name, builder in builders.items():
        setattr(masking_utils, name, _renamed(builder))
    check = generic.check_model_inputs
    # Once called with brackets, later without.
    generic.check_model_inputs = lambda function=None: check(function) if function else check
    added = [name for name in STAND_INS if not _is_there(name.partition(".")[0])]
    for name in added:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        for item in STAND_INS[name]:
            setattr(module, item, None)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
        sys.modules[name] = module
    try:
        importlib.import_module("qwen_tts")
        configs = importlib.import_module("qwen_tts.core.models.configuration_qwen3_tts")
        for kind in (configs.Qwen3TTSTalkerConfig, configs.Qwen3TTSTalkerCodePredictorConfig):
            if not hasattr(kind, "pad_token_id"):
                kind.pad_token_id = None
    finally:
        for name in added:
            del sys.modules[name]
        generic.check_model_inputs = check
        for name, builder in builders.items():
            setattr(masking_utils, name, builder)
