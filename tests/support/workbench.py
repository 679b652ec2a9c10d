"""Complete commands on real files: manifests in, exit code, messages and the output folder out.

Commands run in this process through `tts_cli.main.main`; those that are to be killed or signalled
run in one of their own.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import soundfile
from warm_process import Process, start

from models.family import Folder
from tts_cli.main import main
from tts_cli.store.run_file import last_of_runs

ROOT = Path(__file__).parents[2]
OWN_FILES = ("run.json", "timings.jsonl", "runs.jsonl", "takes.json", "derived.jsonl")
PATIENCE_S = 60.0
THREE: list[dict[str, str]] = [
    {"id": "a", "text": "Hello there."},
    {"id": "sub/b", "text": "Good morning."},
    {"id": "c", "text": "Hm."},
]
UP_TO_A_SECOND = ("--max-seconds", 1)

Rows = Sequence[Mapping[str, Any]]
Answer = TypeVar("Answer", bound="Result")
MakeCheckpoint = Callable[..., Path]
# What commands made that `run_once` ran -> its copy, and the folder that it was made in.
_KEPT: dict[tuple[object, ...], tuple[Path, Path]] = {}


@dataclass(frozen=True)
class Result:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> str:
        """The first line on stdout."""
        return self.out.splitlines()[0]

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.out)

    def expect(self: Answer, code: int, *errors: str, out: str | Sequence[str] = ()) -> Answer:
        """Require an exit code, texts in stderr and one or more in stdout; returns this result."""
        assert self.code == code, self
        for text in errors:
            assert text in self.err, (text, self)
        for text in [out] if isinstance(out, str) else out:
            assert text in self.out, (text, self)
        return self


@dataclass(frozen=True)
class Store:
    """An output folder as a user finds it."""

    path: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line of timings.jsonl."""
        text = (self.path / "timings.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """The last line of each id."""
        return {line["id"]: line for line in self.lines}

    @property
    def report(self) -> dict[str, Any]:
        """run.json."""
        found: dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        return found

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The last line of each run in runs.jsonl; a killed one has but its first."""
        text = (self.path / "runs.jsonl").read_text(encoding="utf-8")
        return last_of_runs(json.loads(line) for line in text.splitlines())

    @property
    def files(self) -> dict[str, bytes]:
        """Everything but journal and report, by relative path, hidden files included."""
        return {
            path.relative_to(self.path).as_posix(): path.read_bytes()
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.name not in OWN_FILES
        }

    def status(self) -> dict[str, str]:
        """id -> ok or failed."""
        return {row_id: record["status"] for row_id, record in self.records.items()}

    def sounds(self, *names: str) -> list[bytes]:
        """The samples of files; what they say of themselves, such as their ids, left out."""
        return [self.samples(name).tobytes() for name in names]

    def samples(self, name: str) -> np.ndarray[Any, Any]:
        """(n,) float32 samples of a file; its header must agree with its size."""
        path = self.path / name
        if path.suffix == ".wav":
            data = path.read_bytes()
            assert int.from_bytes(data[4:8], "little") == len(data) - 8, f"{name} is torn"
        samples, _ = soundfile.read(path, dtype="float32")
        return samples


class Workbench:
    """Run commands in a separate folder.

    Args:
        folder: empty; manifests and outputs go here.
        model: the checkpoint that `synth` speaks with unless told otherwise.
    """

    def __init__(self, folder: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.model = model
        self._capsys = capsys

    def out(self, name: str = "out") -> Store:
        """An output folder by name."""
        return Store(self.folder / name)

    def write(self, content: Rows | str | bytes, name: str = "rows.jsonl") -> Path:
        """Write a manifest: rows as JSONL, or its text or bytes as they are."""
        path = self.folder / name
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content if isinstance(content, bytes) else as_jsonl(content).encode())
        return path

    def run(self, *args: object) -> Result:
        """Run any command in this process. No traceback may show unless --debug asks for it."""
        self._capsys.readouterr()
        code = main([str(arg) for arg in args])
        out, err = self._capsys.readouterr()
        assert "--debug" in args or "Traceback" not in err, err
        return Result(code, out, err)

    def synth(
        self,
        content: Rows | str | bytes | Path,
        *flags: object,
        out: str = "out",
        model: Path | None = None,
    ) -> Result:
        """Run `synth` on rows, a manifest's content or its path."""
        manifest = content if isinstance(content, Path) else self.write(content)
        return self.run(*self.command(manifest, *flags, out=out, model=model))

    def synth_once(
        self, rows: Rows, *flags: object, out: str = "out", model: Path | None = None, code: int = 0
    ) -> None:
        """Like `synth`, for a run that others need as well; see `run_once`."""
        command = self.command(self.write(rows), *flags, out=out, model=model)
        self.run_once(*command, out=out, code=code)

    def run_once(self, *args: object, out: str = "out", code: int = 0) -> None:
        """Run a command that fills `out` and answers `code`; where this process has run it before,
        with the same files beside it, its folder is copied.
        """
        path = self.folder / out
        files = {one: one.read_bytes() for one in self.folder.rglob("*") if one.is_file()}
        words = [str(one).replace(str(self.folder), "") for one in (*args, *files)]
        key = (*words, *files.values())
        if key not in _KEPT:
            result = self.run(*args)
            assert result.code == code, result
            _KEPT[key] = self.folder.parent / f"kept-{len(_KEPT)}", self.folder
            shutil.copytree(path, _KEPT[key][0])
            return
        kept, folder = _KEPT[key]
        shutil.copytree(kept, path)
        for one in path.glob("*.json*"):  # some contain the path of a manifest
            if (text := one.read_text()) != (moved := text.replace(str(folder), str(self.folder))):
                one.write_text(moved)

    def command(
        self, manifest: Path | str, *flags: object, out: str = "out", model: Path | None = None
    ) -> list[str]:
        """The arguments of a `synth` run on the CPU, whatever else the machine has."""
        given = [manifest, "--out", self.folder / out, "--model", model or self.model]
        return ["synth", *map(str, [*given, "--device", "cpu", *flags])]

    def start(self, args: Sequence[str], patch: str = "") -> Process:
        """Start a command in a process of its own, one thread a library.

        Args:
            patch: Python that is run first, to make something slow or deadly.
        """
        program = (
            f"import sys\nfrom tts_cli.main import main\n{patch}\nsys.exit(main(sys.argv[1:]))"
        )
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return start(program, args, env)

    def wait_for_rows(self, count: int, process: Process, out: str = "out") -> None:
        """Wait until a process has recorded at least `count` rows."""
        journal = self.folder / out / "timings.jsonl"
        wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= count, process)


def described_once() -> Iterator[None]:
    """A checkpoint whose files have not changed is hashed and checked once, and not by each run."""
    known: dict[tuple[object, ...], str] = {}

    def identity(source: Folder) -> str:
        stats = ((path, path.lstat()) for path in sorted(source.folder.rglob("*")))
        key = (*((path, stat.st_size, stat.st_mtime_ns, stat.st_mode) for path, stat in stats),)
        if key not in known:
            known[key] = real(source)
        return known[key]

    real = Folder.identity
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "identity", identity)
        yield


def forbid_weights(patch: pytest.MonkeyPatch) -> None:
    """From here on loading weights fails the test."""

    def refuse(*_: Any) -> None:
        raise AssertionError("weights were loaded for nothing")

    patch.setattr("tts_cli.engine.load.load_model", refuse)


def wait_until(is_reached: Callable[[], bool], process: Process) -> None:
    """Wait for a state that a running process brings about."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s, "it never came so far"
        time.sleep(0.01)


def finish(process: Process) -> Result:
    """Wait for a process and return its result."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Result(process.returncode, out, err)


def as_jsonl(rows: Rows) -> str:
    """Rows as JSONL."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_table(rows: Rows, separator: str) -> str:
    """Rows as CSV or TSV with a header."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", delimiter=separator, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
