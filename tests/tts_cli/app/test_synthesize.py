"""A run at its door: rows and a folder in, an result out, and nothing printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_qwen3_tts import SPECS, write_checkpoint

from tts_cli.app.synthesize import RunResult, look, synthesize
from tts_cli.cli.messages import invalid_lines
from tts_cli.config import RunConfig
from tts_cli.errors import ManifestError, StoppedEarly
from tts_cli.events import Event
from tts_cli.sources.open import open_manifests

GOOD = [{"id": "a", "text": "Hello."}, {"id": "b", "text": "Hm."}, {"id": "c", "text": "..."}]
BAD = {"id": "bad", "text": " "}


class Screen:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        self.told.append(what)
        yield

    @contextmanager
    def progress(self, num_rows: int) -> Iterator[Any]:
        self.told.append(num_rows)
        yield SimpleNamespace(update=self.ended)

    def ended(self, ended: int, failed: int, audio_s: float) -> None:
        self.told.append((ended - failed, failed))

    def problems(self, plan: Any) -> None:
        self.told.append(list(invalid_lines(plan.events, "m", plan.voiceless)))

    def choices(self, plan: Any, unlike: Any) -> None:
        self.told.append(plan.num_pending)

    def due(self, plan: Any) -> None:
        self.told.append(plan.events.of(Event.PENDING, "damaged").first)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint whose speech ends by itself."""
    folder = tmp_path_factory.mktemp("model")
    return str(write_checkpoint(folder, replace(SPECS["custom_voice_wide"], eos_gain=1.8)))


@pytest.fixture
def config(tmp_path: Path, model: str) -> RunConfig:
    out = tmp_path / "out"
    return RunConfig(model=model, device="cpu", max_seconds=1.0, skip_invalid=True, out=out)


def spoken(
    rows: list[dict[str, str]], config: RunConfig, screen: Screen, door: Any = synthesize
) -> Any:
    path = Path(config.out or "").with_name("rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open_manifests([str(path)], config) as source:
        return door(source, config, config.out, screen)


def test_rows_come_out_and_then_nothing_is_left_to_do(
    config: RunConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run opens no model, writes no line, and leaves run.json to the first."""
    out, screen = Path(config.out or ""), Screen()
    first: RunResult = spoken([*GOOD, BAD], config, screen)
    assert (first.exit_code, first.error, first.plan.needs_model) == (1, None, True)
    kept = json.loads(json.dumps(first.report))
    assert [first.totals()[name] for name in ("ok", "failed", "bad_rows")] == [3, 1, 1]
    assert not first.plan.events.num(Event.FAILED), "the checks have told it"
    assert json.loads((out / "run.json").read_text()) == kept
    assert (screen.told[2], screen.told[-1]) == (3, (3, 1))
    lines = (out / "timings.jsonl").read_bytes()

    monkeypatch.setattr("tts_cli.engine.load.load_model", None)
    screen = Screen()
    second: RunResult = spoken([*GOOD, BAD], config, screen)
    assert (second.exit_code, second.plan.needs_model, second.report) == (1, False, {})
    assert [second.totals()[name] for name in ("skipped", "failed")] == [3, 1]
    assert screen.told[2:] == [0, []], "nothing else goes on"
    assert (out / "timings.jsonl").read_bytes() == lines
    assert json.loads((out / "run.json").read_text()) == kept
    assert capsys.readouterr() == ("", "")


def test_what_stops_a_run_is_handed_back(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever shows the result raises it, behind the summary."""
    monkeypatch.setattr(Screen, "ended", lambda *_: (_ for _ in ()).throw(StoppedEarly("enough")))
    result = spoken(GOOD, config, Screen())
    assert (str(result.error), result.exit_code) == ("enough", StoppedEarly.exit_code)
    assert result.totals()["is_interrupted"]
    assert result.report["exit_code"] == StoppedEarly.exit_code


def test_nothing_is_made_on_disk_before_the_rows_are_good(config: RunConfig) -> None:
    strict, screen = replace(config, skip_invalid=False), Screen()
    with pytest.raises(ManifestError, match="1 invalid row of 4"):
        spoken([*GOOD, BAD], strict, screen)
    assert [len(told) for told in screen.told[1:]] == [1], "that row"
    looked = spoken(GOOD, replace(config, dry_run=True), Screen(), look)
    assert (looked.plan.num_pending, looked.orphans) == (3, None)
    assert not Path(config.out or "").exists()
