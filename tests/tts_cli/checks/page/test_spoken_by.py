"""The command that speaks a run's rows again says what the run was told, and nothing more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tts_cli.checks.page.build import spoken_by
from tts_cli.config import RunConfig


def test_the_settings_of_a_run_are_its_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.tsv").touch()
    config = replace(
        RunConfig(),
        model="synthetic:qwen3-tts-0.6b",
        seed=5,
        lexicon=Path("words.tsv"),
        format="flac",
        save_codes=True,
        pause_clause=0.2,
        sampling={"greedy": True, "temperature": 0.5},
        # of that one run
        out=Path("wavs"),
        limit=3,
        overwrite=True,
        retries=5,
        debug=True,
    )
    words = spoken_by({"manifests": ["/m.jsonl"], "settings": config.as_dict()})
    assert words[:2] == ["synth", "/m.jsonl"]
    pairs = ["--model synthetic:qwen3-tts-0.6b", "--seed 5", f"--lexicon {tmp_path}/words.tsv"]
    pairs += ["--format flac", "--save-codes", "--pause-clause 0.2", "--greedy"]
    pairs += ["--temperature 0.5"]
    assert sorted(words[2:]) == sorted(" ".join(pairs).split())


def test_folders_hold_wherever_it_is_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"model": "design", "clone_model": "base", "made_voices": "first", "voice": "base"}
    for name in settings.values():
        (tmp_path / name).mkdir(exist_ok=True)
    words = spoken_by({"settings": settings})[2:]
    found = dict(zip(words[::2], words[1::2], strict=True))
    wanted = {f"--{name.replace('_', '-')}": str(tmp_path / settings[name]) for name in settings}
    assert found == {**wanted, "--voice": "base"}


def test_a_stranger_sets_nothing_but_the_speech() -> None:
    """A pasted command had `--ray-address` and `--kernel-cache` of whoever wrote run.json."""
    harm = {"kernel_cache": "evil", "ray_address": "evil:1", "ref_root": "/", "device": "cuda:7"}
    settings = RunConfig().as_dict() | harm | {"out": "/evil", "accept_licence": True, "evil": 1}
    assert spoken_by({"settings": settings}) == ["synth", "MANIFEST"]
    # Nor does a value become a flag of its own, or swallow the next.
    settings = {"greedy": "--ray-address=evil:1", "save_codes": "--out=/", "voice": True, "trim": 1}
    assert spoken_by({"settings": settings}) == ["synth", "MANIFEST"]
    assert spoken_by({"settings": {"voice": "--out=/"}})[2:] == ["--voice", "--out=/"]  # its value


def test_rows_at_once_are_of_the_speech_where_it_depends_on_them() -> None:
    settings = {"max_batch": 64, "reproducible": False}
    assert spoken_by({"settings": settings})[2:] == []
    settings["reproducible"] = True
    assert sorted(spoken_by({"settings": settings})[2:]) == ["--max-batch", "--reproducible", "64"]


def test_what_ran_by_default_needs_no_flag() -> None:
    report = {"manifests": ["a.jsonl", "-b.csv"], "settings": RunConfig().as_dict()}
    assert spoken_by(report) == ["synth", "a.jsonl", "./-b.csv"]


@pytest.mark.parametrize(
    "report", [{}, {"manifests": [], "settings": {}}, {"settings": {"seed": [1], "voice": {}}}]
)
def test_reports_that_tell_nothing(report: dict[str, Any]) -> None:
    assert spoken_by(report) == ["synth", "MANIFEST"]
