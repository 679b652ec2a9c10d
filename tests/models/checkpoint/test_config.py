"""Numbers of configuration files: every one has bounds, and what breaks them is named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from models.checkpoint.config import Count, Factors, Number, Section, Size, check_frame
from models.checkpoint.files import CheckpointError, read_json
from models.decoder.config import TransformerConfig
from models.sampling import SETTINGS

HUGE = 10**400  # float(HUGE) is an OverflowError


def section(**values: Any) -> Section:
    return Section(values, "config.json")


@dataclass(frozen=True)
class Sized:
    width: Size
    num_layers: Count = 2


@pytest.mark.parametrize(
    "value", [2**20 + 1, 10**9, HUGE, 1e40, 2.0, True, None, float("nan"), "3"]
)
def test_a_size_is_a_whole_number_of_reasonable_size(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: 'hidden_size' must be "):
        section(hidden_size=value).fill(Sized, {"width": "hidden_size"})


def test_fields_keep_their_names_and_defaults() -> None:
    assert section(hidden_size=3, num_layers=4).fill(Sized, {"width": "hidden_size"}) == Sized(3, 4)
    assert section(width=3).fill(Sized) == section().fill(Sized, width=3) == Sized(3)
    with pytest.raises(CheckpointError, match="key 'width' is missing"):
        section(num_layers=4).fill(Sized)


def test_what_there_is_one_tensor_of_each_has_a_lower_bound() -> None:
    """The names of 1e9 layers were listed before a look at the file; it hung."""
    assert section(width=1, num_layers=2**10).fill(Sized).num_layers == 2**10
    with pytest.raises(CheckpointError, match="'num_layers' must be int <= 1024, not 1000000000"):
        section(width=1, num_layers=10**9).fill(Sized)


@pytest.mark.parametrize("value", [0, -1, 1e-40, 1e40, HUGE, float("nan"), float("inf"), True, "1"])
def test_other_numbers_have_bounds_too(value: object) -> None:
    with pytest.raises(CheckpointError, match="'norm_eps' must be"):
        section(norm_eps=value).get("norm_eps", Number)


@pytest.mark.parametrize("value", [[], [0], [2] * 9, [2**11], [2.0], [True], [HUGE], 4, {"a": 1}])
def test_lists_of_factors_are_short(value: object) -> None:
    with pytest.raises(CheckpointError, match="'rates' must be"):
        section(rates=value).get("rates", Factors)


def test_half_a_character_is_no_other_error() -> None:
    with pytest.raises(CheckpointError, match="'kind' must be text, not"):
        section(kind="\ud800").get("kind", Literal["a", "b"])


def test_what_no_tensor_vouches_for() -> None:
    """A codec's positions were allocated as the config said: 8 GB."""
    sizes = (8, 8, 1, 2, 2)
    TransformerConfig(*sizes, 128, 1e4, 1e-6, 2**18)
    with pytest.raises(ValueError, match="1048576 positions of heads 64 wide"):
        TransformerConfig(*sizes, 64, 1e4, 1e-6, 2**20)
    with pytest.raises(ValueError, match="a frame has 65536 samples"):
        check_frame(2**16)


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "\x1b[2J", "\ud800", 5])
def test_names_can_be_shown(name: object) -> None:
    """A speaker's name with half a character ended `voices` with an internal error."""
    made = section(size=name)
    with pytest.raises(CheckpointError, match=r"size'? must be"):
        made.shown(made.get("size", str), "size")


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
