"""Defaults, ranges and the flags that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from cases import cases

from models.sampling import SETTINGS as SAMPLING
from models.sampling import Range, Sampling
from tts_cli.cli import options
from tts_cli.config import SETTINGS, SUBTYPES, RunConfig
from tts_cli.errors import UsageError
from tts_cli.setting import Topic, flag

CASES = cases(__file__)["config"]


def test_defaults_are_valid() -> None:
    RunConfig().validate()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *CASES["bad_settings"],
        ({"seed": 2**53}, "--seed"),
        ({"sampling": {"temperature": float("nan")}}, "--temperature"),
        ({"shard": (0, 4)}, "--shard 0/4"),
        ({"shard": (5, 4)}, "--shard 5/4: the part must be 1 to 4"),
        ({"shard": (1, 0)}, "--shard"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunConfig(**settings).validate()
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"device": "cuda:7"},
        {"max_batch": 1},
        {"max_batch": 256},
        {"subtype": "PCM_24", "format": "flac"},
        {"shard": (4, 4)},
        {"sampling": {"top_k": 0}},
        {"seed": 2**53 - 1},
    ],
)
def test_good_settings(settings: dict[str, Any]) -> None:
    RunConfig(**settings).validate()


def test_options_to_config() -> None:
    config = RunConfig.from_options({"seed": 5, "verbose": 2, "quiet": 0})
    assert (config.seed, config.verbosity) == (5, 1)
    assert RunConfig.from_options({"verbose": 1, "quiet": 3}).verbosity == -1
    with pytest.raises(UsageError):
        RunConfig.from_options({"seed": -5})


def test_flags_of_sampling_that_are_not_given_stand_for_nothing() -> None:
    flags = {"greedy": False, "top_k": 0, "top_p": None, "temperature": 0.5}
    assert RunConfig.from_options(flags).sampling == {"top_k": 0, "temperature": 0.5}
    assert RunConfig.from_options({"greedy": True}).sampling == {"greedy": True}
    assert RunConfig.from_options({}).sampling == {}


def test_as_dict_is_plain() -> None:
    values = RunConfig(out=Path("x"), shard=(1, 2)).as_dict()
    assert (values["out"], values["shard"], values["seed"]) == ("x", "1/2", 0)
    assert set(values) == {*SETTINGS, "verbosity"}
    assert (values["greedy"], values["top_k"]) == (False, None)
    values = RunConfig(sampling={"greedy": True, "top_k": 0}).as_dict()
    assert (values["greedy"], values["top_k"]) == (True, 0)


def test_every_number_of_the_sampling_table_has_a_range_that_holds_its_default() -> None:
    for name, setting in SAMPLING.items():
        default = getattr(Sampling(), name)
        assert type(default) is setting.kind
        assert setting.limits is None or setting.limits.problem(default) is None
        assert (setting.limits is None) is (setting.kind is bool)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_no_range_holds_infinity(value: float) -> None:
    assert Range(0, float("inf")).problem(value)


def all_options() -> dict[str, click.Option]:
    @options.settings(*Topic)
    @options.common_options
    def command(**_: Any) -> None: ...

    found = click.command()(command).params
    return {str(param.name): param for param in found if isinstance(param, click.Option)}


def test_every_setting_has_a_flag_with_its_default_and_help() -> None:
    found = all_options()
    values = RunConfig().as_dict()
    for name, one in SETTINGS.items():
        option = found.pop(name)
        assert flag(name) in option.opts
        assert option.default == one.default == values[name]
        assert option.help == one.help
        assert one.help.endswith(".")
        assert one.problem(one.default) is None
    assert set(found) == {"verbose", "quiet"}


def test_the_lossy_formats_take_the_default_subtype() -> None:
    assert all(RunConfig().subtype in subtypes for subtypes in SUBTYPES.values())


@pytest.mark.parametrize("value", ["1", "1/", "a/b", "1/2/3", "-1/2", "1/9999999", ""])
def test_malformed_shards(value: str) -> None:
    with pytest.raises(click.BadParameter):
        all_options()["shard"].type(value)


def test_shard_values() -> None:
    assert all_options()["shard"].type("2/8") == (2, 8)
