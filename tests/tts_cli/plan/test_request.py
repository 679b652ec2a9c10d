"""Requests: row over flag over checkpoint over built-in, for every setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cases import cases

from models.base import ModelInfo
from models.sampling import Sampling
from tts_cli.config import RunConfig
from tts_cli.core import Row
from tts_cli.plan.resolve import build_request
from tts_cli.seeds import attempt_seed, row_seed
from tts_cli.text.words import CAP_S, CAP_S_PER_BYTE

CASES = cases(__file__)["request"]

SETTINGS = CASES["settings"]


def make_row(**fields: Any) -> Row:
    return Row(line=1, number=1, id="a/b", **{"text": "hello", **fields})


@pytest.fixture
def info(make_info: Callable[..., ModelInfo]) -> ModelInfo:
    return make_info()


@pytest.mark.parametrize("name", SETTINGS)
def test_row_over_flag_over_checkpoint(info: ModelInfo, name: str) -> None:
    row_value, flag_value, own_value = SETTINGS[name]
    info = replace(info, sampling=replace(Sampling(), **{name: own_value}))
    row = make_row(sampling={name: row_value})
    config = RunConfig(sampling={name: flag_value})

    def resolved(row: Row, config: RunConfig) -> Any:
        return getattr(build_request(row, config, info).sampling, name)

    assert resolved(row, config) == row_value
    assert resolved(make_row(), config) == flag_value
    assert resolved(make_row(), RunConfig()) == own_value


def test_the_model_is_given_plain_spaces(info: ModelInfo) -> None:
    """Cuts see those that hold words together all the same."""
    request = build_request(make_row(text="um 12\u00a0500\u202f€\u3000x"), RunConfig(), info)
    assert request.text == "um 12 500 €\u3000x"
    assert request.spaced == "um 12\u00a0500\u202f€\u3000x"
    plain = build_request(make_row(text="um 12 500 €"), RunConfig(), info)
    assert plain.spaced is None
    pytest.importorskip("num2words")
    config = RunConfig(normalize="german")
    request = build_request(make_row(text="um 12\u00a0500\u00a0Boote"), config, info)
    assert request.text == "um zwölftausendfünfhundert Boote"
    assert request.spaced == "um zwölftausendfünfhundert\u00a0Boote"


@pytest.mark.parametrize(
    ("row", "flag", "own", "expected"),
    [
        ({}, False, (False, False), (False, False)),
        ({}, False, (True, False), (True, False)),
        ({}, False, (False, True), (False, True)),
        ({}, True, (False, False), (True, True)),
        ({"greedy": True}, False, (False, False), (True, True)),
        ({"greedy": False}, True, (True, True), (False, False)),
        ({"greedy": True, "subtalker_greedy": False}, False, (False, False), (True, False)),
        ({"subtalker_greedy": True}, False, (False, False), (False, True)),
        ({"subtalker_greedy": False}, True, (False, False), (True, False)),
    ],
)
def test_greedy_holds_for_all_codebooks_unless_said_otherwise(
    info: ModelInfo,
    row: dict[str, bool],
    flag: bool,
    own: tuple[bool, bool],
    expected: tuple[bool, bool],
) -> None:
    info = replace(info, sampling=Sampling(greedy=own[0], subtalker_greedy=own[1]))
    config = RunConfig.from_options({"greedy": flag})
    sampling = build_request(make_row(sampling=row), config, info).sampling
    assert (sampling.greedy, sampling.subtalker_greedy) == expected


def test_voice_is_the_rows_the_flags_or_the_checkpoints_first(info: ModelInfo) -> None:
    def voice(row: Row, config: RunConfig, info: ModelInfo = info) -> str | None:
        return build_request(row, config, info).voice

    assert voice(make_row(voice="clara"), RunConfig(voice="uncle_fu")) == "clara"
    assert voice(make_row(), RunConfig(voice="uncle_fu")) == "uncle_fu"
    assert voice(make_row(), RunConfig()) == "arthur"
    assert voice(make_row(), RunConfig(), replace(info, voices=())) is None


def test_language_and_layout(info: ModelInfo) -> None:
    config = RunConfig(language="french", layout="streaming")
    assert build_request(make_row(), config, info).language == "french"
    assert build_request(make_row(language="english"), config, info).language == "english"
    assert build_request(make_row(), config, info).layout == "streaming"
    assert build_request(make_row(), RunConfig(), info).language == "auto"


def test_the_rest_of_the_row_travels_unchanged(info: ModelInfo) -> None:
    row = make_row(
        text="Hé, there", instruct="calm", ref_audio="a.wav", ref_text="b", clone_mode="icl"
    )
    request = build_request(row, RunConfig(), info)
    assert request.text == "Hé, there"
    assert request.instruct == "calm"
    assert (request.ref_audio, request.ref_text, request.clone_mode) == ("a.wav", "b", "icl")


class TestSeeds:
    """Seeds never depend on order, and every attempt has its own."""

    @staticmethod
    def seed(info: ModelInfo, row: Row, run_seed: int = 0, attempt: int = 1) -> int:
        request = build_request(row, RunConfig(seed=run_seed), info)
        return attempt_seed(request.seed, attempt)

    def test_a_rows_own_seed_is_taken_as_it_is(self, info: ModelInfo) -> None:
        assert self.seed(info, make_row(seed=7)) == 7
        assert self.seed(info, make_row(seed=0), run_seed=9) == 0

    def test_without_one_it_comes_from_run_seed_and_id(self, info: ModelInfo) -> None:
        assert self.seed(info, make_row()) == row_seed(0, "a/b")
        seeds = {
            self.seed(info, replace(make_row(), id=name), run_seed)
            for name in ("a", "b")
            for run_seed in (0, 1)
        }
        assert len(seeds) == 4

    @pytest.mark.parametrize("own", [None, 7])
    def test_every_attempt_draws_anew_and_the_same_on_a_rerun(
        self, info: ModelInfo, own: int | None
    ) -> None:
        seeds = [self.seed(info, make_row(seed=own), attempt=n) for n in (1, 2, 3)]
        assert len(set(seeds)) == 3
        assert seeds == [self.seed(info, make_row(seed=own), attempt=n) for n in (1, 2, 3)]
        assert all(0 <= seed < 2**53 for seed in seeds)


def max_frames(row: Row, config: RunConfig, info: ModelInfo) -> int:
    return build_request(row, config, info).max_frames


class TestFrameCap:
    """How long a row may get."""

    def test_it_is_a_time_whatever_a_frame_lasts(self, info: ModelInfo) -> None:
        # A frame of another family lasts 46 ms: as many frames of it would cut speech short.
        short = replace(info, samples_per_frame=2048, sample_rate_hz=44100)
        frames = max_frames(make_row(text="x" * 10), RunConfig(), short)
        assert frames * short.frame_s == pytest.approx(CAP_S + 10 * CAP_S_PER_BYTE, abs=0.03)

    def test_frames_of_the_row_are_exact(self, info: ModelInfo) -> None:
        row = make_row(max_frames=1)
        assert max_frames(row, RunConfig(max_seconds=60.0), info) == 1

    @pytest.mark.parametrize(
        ("seconds", "frames"), [(0.08, 1), (0.079, 1), (0.01, 1), (0.8, 10), (0.24, 3), (60.0, 750)]
    )
    def test_seconds_are_whole_frames_and_at_least_one(
        self, info: ModelInfo, seconds: float, frames: int
    ) -> None:
        assert max_frames(make_row(max_seconds=seconds), RunConfig(), info) == frames
        assert max_frames(make_row(), RunConfig(max_seconds=seconds), info) == frames
        row = make_row(max_seconds=0.8)
        assert max_frames(row, RunConfig(max_seconds=seconds), info) == 10
