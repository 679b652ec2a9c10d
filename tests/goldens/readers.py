"""What every reader says of a frozen folder, and what a run finds to do in it and makes of it.

The frozen audio is compared by its sums. Audio that is made here by arithmetic (synthesized,
resampled, leveled) is not: its last bits depend on the processor.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

from desk import Desk, Said, lines_of, said_lines, sum_of, sum_of_sound

TO = ("audiofolder", "ljspeech", "nemo", "webdataset", "parquet")
# Folders that go into all five; how rows are selected is the same for all, so others go into one.
FLAGS = {"anchored": ("--retries", 0)}  # whose voice cannot be made, however often
IN_ALL = ("plain", "picked", "columns", "normalized", "in_parts", "flac", "edited", "garbage")
JOURNAL = (
    *("id", "take", "role", "status", "path", "error", "unfinished", "finish_reason", "suspect"),
    *("request_hash", "delivery_hash", "content_hash", "sha256", "frames", "attempts", "seed"),
    *("source", "applied", "parts", "voice", "text", "spoken_text", "character", "extra"),
)
# Fields that depend on the speech of a new line.
_OF_SPEECH = ("sha256", "frames", "parts", "applied", "attempts", "suspect", "finish_reason")
_OF_VOICE = ("request_hash", "content_hash")
_RESAMPLED = ("ljspeech",)  # exports whose audio is made by arithmetic
# Folders whose rows are all due again: new audio is compared with the frozen, byte for byte.
_COMPARED = ("schema_0", "schema_1")
_HAS_NEW_VOICE = ("two_models",)  # folders whose voices are synthesized again, and hashed
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
_CHANGING = ("started", "run_id", "made", "tool", "ended", "wall_s", "path_digest")


def facts_of(desk: Desk, name: str) -> dict[str, Any]:
    """Of one folder, by reader."""
    kind = json.loads((desk.path / name / "kind.json").read_text())
    model = f"models/{kind['model']}"
    found: dict[str, Any] = {}
    with desk.scratch("models", name, "others") as mine:
        place = mine.path / name
        out = f"{name}/out"
        run = ["synth", f"{name}/rows.jsonl", "--out", out, "--model", model, "--device", "cpu"]
        run += [{"--voices": "--voice-dir"}.get(flag, flag) for flag in kind["flags"]]
        found["files"] = files_of(place / "out")
        found["dry run"] = told(mine.run(*run, "--dry-run", "--json"))
        if name in IN_ALL:
            found["dry run in words"] = told(mine.run(*run, "--dry-run"))
            found["validate"] = told(mine.run("validate", *run[1:2], "--model", model))
        found["pick"] = told(mine.run("pick", out, "--json"))
        found["report"] = told(mine.run("report", out, "-o", "page.html")) | page_of(mine)
        for to in TO if name in IN_ALL else TO[:1]:
            found[f"export {to}"] = told(mine.run("export", out, "--to", to, "--out", f"to-{to}"))
            files = exported(mine, mine.path / f"to-{to}")
            if to in _RESAMPLED:
                files = _known_sums(files, set()) | {"export.sums": "there"} if files else files
            found[f"export {to}"]["files"] = files
        found["merge"] = told(mine.run("merge", out, "others/out", "--out", "merged"))
        found["merge"] |= state_of(mine, mine.path / "merged")
        found["files behind them"] = files_of(place / "out")
    with desk.scratch("models", name) as mine:
        found["check"] = told(mine.run("check", out, "--json"))
        found["check"] |= {"files": files_of(mine.path / out)} if (mine.path / out).exists() else {}
        if name in IN_ALL:
            found["check in words"] = told(mine.run("check", out))
    with desk.scratch("models", name) as mine:
        known = set(files_of(mine.path / out).values())
        given = ["encode", out, "--format", "wav", "--subtype", "FLOAT", "--out", "made"]
        found["encode"] = told(mine.run(*given, "--model", model))
        found["encode"] |= state_of(mine, mine.path / "made")
        found["encode"]["files"] = _known_sums(found["encode"]["files"], known)
        found["encode"]["journal"] = _own_sums(mine.path / "made", found["encode"]["journal"])
    with desk.scratch("models", name) as mine:
        times = {_time_of(path) for path in (mine.path / out).rglob("*")}
        found["again"] = told(mine.run(*run, *FLAGS.get(name, ())))
        found["again"] |= state_of(mine, mine.path / out, times)
    if name in _COMPARED:
        found["again"] = {"code": found["again"]["code"], "err": found["again"]["err"]}
    if name in _HAS_NEW_VOICE:
        found["again"] |= {"out": [], "folder": {}}
        for line in found["again"]["journal"]:
            for field in _OF_VOICE:
                line.pop(field, None)
    return found


def _time_of(path: Path) -> int:
    return path.stat().st_mtime_ns


def _known_sums(files: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Files without the sums of audio that is not a copy of known audio: their lengths remain."""
    return {
        name: value.split()[0] if name.endswith(".wav") and value not in known else value
        for name, value in files.items()
    }


def _own_sums(out: Path, journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Journal lines that have, in place of a sum, whether it is the sum of the line's file."""
    return [line | _own_sum(out, line) if "sha256" in line else line for line in journal]


def _own_sum(out: Path, line: dict[str, Any]) -> dict[str, str]:
    path = out / line.get("path", "none")
    is_own = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == line["sha256"]
    return {"sha256": "of the file" if is_own else "of another file"}


def told(said: Said) -> dict[str, Any]:
    """A command's answer, JSON as such."""
    try:
        out = still(json.loads(said.out))
    except ValueError:
        out = said_lines(said.out)
    return {"code": said.code, "out": out, "err": said_lines(said.err)}


def still(value: Any) -> Any:
    """JSON without what another run would have otherwise."""
    if isinstance(value, dict):
        return {k: still(v) for k, v in value.items() if not _is_changing(k)}
    if isinstance(value, list):
        return [still(entry) for entry in value]
    return value


def _is_changing(name: str) -> bool:
    return name in _CHANGING or name.endswith(("_ms", "time_s", "xrt", "free_bytes", "_mib"))


def files_of(out: Path) -> dict[str, str]:
    """Sums of the files of a folder, by name; of sound alone those of its samples."""
    found = {}
    for path in sorted(out.rglob("*")) if out.exists() else []:
        name = path.relative_to(out).as_posix()
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix in (".json", ".jsonl", ".lock"):
            found[name] = "there"
        else:
            found[name] = _sum_of_file(path)
    return found


def _sum_of_file(path: Path) -> str:
    if path.suffix in (".wav", ".flac"):
        try:
            return sum_of_sound(path)
        except Exception:  # cut off, or no audio at all
            return f"no audio: {sum_of(path.read_bytes())}"
    return sum_of(path.read_bytes())


def page_of(desk: Desk) -> dict[str, Any]:
    """The data in the page of a report."""
    page = desk.path / "page.html"
    if not page.exists():
        return {}
    data = _DATA.search(page.read_text(encoding="utf-8"))
    assert data is not None
    return {"page": still(json.loads(desk.plain(data[1])))}


def exported(desk: Desk, out: Path) -> dict[str, Any]:
    """The files of a data set: texts as they are, the rest as sums, archives by their members."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")) if out.exists() else []:
        if path.is_file():
            found[path.relative_to(out).as_posix()] = _content(desk, path)
    return found


def _content(desk: Desk, path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix == ".tar":
        with tarfile.open(path) as archive:
            members = [(entry.name, archive.extractfile(entry)) for entry in archive]
        return [name for name, _ in members], sum_of(data)
    if path.suffix == ".parquet":
        return _rows_of_parquet(data)
    if path.suffix == ".wav":
        return _sum_of_file(path)
    if path.suffix in (".jsonl", ".csv", ".json"):
        text = desk.plain(data.decode())
        if path.suffix == ".json":
            return still(json.loads(text))
        return text.splitlines()
    if path.suffix == ".md":
        return sum_of(desk.plain(data.decode()).encode())
    return sum_of(data)


def _rows_of_parquet(data: bytes) -> Any:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    rows = table.to_pylist()
    for row in rows:
        row["audio"] = {name: _short(value) for name, value in row["audio"].items()}
    return [str(table.schema.names), rows]


def _short(value: Any) -> Any:
    return sum_of(value) if isinstance(value, bytes) else value


def state_of(desk: Desk, out: Path, times: set[int] | None = None) -> dict[str, Any]:
    """A folder that a command left: its files, its journal, its choices.

    Args:
        times: modification times of the files that were there before. The others are only named
            as new, and journal lines lack what depends on speech. None: nothing was synthesized.
    """
    files = files_of(out)
    fields = [name for name in JOURNAL if times is None or name not in _OF_SPEECH]
    if times is not None:
        files = {
            name: value if value == "there" or _time_of(out / name) in times else "new"
            for name, value in files.items()
        }
    found: dict[str, Any] = {"files": files}
    found["journal"] = [
        {name: line[name] for name in fields if line.get(name) not in (None, [], {})}
        # Rows end in any order; lines of one row stay in theirs.
        for line in sorted(lines_of(out / "timings.jsonl"), key=lambda line: str(line.get("id")))
    ]
    choices = out / "takes.json"
    if choices.exists():
        found["choices"] = json.loads(choices.read_text())["choices"]
        if times is not None:
            for choice in found["choices"].values():
                choice.pop("sha256", None)
    report = out / "run.json"
    if report.exists():
        values = json.loads(desk.plain(report.read_text()))
        found["folder"] = still({n: values.get(n) for n in ("folder", "merged_from")})
    return found
