"""An export in place of an earlier one: files of users are never deleted, and a killed command
leaves the old export, the new one or none.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from exports import READERS, digest_of
from spoken_folders import record, tone, with_file, write_folder
from workbench import Result, Workbench, finish

from tts_cli.store.lock import FolderLock


def spoken(bench: Workbench, ids: str, seconds: float = 0.1) -> None:
    """Write a folder with these rows."""
    content = tone(seconds)
    lines = [record(name, text=name, **with_file(content)) for name in ids]
    shutil.rmtree(bench.folder / "wavs", ignore_errors=True)
    write_folder(bench.folder / "wavs", lines, audio={line["path"]: content for line in lines})


def arguments(bench: Workbench, to: str, *flags: object) -> list[str]:
    out = bench.folder / "set"
    return ["export", *map(str, (bench.folder / "wavs", "--to", to, "--out", out, *flags))]


def export(bench: Workbench, to: str, *flags: object) -> Result:
    return bench.run(*arguments(bench, to, *flags))


def is_alone(bench: Workbench) -> bool:
    """Whether an export left nothing next to its folder."""
    return not (bench.folder / "set.part").exists()


@pytest.mark.parametrize("to", READERS)
def test_it_is_replaced(bench: Workbench, to: str) -> None:
    """Rows that are gone leave nothing, and the list has all files with their sums."""
    spoken(bench, "abc")
    export(bench, to).expect(0)
    before = digest_of(bench.folder / "set")
    spoken(bench, "bd", 0.2)
    result = export(bench, to, "--json")
    assert (result.code, result.json["rows"]) == (0, 2), result.err
    after = digest_of(bench.folder / "set")
    shutil.rmtree(bench.folder / "set")
    export(bench, to).expect(0)
    assert after == digest_of(bench.folder / "set") != before
    lines = (bench.folder / "set" / "export.sums").read_text().splitlines()
    own = ("export.json", "export.sums")
    assert sorted(lines) == sorted(f"{after[name]}  {name}" for name in after if name not in own)
    check = ["sha256sum", "--strict", "--quiet", "-c", "export.sums"]
    assert subprocess.run(check, cwd=bench.folder / "set", check=False).returncode == 0
    assert is_alone(bench)


def put(name: str) -> Callable[[Path], object]:
    def change(out: Path) -> None:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")

    return change


def link(name: str) -> Callable[[Path], object]:
    def change(out: Path) -> None:
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).symlink_to(out.parent / "wavs")

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (put("audio/a.wav"), "audio/a.wav"),
        (put("audio/c.wav"), "audio/c.wav"),  # of a row that is gone
        (put("train_manifest.jsonl"), "train_manifest.jsonl"),
        (put("README.md"), "README.md"),
        (put("notes.txt"), "notes.txt"),
        (put("audio/mine.wav"), "audio/mine.wav"),
        (put("set-aside/a.wav"), "set-aside/a.wav"),  # where an earlier version moved files
        (link("audio"), "audio"),
        (link("other"), "other"),
        (lambda out: (out / "export.sums").unlink(), "README.md, audio/a.wav, "),
        (put("export.json"), "is not empty, and not an export"),
    ],
)
def test_files_of_users_stay(
    bench: Workbench, change: Callable[[Path], object], named: str
) -> None:
    out = bench.folder / "set"
    spoken(bench, "abc")
    export(bench, "nemo").expect(0)
    change(out)
    before = digest_of(out)
    spoken(bench, "ab", 0.2)
    for flags in ((), ("--overwrite",)):
        export(bench, "nemo", *flags).expect(2, named, "choose another")
        assert digest_of(out) == before
        assert is_alone(bench)


def test_a_file_that_is_edited_meanwhile_stays(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = bench.folder / "set"
    spoken(bench, "ab")
    export(bench, "nemo").expect(0)
    monkeypatch.setattr("tts_cli.signals.check", lambda: (out / "README.md").write_text("mine"))
    spoken(bench, "ab", 0.2)
    before = digest_of(out)
    export(bench, "nemo").expect(2, "added or edited after the export: README.md; move them out")
    assert {name for name, one in digest_of(out).items() if one != before[name]} == {"README.md"}


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (".", "is a mount point or the current folder, which cannot be replaced"),
        ("file", "is not a folder"),
        ("taken", "taken.part: contains mine.txt, and is needed to write the export"),
        ("used", "used.part is in use by process"),
    ],
)
def test_a_folder_that_cannot_be_replaced(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, out: str, message: str
) -> None:
    spoken(bench, "a")
    (bench.folder / "here").mkdir()
    (bench.folder / "file").write_text("mine")
    for name in ("taken.part", "used.part"):
        (bench.folder / name).mkdir()
    (bench.folder / "taken.part" / "mine.txt").write_text("mine")
    monkeypatch.chdir(bench.folder / "here")
    before = digest_of(bench.folder)
    with FolderLock(bench.folder / "used.part"):
        place = out if out == "." else bench.folder / out
        result = bench.run("export", bench.folder / "wavs", "--to", "nemo", "--out", place)
    assert (result.code, message in result.err) == (2, True), result.err
    assert digest_of(bench.folder) == before


KILLED = """
import json, os
sys.path.append({support!r})
import folder_calls
plan = {{"below": {below!r}, "result": {result!r}, "no_links": False, "do": "kill"}}
os.environ["FOLDER_CALLS"] = json.dumps({{**plan, "how": {{"at": {at}}}}})
import atexit
atexit.register(folder_calls.begin())
"""


@pytest.mark.slow
def test_killed_at_any_moment(bench: Workbench) -> None:
    """Before calls that change a file, also twice, and the next export is complete."""
    out, part, kept = (bench.folder / name for name in ("set", "set.part", "kept"))
    support, result = Path(__file__).parents[1] / "support", bench.folder / "result"

    def run(at: int) -> int:
        names = {
            "support": str(support),
            "below": str(bench.folder),
            "result": str(result),
            "at": at,
        }
        done = finish(bench.start(arguments(bench, "nemo"), KILLED.format(**names)))
        return int(done.code or 0)

    spoken(bench, "ab")
    export(bench, "nemo").expect(0)
    out.rename(kept)
    old = digest_of(kept)
    spoken(bench, "bc", 0.2)
    export(bench, "nemo").expect(0)
    new = digest_of(out)

    def reset() -> None:
        for folder in (out, part):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, out)

    reset()
    assert run(0) == 0
    num_calls = json.loads(result.read_text())["calls"]
    found = []
    for at in sorted({*range(1, num_calls, 30), *range(num_calls - 12, num_calls + 1, 4)}):
        reset()
        for _ in range(1 + at % 2):
            assert run(at) == -signal.SIGKILL
            found.append(digest_of(out) if out.exists() else None)
        export(bench, "nemo").expect(0)
        assert digest_of(out) == new, at
        assert is_alone(bench)
    assert all(one in (None, old, new) for one in found)
    assert (found[0], found[-1]) == (old, new)
