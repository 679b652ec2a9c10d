"""The settings of a run: one frozen dataclass that the flags show and the engine uses.

Every field carries its default and the help text of its flag, so `--help` cannot drift from what
happens; those of sampling are in the table of `models.sampling`. Ranges of numbers live here too,
because manifest rows must keep to the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any

from models.sampling import ENDLESS, SETTINGS, Range
from tts_cli.errors import UsageError

DEVICE_PATTERN = re.compile(r"auto|cpu|cuda|cuda:[0-9]{1,3}")
WORKERS_PATTERN = re.compile(r"all|[1-9][0-9]{0,3}")
DTYPES = ("auto", "float32", "bfloat16")
KERNELS = ("auto", "portable", "reference")
LOUDNESS_PATTERN = re.compile(r"ebu|acx|podcast|-[0-9]{1,2}(\.[0-9]{1,3})?")
LOUDNESS_RANGE = Range(-40.0, -10.0)
PAD_RANGE = Range(0.0, 60.0)
SPLIT_PATTERN = re.compile(r"auto|off|[0-9]{1,9}")
SPLIT_RANGE = Range(40, 20_000, is_integer=True)
LAYOUTS = ("auto", "streaming", "non_streaming")
FREE_VOICES = ("one", "each")
WORDLESS = ("silence", "fail")
SUBTITLES = ("srt", "vtt")
PROGRESS = ("auto", "log", "none")
PICKS = ("best",)
MANIFEST_FORMATS = ("jsonl", "csv", "tsv", "txt", "xlsx", "subtitles")
EXTRAS = ("error", "keep", "drop")
# Rows at once where --max-batch says nothing; twice as many on cuda where so many are to be spoken.
BATCH_CUDA, BATCH_CPU, MANY_ROWS = 256, 16, 1024
IDS = ("number", "content")
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
AGAIN = (("overwrite", "retry_failed"), ("overwrite", "takes"), ("retry_failed", "takes"))
# Settings of sampling that have a flag, switches first.
SAMPLING_FLAGS = sorted(
    (name for name, setting in SETTINGS.items() if setting.help),
    key=lambda name: SETTINGS[name].kind is not bool,
)
RANGES: dict[str, Range] = {
    "seed": Range(
        0, 2**53 - 1, is_integer=True, hint="jq, pandas and browsers read no larger number exactly"
    ),
    **{name: setting.limits for name, setting in SETTINGS.items() if setting.limits},
    "max_frames": Range(1, 1_000_000, is_integer=True),
    "max_seconds": Range(0.0, 86_400.0, is_low_open=True),
    "retries": Range(0, 100, is_integer=True),
    "takes": Range(0, 100, is_integer=True),
    "limit": Range(1, ENDLESS, is_integer=True),
    "sample_rate": Range(8_000, 192_000, is_integer=True),
    "max_batch": Range(1, 1024, is_integer=True),
    "batch": Range(1, 1024, is_integer=True),
    "pause_paragraph": Range(0.0, 10.0),
    "pause_sentence": Range(0.0, 10.0),
    "pause_clause": Range(0.0, 10.0),
    "highpass": Range(10.0, 500.0),
    "ref_silence": Range(0.0, 10.0, hint="0 is what the official package does"),
}


class Scope(Enum):
    """Where a setting may come from, beside the command line and variables."""

    ANY = "any file"
    USERS = "the user's file"  # a project's may be anybody's
    ONE_RUN = "no file"  # all that somebody else's could do harm with, unseen


class About(Enum):
    """What a setting is about."""

    SPEECH = "what is said, and how"
    DELIVERY = "what is made of it"
    ROWS = "how the manifest is read, and which of it"
    RUN = "how, where and whether anything is done"
    SCREEN = "what is shown"


def _setting(
    default: Any,
    help: str,
    unset: str = "",
    *,
    about: About = About.RUN,
    scope: Scope = Scope.ONE_RUN,
) -> Any:
    """A field with the help of its flag; `unset` says what the default None stands for."""
    metadata = {"help": help, "unset": unset, "about": about, "scope": scope}
    return field(default=default, metadata=metadata)


# Settings that any file may give: whoever writes it can do no harm with them.
_speech = partial(_setting, about=About.SPEECH, scope=Scope.ANY)
_delivery = partial(_setting, about=About.DELIVERY, scope=Scope.ANY)
_rows = partial(_setting, about=About.ROWS, scope=Scope.ANY)
_running = partial(_setting, about=About.RUN, scope=Scope.ANY)
_screen = partial(_setting, about=About.SCREEN)  # not these: messages are not for others to hide


@dataclass(frozen=True)
class RunConfig:
    """Every shared and `synth` setting. None means: decided later, as the help says."""

    # model
    model: str | None = _speech(
        None,
        "Model folder, repository on the Hugging Face hub, or synthetic:NAME for random weights.",
        "the sample voice",
    )
    revision: str | None = _speech(
        None, "Branch, tag or commit of a hub repository.", "the repository's main branch"
    )
    accept_licence: bool = _setting(
        False, "Accept the licence of the checkpoint's weights, where it asks; is remembered."
    )
    # device
    device: str = _running("auto", "Where to compute: auto, cpu, cuda or cuda:N.")
    dtype: str = _speech("auto", "Precision; auto is bfloat16 on cuda and float32 on cpu.")
    max_batch: int | None = _running(
        None,
        "Rows spoken at once, a power of two; fewer take less memory.",
        "up to 256 on cuda, 512 from 1,024 rows on, 16 on cpu",
    )
    no_graphs: bool = _running(False, "Run without CUDA graphs; slower, same audio.")
    kernels: str = _running(
        "auto",
        "Kernels on cuda: auto; portable, which are those of older and consumer GPUs; or "
        "reference, PyTorch's own operations, to which auto falls back where Triton fails.",
    )
    kernel_cache: Path | None = _setting(  # noqa: RUF009
        None,
        "Folder of compiled kernels; a copy of a warmed-up one spares other machines of the same "
        "GPU and versions the compiling.",
        "TRITON_CACHE_DIR, or .triton/cache in the home folder",
        scope=Scope.USERS,
    )
    reproducible: bool = _speech(
        False,
        "On cuda, give a row the same audio whatever is spoken beside it, in whatever order, run, "
        "shard or worker: all work in shapes that --max-batch decides alone. Slower; on a CPU in "
        "float32 it is always so.",
    )
    workers: str | None = _running(
        None,
        "Speak with N workers through Ray, a GPU each (on a CPU a share of the cores), or with all "
        "GPUs there are; into one folder, as one run. Needs the extra ray.",
        "this process alone",
    )
    ray_address: str | None = _setting(
        None,
        "Put the workers on a Ray cluster that runs already: HOST:PORT, or auto for the one of "
        "this machine; without --workers, on all of its free GPUs.",
        "a Ray of the run's own on this machine",
        scope=Scope.USERS,
    )
    # every command
    json: bool = _screen(False, "Print the result as JSON on stdout.")
    verbosity: int = _screen(0, "Messages on stderr: -1 warnings only, 0 normal, 1 details.")
    debug: bool = _screen(
        False, "As -v, with times, threads and modules, what libraries say, and tracebacks."
    )
    progress: str = _screen(
        "auto",
        "How far a run is: auto is a bar on a terminal and a line every 30 s elsewhere, log always "
        "the lines.",
        scope=Scope.ANY,
    )
    # which rows
    manifest_format: str | None = _rows(
        None, "How to read the manifest.", "by its suffix; jsonl on stdin"
    )
    sheet: str | None = _rows(None, "Sheet of an .xlsx manifest.", "the first that shows")
    encoding: str | None = _rows(
        None, "Encoding of the manifest, such as cp1252 or utf-16.", "UTF-8, or as its bytes show"
    )
    map: str | None = _rows(
        None,
        "What the manifest's columns are: COLUMN=field,COLUMN=field, as in "
        '"Line ID=id,Dialogue=text,Character=character". A name with a comma, an equals sign or a '
        "quote stands in double quotes; COLUMN= is no field.",
        "columns have the names of fields",
    )
    columns: str | None = _rows(
        None,
        "Names of the columns of a table without a header, as in id,text; path is a path that the "
        "id is made of, an empty place a column without a name.",
        "the first row has them; of lists of trainings, by their form",
    )
    extra: str = _rows(
        "error", "Columns that are no fields: an error, kept in timings.jsonl, or dropped."
    )
    cast: Path | None = _speech(  # noqa: RUF009
        None, "Who speaks in which voice: a TOML file with a table a character.", "none"
    )
    speaker_prefix: bool = _rows(
        False,
        "Take names in front of lines (Anna: Come in.) off; they are the character, where a cast "
        "is given.",
    )
    ids: str = _rows(
        "number",
        "What names rows without an id: their number, or their content (a hash of text and voice), "
        "so that a line put in at the top speaks one line.",
    )
    strip_markup: bool = _speech(
        False,
        "Take tags of style and emphasis out of the texts (<b>, {i}, [color=red], **); what stands "
        "for something else ([name], {0}, %s) stays, and is told.",
    )
    limit: int | None = _setting(None, "Take only the first N rows.", "all", about=About.ROWS)
    shard: tuple[int, int] | None = _setting(
        None, "Take part I of N; a row's part depends on its id alone.", "all", about=About.ROWS
    )
    skip_invalid: bool = _rows(False, "Speak the good rows, record the bad ones as failed.")
    dry_run: bool = _setting(
        False, "Check everything, tell what would be spoken and why; change nothing."
    )
    # cloning
    voices: Path | None = _speech(  # noqa: RUF009
        None, "Folder of voice files.", "voices in the user's data folder, see `tts-cli voices -h`"
    )
    ref_root: Path | None = _setting(  # noqa: RUF009
        None,
        "Folder that every ref_audio must lie in, links followed.",
        "anywhere",
        scope=Scope.USERS,
    )
    ref_silence: float | None = _speech(
        None, "Seconds of silence behind a reference of mode icl, 0 to 10.", "by the model's family"
    )
    free_voice: str | None = _speech(
        None,
        "Whose voice rows have that nothing gives one (Fish Speech without a reference): one, made "
        "before the first row and kept in DIR/.voices, one for each character; or each, another "
        "person in every row, which is then spoken in one however long it is.",
        "one; each for a single short text and for random weights",
    )
    clone_model: str | None = _speech(
        None,
        "Base checkpoint, folder or repository, that speaks all rows in voices that a VoiceDesign "
        "checkpoint (--model) makes first, one for each character or description.",
        "none: every row is another person",
    )
    voice_text: str | None = _speech(
        None,
        "What made voices say as their reference; 5 to 10 s are best.",
        "the first of their rows' texts of 5 to 10 s, or a sentence of our own",
    )
    made_voices: Path | None = _speech(  # noqa: RUF009
        None, "Take made voices from this output folder.", "they are made"
    )
    many_voices: bool = _setting(
        False, "Make more than 20 voices of descriptions, though most have one or two rows."
    )
    voices_only: bool = _setting(
        False, "Make the voices of the whole manifest, print their WAVs, and speak no row."
    )
    # how rows are spoken
    voice: str | None = _speech(None, "Speaker of rows that name none.", "the checkpoint's first")
    language: str = _speech("auto", "Language of rows that name none.")
    normalize: str | None = _speech(
        None,
        "Read figures, money, dates, units and abbreviations in words: auto (by each row's "
        "language), off, or a language, which rows of language auto are then taken for.",
        "auto for the sample voice, off for others",
    )
    lexicon: Path | None = _speech(  # noqa: RUF009
        None, "Words to be said in a way of their own: lines of from, to, language, case.", "none"
    )
    layout: str = _speech(
        "auto",
        "Where the text stands: in front of the speech (non_streaming), or beside it.",
    )
    seed: int = _speech(0, "Run seed, 0 to 2^53-1; a row's seed is made of it and the id.")
    sampling: Mapping[str, float] = field(default_factory=dict)  # what flags give, by name
    max_seconds: float | None = _speech(
        None, "Longest audio of a row, in seconds; longer is a runaway.", "by its text"
    )
    split: str = _speech(
        "auto",
        "Speak longer rows in parts of at most so many characters (UTF-8 bytes), cut between "
        "paragraphs, sentences, clauses, words, and joined: a number, off, or auto: rows longer "
        "than the checkpoint speaks well, in parts of 0.6 of that.",
    )
    pause_paragraph: float = _speech(0.8, "Seconds between parts where a paragraph ends.")
    pause_sentence: float = _speech(0.35, "Seconds between parts where a sentence ends.")
    pause_clause: float = _speech(0.15, "Seconds between parts within a sentence.")
    retries: int = _running(
        2,
        "Times a row is tried again with another seed when its speech never ends, ends too early "
        "for its text, or stands still. A later run goes on with further seeds.",
    )
    accept_truncated: bool = _speech(
        False,
        "Keep rows that reach their cap, end too early or stand still as they are, instead of "
        "failing them.",
    )
    wordless: str = _speech(
        "silence",
        "What becomes of rows without any letter or digit: half a second of silence, or a failure.",
    )
    # what is written
    out: Path | None = _setting(  # noqa: RUF009
        None, "Folder for the audio, timings.jsonl and run.json.", "nothing is written"
    )
    format: str = _delivery("wav", "Audio format; ogg (Vorbis), mp3 and opus are lossy.")
    subtype: str = _delivery(
        "PCM_16",
        "Sample format of wav and flac; FLOAT, ULAW and ALAW (telephony, lossy): wav only.",
    )
    sample_rate: int | None = _delivery(
        None,
        "Sample rate in Hz, 8000 to 192000.",
        "the checkpoint's",
    )
    loudness: str | None = _delivery(
        None,
        "Level of each file: LUFS (-40 to -10, ITU-R BS.1770-4; true peaks up to -1 dBTP), ebu "
        "(-23), podcast (-16), or acx (RMS -20 dB, peaks up to -3 dB, noise floor looked at).",
        "as the model speaks",
    )
    highpass: float | None = _delivery(
        None, "Take out rumble and DC below so many Hz, 10 to 500; 60 to 80 suit speech.", "off"
    )
    trim: bool = _delivery(False, "Cut silence at both ends down to 0.05 s.")
    pad: tuple[float, float] | None = _delivery(
        None,
        "Seconds of silence, 0 to 60, put at both ends, or in front and behind: 0.5,1.",
        "none",
    )
    save_codes: bool = _delivery(False, "Also write <id>.codes.safetensors, codes (F, K) int16.")
    subtitles: str | None = _delivery(
        None,
        "Also subtitles with the times of the audio, of each row, or of each chapter of a book: "
        "srt, vtt or both.",
        "none",
    )
    max_failures: str | None = _running(
        None,
        "Stop with exit code 4 once more rows than N, or than P% of the run, have failed.",
        "no limit",
    )
    verify_files: bool = _setting(
        False, "Read every recorded file and speak again what is not as it was written."
    )
    take_over: bool = _setting(
        False, "Take the folder from a run of another host, which must be dead."
    )
    prune: bool = _setting(
        False,
        "Take rows out that the manifest no longer has: they are in no report, export or merge any "
        "more, and their audio is in DIR/removed/, until the manifest has them again.",
    )
    overwrite: bool = _setting(
        False,
        "Speak done rows again. The same seed gives the same audio, another --seed "
        "other audio; what is replaced is kept in DIR/takes/.",
    )
    retry_failed: bool = _setting(
        False,
        "Speak only rows that failed in an earlier run, with further seeds where their speech went "
        "wrong.",
    )
    only: tuple[str, ...] = _setting(
        (),
        "Only these rows, parted by commas: an id, a pattern such as 'intro/*', @FILE with one of "
        "them a line, or the word suspects for rows that failed or that `tts-cli check` names. Can "
        "be given several times. Says which rows, not that they are spoken again.",
        "all",
        about=About.ROWS,
    )
    takes: int = _setting(
        0,
        "Speak N more takes of each row, with other seeds, into DIR/takes/; the row's file stays "
        "what it is until `tts-cli pick` chooses another take.",
    )

    # what is listened to
    asr: str | None = _running(
        None,
        "What hears the words: pocketsphinx (English, on a CPU), or the folder or hub repository "
        "of a Whisper checkpoint.",
        "nothing: no audio is read",
    )
    batch: int | None = _running(
        None,
        "Heard at once: processes of pocketsphinx, or windows of 30 s by Whisper.",
        "one process a core; 64 windows on cuda, 4 on cpu",
    )
    drift: bool = _running(
        False,
        "Also measure how like its voice each row sounds, by the speaker encoder of the folder's "
        "checkpoint, or of --model: a Qwen3-TTS Base, whose weights are read.",
    )
    pick: str | None = _setting(
        None,
        "best: of rows whose file is suspect, make a take without remarks the file; what somebody "
        "chose with `tts-cli pick` stays.",
        "takes stay as they are; the command for it is printed",
    )

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
        for name, limits in RANGES.items():
            value = self.sampling.get(name, getattr(self, name, None))
            if value is not None and (problem := limits.problem(value)):
                raise UsageError(f"{flag(name)} {problem}")
        self._check_choices()
        self.failures_allowed(0)
        _ = self.subtitle_formats
        if self.max_batch is not None and self.max_batch & (self.max_batch - 1):
            raise UsageError(
                f"--max-batch must be a power of two, not {self.max_batch}",
                remedy=f"use {1 << (self.max_batch.bit_length() - 1)}",
            )
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise UsageError(
                f"--shard {self.shard[0]}/{self.shard[1]}: the part must be 1 to {self.shard[1]}"
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
        """What `--subtitles` names, each once. Raises UsageError."""
        names = tuple(dict.fromkeys(self.subtitles.lower().split(","))) if self.subtitles else ()
        for name in names:
            if name not in SUBTITLES:
                raise UsageError(f"--subtitles: {name!r} is not one of {', '.join(SUBTITLES)}")
        return names

    def failures_allowed(self, num_rows: int) -> int | None:
        """How many of a run's rows may fail, by `--max-failures`; None: all. Raises UsageError."""
        if self.max_failures is None:
            return None
        match = re.fullmatch(r"([0-9]{1,12})(%?)", self.max_failures)
        if match is None or (match[2] and int(match[1]) > 100):
            raise UsageError(
                f"--max-failures {self.max_failures!r}: must be a number of rows, or 0% to 100%"
            )
        return int(match[1]) * num_rows // 100 if match[2] else int(match[1])

    @property
    def has_workers(self) -> bool:
        """Whether other processes speak, through Ray."""
        return self.workers is not None or self.ray_address is not None

    @property
    def num_workers(self) -> int | None:
        """How many; None: as many as there are devices for."""
        return int(self.workers) if self.workers and self.workers.isdecimal() else None

    def _check_workers(self) -> None:
        if self.workers is not None and not WORKERS_PATTERN.fullmatch(self.workers):
            raise UsageError(f"--workers {self.workers!r}: must be all or a number, 1 to 9999")
        if self.ray_address == "":
            raise UsageError("--ray-address is empty", remedy="give HOST:PORT, or auto")
        if self.has_workers and ":" in self.device:
            raise UsageError(
                f"--device {self.device} names one GPU, and workers take one each",
                remedy="choose GPUs by CUDA_VISIBLE_DEVICES, and give --device cuda",
            )

    def _check_choices(self) -> None:
        self._check_workers()
        if not DEVICE_PATTERN.fullmatch(self.device):
            raise UsageError(f"--device {self.device!r}: must be auto, cpu, cuda or cuda:N")
        if not SPLIT_PATTERN.fullmatch(self.split):
            raise UsageError(f"--split {self.split!r}: must be auto, off or a number of characters")
        if self.split_limit is not None and (problem := SPLIT_RANGE.problem(self.split_limit)):
            raise UsageError(f"--split {problem}")
        if self.loudness is not None:
            self._check_loudness(self.loudness)
        for seconds in self.pad or ():
            if problem := PAD_RANGE.problem(seconds):
                raise UsageError(f"--pad {problem}")
        choices: dict[str, tuple[str, ...]] = {
            "dtype": DTYPES,
            "kernels": KERNELS,
            "layout": LAYOUTS,
            "format": tuple(SUBTYPES),
            "manifest_format": MANIFEST_FORMATS,
            "extra": EXTRAS,
            "ids": IDS,
            "wordless": WORDLESS,
            "progress": PROGRESS,
            "pick": PICKS,
        }
        for name, valid in choices.items():
            value = getattr(self, name)
            if value is not None and value not in valid:
                raise UsageError(f"{flag(name)} {value!r}: must be one of {', '.join(valid)}")
        if self.subtype not in SUBTYPES[self.format]:
            fits = [form for form, subtypes in SUBTYPES.items() if self.subtype in subtypes]
            raise UsageError(
                f"--subtype {self.subtype} does not exist in {self.format}",
                remedy=f"use --format {fits[0]}" if fits else "use PCM_16, PCM_24 or FLOAT",
            )

    @staticmethod
    def _check_loudness(text: str) -> None:
        if not LOUDNESS_PATTERN.fullmatch(text):
            raise UsageError(
                f"--loudness {text!r}: must be ebu, acx, podcast or a number of LUFS, such as -19"
            )
        if text.startswith("-") and (problem := LOUDNESS_RANGE.problem(float(text))):
            raise UsageError(f"--loudness {problem}")

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them, for run.json."""
        values: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "sampling":
                values |= {name: describe_field(name)[0] for name in SAMPLING_FLAGS}
                values |= value
            else:
                values[name] = str(value) if isinstance(value, Path) else value
        values["pad"] = None if self.pad is None else "{:g},{:g}".format(*self.pad)
        values["shard"] = None if self.shard is None else f"{self.shard[0]}/{self.shard[1]}"
        return values


def flag(name: str) -> str:
    """The flag of a field: max_batch -> --max-batch."""
    return "--" + name.replace("_", "-")


def scope_of(name: str) -> Scope:
    """Where a setting, or an option that is none, may come from."""
    return Scope.ANY if name in SAMPLING_FLAGS else _metadata(name).get("scope", Scope.ONE_RUN)


def about_of(name: str) -> About | None:
    """What a setting is about; None for what is none."""
    return About.SPEECH if name in SAMPLING_FLAGS else _metadata(name).get("about")


@cache
def _metadata(name: str) -> Mapping[str, Any]:
    return next((entry.metadata for entry in fields(RunConfig) if entry.name == name), {})


def describe_field(name: str) -> tuple[Any, str, str]:
    """Default, help text and meaning of an unset default of one setting."""
    if name in SAMPLING_FLAGS:
        setting = SETTINGS[name]
        if setting.kind is bool:
            return False, setting.help, ""
        return None, setting.help, "the checkpoint's"
    for entry in fields(RunConfig):
        if entry.name == name:
            return entry.default, entry.metadata["help"], entry.metadata["unset"]
    raise KeyError(name)
