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

import pytest
import torch
import torch.nn.functional as F
from scripts import load_script
from tiny_fish_speech import END, SEMANTIC_START, Spec
from torch import Tensor, nn

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
    module = load_script(path)
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


class _Linear(nn.Module):
    """A stand-in for vLLM's parallel linear maps: one weight, and no bias."""

    def __init__(self, *, bias: bool, **sizes: Any) -> None:
        super().__init__()
        assert not bias
        inputs = sizes.get("input_size", sizes.get("hidden_size"))
        heads = sizes.get("total_num_heads", 0) + 2 * sizes.get("total_num_kv_heads", 0)
        outputs = sizes.get("output_size", sum(sizes.get("output_sizes", ())))
        self.weight = nn.Parameter(torch.empty(outputs or heads * sizes["head_size"], inputs))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return F.linear(x, self.weight), None


class _NeighbourRope:
    """A stand-in for vLLM's rotation of neighbors; its tables are rounded as in vLLM-Omni."""

    def __init__(
        self, head_dim: int, max_position: int, is_neox_style: bool, rope_parameters: Any
    ) -> None:
        assert not is_neox_style
        self.head_dim = head_dim
        speed = rope_parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
        angle = torch.outer(torch.arange(max_position).float(), 1 / speed)
        self.cos, self.sin = angle.cos().bfloat16().float(), angle.sin().bfloat16().float()

    def __call__(self, positions: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]

        def turn(x: Tensor) -> Tensor:
            even, odd = x.view(len(x), -1, self.head_dim // 2, 2).unbind(-1)
            return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).view(x.shape)

        return turn(q), turn(k)


VLLM_STAND_INS: dict[str, dict[str, Any]] = {
    "vllm": {},
    "vllm.config": {"VllmConfig": object},
    "vllm.config.vllm": {"set_current_vllm_config": None},
    "vllm.logger": {"init_logger": lambda name: None},
    "vllm.model_executor": {},
    "vllm.model_executor.layers": {},
    "vllm.model_executor.layers.layernorm": {"RMSNorm": nn.RMSNorm},
    "vllm.model_executor.layers.linear": dict.fromkeys(
        ("MergedColumnParallelLinear", "QKVParallelLinear", "RowParallelLinear"), _Linear
    ),
    "vllm.model_executor.layers.rotary_embedding": {"get_rope": _NeighbourRope},
    "vllm.model_executor.model_loader": {},
    "vllm.model_executor.model_loader.weight_utils": {
        "default_weight_loader": None,
        "maybe_remap_kv_scale_name": None,
    },
    "vllm.model_executor.models": {},
    "vllm.model_executor.models.utils": {"is_pp_missing_parameter": None},
}


def build_fast_ar(spec: Spec, tensors: dict[str, Tensor]) -> Any:
    """vLLM-Omni's `FishSpeechFastAR`, float32 on the CPU, behind stand-ins for vLLM's layers.

    It shows what S2 gives its code predictor, which fish-speech 0.1.0 cannot.
    """
    root = _location("vllm_omni") / "model_executor" / "models" / "fish_speech"
    modules = {name: types.ModuleType(name) for name in (*VLLM_STAND_INS, "fish_omni")}
    for name, values in VLLM_STAND_INS.items():
        vars(modules[name]).update(values)
        modules[name].__path__ = []
    modules["fish_omni"].__path__ = [str(root)]
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        fast = importlib.import_module("fish_omni.fish_speech_fast_ar")
        configs = importlib.import_module("fish_omni.configuration_fish_speech")
    for name in [name for name in sys.modules if name.startswith("fish_omni")]:
        del sys.modules[name]
    slow_config = configs.FishSpeechSlowARConfig(
        dim=spec.width,
        semantic_begin_id=SEMANTIC_START,
        semantic_end_id=SEMANTIC_START + spec.codebook_size - 1,
    )
    config = configs.FishSpeechFastARConfig(
        vocab_size=spec.codebook_size,
        num_codebooks=spec.num_codebooks,
        dim=spec.width,
        n_head=spec.predictor_heads,
        n_local_heads=spec.predictor_kv_heads,
        head_dim=spec.predictor_head_dim,
        n_layer=spec.predictor_layers,
        intermediate_size=spec.predictor_mlp_width,
        max_seq_len=spec.num_codebooks + 1,
        text_dim=spec.width,
        rope_base=spec.rope_theta,
        rms_norm_eps=spec.norm_eps,
    )
    network = fast.FishSpeechFastAR(vllm_config=None, config=config, slow_ar_config=slow_config)
    given = {n.removeprefix("audio_decoder."): t for n, t in tensors.items() if "audio_dec" in n}
    state = {f"fast_{name}.weight": given[f"{name}.weight"] for name in ("embeddings", "output")}
    state["fast_norm.weight"] = given["norm.weight"]
    for index in range(spec.predictor_layers):
        old, new = f"layers.{index}.", f"model.layers.{index}."
        gate_up = [given[f"{old}feed_forward.{name}.weight"] for name in ("w1", "w3")]
        state |= {
            f"{new}self_attn.qkv_proj.weight": given[f"{old}attention.wqkv.weight"],
            f"{new}self_attn.o_proj.weight": given[f"{old}attention.wo.weight"],
            f"{new}mlp.gate_up_proj.weight": torch.cat(gate_up),
            f"{new}mlp.down_proj.weight": given[f"{old}feed_forward.w2.weight"],
            f"{new}input_layernorm.weight": given[f"{old}attention_norm.weight"],
            f"{new}post_attention_layernorm.weight": given[f"{old}ffn_norm.weight"],
        }
    network.load_state_dict(state)
    return network.float().eval().requires_grad_(False)
