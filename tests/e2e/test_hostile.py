"""Hostile manifests, journals and checkpoints through whole commands: a message, never a crash.

TTS_TESTS_TIMES=10 runs ten times as many of the `long` ones.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import hostile_checkpoints
import hostile_journals
import hostile_manifests
import numpy as np
import pytest
import soundfile
import tiny_fish_speech
import tiny_qwen3_tts
from bounds import bounded
from properties import TIMES
from workbench import Result, Workbench

from tts_cli.audio.file import is_whole_wav
from tts_cli.store.journal import Journal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals"),
]

FLAGS = ("--max-seconds", 0.05, "--save-codes", "--accept-truncated", "--retries", 0)
ROWS = [{"id": f"part{n % 2}/{n}", "text": "Hello there."} for n in range(4)]
KINDS = ("custom_voice", "base", "fish")


def seeds(quick: int, many: int) -> list[object]:
    """A few of the seeds always, the others under `long`."""
    rest = pytest.param(range(quick, many * TIMES), marks=pytest.mark.long, id="many")
    return [pytest.param(range(quick), id="few"), rest]


def run(bench: Workbench, what: str, *args: object) -> Result:
    """Run a command within bounds; whatever it answers is said in words."""
    try:
        with bounded(what, bench.folder):
            result = bench.run(*args)
    except Exception as error:
        pytest.fail(f"{what}: {error!r:.500}")
    assert "internal error" not in result.err, (what, result.err)
    assert "\x1b" not in result.out + result.err, what  # a terminal would obey
    assert result.code in (0, 1, 2, 3), (what, result)
    assert result.code in (0, 1) or "Error: " in result.err, (what, result)
    return result


@pytest.mark.parametrize("seeds", seeds(10, 200))
def test_manifests(bench: Workbench, seeds: range) -> None:
    codes = set()
    for seed in seeds:
        name, content = hostile_manifests.write(seed)
        what = f"manifest {seed} ({name}, {content[:300]!r})"
        manifest = bench.write(content, name)
        checked = run(bench, what, "validate", manifest, "--model", bench.model)
        result = run(bench, what, *bench.command(manifest, *FLAGS, "--skip-invalid"))
        codes.add((checked.code, result.code))
        assert checked.code != 0 or result.code in (0, 1), what
        out = bench.out()
        if out.path.exists():
            for row_id, record in out.records.items():
                if record["status"] == "ok":
                    assert is_whole_wav(out.path / record["path"]), (what, row_id)
            shutil.rmtree(out.path)
    assert {(0, 0), (2, 2)} <= codes, "all ended alike"


@pytest.mark.parametrize("seeds", seeds(10, 60))
def test_journals(bench: Workbench, seeds: range) -> None:
    """Whatever the journal says, the rows are there in the end, and only they."""
    manifest = bench.write(ROWS)
    bench.synth(manifest, *FLAGS, out="done").expect(0)
    wanted = audio_of(bench.out("done").path)
    assert len(wanted) == 2 * len(ROWS)
    codes = set()
    for seed in seeds:
        out = bench.folder / "out"
        shutil.copytree(bench.out("done").path, out)
        what = f"journal {seed} ({hostile_journals.change(out, seed)})"
        result = run(bench, what, *bench.command(manifest, *FLAGS))
        if (
            result.code == 2
            and "but not in timings.jsonl, so not from an earlier run" in result.err
        ):
            result = run(bench, what, *bench.command(manifest, *FLAGS, "--overwrite"))
        codes.add(result.code)
        assert result.code in (0, 2, 3), (what, result)
        assert audio_of(out) == wanted, what
        if result.code == 0:
            with Journal(out, is_read_only=True) as journal:
                assert {journal.row(row["id"]).status for row in ROWS} == {"ok"}, what
        shutil.rmtree(out)
    assert 0 in codes


def audio_of(out: Path) -> dict[str, bytes]:
    """Audio and codes."""
    found = [path for path in sorted(out.rglob("*")) if path.suffix in (".wav", ".safetensors")]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


@pytest.fixture(scope="module", params=KINDS)
def good(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that is good as long as nobody changes it."""
    path = tmp_path_factory.mktemp(request.param)
    if request.param == "fish":
        return tiny_fish_speech.write_checkpoint(path)
    return tiny_qwen3_tts.write_checkpoint(path, request.param)


@pytest.mark.parametrize("seeds", seeds(3, 100))
def test_checkpoints(
    bench: Workbench, good: Path, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(bench.folder / "config"))  # for the licence
    flags = ("--max-seconds", 0.5, "--accept-truncated", "--accept-licence")
    model = bench.folder / "model"
    shutil.copytree(good, model)
    row = {"text": "Hello there."}
    if good.name.startswith("base"):
        row["ref_audio"] = "voice.wav"
        soundfile.write(bench.folder / "voice.wav", np.sin(np.arange(24_000) / 20), 24_000)
    manifest = bench.write([row])
    run(bench, "as it was", *bench.command(manifest, *flags, model=model)).expect(0)
    for seed in seeds:
        what, undo = hostile_checkpoints.change(model, 1000 + seed)
        what = f"checkpoint {seed} ({what})"
        run(bench, what, "validate", manifest, "--model", model)
        run(bench, what, *bench.command(manifest, *flags, model=model))
        undo()
        shutil.rmtree(bench.folder / "out", ignore_errors=True)
