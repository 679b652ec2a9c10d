"""Talker and code predictor of the `fish-speech` package, and vLLM-Omni's prompts, as oracles where
they are on the path.

No product code uses them. fish-speech 0.1.0 is the last release under Apache-2.0 and older than S2:
its `DualARTransformer` has all of S2's layers, but gives the code predictor the hidden state before
the final norm. `speak` therefore drives it step by step, with the norm between them and the heads
cut to what the codec has codes for, as the code for S2 does (fish-speech at 3dd1f85, vLLM-Omni
0.30.0).
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import torch
from tiny_fish_speech import END, SEMANTIC_START, Spec
from torch import Tensor

PACKAGES = ("fish_speech", "fish_speech.models", "fish_speech.models.text2semantic")
STAND_INS: dict[str, dict[str, Any]] = {  # module: what is imported from it
    "einops": {"rearrange": None},
    "loguru": {"logger": None},
    "fish_speech.models.text2semantic.lora": {"LoraConfig": object, "setup_lora": None},
    "fish_speech.tokenizer": {"SEMANTIC_TOKENS": [], "FishTokenizer": object},
}
PROMPTS = "vllm_omni/model_executor/models/fish_speech/prompt_utils.py"


@dataclass(frozen=True)
class Spoken:
    """What the package made of one prompt, greedily."""

    codes: Tensor  # (F, K) int64
    finish_reason: str
    first_logits: Tensor  # (F + 1 or F, C + 1) of first codes and the end, one row a step
    rest_logits: Tensor  # (F, K - 1, R)
    smallest_gap: float  # between the best two logits of any choice


def is_installed() -> bool:
    """Whether both packages can be found; imports nothing."""
    return all(importlib.util.find_spec(name) is not None for name in ("fish_speech", "vllm_omni"))


def _location(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


@contextmanager
def _bare_packages() -> Iterator[None]:
    """Packages as mere folders, and stand-ins for what is not installed or not needed."""
    root = _location("fish_speech")
    modules = {name: types.ModuleType(name) for name in (*PACKAGES, *STAND_INS)}
    for name in PACKAGES:
        modules[name].__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    for name, values in STAND_INS.items():
        vars(modules[name]).update(values)
    for name, module in modules.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    before = dict(sys.modules)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - set(before):
            if name.partition(".")[0] in ("fish_speech", "einops", "loguru"):
                del sys.modules[name]
        sys.modules.update({name: before[name] for name in modules if name in before})


def build(spec: Spec, tensors: dict[str, Tensor]) -> Any:
    """A float32 `DualARTransformer` on the CPU with the given tensors, all of its parameters."""
    with warnings.catch_warnings(), _bare_packages():
        warnings.simplefilter("ignore")
        llama = importlib.import_module("fish_speech.models.text2semantic.llama")
    arguments = llama.DualARModelArgs(
        vocab_size=spec.text_vocab_size,
        n_layer=spec.num_layers,
        n_head=spec.num_heads,
        dim=spec.width,
        intermediate_size=spec.mlp_width,
        n_local_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        rope_base=spec.rope_theta,
        norm_eps=spec.norm_eps,
        max_seq_len=spec.max_positions,
        attention_qk_norm=True,
        codebook_size=spec.codebook_size,
        num_codebooks=spec.num_codebooks,
        use_gradient_checkpointing=False,
        scale_codebook_embeddings=True,
        n_fast_layer=spec.predictor_layers,
        fast_n_head=spec.predictor_heads,
        fast_n_local_heads=spec.predictor_kv_heads,
        fast_head_dim=spec.predictor_head_dim,
        fast_intermediate_size=spec.predictor_mlp_width,
        fast_attention_qk_norm=False,
    )
    last = SEMANTIC_START + spec.codebook_size - 1
    tokenizer = SimpleNamespace(
        semantic_begin_id=SEMANTIC_START,
        semantic_end_id=last,
        semantic_id_to_token_id={i: SEMANTIC_START + i for i in range(spec.codebook_size)},
    )
    model = llama.DualARTransformer(arguments, tokenizer)
    model.load_state_dict({official_name(name): value for name, value in tensors.items()})
    return model.float().eval().requires_grad_(False)


def official_name(name: str) -> str:
    """A released tensor's name in the package's own module tree."""
    if name.startswith("text_model.model."):
        return name.removeprefix("text_model.model.")
    name = name.removeprefix("audio_decoder.")
    return name if name.startswith("codebook_embeddings") else f"fast_{name}"


@torch.inference_mode()
def speak(model: Any, spec: Spec, prompt: Tensor, max_frames: int) -> Spoken:
    """Greedy frames behind a prompt (K + 1, T): ids, and the codes of reference frames.

    The end of speech may not come first, which is the one thing we do differently.
    """
    model.setup_caches(1, spec.max_positions, torch.float32)
    allowed = torch.full((spec.text_vocab_size,), -torch.inf)
    allowed[SEMANTIC_START : SEMANTIC_START + spec.codebook_size] = 0
    allowed[END] = 0
    kept = [*range(SEMANTIC_START, SEMANTIC_START + spec.codebook_size), END]
    frames: list[Tensor] = []
    first_logits, rest_logits = [], []
    gap, reason = float("inf"), "max_frames"
    column, position = prompt, torch.arange(prompt.shape[1])
    while True:
        result = model.forward_generate(column[None], position)
        logits = result.logits[0, -1] + allowed
        first_logits.append(logits[kept])
        if not frames:
            logits[END] = -torch.inf
        gap = min(gap, _gap(logits))
        token = int(logits.argmax())
        if token == END:
            reason = "eos"
            break
        if len(frames) == max_frames:
            break
        hidden = model.norm(result.hidden_states[0, -1])
        model.forward_generate_fast(hidden[None], torch.tensor([0]))
        codes, per_book = [token - SEMANTIC_START], []
        for book in range(1, spec.num_codebooks):
            embedded = model.fast_embeddings(torch.tensor(codes[-1:]))
            found = model.forward_generate_fast(embedded, torch.tensor([book]))
            found = found[0, -1, : spec.num_rest_codes]
            gap = min(gap, _gap(found))
            per_book.append(found)
            codes.append(int(found.argmax()))
        rest_logits.append(torch.stack(per_book))
        frames.append(torch.tensor(codes))
        column = torch.tensor([token, *codes])[:, None]
        position = position[-1:] + 1
    return Spoken(
        torch.stack(frames), reason, torch.stack(first_logits), torch.stack(rest_logits), gap
    )


def _gap(logits: Tensor) -> float:
    best, second = logits.topk(2).values.tolist()
    return best - second


def plain_prompt(tokenizer: Any, text: str) -> list[int]:
    """vLLM-Omni's prompt of a text without a reference, which is the official one."""
    path = _location("vllm_omni").parent / PROMPTS
    spec = importlib.util.spec_from_file_location("fish_prompt_utils", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ids, _ = module.build_fish_text_only_prompt_ids(tokenizer, text)
    return [int(i) for i in ids]


def probabilities(logits: Tensor, temperature: float, top_p: float) -> Tensor:
    """What fish-speech 0.1.0 draws from: it has no top-k yet, its other rules are those of S2."""
    path = _location("fish_speech") / "models" / "text2semantic" / "inference.py"
    wanted = ("logits_to_probs",)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    names: dict[str, Any] = {"torch": torch, "Optional": Optional}
    exec(compile(tree, str(path), "exec"), names)  # the rest of the file wants a web server
    found: Tensor = names["logits_to_probs"](
        logits.clone(), torch.tensor(temperature), torch.tensor(top_p), torch.tensor(1.0)
    )
    return found
