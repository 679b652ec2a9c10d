"""A folder to run commands in, in this process, so that what they say can be held against goldens.

Commands run in the folder itself and are given names relative to it: no path of a machine reaches
what they print or write. What is left of times, sizes of disks and versions is taken out here.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
sys.path[:0] = [
    entry for entry in (str(ROOT), str(ROOT / "tests/support")) if entry not in sys.path
]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # more threads sum in another order

import numpy as np  # noqa: E402
import soundfile  # noqa: E402

Rows = Sequence[Mapping[str, Any]]
SHORT = ("--max-seconds", "0.06", "--accept-truncated")  # 24 frames, 60 ms
STRICT = ("--max-seconds", "0.06", "--retries", "1")  # some rows come to no end


@dataclass(frozen=True)
class Series:
    """Rows that one command speaks."""

    rows: Rows
    flags: tuple[object, ...] = ()
    model: str = "tiny"
    caps: tuple[str, ...] = SHORT
    codes: tuple[int, ...] = (0,)  # by which it may end


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


class Desk:
    """A folder with checkpoints, in which commands run.

    Args:
        path: of a folder that is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def write(self, name: str, content: Rows | str | bytes) -> str:
        """Write a file, rows as JSONL; returns the name."""
        if not isinstance(content, (str, bytes)):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        (self.path / name).write_bytes(data)
        return name

    def run(self, *args: object) -> Said:
        """Run a command in this process."""
        from tts_cli.main import main

        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        before = sys.stdout, sys.stderr, sys.stdin
        with self._inside():
            sys.stdout, sys.stderr = streams
            sys.stdin = io.TextIOWrapper(io.BytesIO(b""), "utf-8")
            try:
                code = main([str(arg) for arg in args])
            finally:
                sys.stdout, sys.stderr, sys.stdin = before
        out, err = (stream.buffer.getvalue().decode() for stream in streams)
        return Said(code, self.plain(out), self.plain(err))

    def must(self, *args: object, codes: Sequence[int] = (0,)) -> Said:
        """Run a command that prepares something."""
        said = self.run(*args)
        if said.code not in codes:
            raise RuntimeError(f"{args} ended with {said.code}\n{said.out}{said.err}")
        return said

    @contextmanager
    def _inside(self) -> Iterator[None]:
        folder, environment, fsync = os.getcwd(), dict(os.environ), os.fsync
        for name in [name for name in os.environ if name.startswith("TTS_CLI")]:
            del os.environ[name]
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HF_HOME"):
            os.environ[name] = str(self.path / "home" / name.lower())
        os.environ |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "100", "TERM": "dumb", "TZ": "UTC"}
        os.chdir(self.path)
        os.fsync = lambda fd: None  # nothing here outlives a lost machine: half of all waiting
        try:
            yield
        finally:
            os.fsync = fsync
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)

    def plain(self, text: str) -> str:
        """A text without what another minute or machine would say otherwise."""
        text = text.replace(str(self.path), "<here>").replace(str(ROOT), "<root>")
        for pattern, stands in _ELSEWHERE:
            text = pattern.sub(stands, text)
        return text

    @contextmanager
    def scratch(self, *names: str) -> Iterator[Desk]:
        """Another desk with copies of these folders, which are made links to if checkpoints."""
        path = self.path.parent / f"{self.path.name}-scratch"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for name in names:
            if (path / name).exists():
                continue
            if name == "models":
                (path / name).symlink_to(self.path / name)
            else:
                copy(self.path / name, path / name)
        try:
            yield Desk(path)
        finally:
            shutil.rmtree(path)


_ELSEWHERE = tuple(
    (re.compile(pattern, re.MULTILINE), stands)
    for pattern, stands in (
        (r"\d{8}T\d{6}Z-[0-9a-f]{6}", "<run>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\b\d[\d,.]* (KiB|MiB|GiB|TiB|KB|MB|GB|TB) (are )?free", "<size> free"),
        (r"in \d[\d,.]* s\b", "in <s> s"),
        (r"\d[\d,.]* ?(s|times|x) of audio a second", "<x> s of audio a second"),
        (r"\d[\d,.]* times real time", "<x> times real time"),
        (r"\d[\d,.]* [kM]B, made in", "<size>, made in"),
        (r"(?<=setup: )\d[\d,.]* s", "<s> s"),
        (r"(?<=time: about )\d[\d,.]* (s|min|h)", "<s>"),
        (r'"(xrt|time_s|wall_s|rtf|\w+_ms)": [\d.]+', r'"\1": "<x>"'),
        (r"pid \d+", "pid <n>"),
        (r"threads \d+$", "threads <n>"),
        (r"(?<=: )\d[\d.]* s(?=, \S*/\.voices/)", "<s> s"),
        (r"tts-cli \d+\.\d+\.\d+\S*", "tts-cli <version>"),
    )
)


def parser(about: str | None) -> argparse.ArgumentParser:
    """Of a program's command line.

    Args:
        about: its docstring.
    """
    return argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def environment(tree: Path = ROOT) -> dict[str, str]:
    """Of other processes."""
    return {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}


def copy(source: Path, target: Path) -> None:
    """Copy a folder as it is: times, and hard links inside it."""
    known: dict[int, Path] = {}
    for path in [source, *sorted(source.rglob("*"))]:
        place = target / path.relative_to(source)
        if path.is_symlink():
            place.symlink_to(os.readlink(path))
        elif path.is_dir():
            place.mkdir()
        elif first := known.get(path.stat().st_ino):
            os.link(first, place)
        else:
            shutil.copy2(path, place)
            known[path.stat().st_ino] = place


def write_models(desk: Desk) -> None:
    """Tiny checkpoints under models/: what they are follows from their specs alone."""
    import tiny_fish_speech
    from tiny_fish_codec import SMALL
    from tiny_qwen3_tts import SPECS, write_checkpoint

    place = desk.path / "models"
    wide, designing = SPECS["custom_voice_wide"], SPECS["voice_design"]
    thin = replace(
        wide,
        talker=replace(wide.talker, layers=2),
        predictor=replace(wide.predictor, layers=1),
        eos_gain=1.8,
    )
    shape: dict[str, Any] = {"num_codebooks": 4, "codebook_size": 128, "decoder_dim": 24}
    shape |= {"upsample_rates": (8, 5, 3), "upsampling_ratios": (4, 2)}  # frames of 40 ms
    one_layer = replace(designing.talker, layers=1)
    specs = {
        "tiny": thin,
        "base": SPECS["base_wide"],
        "design": designing,
        "describer": replace(designing, **shape, eos_gain=1.2, talker=one_layer),
        "cloner": replace(SPECS["base_wide"], **shape, encoder_ratios=(8, 6, 5, 2)),
    }
    for name, spec in specs.items():
        write_checkpoint(place / name, spec)
    write_checkpoint(place / "other", thin, seed=1)
    tiny_fish_speech.write_checkpoint(place / "fish")
    # Whose speech ends.
    small = replace(tiny_fish_speech.SPECS["small"], end_gain=1.0, num_layers=1)
    shape = {"upsampling_ratios": (2, 2), "upsample_rates": (8, 8, 4, 2)}
    codec = replace(SMALL, **shape, encoder_dim=2, encoder_strides=(2, 4, 8, 8))
    tiny_fish_speech.write_checkpoint(
        place / "maker", replace(small, predictor_layers=1, num_codebooks=2), codec=codec
    )


def write_recording(
    desk: Desk,
    name: str = "ref.wav",
    seconds: float = 1.2,
    rate_hz: int = 24_000,
    hz: float = 330.0,
    wobble: float = 0.3,
) -> None:
    """A recording to clone; a tone takes no room in an archive."""
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    wave = 0.3 * np.sin(2 * np.pi * hz * times) * (1 + wobble * np.sin(2 * np.pi * 3 * times))
    (desk.path / name).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(desk.path / name, wave, rate_hz, "PCM_16")


_OF_ROWS = ("row ", "warning: row ", "failed: ")
# What is said once a process, or where time goes by, or of this machine, or of insides.
_ONCE = ("kernels on cpu: ", "still making ", "versions: ", "left to do: ")


def said_lines(said: str) -> list[str]:
    """What was said: rows end in any order, and so do lines about them."""
    lines = [line for line in said.splitlines() if not line.startswith(_ONCE)]
    found: list[str] = []
    for kind, some in itertools.groupby(lines, key=_kind):
        together = list(some)
        found += sorted(together) if kind else together
    return found


def _kind(line: str) -> str:
    return next((kind for kind in _OF_ROWS if line.startswith(kind)), "")


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal that are objects; some may be garbage, or torn."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        with suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict)]


def sum_of(data: bytes) -> str:
    """A short sum: 64 bits tell a thousand facts apart."""
    return hashlib.sha256(data).hexdigest()[:16]


def sum_of_sound(path: Path) -> str:
    """The length of a file and a sum of its samples; names, tags and packing are other facts.

    Floats are rounded to the 16 bits that they were made of, so that no last bit counts.
    """
    if soundfile.info(path).subtype == "FLOAT":
        floats, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
        samples = np.rint(np.clip(floats, -1, 1) * 32767).astype(np.int32) << 16
    else:
        samples, rate_hz = soundfile.read(path, dtype="int32", always_2d=True)
    return f"{len(samples)}@{rate_hz} {sum_of(samples.tobytes())}"


def length_of(path: Path) -> str:
    """The number of samples and the rate of a file."""
    found = soundfile.info(path)
    return f"{found.frames}@{found.samplerate}"
