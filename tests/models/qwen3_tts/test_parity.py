"""Our float32 greedy speech against the official package's: equal codes, end reasons and waveforms.

The golden files were made by tests/oracle/make_goldens.py. The tests marked `oracle` compare
afresh, on other weights and other texts, where the official package is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import official_package as official
import pytest
import tiny_qwen3_tts as tiny
import torch
import torch.nn.functional as F
from official_package import Line
from parity import as_request, check_codes, check_drawn, check_row, check_samples, load_draws
from safetensors.torch import load_file
from speak import speak
from torch import Tensor

from kernels.sampling.row import RowSettings
from kernels.sampling.sample import sample
from models.registry import load_model
from models.slots.model import SpeechModel

pytestmark = pytest.mark.slow

SAMPLE_VOICE = Path(__file__).parents[3] / "samples" / "voice" / "checkpoint"


def test_goldens_are_worth_comparing_with(golden: Any) -> None:
    # Rows must end by themselves and by their cap, at many lengths, with codes all over the range.
    assert {row["finish_reason"] for row in golden.rows} == {"eos", "max_frames"}
    assert len({row["frames"] for row in golden.rows}) >= 6
    codes = torch.cat([golden.tensors[f"codes.{row['id']}"] for row in golden.rows])
    size = tiny.SPECS[golden.spec].codebook_size
    assert int(codes.min()) >= 0
    assert int(codes.max()) < size
    assert all(len(book.unique()) > size // 3 for book in codes.T)
    samples = torch.cat([golden.tensors[f"samples.{row['id']}"] for row in golden.rows])
    assert 0.02 < float(samples.std()) < 0.9
    assert float((samples.abs() == 1).float().mean()) < 0.1


def test_prompts_equal_the_official_embeddings(golden: Any, golden_model: SpeechModel) -> None:
    weights = {k: v.float() for k, v in load_file(golden.folder / "model.safetensors").items()}
    pad = json.loads((golden.folder / "config.json").read_text())["tts_pad_token_id"]

    def linear(x: Tensor, name: str) -> Tensor:
        prefix = f"talker.text_projection.{name}."
        return F.linear(x, weights[f"{prefix}weight"], weights[f"{prefix}bias"])

    def text(ids: list[int]) -> Tensor:
        x = weights["talker.model.text_embedding.weight"][torch.tensor(ids).clamp(min=0)]
        x = linear(F.silu(linear(x, "linear_fc1")), "linear_fc2")
        return x.masked_fill(torch.tensor(ids)[:, None] < 0, 0)

    def codec(ids: list[int]) -> Tensor:
        x = weights["talker.model.codec_embedding.weight"][torch.tensor(ids).clamp(min=0)]
        return x.masked_fill(torch.tensor(ids)[:, None] < 0, 0)

    for row in golden.rows:
        prompt = golden_model.prompt(as_request(row))
        assert prompt.num_tokens == row["prompt_tokens"], row["id"]
        if f"prompt.{row['id']}" not in golden.tensors:
            continue
        embedded = text(prompt.text_ids) + codec(prompt.codec_ids)
        expected = golden.tensors[f"prompt.{row['id']}"]
        torch.testing.assert_close(embedded, expected, rtol=1e-5, atol=1e-5)
        # Where nothing trails the package queues one pad text, which it adds after any queue.
        trailing = text(prompt.trailing_ids or [pad])
        expected = golden.tensors[f"trailing.{row['id']}"]
        torch.testing.assert_close(trailing, expected, rtol=1e-5, atol=1e-5)


def test_mixed_batch_equals_official(golden: Any, golden_model: SpeechModel) -> None:
    """Rows of both layouts, several penalties and caps share the slots, and slots are refilled.
    `tests/models/test_families.py` shows that a row alone is the same.
    """
    requests = [as_request(row) for row in golden.rows]
    rows = speak(golden_model, requests, 16, frames_per_poll=8, is_compact=True)
    for row, ours in zip(golden.rows, rows, strict=True):
        check_row(golden, row, ours)


@pytest.mark.gpu
@pytest.mark.parametrize("has_graphs", [False, True])
def test_gpu_float32_equals_official(
    golden: Any, has_graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    model = load_model(str(golden.folder), "cuda", torch.float32, use_graphs=has_graphs)
    requests = [as_request(row) for row in golden.rows]
    rows = speak(model, requests, 4, frames_per_poll=3, is_compact=True, has_graphs=has_graphs)
    for row, ours in zip(golden.rows, rows, strict=True):
        check_row(golden, row, ours)


@pytest.mark.parametrize(("case", "logits", "probabilities"), load_draws("golden_draws"))
def test_draws_follow_the_official_probabilities(
    case: dict[str, Any], logits: Tensor, probabilities: Tensor
) -> None:
    rows, vocab = 997, len(logits)
    uniform = (torch.arange(rows) + 0.5) / rows
    processors: dict[str, Any] = {}
    penalty = None
    if case["part"] == "talker":
        eos = vocab - tiny.NUM_RESERVED + 102
        seen = torch.zeros(vocab, dtype=torch.bool)
        seen[case["seen"]] = True
        suppress = torch.zeros(vocab, dtype=torch.bool)
        suppress[-tiny.NUM_RESERVED :] = True
        suppress[eos] = False
        penalty = torch.full((rows,), case["repetition_penalty"])
        processors = {
            "seen": seen.expand(rows, -1),
            "suppress": suppress,
            "eos": eos,
            "no_eos": torch.full((rows,), case["step"] < 2),
        }
    drawn = sample(
        logits.expand(rows, -1).contiguous(),
        uniform,
        RowSettings(
            torch.zeros(rows, dtype=torch.bool),
            torch.full((rows,), case["temperature"]),
            torch.full((rows,), case["top_k"], dtype=torch.int32),
            torch.full((rows,), case["top_p"]),
            penalty,
        ),
        torch.empty(rows, dtype=torch.int64),
        **processors,
    )
    check_drawn(drawn, probabilities)


FRESH_LINES = {
    "custom_voice": [
        Line("Nothing here was in the golden files.", "boris", "German"),
        Line("Zw\u00f6lf Boxk\u00e4mpfer jagen Viktor.", "chen", "Auto"),
        Line("(parentheses) & 50% of them\u2026", "ada", "chinese", "dropped by this size"),
    ],
    "custom_voice_wide": [
        Line("Nothing here was in the golden files.", "emil", "japanese", "Sing it."),
        Line("\u518d\u89c1\u3002", "fang", "chinese"),
        Line("iPhone McDonald NASA 3.14", "dora", None, "\n"),
    ],
    "voice_design": [
        Line("Nothing here was in the golden files.", None, "english", "A child."),
        Line("\u0627\u0644\u0633\u0644\u0627\u0645 \U0001f600", None, None, "Deep."),
        Line(" x ", None, "chinese"),
    ],
}


@pytest.mark.oracle
@pytest.mark.skipif(not official.is_installed(), reason="needs the official qwen_tts package")
@pytest.mark.parametrize("layout", ["non_streaming", "streaming"])
@pytest.mark.parametrize("spec", sorted(FRESH_LINES))
def test_fresh_rows_equal_the_official_package(
    spec: str, layout: str, checkpoint: Callable[..., Path]
) -> None:
    folder = checkpoint(spec, 1234)
    compare_afresh(folder, FRESH_LINES[spec], layout=layout, penalty=1.1, max_new_tokens=21)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(not official.is_installed(), reason="needs the official qwen_tts package")
def test_sample_voice_equals_the_official_package() -> None:
    # Trained weights, at the depth and with the closeness of choices that training gives.
    lines = [
        Line("The evening train was late again.", "clara", "english"),
        Line("Seven white swans.", "ewan", None),
    ]
    compare_afresh(SAMPLE_VOICE, lines, layout="non_streaming", penalty=1.0, max_new_tokens=60)


def compare_afresh(
    folder: Path, lines: list[Line], *, layout: str, penalty: float, max_new_tokens: int
) -> None:
    """Let the package and us speak the same lines, ours with fewer slots than lines."""
    settings: dict[str, Any] = {
        "layout": layout,
        "repetition_penalty": penalty,
        "max_new_tokens": max_new_tokens,
    }
    theirs = official.speak(official.load_model(folder), lines, **settings)
    requests = [as_request({**vars(line), **settings}) for line in lines]
    model = load_model(str(folder), "cpu", torch.float32)
    ours = speak(model, requests, max_batch=max(1, len(lines) - 1))
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        check_codes(f"line {i}", mine.codes, other.codes)
        assert mine.finish_reason == other.finish_reason
        check_samples(mine.samples, other.samples)
