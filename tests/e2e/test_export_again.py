"""An export that is run again: what users have put into its folder, or changed there, is never
lost, whatever the folder's own files say.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from exports import READERS, digest_of
from spoken_folders import record, tone, with_file, write_folder
from workbench import Result, Workbench, finish

FOLDERS = {"ljspeech": "wavs", "audiofolder": "train", "nemo": "audio"}
SHARDS = {"webdataset": "tar", "parquet": "parquet"}


def spoken(bench: Workbench, ids: str, seconds: float = 0.1) -> None:
    """A folder of so many rows."""
    content = tone(seconds)
    lines = [record(name, text=name, **with_file(content)) for name in ids]
    shutil.rmtree(bench.folder / "wavs", ignore_errors=True)
    write_folder(bench.folder / "wavs", lines, audio={line["path"]: content for line in lines})


def export(bench: Workbench, to: str, *flags: object) -> Result:
    out = bench.folder / "set"
    return bench.run("export", bench.folder / "wavs", "--to", to, "--out", out, *flags)


def put(out: Path, *names: str) -> dict[str, str]:
    """Files of a user; name -> sum."""
    for number, name in enumerate(names):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(f"mine {number}")
    return {name: digest_of(out)[name] for name in names}


def unlisted(out: Path) -> None:
    """Make of an export one as they were without a list."""
    state = json.loads((out / "export.json").read_text())
    folders = sorted(path.name for path in out.iterdir() if path.is_dir())
    (out / "export.json").write_text(json.dumps({**state, "schema": 1, "folders": folders}))
    (out / "export.sums").unlink()


@pytest.mark.parametrize("is_old", [False, True], ids=["listed", "old"])
@pytest.mark.parametrize("to", READERS)
def test_files_of_users_stay(bench: Workbench, to: str, is_old: bool) -> None:
    spoken(bench, "abc")
    out = bench.folder / "set"
    assert export(bench, to, "--copy").code == 0
    if is_old:
        unlisted(out)
    folder = FOLDERS.get(to, "data")
    names = ["metadata_val.csv", "dev_manifest.jsonl", f"{folder}/mine.wav", "notes/my.wav"]
    if to in SHARDS:
        names.append(f"data/train-0000099.{SHARDS[to]}")
    mine = put(out, *names)
    edited = ["README.md"]  # in the way, as all of these but what is of c
    if to in FOLDERS:
        edited += [f"{folder}/a.wav", f"{folder}/c.wav"]
    else:
        edited += [path.relative_to(out).as_posix() for path in (out / "data").glob("train-*0.*")]
    changed = put(out, *edited)
    spoken(bench, "ab", 0.2)
    result = export(bench, to, "--copy", "--json")
    assert result.code == 0, result.err
    found = digest_of(out)
    assert {name: found.get(name) for name in mine} == mine
    assert set(changed.values()) <= set(found.values())
    assert f"{out}: edited since the last export, and moved to set-aside/: " in result.err
    assert f"{folder}/mine.wav" in result.err
    if to in FOLDERS:
        assert found[f"{folder}/c.wav"] == changed[f"{folder}/c.wav"]
        assert found[f"{folder}/a.wav"] != changed[f"{folder}/a.wav"]
    assert result.json["rows"] == 2


def test_a_list_tells_the_sums(bench: Workbench) -> None:
    spoken(bench, "abc")
    out = bench.folder / "set"
    for to in READERS:
        assert export(bench, to, "--overwrite").code == 0
        lines = (out / "export.sums").read_text().splitlines()
        found = digest_of(out)
        own = ("export.json", "export.sums")
        assert sorted(lines) == sorted(f"{found[n]}  {n}" for n in found if n not in own)
        assert not (out / "set-aside").exists()
    check = ["sha256sum", "--strict", "--quiet", "-c", "export.sums"]
    assert subprocess.run(check, cwd=out, check=False).returncode == 0


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_stranger_cannot_widen_what_is_removed(bench: Workbench) -> None:
    spoken(bench, "abc")
    out = bench.folder / "set"
    assert export(bench, "ljspeech").code == 0
    precious = bench.folder / "precious.wav"
    precious.write_text("mine")
    (out / "notes").mkdir()
    names = ["LICENSE", ".hidden.wav", "notes/notes.txt", "export.json", "notes/metadata.csv"]
    put(out, *(name for name in names if name != "export.json"))
    (bench.folder / "other").mkdir()
    (out / "link").symlink_to(bench.folder / "other")
    put(bench.folder / "other", "o.wav")
    lines = [f"{sum_of(out / name)}  {name}\n" for name in names]
    lines += [f"{sum_of(precious)}  {name}\n" for name in ("../precious.wav", str(precious))]
    lines += [f"{sum_of(precious)}  wavs/../../precious.wav\n"]
    lines += [f"{sum_of(bench.folder / 'other' / 'o.wav')}  link/o.wav\n", "x\n", "\xff" * 9000]
    with open(out / "export.sums", "a", encoding="latin-1") as file:
        file.writelines(lines)
    state = json.loads((out / "export.json").read_text())
    state["folders"] = ["..", "link", "notes", "wavs"]
    (out / "export.json").write_text(json.dumps(state))
    before = {name: digest for name, digest in digest_of(bench.folder).items() if "set/" in name}
    result = export(bench, "ljspeech", "--json")
    assert (result.code, result.json["files_removed"]) == (0, 0), result.err
    after = digest_of(bench.folder)
    own = ("set/export.json", "set/export.sums")
    assert {name: after.get(name) for name in before if name not in own} == {
        name: digest for name, digest in before.items() if name not in own
    }
    assert precious.read_text() == "mine"
    assert (bench.folder / "other" / "o.wav").exists()


@pytest.mark.parametrize("name", ["wavs", "set-aside", "export.sums", "metadata.csv"])
def test_links_lead_nowhere(bench: Workbench, name: str) -> None:
    spoken(bench, "ab")
    out, other = bench.folder / "set", bench.folder / "other"
    assert export(bench, "ljspeech").code == 0
    other.mkdir()
    (other / "file").write_text("mine")
    shutil.rmtree(out / name, ignore_errors=True)
    (out / name).unlink(missing_ok=True)
    is_file = "." in name
    (out / name).symlink_to(other / "file" if is_file else other)
    result = export(bench, "ljspeech")
    assert result.code == {"export.sums": 3, "metadata.csv": 0}.get(name, 2), result.err
    assert digest_of(other) == {"file": hashlib.sha256(b"mine").hexdigest()}


DIE = """
import os, signal
from tts_cli.export.made import ExportFiles
real, count = ExportFiles.claim, 7
def claim(self, *args):
    global count
    count -= 1
    if count == 0 and {is_late}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, *args)
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
ExportFiles.claim = claim
"""


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("to", FOLDERS)
def test_what_was_made_before_a_kill_is_known(bench: Workbench, to: str, is_late: bool) -> None:
    """Also that of an update of an earlier export, and of two kills."""
    out = bench.folder / "set"
    args = ["export", str(bench.folder / "wavs"), "--to", to, "--out", str(out), "--copy"]
    for rows, seconds in (("abcdefgh", 0.1), ("bcdefghi", 0.2)):
        spoken(bench, rows, seconds)
        died = finish(bench.start(args, DIE.format(is_late=is_late)))
        assert died.code == -9, died.err
        with open(out / "export.sums", "a") as file:
            file.write("torn")
    spoken(bench, "cx", 0.3)
    result = export(bench, to, "--copy")
    assert result.code == 0
    assert len(result.err.splitlines()) == 1, result.err  # that the dead run's lock was taken
    assert sorted(path.stem for path in out.rglob("*.wav")) == ["c", "x"]
    assert not (out / "set-aside").exists()


def test_a_copy_is_no_link(bench: Workbench) -> None:
    spoken(bench, "a")
    out = bench.folder / "set" / "audio" / "a.wav"
    counts: dict[str, Any] = {"--copy": 1, "--overwrite": 1, "--link": 2}
    for flag in ("--link", "--overwrite", "--link", "--copy"):
        assert export(bench, "nemo", flag, "--overwrite").code == 0
        assert os.stat(out).st_nlink == counts[flag]
