"""Whether our speech is as good as the official package's, or graphs as good as eager: the
evaluation that papers print, for whoever has the weights.

    python samples/quality.py MODEL --texts FILE --out DIR --against official --asr pocketsphinx
    python samples/quality.py MODEL --texts meta.lst --out DIR --against eager,official
        --official-python ENV/bin/python --seeds 3 --asr openai/whisper-large-v3 --mos
    python samples/quality.py MODEL --texts FILE... --out DIR -- --max-batch 64

FILE is any manifest, such as the lists of seed-tts-eval. `ours` is `synth` as users run it (on a
GPU: graphs, bfloat16), `eager` is `synth` without graphs and kernels in float32, `official` is the
qwen-tts package in an environment of its own. All speak the same rows as they are written, in one
piece, with the checkpoint's or the row's sampling, up to the same cap, once. Flags behind `--` go
to both of ours.

Prints a table for each comparison and writes DIR/quality.json. The exit code is 1 if ours is worse
in a figure. What was spoken and heard is kept: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import soundfile

HERE = Path(__file__).parent
sys.path.append(str(HERE / "judging"))

import figures  # noqa: E402
from judges import (  # noqa: E402
    OWN,
    Judge,
    Likeness,
    Opinions,
    Row,
    Spoken,
    Values,
    Words,
    require_recogniser,
    sum_of,
)

from models.base import ModelInfo  # noqa: E402
from tts_cli.config import RunConfig  # noqa: E402
from tts_cli.core import BadRow  # noqa: E402
from tts_cli.core import Row as GivenRow  # noqa: E402
from tts_cli.errors import ManifestError, SetupError, TtsCliError, UsageError  # noqa: E402
from tts_cli.named import counted  # noqa: E402
from tts_cli.plan.checkpoint import read_info  # noqa: E402
from tts_cli.sources.open import open_manifests, read_rows  # noqa: E402
from tts_cli.text.words import text_cap  # noqa: E402
from tts_cli.versions import commit, versions  # noqa: E402

OURS, EAGER, OFFICIAL = "ours", "eager", "official"
# The plainest way through our code, and what makes a run comparable: texts as they are, one attempt
# that counts however it ends, nothing behind a recording.
PLAIN = ("--no-graphs", "--kernels", "reference", "--dtype", "float32")
ALIKE = ("--normalize", "off", "--split", "off", "--retries", "0", "--accept-truncated")
BATCH_CUDA, BATCH_CPU = 64, 16  # rows that the official package speaks at once
FACTS = ("device", "name", "dtype", "kernels", "max_batch")  # of a run's device
SUFFIXES = (".wav", ".flac")  # `-- --format flac` makes files that travel more easily

Key = tuple[str, ...]  # text, id of the take


def read_texts(args: argparse.Namespace, info: ModelInfo) -> list[Row]:
    """The takes that all systems speak, as rows of a manifest with cap and seed: of each row so
    many, by each of `--voices` if it names none. Raises ManifestError.
    """
    voices = args.voices or info.voices[:1] or [None]
    found: list[Row] = []
    with open_manifests(args.texts, RunConfig(extra="drop")) as manifest:
        for row in read_rows(manifest):
            if isinstance(row, BadRow):
                raise ManifestError(f"{row.file or args.texts[0]}, line {row.line}: {row.message}")
            if args.limit is not None and row.number > args.limit:
                break
            free = row.voice is None and row.ref_audio is None
            for voice in voices if free else [row.voice]:
                for number in range(args.seeds):
                    name = row.id if len(voices) < 2 or not free else f"{row.id}-{voice}"
                    name += f"-{number}" if args.seeds > 1 else ""
                    found.append(_as_spoken(row, name, voice, info))
    if not found:
        raise ManifestError(f"{', '.join(args.texts)}: no rows", "give texts to speak")
    return found


def _as_spoken(row: GivenRow, name: str, voice: str | None, info: ModelInfo) -> Row:
    cap = row.max_frames or text_cap(row.text, info)
    if row.max_seconds is not None:
        cap = max(1, int(row.max_seconds / info.frame_s))
    given = {
        "id": name,
        "text": row.text,
        "voice": voice,
        "language": row.language,
        "instruct": row.instruct,
        "ref_audio": None if row.ref_audio is None else str(Path(row.ref_audio).resolve()),
        "ref_text": row.ref_text,
        "clone_mode": row.clone_mode,
        **row.sampling,
        "max_frames": cap,
        "seed": zlib.crc32(name.encode()),  # takes that share one would share their draws
    }
    return {key: value for key, value in given.items() if value is not None}


class Speakers:
    """Speaks with every system.

    Args:
        args: of the command line.
    """

    def __init__(self, args: argparse.Namespace, rows: Sequence[Row], info: ModelInfo) -> None:
        self._args, self._rows, self._info = args, rows, info
        self._other = args.against_model or args.model
        self._manifest = args.out / "rows.jsonl"
        args.out.mkdir(parents=True, exist_ok=True)
        self._manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def speak(self, system: str) -> None:
        """Have one system speak all rows, those that it has not yet. Raises SetupError."""
        out: Path = self._args.out / system
        out.mkdir(exist_ok=True)
        print(f"{out}: {counted(len(self._rows), 'take')}", file=sys.stderr, flush=True)
        command = self._official(out) if system == OFFICIAL else self._ours(system, out)
        code = subprocess.run(command, stdout=sys.stderr).returncode
        if code > (0 if system == OFFICIAL else 1):
            raise SetupError(f"{system}: ended with exit code {code}", "see what it says above")

    def _ours(self, system: str, out: Path) -> list[str]:
        args = self._args
        command = [sys.executable, "-m", "tts_cli", "synth", str(self._manifest), "--out", str(out)]
        model = args.model if system == OURS else self._other
        command += ["--model", model, "--device", args.device, *ALIKE]
        if self._info.can_clone:
            command += ["--ref-silence", "0"]
        return [*command, *(PLAIN if system == EAGER else ()), *args.flags]

    def _official(self, out: Path) -> list[str]:
        args, is_cuda = self._args, device_of(self._args.device) != "cpu"
        job = {
            "model": self._other,
            "identity": read_info(RunConfig(model=self._other)).identity,
            "device": device_of(args.device),
            "dtype": "bfloat16" if is_cuda else "float32",
            "batch": args.official_batch or (BATCH_CUDA if is_cuda else BATCH_CPU),
            "frame_s": self._info.frame_s,
            "out": str(out),
            "rows": self._rows,
        }
        path = out / "job.json"
        path.write_text(json.dumps(job))
        return [args.official_python, str(HERE / "judging" / "official.py"), str(path)]


def device_of(device: str) -> str:
    """What `--device` means, by torch's name."""
    if device != "auto":
        return "cuda:0" if device == "cuda" else device
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


class Judged:
    """What judges said of files, kept in DIR/judged.jsonl.

    A line holds for a file's sum, the judge and what the judge was told; who spoke it is not asked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, str, str], Values] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    judge, sha256, beside, values = json.loads(line)
                except ValueError:  # torn by a kill
                    continue
                self._known[judge, sha256, beside] = values

    def ask(self, judge: Judge, takes: Iterable[Spoken]) -> list[Values]:
        """What a judge says of each take; nothing of those that it does not judge."""
        listed = [(one, judge.beside(one.row)) for one in takes]
        keys = [None if told is None else (judge.name, one.sha256, told) for one, told in listed]
        waiting = {
            key: one
            for (one, _), key in zip(listed, keys, strict=True)
            if key is not None and key not in self._known
        }
        print(f"{judge.name}: {len(waiting)} of {len(listed)} to hear", file=sys.stderr, flush=True)
        order = list(waiting)
        with open(self._path, "a", encoding="utf-8") as file:
            for place, values in judge.judge(list(waiting.values())) if order else ():
                self._known[order[place]] = values
                file.write(json.dumps([*order[place], values]) + "\n")
                file.flush()
        return [self._known.get(key, {}) if key is not None else {} for key in keys]


def spoken_by(folder: Path) -> Row:
    """What spoke into a folder: device, precision, kernels and versions, as its last run has it."""
    path = folder / ("versions.json" if folder.name == OFFICIAL else "run.json")
    said = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    facts = {name: said["device"].get(name) for name in FACTS} if "device" in said else {}
    return {**facts, **said.get("versions", said)}


def takes_of(folder: Path, rows: Sequence[Row]) -> list[Spoken]:
    """The files of the rows that were spoken."""
    paths = [(folder / f"{row['id']}{suffix}", row) for row in rows for suffix in SUFFIXES]
    return [Spoken(path, sum_of(path), row) for path, row in paths if path.exists()]


def ends(take: Spoken, info: ModelInfo) -> Values:
    """Length and end of a take, by one rule for all systems: from its file and its text."""
    file = soundfile.info(take.path)
    audio_s = file.frames / file.samplerate
    num_frames = round(audio_s / info.frame_s)
    least = 0 if info.pace is None else info.pace.least_frames(take.row["text"])
    return {
        "audio_s": audio_s,
        "is_runaway": float(num_frames >= take.row["max_frames"]),
        "is_early": float(num_frames < least),
    }


def require(args: argparse.Namespace, rows: Sequence[Row], info: ModelInfo) -> None:
    """Find out what is missing before anything is spoken. Raises UsageError, SetupError."""
    is_cloned = any("ref_audio" in row for row in rows)
    if args.asr is not None:
        require_recogniser(args.asr)
    if args.mos:
        Opinions()
    if args.similarity is not None and not is_cloned:
        raise UsageError("--similarity: no row has a recording to be like", "leave it out")
    if is_cloned and args.similarity is None and "xvec" not in info.clone_modes:
        print("warning: similarity is not measured; --similarity names an encoder", file=sys.stderr)
    if OFFICIAL not in args.against or args.judge_only:
        return
    if info.family != "qwen3_tts":
        raise UsageError(f"--against official: there is none for {info.family}", "give eager")
    if info.needs_reference and not all("ref_audio" in row for row in rows):
        raise UsageError("--against official: knows no voice files", "give every row a recording")
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('qwen_tts') is None)"
    if subprocess.run([args.official_python, "-c", code]).returncode:
        raise SetupError(
            f"--official-python {args.official_python}: has no package qwen_tts",
            "make an environment with it: python -m venv ENV, ENV/bin/pip install qwen-tts",
        )


def judges_of(args: argparse.Namespace, rows: Sequence[Row], info: ModelInfo) -> Iterator[Judge]:
    """Those that were asked for, one in memory at a time. Raises SetupError."""
    config = RunConfig(model=args.model, device=args.device)
    if args.asr is not None:
        yield Words(replace(config, asr=args.asr, asr_batch=args.asr_batch))
    if args.mos:
        yield Opinions()
    encoder = args.similarity or (OWN if "xvec" in info.clone_modes else None)
    if encoder is not None and any("ref_audio" in row for row in rows):
        yield Likeness(encoder, config)


def evaluate(args: argparse.Namespace) -> int:
    """Speak, judge, compare and print; the exit code."""
    started_s = time.perf_counter()
    info = read_info(RunConfig(model=args.model))
    for name in args.against:
        if name not in (EAGER, OFFICIAL):
            raise UsageError(f"--against {name}: is neither {EAGER} nor {OFFICIAL}")
    rows, systems = read_texts(args, info), [OURS, *args.against]
    require(args, rows, info)
    if not args.judge_only:
        speakers = Speakers(args, rows, info)
        for system in systems:
            speakers.speak(system)
    spoken = [(system, one) for system in systems for one in takes_of(args.out / system, rows)]
    values = [ends(one, info) for _, one in spoken]
    judged, judges = Judged(args.out / "judged.jsonl"), []
    for judge in judges_of(args, rows, info):
        judges.append(judge.name)
        for known, found in zip(values, judged.ask(judge, [one for _, one in spoken]), strict=True):
            known.update(found)
    takes: dict[str, dict[Key, Values]] = {system: {} for system in systems}
    for (system, one), found in zip(spoken, values, strict=True):
        takes[system][one.row["text"], one.row["id"]] = found
    report: dict[str, Any] = {
        "model": args.model,
        "identity": info.identity,
        "against_model": args.against_model,
        "texts": args.texts,
        "takes": len(rows),
        "seeds": args.seeds,
        "spoken": {system: spoken_by(args.out / system) for system in systems},
        "flags": args.flags,
        "judges": judges,
        "versions": versions(),
        "commit": commit(),
        "comparisons": {},
    }
    is_worse = False
    for other in args.against:
        found = _compared(takes[OURS], takes[other], len(rows), other)
        report["comparisons"][other] = found
        is_worse |= "worse" in (one["verdict"] for one in found["figures"].values())
    report["wall_s"] = round(time.perf_counter() - started_s, 1)
    (args.out / "quality.json").write_text(json.dumps(report, indent=1) + "\n")
    return int(is_worse)


def _compared(
    ours: dict[Key, Values], theirs: dict[Key, Values], wanted: int, other: str
) -> dict[str, Any]:
    """Print a comparison of what both spoke; as the report has it."""
    both = [key for key in ours if key in theirs]
    if not both:
        raise SetupError(f"{OURS} and {other} have no take in common", "see what they say above")
    tables = figures.tabulate([{key: takes[key] for key in both} for takes in (ours, theirs)])
    differences = figures.compare(tables)
    told = figures.conclusion(differences, OURS, other)
    texts, takes = counted(len(tables.texts), "text"), counted(len(both), "take")
    print(f"\n{OURS} against {other}: {texts}, {takes} of each\n")
    print(figures.table(differences, OURS, other) + f"\n\n{told}")
    unspoken = {OURS: wanted - len(ours), other: wanted - len(theirs)}
    if any(unspoken.values()):
        print("Left out, because they were not spoken:", json.dumps(unspoken))
    return {
        "texts": len(tables.texts),
        "takes": len(both),
        "unspoken": unspoken,
        "conclusion": told,
        "figures": {
            one.figure.name: {
                OURS: one.ours._asdict(),
                other: one.theirs._asdict(),
                "difference": one.off._asdict(),
                "verdict": one.verdict,
            }
            for one in differences
        },
    }


def listed(words: str) -> list[str]:
    """What commas separate."""
    return words.split(",")


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = found.add_argument
    add("model", help="folder or Hugging Face repository")
    add("--texts", nargs="+", required=True, help="manifests, such as a list of seed-tts-eval")
    add("--out", type=Path, required=True, help="for audio, what was heard, and quality.json")
    add(
        "--against",
        default=[OFFICIAL],
        type=listed,
        help="eager, official or both, comma between (official)",
    )
    add("--official-python", default=sys.executable, help="of the environment with qwen-tts")
    add("--against-model", help="checkpoint of what ours is held against (MODEL)")
    add("--official-batch", type=int, help="rows it speaks at once (64 on cuda, 16 on cpu)")
    add("--seeds", type=int, default=1, help="takes of each row (1)")
    add("--voices", type=listed, help="speakers of rows that name none, comma between (the first)")
    add("--limit", type=int, help="only the first N rows (all)")
    add("--judge-only", action="store_true", help="speak nothing: judge what lies in DIR")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (auto)")
    add("--asr", help="count wrong words: pocketsphinx, or a Whisper or Qwen3-ASR checkpoint")
    add("--asr-batch", type=int, help="as in `tts-cli check`")
    add("--mos", action="store_true", help="predict opinions with DNSMOS")
    add(
        "--similarity",
        metavar="own|PATH|REPO",
        help="of clones to their recordings: the checkpoint's own speaker encoder, or a WavLM for "
        "speaker verification (own, where rows have recordings)",
    )
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Command line."""
    given = list(sys.argv[1:] if words is None else words)
    end = given.index("--") if "--" in given else len(given)
    args = parser().parse_args(given[:end], argparse.Namespace(flags=given[end + 1 :]))
    try:
        return evaluate(args)
    except TtsCliError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
