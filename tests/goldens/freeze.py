"""Speaks the output folders of every kind once, and keeps them in folders.tar.xz as they are then.

    python tests/goldens/freeze.py [--only NAME,...]

A folder NAME of the archive has `rows.jsonl`, `kind.json` (checkpoint and flags by which it is
spoken), `out/`, and what the rows name. It is spoken by tiny checkpoints in float32 on a CPU.
Readers of later versions must read what was frozen by an earlier one: freeze anew only what is
added, by --only, unless the folders themselves were wrong.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]
from desk import (  # noqa: E402
    HERE,
    ROOT,
    SHORT,
    STRICT,
    Desk,
    Rows,
    Series,
    copy,
    environment,
    lines_of,
    parser,
    write_models,
    write_recording,
)

PRESET = 9 | lzma.PRESET_EXTREME
ARCHIVE = HERE / "folders.tar.xz"
NO_PROCESS = 2**22 + 1  # the number of none
FROZEN_AT = "/goldens"  # stands for the folder that they were spoken in
ROWS: Rows = [
    {"id": "a", "text": "Hello there."},
    {"id": "sub/b", "text": "Good morning to all of you."},
    {"id": "c", "text": "Hm."},
    {"id": "d", "text": "The rain in the street."},
]
CHANGED = [{**row, "text": "Something else."} if row["id"] in ("a", "d") else row for row in ROWS]
SAID = "What is said in it."
LONG = (
    "The boat left the harbor after five, and nobody spoke. An old teacher held a basket of apples "
    "on his knees.\n\nNobody had lived on that island for many years!"
)
STORY = "# One\n\nHello there. Hm.\n\n# Two\n\nThe rain came. It went.\n"


@dataclass
class Frozen:
    """A folder on its way into the archive."""

    desk: Desk
    name: str
    model: str = "tiny"
    flags: tuple[str, ...] = SHORT

    @property
    def out(self) -> Path:
        return self.desk.path / self.name / "out"

    def rows(self, rows: Rows | str, name: str = "rows.jsonl") -> str:
        return self.desk.write(f"{self.name}/{name}", rows)

    def given(self, *flags: object, out: str = "out") -> list[object]:
        """The arguments of a run."""
        model = ("--model", f"models/{self.model}", "--device", "cpu")
        mine = (flag.replace("NAME", self.name) for flag in self.flags)
        return [
            "synth",
            f"{self.name}/rows.jsonl",
            "--out",
            f"{self.name}/{out}",
            *model,
            *mine,
            *flags,
        ]

    def speak(
        self, *flags: object, rows: Rows | None = None, codes: tuple[int, ...] = (0,)
    ) -> None:
        """Run `synth`, and keep its manifest."""
        if rows is not None:
            self.rows(rows)
        elif not (self.desk.path / self.name / "rows.jsonl").exists():
            self.rows(ROWS)
        self.desk.must(*self.given(*flags), codes=codes)

    def speak_series(self, series: Series) -> None:
        """Speak it, with a cast and a recording beside."""
        self.model, self.flags = series.model, (*series.caps, *map(str, series.flags))
        if "--cast" in self.flags:
            self.desk.write(f"{self.name}/cast.toml", CAST)
        if any("ref_audio" in row for row in series.rows):
            write_recording(self.desk, f"{self.name}/ref.wav")
        self.speak(rows=series.rows, codes=series.codes)

    def do(self, *args: object, codes: tuple[int, ...] = (0,)) -> None:
        """Run another command; OUT is the folder."""
        given = [f"{self.name}/out" if arg == "OUT" else arg for arg in args]
        self.desk.must(*given, codes=codes)

    def edit(self, name: str) -> None:
        """As an editor does that writes a new file."""
        path = self.out / name
        samples, rate_hz = soundfile.read(path, dtype="int16")
        path.unlink()
        soundfile.write(path, np.concatenate([samples, samples[:50]]), rate_hz, "PCM_16")


KINDS: dict[str, Callable[[Frozen], None]] = {}


def kind(make: Callable[[Frozen], None]) -> Callable[[Frozen], None]:
    """A kind of folder, by its function's name."""
    KINDS[make.__name__] = make
    return make


CAST = '[Anna]\nvoice = "emil"\nseed = 5\n\n[Tom]\nvoice = "fang"\nlanguage = "german"\n'
SMALL = ("--sample-rate", "8000", "--subtype", "ULAW")
TREATED = ("--highpass", "80", "--trim", "--pad", "0.01,0.02", "--loudness", "-30")
REF = {"ref_audio": "ref.wav", "ref_text": SAID}
# One command speaks them.
SIMPLE = {
    "plain": Series(ROWS),
    "others": Series(  # which the merges of readers join to each
        [{"id": f"s{n}", "text": row["text"]} for n, row in enumerate(ROWS[:2])]
    ),
    "flac": Series(ROWS, ("--format", "flac")),
    "ogg": Series(ROWS, ("--format", "ogg")),
    "treated": Series(ROWS, (*TREATED, *SMALL)),
    "codes": Series(ROWS, ("--save-codes",)),
    "columns": Series(
        [
            {"id": "a", "text": "Hello there.", "character": "Anna", "scene": 1},
            {"id": "b", "text": "Guten Tag.", "character": "Tom", "scene": 2, "note": "low | loud"},
            {"id": "c", "text": "Hm, \u201cwell\u201d.", "voice": "dora", "language": "english"},
        ],
        ("--cast", "NAME/cast.toml", "--extra", "keep"),
    ),
    "subtitles": Series(ROWS[:2], ("--subtitles", "srt,vtt")),
    "normalized": Series(
        [{"id": "a", "text": "It costs $5."}, {"id": "b", "text": "Plain words."}],
        ("--normalize", "english"),
    ),
    "wordless": Series([{"id": "a", "text": "..."}, ROWS[2], {"id": "b", "text": "\u2014"}]),
    "bad_rows": Series(
        [*ROWS[:2], {"id": "e", "text": ""}, {"text": "x", "voice": "nobody"}, {"id": "../x"}],
        ("--skip-invalid",),
        codes=(1,),
    ),
    "failed": Series(ROWS, ("--save-codes",), caps=STRICT, codes=(1,)),
    "in_parts": Series([{"id": "long", "text": LONG, "seed": 3}, ROWS[0]], ("--split", "60")),
    "parts_failed": Series(
        [{"id": "long", "text": LONG, "seed": 3}, ROWS[2]],
        ("--split", "60"),
        caps=STRICT,
        codes=(1,),
    ),
    "pauses": Series([{"id": "a", "text": "Come here. [pause 20 ms] No, wait."}, ROWS[2]]),
    "cloned": Series([{**ROWS[0], **REF}, {**ROWS[2], "ref_audio": "ref.wav"}], model="base"),
    "fish": Series(
        [{**ROWS[0], **REF}, {**ROWS[2], **REF}],
        ("--accept-licence",),
        model="fish",
        caps=("--max-seconds", "0.3", "--accept-truncated"),
    ),
    "design": Series([{**row, "instruct": "A low voice."} for row in ROWS[:2]], model="design"),
    "shard": Series(ROWS, ("--shard", "1/2")),
}
for _name in SIMPLE:
    KINDS[_name] = lambda it: it.speak_series(SIMPLE[it.name])


@kind
def retried(it: Frozen) -> None:
    it.flags = STRICT
    it.speak(codes=(1,))
    it.speak("--retry-failed", "--retries", "9", codes=(0, 1))


@kind
def voice_file(it: Frozen) -> None:
    it.model = "base"
    write_recording(it.desk, f"{it.name}/ref.wav")
    given = ("--ref-audio", f"{it.name}/ref.wav", "--voice-dir", f"{it.name}/voices")
    it.do("voices", "add", "anna", *given, "--model", "models/base", "--device", "cpu")
    it.flags += ("--voice-dir", "NAME/voices", "--voice", "anna")
    it.speak(rows=ROWS[:2])


@kind
def takes(it: Frozen) -> None:
    it.speak()
    it.speak("--takes", 2, "--only", "a,sub/b")


@kind
def picked(it: Frozen) -> None:
    takes(it)
    it.do("pick", "OUT", "a=3", "sub/b=1")


@kind
def fallen(it: Frozen) -> None:
    """A take was chosen, and then the text changed."""
    picked(it)
    it.rows(CHANGED)


@kind
def fallen_again(it: Frozen) -> None:
    fallen(it)
    it.speak()


@kind
def overwritten(it: Frozen) -> None:
    it.speak()
    it.speak("--overwrite", "--seed", 9, "--only", "a,d")


@kind
def changed(it: Frozen) -> None:
    it.speak()
    it.speak(rows=CHANGED)


@kind
def edited(it: Frozen) -> None:
    it.speak()
    it.edit("d.wav")


@kind
def edited_takes(it: Frozen) -> None:
    takes(it)
    it.edit("a.wav")
    it.edit("takes/sub/b/2.wav")


@kind
def lost_files(it: Frozen) -> None:
    it.speak()
    (it.out / "a.wav").unlink()
    os.truncate(it.out / "d.wav", 100)


@kind
def encoded(it: Frozen) -> None:
    it.speak()
    it.do("encode", "OUT", "--format", "flac", "--model", "models/tiny")


@kind
def leveled(it: Frozen) -> None:
    it.speak()
    it.do("encode", "OUT", "--loudness", "-30", "--model", "models/tiny")


@kind
def encoded_beside(it: Frozen) -> None:
    it.speak_series(SIMPLE["codes"])
    place = it.out.with_name("spoken")
    it.out.rename(place)
    given = ("--subtype", "FLOAT", "--out", "OUT", "--model", "models/tiny")
    it.do("encode", f"{it.name}/spoken", *given)
    shutil.rmtree(place)


@kind
def merged(it: Frozen) -> None:
    it.rows(ROWS)
    for n in (1, 2):
        it.desk.must(*it.given("--shard", f"{n}/2", out=f"part{n}"))
    it.desk.must(*it.given("--takes", 1, "--shard", "2/2", out="part2"))
    it.do("merge", f"{it.name}/part1", f"{it.name}/part2", "--out", "OUT", "--copy")
    for n in (1, 2):
        shutil.rmtree(it.out.with_name(f"part{n}"))


@kind
def pruned(it: Frozen) -> None:
    it.speak()
    it.speak("--prune", rows=ROWS[:2])


@kind
def back(it: Frozen) -> None:
    takes(it)
    it.speak("--prune", rows=ROWS[2:])
    it.speak(rows=ROWS[:3])


@kind
def stray(it: Frozen) -> None:
    it.speak()
    it.rows(ROWS[1:])


@kind
def checked(it: Frozen) -> None:
    takes(it)
    it.do("check", "OUT", codes=(1,))
    it.do("pick", "OUT", "a=2")


@kind
def foreign(it: Frozen) -> None:
    it.rows(ROWS)
    it.speak("--only", "a")
    shutil.copy(it.out / "a.wav", it.out / "d.wav")


@kind
def garbage(it: Frozen) -> None:
    """What others, or broken disks, left in a journal."""
    it.speak()
    lines = (
        b"not JSON\n",
        b'{"id": "../mine", "status": "ok", "path": "../../mine.wav"}\n',
        b'{"id": "c", "status": "ok", "take": "two"}\n',
        b'{"id": "e", "status": "ok", "frames": -5, "audio_s": 1e999, "path": "e.wav"}\n',
        b'{"id": "f", "status": "failed", "error": 5, "suspect": "no", "schema": 2}\n',
        b'{"id": "g", "status": "unheard of"}\n[1, 2]\n\n\xff\xfe\n',
        b'{"schema": 99, "id": "h", "status": "ok", "path": "d.wav", "new": {"x": 1}}\n',
    )
    with (it.out / "timings.jsonl").open("ab") as file:
        file.writelines(lines)


MIXED: Rows = [
    *ROWS,
    {"id": "e", "text": "Somebody changes this."},
    {"id": "f", "text": "This file is edited."},
    {"id": "g", "text": "This one is lost."},
    {"id": "h", "text": "Cut off."},
    {"id": "i", "text": "..."},
    {"id": "j", "text": "Gone, and back again."},
    {"id": "k", "text": "It costs $5."},
    {"id": "l", "text": LONG, "seed": 3},
    {"id": "m", "text": "Another voice.", "voice": "emil", "temperature": 0.7},
    {"id": "n", "text": "This fails.", "max_frames": 3},
    {"id": "o", "text": "Drawn by nobody.", "greedy": True},
    {"id": "p", "text": "Chosen, and changed."},
]


@kind
def mixed(it: Frozen) -> None:
    """Rows in every state, for `states.py`."""
    it.flags = ("--max-seconds", "0.02", "--retries", "0", "--split", "60", "--accept-truncated")
    rest = [row for row in MIXED if row["id"] != "n"]
    it.speak(rows=rest)
    it.speak("--takes", 2, "--only", "a,sub/b,p")
    it.do("pick", "OUT", "a=3", "sub/b=1", "p=2")
    it.speak("--prune", rows=[row for row in rest if row["id"] != "j"])
    it.do("encode", "OUT", "--format", "flac", "--model", "models/tiny")
    it.flags = ("--max-seconds", "0.02", "--retries", "0", "--split", "60")
    it.speak("--only", "n", rows=MIXED, codes=(1,))
    it.flags += ("--accept-truncated", "--format", "flac")
    (it.out / "g.flac").unlink()
    os.truncate(it.out / "h.flac", 100)
    (it.out / "o.wav").unlink()
    it.edit("f.wav")
    new = {"e": "It is changed.", "p": "Changed, and chosen."}
    rows = [{**row, "text": new.get(row["id"], row["text"])} for row in MIXED]
    it.rows([*rows, {"id": "q", "text": "A new one."}, {"id": "r", "text": "Never spoken."}])
    it.rows([row for row in rows if row["id"] != "c"], "fewer.jsonl")


@kind
def torn(it: Frozen) -> None:
    it.speak()
    path = it.out / "timings.jsonl"
    path.write_bytes(path.read_bytes()[:-200])


@kind
def torn_take(it: Frozen) -> None:
    takes(it)
    path = it.out / "timings.jsonl"
    path.write_bytes(path.read_bytes()[:-200])


@kind
def no_reports(it: Frozen) -> None:
    it.speak()
    for name in ("run.json", "runs.jsonl"):
        (it.out / name).unlink()


@kind
def no_journal(it: Frozen) -> None:
    it.speak()
    (it.out / "timings.jsonl").unlink()


@kind
def book(it: Frozen) -> None:
    it.desk.write(f"{it.name}/story.md", STORY)
    given = ("--out", "OUT", "--model", "models/tiny", "--device", "cpu", "--language", "english")
    it.do("book", f"{it.name}/story.md", *given, *SHORT)
    it.rows(
        [{"id": line["id"], "text": line["text"]} for line in lines_of(it.out / "timings.jsonl")]
    )


def _made(it: Frozen, model: str, flags: tuple[str, ...], rows: Rows) -> None:
    """Voices are made, and rows are spoken with them. What a voice says becomes a tone before it is
    encoded: tiny checkpoints speak noise, which takes room.
    """
    it.model, it.flags = model, (*SHORT, "--split", "60", *SMALL, *flags)
    it.speak("--voices-only", rows=rows)
    for told in sorted((it.out / ".voices").glob("*.json")):
        facts, wav = json.loads(told.read_text()), told.with_suffix(".wav")
        seconds, rate_hz = facts["audio_s"], soundfile.info(wav).samplerate
        write_recording(it.desk, str(wav), seconds, rate_hz, 300.0, 0.0)
        facts["files"][".wav"] = hashlib.sha256(wav.read_bytes()).hexdigest()
        told.write_text(json.dumps(facts, indent=2) + "\n")
        for stored in told.parent.glob(f"{told.stem}.*.voice.safetensors"):
            stored.unlink()
    it.speak()


SAYS = "The boat left the harbor after five, and nobody spoke of it any more that night."


@kind
def made_fish(it: Frozen) -> None:
    """Voices of all rows without one, and of a character."""
    rows = [{"id": "a", "text": SAYS}, {"id": "b", "text": "Hm."}]
    anna = {"id": "c", "text": "Hello.", "character": "Anna"}
    _made(it, "maker", ("--seed", "8", "--accept-licence"), [*rows, anna])


@kind
def made_clone(it: Frozen) -> None:
    """Voices of descriptions."""
    calm = {"instruct": "A calm man."}
    rows = [{"id": "a", "text": SAYS, **calm}, {"id": "b", "text": "Hm.", **calm}]
    child = {"id": "c", "text": "Hello.", "instruct": "A child."}
    flags = ("--clone-model", "models/cloner", "--seed", "10", "--save-codes")
    _made(it, "describer", flags, [*rows, child])


# Which no version speaks any more: lines of before there was a `schema`, and of before there was a
# `delivery_hash`; rows that follow a row, `--anchor` and the `--clone-model` of its time. The
# recordings behind the last are not there; nobody needs them now.
RELICS = ("schema_1", "schema_0", "anchored", "two_models")

# What is killed, in a folder of takes of which one is chosen, and at which shares of its calls that
# change the folder.
KILLED: dict[str, tuple[tuple[object, ...], tuple[float, ...], Rows]] = {
    "synth": ((), (0.1, 0.35, 0.6, 0.9), ROWS),
    "changed": ((), (0.2, 0.5, 0.7, 0.9), CHANGED),
    "overwrite": (("--overwrite", "--seed", 9), (0.2, 0.5, 0.8), ROWS),
    "more": (("--takes", 2), (0.3, 0.6, 0.9), ROWS),
    "prune": (("--prune",), (0.4, 0.7, 0.9), ROWS[:2]),
    "level": (("--loudness", "-30"), (0.3, 0.7), ROWS),
    "encode": (("encode", "OUT", "--loudness", "-30", "--model", "models/tiny"), (0.3, 0.6), ROWS),
    "pick": (("pick", "OUT", "a=2", "sub/b=3"), (0.3, 0.6, 0.9), ROWS),
    "merge": (("merge", "others/out", "plain/out", "--out", "OUT"), (0.3, 0.6, 0.9), ROWS),
}
OWN_FOLDER = ("synth", "merge")  # begin in none


def freeze_killed(desk: Desk, name: str, wanted: set[str]) -> None:
    """Kill a command at those of its moments whose folders are wanted."""
    command, shares, rows = KILLED[name]
    names = [f"killed_{name}_{round(100 * share):02d}" for share in shares]
    if not wanted & set(names):
        return
    start = Frozen(desk, f"start_{name}")
    if name not in OWN_FOLDER:
        picked(start)
    start.rows(rows)
    if command and str(command[0]) in ("encode", "pick", "merge"):
        args = [f"{start.name}/out" if arg == "OUT" else arg for arg in command]
    else:
        args = start.given(*command)
    place, kept = desk.path / start.name, desk.path / "kept"
    copy(place, kept)
    total = _run_killed(desk, args, place, 0)
    for share, target in zip(shares, names, strict=True):
        if target not in wanted:
            continue
        shutil.rmtree(place)
        copy(kept, place)
        _run_killed(desk, args, place, max(1, round(total * share)))
        shutil.rmtree(desk.path / target, ignore_errors=True)
        copy(place, desk.path / target)
        desk.write(f"{target}/kind.json", json.dumps({"model": "tiny", "flags": SHORT}))
    shutil.rmtree(place)
    shutil.rmtree(kept)


def _run_killed(desk: Desk, args: list[object], below: Path, kill_at: int) -> int:
    """Run to the end, or to a kill; how many calls changed the folder."""
    from folder_cases import PROGRAM
    from warm_process import WarmProcess

    result = desk.path / "result"
    result.unlink(missing_ok=True)
    plan = {"below": str(below), "result": str(result), "no_links": False}
    told = {"FOLDER_CALLS": json.dumps({**plan, "do": "kill", "how": {"at": kill_at}})}
    os.chdir(desk.path)
    process = WarmProcess(PROGRAM, [str(arg) for arg in args], environment() | told)
    said = "".join(process.communicate(timeout=120))
    os.chdir(ROOT)
    if kill_at == 0 and not result.exists():
        raise RuntimeError(said)
    return int(json.loads(result.read_text())["calls"]) if result.exists() else 0


def all_names() -> list[str]:
    """Those of the archive."""
    killed = [f"killed_{name}_{round(100 * s):02d}" for name in KILLED for s in KILLED[name][1]]
    return [*KINDS, *RELICS, *killed]


def freeze(only: set[str]) -> None:
    """Speak folders into the archive; those that are not asked for stay as they are in it."""
    with tempfile.TemporaryDirectory() as scratch:
        desk = Desk(Path(scratch))
        write_models(desk)
        unpack(desk.path)
        names = all_names()
        for name in KINDS:
            if not only or name in only:
                shutil.rmtree(desk.path / name, ignore_errors=True)
                it = Frozen(desk, name)
                KINDS[name](it)
                about = {"model": it.model, "flags": [f.replace("NAME", name) for f in it.flags]}
                it.desk.write(f"{name}/kind.json", json.dumps(about))
        for name in KILLED:
            freeze_killed(desk, name, only or set(names))
        for name in names:
            _anonymise(desk.path / name, str(desk.path))
        _pack(desk.path, names)


def _anonymise(folder: Path, path: str) -> None:
    """Take the scratch folder's path out of reports, and processes and hosts out of what a kill
    leaves: an empty lock is one that nobody holds, and its time still tells when the run began.
    """
    kinds = ("*.json", "*.jsonl", ".*.json.*.part", ".tts-cli.lock")
    files = [file for kind in kinds for file in folder.rglob(kind)]
    for file in files:
        data, times = file.read_bytes(), file.stat()
        data = b"" if file.suffix == ".lock" else data.replace(path.encode(), FROZEN_AT.encode())
        if data != file.read_bytes():
            file.write_bytes(data)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    for part in folder.rglob(".*.tts-cli.part"):
        name, _, _ = part.name.removesuffix(".tts-cli.part").rpartition(".")
        part.rename(part.with_name(f"{name}.{NO_PROCESS}.tts-cli.part"))


def _pack(place: Path, names: list[str]) -> None:
    """Write the archive; equal files of different folders take no room."""

    def bare(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            archive.add(place / name, name, filter=bare)
    ARCHIVE.write_bytes(lzma.compress(data.getvalue(), preset=PRESET))
    print(f"{len(names)} folders, {ARCHIVE.stat().st_size:,} bytes")


def frozen_names() -> list[str]:
    """The folders in the archive."""
    with tarfile.open(ARCHIVE) as archive:
        return [name for name in archive.getnames() if "/" not in name]


def unpack(place: Path) -> None:
    """Unpack all frozen folders."""
    with tarfile.open(ARCHIVE) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(place, filter="tar")
        else:
            archive.extractall(place)


if __name__ == "__main__":
    known = parser(__doc__)
    known.add_argument("--only", default="", help="folders, parted by commas")
    freeze(set(filter(None, known.parse_args().only.split(","))))
