"""Numbers of configuration files: every one has bounds, and what breaks them is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from models.checkpoint.files import CheckpointError, read_json
from models.checkpoint.section import LIMITS, MAX_SIZE, Section
from models.sampling import SETTINGS

HUGE = 10**400  # float(HUGE) is an OverflowError


def section(**values: Any) -> Section:
    return Section(values, "config.json")


@pytest.mark.parametrize(
    "value", [2**20 + 1, 10**9, HUGE, 1e40, 2.0, True, None, float("nan"), "3"]
)
def test_a_size_is_a_whole_number_of_reasonable_size(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: 'hidden_size' must be"):
        section(hidden_size=value).counts(width="hidden_size")


def test_what_there_is_one_tensor_of_each_has_a_lower_bound() -> None:
    """The names of 1e9 layers were listed before a look at the file; it hung."""
    assert section(n=LIMITS["num_layers"]).count("num_layers", "n") == LIMITS["num_layers"]
    with pytest.raises(CheckpointError, match="'n' must be at most 1024, but is 1000000000"):
        section(n=10**9).count("num_layers", "n")
    assert section(n=MAX_SIZE).count("width", "n") == MAX_SIZE


@pytest.mark.parametrize("value", [0, -1, 1e-40, 1e40, HUGE, float("nan"), float("inf"), True, "1"])
def test_other_numbers_have_bounds_too(value: object) -> None:
    with pytest.raises(CheckpointError, match="'norm_eps' must be"):
        section(norm_eps=value).number("norm_eps")


@pytest.mark.parametrize("value", [[], [0], [2] * 9, [2**11], [2.0], [True], [HUGE], 4, {"a": 1}])
def test_lists_of_factors_are_short(value: object) -> None:
    with pytest.raises(CheckpointError, match="'rates' must be"):
        section(rates=value).factors("rates")


def test_what_no_tensor_vouches_for() -> None:
    """A codec's positions were allocated as the config said: 8 GB."""
    made = section()
    made.check_table(2**18, 128)
    with pytest.raises(CheckpointError, match="1048576 positions of heads 64 wide"):
        made.check_table(2**20, 64)
    with pytest.raises(CheckpointError, match="a frame has 65536 samples"):
        made.check_frame(2**16)


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "\x1b[2J", "\ud800", 5])
def test_names_can_be_shown(name: object) -> None:
    """A speaker's name with half a character ended `voices` with an internal error."""
    with pytest.raises(CheckpointError, match=r"size'? must be"):
        section(size=name).name("size")


@pytest.mark.parametrize("name", [name for name, found in SETTINGS.items() if found.limits])
@pytest.mark.parametrize("value", [-1, HUGE, 1e40, float("nan"), None, "0.9", True])
def test_sampling_settings_keep_to_the_ranges_of_rows(name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=f"'{name}' must be"):
        section(**{name: value}).setting(name, SETTINGS[name])


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.checkpoint.files.MAX_JSON_BYTES", 2**20)
    path = tmp_path / "config.json"
    path.write_text(" " * 2**20 + "{}")
    with pytest.raises(CheckpointError, match="more than 1 MiB"):
        read_json(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_json(tmp_path / "config.json")
