"""The harnesses of this folder, which anyone can run for longer, run for a moment."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE_S = 900.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills and mounts of Linux")
NAMES = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("test_"))


def run(name: str, *flags: object, patience_s: float = PATIENCE_S) -> str:
    """What a harness says; it must end well."""
    command = [sys.executable, HERE / f"{name}.py", *flags]
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=patience_s
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_its_imports_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three harnesses imported names that had been renamed, and only `make long` runs them."""
    pytest.importorskip("scipy", reason="scipy comes with the dev extra")
    monkeypatch.syspath_prepend(HERE)
    assert importlib.import_module(name).__doc__


@pytest.mark.long
def test_kills_at_every_call_that_changes_a_folder() -> None:
    """A few of each command's hundred calls; without --sample it is all of them."""
    assert "\n0 wrong" in run("call_moments", "--sample", 2)


@pytest.mark.long
def test_kills_where_hard_links_fail() -> None:
    cases = "encode,pick,merge,prune"
    assert "\n0 wrong" in run("call_moments", "--no-links", "--sample", 2, "--only", cases)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["vfat", "ext4"])
def test_kills_on_a_new_file_system(kind: str) -> None:
    said = run("call_moments", "--disk", kind, "--sample", 2, "--only", "encode,pick,merge,prune")
    if said.startswith("skipped"):
        pytest.skip(said)
    assert "\n0 wrong" in said


@pytest.mark.long
def test_returned_errors() -> None:
    """A few faults of each command; without --sample it is every call with two errors."""
    assert "\n0 wrong" in run("error_moments", "--sample", 6)


@pytest.mark.long
def test_power_cuts() -> None:
    assert "\n0 wrong" in run("power_cuts", "--sample", 6)


@pytest.mark.long
def test_kills_of_workers() -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    assert "as if undisturbed, after 20 kills" in run("worker_moments", "--kills", 20)


@pytest.mark.long
def test_full_disks_and_lost_folders() -> None:
    said = run("disk_moments", "--moments", 1, "--rows", 12)
    if said.startswith("skipped"):
        pytest.skip(said)
    assert "every folder as if undisturbed" in said


@pytest.mark.long
def test_signals() -> None:
    assert "0 wrong" in run("signal_moments", "--moments", 2, "--signals", "INT,TERM")


@pytest.mark.long
def test_a_studios_day() -> None:
    pytest.importorskip("openpyxl", reason="openpyxl comes with the dev extra")
    said = run("studio_day", "--rows", 40)
    assert "delivered: 40 " in said
    assert "0 wrong" in said


@pytest.mark.long
def test_long_rows(tmp_path: Path) -> None:
    """Three rows of a length that the sample voice was trained for and three that it speaks in
    parts, all of them whole and understood.
    """
    pytest.importorskip("pocketsphinx", reason="pocketsphinx comes with the dev extra")
    pytest.importorskip("scipy", reason="scipy comes with the dev extra")
    for command in ("speak", "score"):
        said = run("long_rows", command, tmp_path, "--lengths", "163,1061", "--seeds", 1)
        assert " 163    3     3" in said
        assert " 1061    3     3" in said
        assert "0 wrong" in said
    assert "elsewhere" in said


@pytest.mark.long
def test_chapter(tmp_path: Path) -> None:
    """The sample chapter, understood, with subtitles that keep time."""
    for package in ("pocketsphinx", "scipy", "av"):
        pytest.importorskip(package, reason=f"{package} comes with the dev extra")
    sample = HERE.parents[1] / "samples" / "book"
    flags = ("--lexicon", sample / "lexicon.tsv", "--subtitles", "vtt", "--join", "m4b")
    run("chapter", "speak", tmp_path, "--book", sample / "chapter.md", *flags)
    said = run("chapter", "score", tmp_path, "--table", HERE / "texts" / "sample_chapter.tsv")
    assert "22 rows, 6 words of them read otherwise" in said  # by the lexicon
    assert "of 60 starts and ends" in said
    assert said.count(" 100.0 % within 0.3 s") == 2
    assert "marks: 'High Water'" in said
    assert "0 wrong" in said


@pytest.mark.long
def test_planted_faults(tmp_path: Path) -> None:
    """Of 100 planted faults 95 are found, of 434 good rows 8 are suspect at most; and those that
    are spoken again are mended. 20 minutes on two idle cores.
    """
    for package in ("pocketsphinx", "rapidfuzz"):
        pytest.importorskip(package, reason=f"{package} comes with the asr extra")
    run("planted_faults", "speak", tmp_path, patience_s=3600)
    assert '"missed"' in run("planted_faults", "check", tmp_path, patience_s=3600)
    assert '"still_faulty": []' in run("planted_faults", "mend", tmp_path, patience_s=3600)
