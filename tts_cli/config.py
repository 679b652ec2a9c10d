"""The settings of a run: one frozen dataclass that the flags show and the engine uses.

A further setting is a field here, and its use: `SettingFacts` has what is said of one. Those of
sampling are in the table of `models.sampling`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from models.sampling import ENDLESS, Range
from tts_cli.errors import UsageError
from tts_cli.setting import SAMPLING_FLAGS, About, Scope, Topic, either, flag, table_of

SAMPLE_VOICE = "sample voice"  # the model, where none is named, in messages and reports
SUBTITLES = ("srt", "vtt")
EXTRAS = ("error", "keep", "drop")
CEILING_DBTP = -1.0  # of --loudness, before encoding
# Of `--loudness acx`, before encoding: MP3 raised peaks by up to 1.8 dB, and ACX takes -3 dB.
ACX_CEILING_DBTP = -5.0
# Rows at once where --max-batch says nothing; twice as many on cuda where so many are to be spoken.
BATCH_CUDA, BATCH_CPU, MANY_ROWS = 256, 16, 1024
# What each audio format can store. The lossy ones have a coding of their own, so they take the
# default subtype only and ignore it.
SUBTYPES: dict[str, tuple[str, ...]] = {
    "wav": ("PCM_16", "PCM_24", "FLOAT", "ULAW", "ALAW"),
    "flac": ("PCM_16", "PCM_24"),
    "ogg": ("PCM_16",),
    "mp3": ("PCM_16",),
    "opus": ("PCM_16",),
}
# Ways to speak again, of which a run takes one.
AGAIN = (
    *(("overwrite", "retry_failed"), ("overwrite", "takes"), ("retry_failed", "takes")),
    ("verify", "takes"),
)
_PAUSE = Range(0.0, 10.0)
_PAD = Range(0.0, 60.0)
_whole = partial(Range, is_integer=True)
_device = either(r"auto|cpu|cuda(:[0-9]{1,3})?", "auto, cpu, cuda or cuda:N")


def _power_of_two(rows: int) -> str | None:
    if rows & (rows - 1):
        return f"must be a power of two, not {rows}; use {1 << (rows.bit_length() - 1)}"
    return None


def _folder(path: Path) -> str | None:
    return f"{path}: is not a folder" if path.is_file() else None


def _address(text: str) -> str | None:
    return None if text else "is empty; give HOST:PORT, or auto"


def _shard_of(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form I/N, such as 1/4")
    return int(match[1]), int(match[2])


def _part(shard: tuple[int, int]) -> str | None:
    part, count = shard
    is_one = 1 <= part <= count
    return None if is_one else f"{part}/{count}: the part must be 1 to {count}"


def _pad_of(text: str) -> tuple[float, float]:
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)(?:,([0-9]{1,4}(?:\.[0-9]{1,6})?))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form S or S,S, such as 0.5 or 0.5,1")
    return float(match[1]), float(match[2] or match[1])


def _seconds(pad: tuple[float, float]) -> str | None:
    return _PAD.problem(pad[0]) or _PAD.problem(pad[1])


def _subtitles(text: str) -> str | None:
    unknown = [name for name in text.lower().split(",") if name not in SUBTITLES]
    return f"{unknown[0]!r} is not one of {', '.join(SUBTITLES)}" if unknown else None


@dataclass(frozen=True)
class RunConfig:
    """Every shared and `synth` setting. None means: decided later, as the help says."""

    # fmt: off
    model: str | None = Topic.MODEL.setting(None,
        "Model folder, Hugging Face repository, or synthetic:NAME for random weights.",
        "the sample voice", metavar="PATH|REPO", is_common=True,
        others="--model-name --model-path --model-id --model-dir --model-name-or-path --checkpoint "
        "--ckpt --ckpt-path --weights -m")
    revision: str | None = Topic.MODEL.setting(None,
        "Branch, tag or commit of a Hugging Face repository.", "its main branch", metavar="REV")
    accept_licence: bool = Topic.MODEL.setting(False,
        "Accept the licence of the checkpoint's weights. It is asked for only once.",
        is_keyword=True, about=About.RUN, scope=Scope.ONE_RUN)
    device: str = Topic.DEVICE.setting("auto", "Where to compute: auto, cpu, cuda or cuda:N.",
        metavar="DEVICE", check=_device, is_keyword=True, is_completed=True, is_common=True)
    dtype: str = Topic.DEVICE.setting("auto",
        "Precision; auto is bfloat16 on cuda and float32 on cpu.",
        choices=("auto", "float32", "bfloat16"), about=About.SPEECH)
    max_batch: int | None = Topic.DEVICE.setting(None,
        "Speak at most N rows at once, a power of two. Fewer need less memory.",
        "up to 256 on cuda, 512 from 1,024 rows on, 16 on cpu", limits=_whole(1, 1024),
        check=_power_of_two, is_keyword=True, is_common=True,
        others="--batch --batch-size --batchsize --max-batch-size --bs -b")
    no_graphs: bool = Topic.DEVICE.setting(False, "Run without CUDA graphs: slower, same audio.",
        is_keyword=True)
    kernels: str = Topic.DEVICE.setting("auto", "Which kernels to use on cuda. portable: those "
        "for older and consumer GPUs. reference: PyTorch's own operations, which auto uses too "
        "where Triton fails.", choices=("auto", "portable", "reference"))
    kernel_cache: Path | None = Topic.DEVICE.setting(None, "Folder of compiled kernels. Copy a "
        "warmed-up one to machines with the same GPU and versions: they need not compile.",
        "TRITON_CACHE_DIR, or .triton/cache in the home folder", check=_folder, scope=Scope.USERS)
    workers: str | None = Topic.DEVICE.setting(None, "Speak with N workers through Ray, one GPU "
        "each, or with all GPUs there are. They fill one folder, as one run. On a CPU they share "
        "the cores. Needs the extra ray.", "no workers, one process", metavar="N|all",
        check=either(r"all|[1-9][0-9]{0,3}", "all or a number, 1 to 9999"))
    ray_address: str | None = Topic.DEVICE.setting(None, "Put the workers on a Ray cluster that "
        "already runs: HOST:PORT, or auto for the one on this machine. Without --workers they take "
        "all its free GPUs.", "a Ray of its own on this machine", metavar="HOST:PORT|auto",
        check=_address, scope=Scope.USERS)
    reproducible: bool = Topic.DEVICE.setting(False, "On cuda, give a row the same audio "
        "whatever rows, order, shards or workers the run has, as long as --max-batch is the same. "
        "Slower. A CPU in float32 always does this.", about=About.SPEECH)
    json: bool = Topic.MESSAGES.setting(False, "Print the result as JSON on stdout.",
        is_common=True)
    verbosity: int = 0  # -1 warnings only, 0 normal, 1 details: of -v and -q
    debug: bool = Topic.MESSAGES.setting(False,
        "Like -v, with times, threads and modules, messages of libraries, and tracebacks.")
    progress: str = Topic.MESSAGES.setting("auto", "How to show progress. auto: a bar on a "
        "terminal, a line every 30 s elsewhere. log: always lines.",
        choices=("auto", "log", "none"), scope=Scope.ANY)
    manifest_format: str | None = Topic.ROWS.setting(None, "Format of the manifest.",
        "by its suffix; jsonl on stdin",
        choices=("jsonl", "csv", "tsv", "txt", "xlsx", "subtitles"), others="--input-format")
    map: str | None = Topic.ROWS.setting(None, "Which column is which field, as in "
        '"Line ID=id,Dialogue=text,Character=character". COLUMN= says that it is none. Put a name '
        "that has a comma, an equals sign or a quote in double quotes.",
        "columns are named like fields", metavar="COLUMN=field,...", is_keyword=True,
        is_common=True)
    columns: str | None = Topic.ROWS.setting(None, "Name the columns of a table without a "
        "header, as in id,text. The id is made of a column called path. A column may have no name.",
        "the first row has the names; training lists are known by their form", metavar="NAME,...")
    extra: str = Topic.ROWS.setting("error", "What to do with columns that are no fields: stop "
        "with an error, keep them in timings.jsonl, or drop them.", choices=EXTRAS,
        is_keyword=True, is_common=True)
    sheet: str | None = Topic.ROWS.setting(None, "Sheet of an .xlsx manifest.",
        "the first visible one", metavar="NAME")
    encoding: str | None = Topic.ROWS.setting(None,
        "Encoding of the manifest, such as cp1252 or utf-16.", "UTF-8, or found from its bytes",
        metavar="NAME")
    cast: Path | None = Topic.ROWS.setting(None,
        "Give each character a voice: a TOML file with one table per character.", "none",
        metavar="FILE.toml", about=About.SPEECH, is_common=True)
    speaker_prefix: bool = Topic.ROWS.setting(False, "Remove names in front of lines (Anna: Come "
        "in.). With --cast, the name is the row's character.")
    ids: str = Topic.ROWS.setting("number", "How to name rows without an id. number: by their "
        "place. content: by a hash of text and voice, so a new line at the top renames no other.",
        choices=("number", "content"))
    limit: int | None = Topic.ROWS.setting(None, "Take only the first N rows.", "all",
        limits=_whole(1, ENDLESS), scope=Scope.ONE_RUN, is_common=True,
        others="--max-rows --num-rows --max-samples --head")
    shard: tuple[int, int] | None = Topic.ROWS.setting(None,
        "Take part I of N. A row's part depends on its id alone.", "all", metavar="I/N",
        parse=_shard_of, form="{}/{}", check=_part, scope=Scope.ONE_RUN)
    skip_invalid: bool = Topic.ROWS.setting(False,
        "Speak the good rows, record the bad ones as failed.", is_common=True)
    wordless: str = Topic.ROWS.setting("silence",
        "Give rows without a letter or digit half a second of silence, or fail them.",
        choices=("silence", "fail"), about=About.SPEECH)
    voice_dir: Path | None = Topic.CLONING.setting(None, "Folder of voice files.",
        "yours; see `tts-cli voices -h`", others="--voices --voices-dir --voice-folder")
    ref_root: Path | None = Topic.CLONING.setting(None,
        "Take recordings (ref_audio) from this folder alone; links are followed.", "anywhere",
        exists=True, is_keyword=True, about=About.RUN, scope=Scope.USERS)
    ref_silence: float | None = Topic.CLONING.setting(None,
        "Silence after a recording that is cloned in mode icl, 0 to 10 s.", "by the model's family",
        limits=Range(0.0, 10.0, hint="0 is what the official package does"))
    free_voice: str | None = Topic.CLONING.setting(None, "Who speaks rows without a voice (Fish "
        "Speech without a recording). one: a voice that is made before the first row and kept in "
        "DIR/.voices, another for each character. each: another person in every row, and no row "
        "is split.", "one; each for a single short text and for random weights",
        choices=("one", "each"))
    clone_model: str | None = Topic.CLONING.setting(None, "Base checkpoint that speaks the rows, "
        "in voices that --model, a VoiceDesign checkpoint, makes first: one for each character or "
        "description.", "none: every row is another person", metavar="PATH|REPO", is_keyword=False)
    voice_text: str | None = Topic.CLONING.setting(None,
        "What a made voice says as its reference; 5 to 10 s are best.",
        "a text of 5 to 10 s from its rows, or a sentence of ours", metavar="TEXT")
    made_voices: Path | None = Topic.CLONING.setting(None,
        "Take made voices from this output folder.", "make them")
    many_voices: bool = Topic.CLONING.setting(False,
        "Make more than 20 voices of descriptions, even if most speak only one or two rows.",
        about=About.RUN, scope=Scope.ONE_RUN)
    language: str = Topic.TEXT.setting("auto", "Language of rows that name none.", metavar="NAME",
        is_completed=True, is_common=True,
        others="--lang --language-code --lang-code --locale -l")
    normalize: str | None = Topic.TEXT.setting(None, "Read numbers, money, dates, units and "
        "abbreviations as words. auto: in each row's language. LANGUAGE: rows with language auto "
        "are read in this one.", "auto for the sample voice, off for others",
        metavar="auto|off|LANGUAGE", is_completed=True)
    lexicon: Path | None = Topic.TEXT.setting(None,
        "How to say certain words: a table with columns from, to, language and case.", "none",
        metavar="FILE.tsv", is_common=True, others="--dictionary --dict --pronunciations")
    strip_markup: bool = Topic.TEXT.setting(False, "Remove tags for style and emphasis from "
        "texts (<b>, {i}, [color=red], **). Placeholders ([name], {0}, %s) stay, with a warning.")
    voice: str | None = Topic.SPEECH.setting(None, "Speaker of rows that name none.",
        "the checkpoint's first", metavar="NAME", is_completed=True, is_common=True,
        others="--speaker --speaker-id --speaker-name --spk --voice-id --voice-name")
    layout: str = Topic.SPEECH.setting("auto",
        "Where the model gets the text: before the speech (non_streaming), or beside it.",
        choices=("auto", "streaming", "non_streaming"))
    seed: int = Topic.SPEECH.setting(0,
        "Seed of the run, 0 to 2^53-1. A row's seed is made of it and the row's id.",
        limits=_whole(0, 2**53 - 1, hint="jq, pandas and browsers read no larger number exactly"),
        is_common=True)
    max_seconds: float | None = Topic.SPEECH.setting(None,
        "Longest audio of a row. Speech that goes on after that has run away.", "by its text",
        limits=Range(0.0, 86_400.0, is_low_open=True),
        others="--max-length --max-len --max-duration --max-tokens --max-new-tokens "
        "--max-audio-length")
    split: str = Topic.SPEECH.setting("auto", "Speak rows of more than CHARS characters (UTF-8 "
        "bytes) in parts, cut after paragraphs, sentences, clauses or words, and join them. auto: "
        "rows longer than the checkpoint speaks well, in parts of 0.6 of that.",
        metavar="auto|CHARS|off",
        check=either("auto|off|[0-9]{1,9}", "auto, off or a number of characters",
            _whole(40, 20_000)))
    pause_paragraph: float = Topic.SPEECH.setting(0.8,
        "Seconds between parts where a paragraph ends.", limits=_PAUSE)
    pause_sentence: float = Topic.SPEECH.setting(0.35,
        "Seconds between parts where a sentence ends.", limits=_PAUSE)
    pause_clause: float = Topic.SPEECH.setting(0.15, "Seconds between parts within a sentence.",
        limits=_PAUSE)
    retries: int = Topic.FAILURES.setting(2, "Try a row N times more, with other seeds, when its "
        "speech never ends, ends too early or stands still. A later run takes further seeds.",
        limits=_whole(0, 100), is_keyword=True)
    accept_truncated: bool = Topic.FAILURES.setting(False, "Keep rows whose speech reaches its "
        "limit, ends too early or stands still, instead of failing them.", about=About.SPEECH)
    max_failures: str | None = Topic.FAILURES.setting(None,
        "Stop with exit code 4 when more than N rows, or P% of the run, have failed.",
        "no limit", metavar="N|P%",
        check=either("[0-9]{1,12}|0{0,9}(100|[0-9]{1,2})%", "a number of rows, or 0% to 100%"))
    out: Path | None = Topic.OUTPUT.setting(None,
        "Folder for the audio, timings.jsonl and run.json.", "nothing is written", about=About.RUN,
        scope=Scope.ONE_RUN, is_common=True,
        others="--output --output-dir --output-folder --output-path --out-dir --outdir --out-path "
        "--save-dir --save-path --dest --target -O")
    format: str = Topic.OUTPUT.setting("wav",
        "Audio format; ogg (Vorbis), mp3 and opus are lossy.", choices=tuple(SUBTYPES),
        is_common=True, others="--output-format --audio-format --ext --extension")
    subtype: str = Topic.OUTPUT.setting("PCM_16",
        "Sample format of wav and flac; FLOAT, ULAW and ALAW (telephony, lossy): wav only.",
        choices=SUBTYPES["wav"], metavar="|".join(SUBTYPES["wav"]))
    sample_rate: int | None = Topic.OUTPUT.setting(None, "Sample rate in Hz, 8000 to 192000.",
        "the checkpoint's", metavar="HZ", limits=_whole(8_000, 192_000),
        others="--sr --sampling-rate --samplerate --rate-hz")
    loudness: str | None = Topic.OUTPUT.setting(None, "Level of each file: LUFS (-40 to -10, "
        "ITU-R BS.1770-4), ebu (-23), podcast (-16), or acx (RMS -20 dB; noise is checked, too). "
        f"True peaks before encoding: up to {CEILING_DBTP:g} dBTP, {ACX_CEILING_DBTP:g} with acx.",
        "as the model speaks",
        metavar="LUFS|ebu|acx|podcast", is_common=True,
        check=either(r"ebu|acx|podcast|-[0-9]{1,2}(\.[0-9]{1,3})?",
            "ebu, acx, podcast or a number of LUFS, such as -19", Range(-40.0, -10.0)))
    highpass: float | None = Topic.OUTPUT.setting(None,
        "Remove rumble and DC below this frequency, 10 to 500 Hz; 60 to 80 suit speech.", "off",
        metavar="HZ", limits=Range(10.0, 500.0))
    trim: bool = Topic.OUTPUT.setting(False, "Cut silence at both ends down to 0.05 s.")
    pad: tuple[float, float] | None = Topic.OUTPUT.setting(None,
        "Add silence at both ends, 0 to 60 s, or in front and behind: 0.5,1.", "none",
        metavar="S[,S]", parse=_pad_of, form="{:g},{:g}", check=_seconds)
    save_codes: bool = Topic.OUTPUT.setting(False, "Also save the model's codes of each row, as "
        "<id>.codes.safetensors. `encode` can make other formats of them.", others="--save-tokens")
    subtitles: str | None = Topic.OUTPUT.setting(None, "Also write subtitles for each row, or "
        "for each chapter of a book: srt, vtt or both.", "none",
        metavar=",".join(SUBTITLES), check=_subtitles)
    dry_run: bool = Topic.AGAIN.setting(False,
        "Check everything and show what would be spoken, and why. Change nothing.", is_common=True,
        others="--check --plan -n")
    voices_only: bool = Topic.AGAIN.setting(False,
        "Make the voices of the whole manifest, print their WAV files, and speak no row.")
    only: tuple[str, ...] = Topic.AGAIN.setting((), "Only these rows, separated by commas: an "
        "id, a pattern such as 'intro/*', @FILE with one of them per line, or suspects: rows that "
        "failed, or that `tts-cli check` found. Can be given several times. `synth` speaks done "
        "rows again only with --overwrite or --takes.", "all", metavar="ID,...", about=About.ROWS,
        is_completed=True, is_common=True)
    overwrite: bool = Topic.AGAIN.setting(False, "Speak done rows again. The same seed gives the "
        "same audio, another --seed other audio. The old audio is kept in DIR/takes/.",
        is_common=True, others="--force --force-overwrite --redo -f -y")
    takes: int = Topic.AGAIN.setting(0, "Speak N more takes of each row, with other seeds, into "
        "DIR/takes/. The row's file stays the same until `tts-cli pick` chooses another take.",
        limits=_whole(0, 100), is_common=True)
    retry_failed: bool = Topic.AGAIN.setting(False, "Speak only rows that failed in an earlier "
        "run, with further seeds where their speech went wrong.", is_common=True)
    verify_files: bool = Topic.AGAIN.setting(False,
        "Read every recorded file, and speak a row again if its file is not as it was written.")
    prune: bool = Topic.AGAIN.setting(False, "Move rows that are no longer in the manifest to "
        "DIR/removed/. Reports, exports and merges leave them out. They come back when the "
        "manifest has them again.")
    take_over: bool = Topic.AGAIN.setting(False,
        "Take the folder from a run on another host, which must be dead.")
    asr: str | None = Topic.RECOGNISER.setting(None, "Recogniser that transcribes the audio: "
        "pocketsphinx (English, on a CPU), or a Whisper or Qwen3-ASR checkpoint, as a folder or a "
        "Hugging Face repository.", "none: no audio is read", metavar="pocketsphinx|PATH|REPO",
        is_common=True)
    asr_batch: int | None = Topic.RECOGNISER.setting(None,
        "Transcribe in N processes (pocketsphinx), or N windows of 30 s at once (checkpoints).",
        "one process a core; 64 windows on cuda, 4 on cpu", limits=_whole(1, 1024),
        others="--batch --batch-size")
    drift: bool = Topic.DRIFT.setting(False, "Also measure how much each row sounds like its "
        "voice. The speaker encoder of a Qwen3-TTS Base checkpoint does it: the one that spoke, or "
        "--model.", is_common=True)
    mos: bool = Topic.DRIFT.setting(False, "Also predict how people would rate the sound of each "
        "row, from 1 to 5. DNSMOS does it, on a CPU. A row far below the usual score of its voice "
        "is suspect.")
    pick: str | None = Topic.TAKES.setting(None, "best: where the file of a row is suspect and "
        "another take is not, make that take the file. What you chose with `tts-cli pick` stays.",
        "change no file, print the command for it", choices=("best",), is_common=True)
    verify: str | None = Topic.VERIFY.setting(None, "Transcribe rows while others are spoken, with "
        "what `check --asr` takes. Speak suspect rows again, and keep the take that `check --pick "
        "best` chooses.", "none: no audio is read", metavar="pocketsphinx|PATH|REPO",
        is_common=True, is_keyword=True)
    retakes: int = Topic.VERIFY.setting(2, "Speak N more takes of each suspect row.",
        limits=_whole(0, 100), is_keyword=True)
    verify_device: str | None = Topic.VERIFY.setting(None, "Where a checkpoint of --verify "
        "computes: auto, cpu, cuda or cuda:N.", "as --device", metavar="DEVICE", check=_device,
        is_completed=True, is_keyword=True)
    words: str | None = Topic.WORDS.setting(None, "Once all is spoken, find when each word of a "
        "row is said, as `tts-cli align --with` does: pocketsphinx (English, on a CPU), or a "
        "Qwen3-ForcedAligner, as a folder or a Hugging Face repository.", "no times",
        metavar="pocketsphinx|PATH|REPO", is_keyword=True)
    sampling: Mapping[str, float] = field(default_factory=dict)  # what flags give, by name
    # fmt: on

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> RunConfig:
        """Build from a command's parameters and check them.

        Args:
            options: flag values by field name; `verbose` and `quiet` are counts of -v and -q.
        Raises:
            UsageError: a value is out of range or two flags exclude each other.
        """
        values = dict(options)
        flags = {name: values.pop(name) for name in SAMPLING_FLAGS if name in values}
        values["sampling"] = {
            name: value for name, value in flags.items() if value is not None and value is not False
        }
        verbosity = int(values.pop("verbose", 0)) - int(values.pop("quiet", 0))
        config = cls(**values)
        config = replace(config, verbosity=max(-1, min(1, config.verbosity + verbosity)))
        config.validate()
        return config

    def validate(self) -> None:
        """Check what needs no model and no file. Raises UsageError naming the flag."""
        for name, found in SETTINGS.items():
            if problem := found.problem(self.sampling.get(name, getattr(self, name, None))):
                raise UsageError(f"{flag(name)} {problem}")
        if self.has_workers and ":" in self.device:
            raise UsageError(
                f"--device {self.device} names one GPU, and workers take one each",
                remedy="choose GPUs by CUDA_VISIBLE_DEVICES, and give --device cuda",
            )
        if self.subtype not in SUBTYPES[self.format]:
            fits = next(form for form, subtypes in SUBTYPES.items() if self.subtype in subtypes)
            raise UsageError(
                f"--subtype {self.subtype} does not exist in {self.format}",
                remedy=f"use --format {fits}",
            )
        for first, second in AGAIN:
            if getattr(self, first) and getattr(self, second):
                raise UsageError(f"{flag(first)} and {flag(second)} exclude each other", "give one")

    @property
    def shapes(self) -> str | None:
        """What a row's bits depend on besides its request; None: nothing is promised."""
        return f"{self.max_batch or BATCH_CUDA} rows, {self.dtype}" if self.reproducible else None

    @property
    def split_limit(self) -> int | None:
        """The number that `--split` gives; None for a word."""
        return int(self.split) if self.split.isdecimal() else None

    @property
    def subtitle_formats(self) -> tuple[str, ...]:
        """What `--subtitles` names, each once."""
        return tuple(dict.fromkeys(self.subtitles.lower().split(","))) if self.subtitles else ()

    def failures_allowed(self, num_rows: int) -> int | None:
        """How many of a run's rows may fail, by `--max-failures`; None: all."""
        if self.max_failures is None:
            return None
        number = int(self.max_failures.removesuffix("%"))
        return number * num_rows // 100 if self.max_failures.endswith("%") else number

    @property
    def most_takes(self) -> int:
        """How many takes of a row a run speaks beside its own, at most."""
        return max(self.takes, self.retakes) if self.verify else self.takes

    @property
    def has_workers(self) -> bool:
        """Whether other processes speak, through Ray."""
        return self.workers is not None or self.ray_address is not None

    @property
    def num_workers(self) -> int | None:
        """How many; None: as many as there are devices for."""
        return int(self.workers) if self.workers and self.workers.isdecimal() else None

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them, for run.json."""
        found = {
            name: one.plain(self.sampling.get(name, getattr(self, name, one.default)))
            for name, one in SETTINGS.items()
        }
        return {**found, "verbosity": self.verbosity}


SETTINGS = table_of(RunConfig)


def users_folder(variable: str, otherwise: str) -> Path:
    """Ours in the folder that a variable names, or in this one of the user's home."""
    named = os.environ.get(variable, "")
    return (Path(named) if os.path.isabs(named) else Path.home() / otherwise) / "tts-cli"
