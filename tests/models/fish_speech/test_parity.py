"""Our float32 greedy codes and logits against fish-speech's, as the golden files hold them.

They were made by tests/oracle/make_fish_goldens.py. The tests marked `oracle` compare afresh, on
other weights and texts, where the packages are installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import official_fish_speech as official
import pytest
import tiny_fish_speech as tiny
import torch
from parity import check_codes, check_drawn, load_draws
from speak import Row, speak
from torch import Tensor

from kernels.sampling.nucleus import sample_nucleus
from kernels.sampling.row import RowSettings
from models.base import REFERENCE, SpeechRequest
from models.dual_ar.model import DualAR, NucleusSlots
from models.registry import load_model
from models.sampling import Sampling

pytestmark = pytest.mark.slow

LOGIT_TOLERANCE = 1e-4  # float32 products summed in another order, over logits of about 5
GREEDY = Sampling(greedy=True, subtalker_greedy=True, repetition_penalty=1.0)


def recorded_logits(
    model: DualAR, request: SpeechRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Row, Tensor, Tensor]:
    """A row alone; first-code logits of every step, (F + 1, C + 1), the others', (F, K - 1, R)."""
    first: list[Tensor] = []
    rest: list[Tensor] = []

    def recorder(draw: Callable[..., Tensor], kept: list[Tensor]) -> Any:
        def call(slots: NucleusSlots, rows: Any, logits: Tensor, *others: Tensor) -> Tensor:
            kept.append(logits[0].clone())
            return draw(slots, rows, logits, *others)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(NucleusSlots, "first", recorder(NucleusSlots.first, first))
        patch.setattr(NucleusSlots, "rest", recorder(NucleusSlots.rest, rest))
        (row,) = speak(model, [request], 1)
    frames = len(first) - 1
    others = torch.stack(rest).view(frames, model.config.num_codebooks - 1, -1)
    return row, torch.stack(first), others


def test_goldens_are_worth_comparing_with(golden: Any) -> None:
    # Rows must end by themselves and by their cap, at many lengths, with codes all over the range.
    assert {row["finish_reason"] for row in golden.rows} == {"eos", "max_frames"}
    assert len({row["frames"] for row in golden.rows}) >= 4
    spec = tiny.SPECS[golden.spec]
    codes = torch.cat([golden.tensors[f"codes.{row['id']}"] for row in golden.rows])
    sizes = [spec.codebook_size] + [spec.num_rest_codes] * (spec.num_codebooks - 1)
    for book, size in zip(codes.T, sizes, strict=True):
        assert int(book.min()) >= 0
        assert int(book.max()) < size
        assert len(book.unique()) > size // 4


def test_prompts_are_the_official_ids(golden: Any, golden_model: DualAR) -> None:
    for row in golden.rows:
        prompt = golden_model.prompt(golden.request(row))
        assert prompt.text_ids == row["token_ids"], row["id"]
        frames = row["voice"]["frames"] if row["voice"] else 0
        places = [i for i, code in enumerate(prompt.codec_ids) if code <= REFERENCE]
        assert [prompt.codec_ids[i] for i in places] == [REFERENCE - r for r in range(frames)]


def test_logits_and_codes_of_a_row_alone_equal_the_official_ones(
    golden: Any, golden_model: DualAR, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in golden.rows[::3]:  # the codes of all are compared below
        spoken, first, rest = recorded_logits(golden_model, golden.request(row), monkeypatch)
        check(golden, row, spoken)
        ours = {"first": first[row["first_steps"]], "rest": rest[row["rest_steps"]]}
        for name, found in ours.items():
            expected = golden.tensors[f"{name}.{row['id']}"]
            torch.testing.assert_close(found, expected, rtol=0, atol=LOGIT_TOLERANCE)


def test_codes_equal_the_official_ones(golden: Any, golden_model: DualAR) -> None:
    # Rows with and without references and of different caps share the slots.
    requests = [golden.request(row) for row in golden.rows]
    check_rows(golden, speak(golden_model, requests, 3, is_compact=True))


@pytest.mark.gpu
@pytest.mark.parametrize("has_graphs", [False, True])
def test_gpu_float32_equals_official(
    golden: Any, has_graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    model = load_model(str(golden.folder), "cuda", torch.float32, use_graphs=has_graphs)
    requests = [golden.request(row) for row in golden.rows]
    rows = speak(model, requests, 4, frames_per_poll=3, is_compact=True, has_graphs=has_graphs)
    check_rows(golden, rows)


def check_rows(golden: Any, rows: list[Row]) -> None:
    for row, ours in zip(golden.rows, rows, strict=True):
        check(golden, row, ours)


def check(golden: Any, row: dict[str, Any], ours: Row) -> None:
    name = f"{golden.spec} {row['id']}"
    check_codes(name, ours.codes, golden.tensors[f"codes.{row['id']}"].long())
    assert ours.finish_reason == row["finish_reason"], name


@pytest.mark.parametrize(("case", "logits", "probabilities"), load_draws("golden_fish_draws"))
def test_draws_follow_the_official_probabilities(
    case: dict[str, Any], logits: Tensor, probabilities: Tensor
) -> None:
    rows = 997
    drawn = sample_nucleus(
        logits.expand(rows, -1).contiguous(),
        (torch.arange(rows) + 0.5) / rows,
        RowSettings(
            torch.zeros(rows, dtype=torch.bool),
            torch.full((rows,), case["temperature"]),
            torch.zeros(rows, dtype=torch.int32),
            torch.full((rows,), case["top_p"]),
        ),
        torch.empty(rows, dtype=torch.int64),
    )
    check_drawn(drawn, probabilities)


@pytest.mark.oracle
@pytest.mark.skipif(not official.is_installed(), reason="needs fish-speech and vllm-omni")
@pytest.mark.parametrize("name", sorted(tiny.SPECS))
def test_fresh_rows_equal_the_official_package(name: str, checkpoint: Callable[..., Path]) -> None:
    from transformers import PreTrainedTokenizerFast

    spec, seed = tiny.SPECS[name], 4321
    folder = checkpoint(name, seed)
    theirs = official.build(spec, tiny.random_weights(spec, seed))
    model = load_model(str(folder), "cpu", torch.float32)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    for text in ("Nothing here was in the golden files.", "[sigh] \u518d\u89c1\u3002", " x "):
        request = SpeechRequest(text, sampling=GREEDY, max_frames=21)
        ids = official.plain_prompt(tokenizer, text)
        assert model.prompt(request).text_ids == ids
        prompt = torch.zeros(spec.num_codebooks + 1, len(ids), dtype=torch.int64)
        prompt[0] = torch.tensor(ids)
        spoken = official.speak(theirs, spec, prompt, 21)
        (ours,) = speak(model, [request], 1)
        check_codes(text, ours.codes, spoken.codes)
        assert ours.finish_reason == spoken.finish_reason


@pytest.mark.oracle
@pytest.mark.skipif(not official.is_installed(), reason="needs fish-speech and vllm-omni")
@pytest.mark.parametrize("name", sorted(tiny.SPECS))
def test_code_predictor_equals_vllm_omnis(name: str, checkpoint: Callable[..., Path]) -> None:
    # It cuts the head to 1,024 codes whatever the codec has; here none are cut on either side.
    spec = replace(tiny.SPECS[name], num_rest_codes=tiny.SPECS[name].codebook_size)
    theirs = official.build_fast_ar(spec, tiny.random_weights(spec, 7))
    model = load_model(str(checkpoint(spec, 7)), "cpu", torch.float32)
    assert isinstance(model, DualAR)
    rows = 24
    model.allocate(rows, 300, 4)
    hidden, code = torch.randn(rows, spec.width), torch.randint(0, spec.codebook_size, (rows,))
    with torch.inference_mode():
        greedy = [SpeechRequest("", sampling=GREEDY)] * rows
        counts, numbers = map(torch.tensor, model.sampling.settings_of(greedy))
        model.sampling.assign(torch.arange(rows), counts, numbers)
        model.slots.hidden.copy_(hidden)
        model.slots.code.copy_(code)
        model.predict(rows)
        expected = theirs(hidden, code + tiny.SEMANTIC_START, do_sample=False)
    check_codes(name, model.slots.work, expected)
    assert len(expected.unique()) > 30
