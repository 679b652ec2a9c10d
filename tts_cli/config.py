"""The settings of a run: one frozen dataclass that the flags show and the engine uses.

A further setting is a field here, and its use: `SettingFacts` has what is said of one. Those of
sampling are in the table of `models.sampling`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from models.sampling import ENDLESS, Range
from tts_cli.errors import UsageError
from tts_cli.setting import SAMPLING_FLAGS, About, Scope, Topic, either, flag, table_of

SUBTITLES = ("srt", "vtt")
EXTRAS = ("error", "keep", "drop")
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
AGAIN = (("overwrite", "retry_failed"), ("overwrite", "takes"), ("retry_failed", "takes"))
_PAUSE = Range(0.0, 10.0)
_PAD = Range(0.0, 60.0)
_whole = partial(Range, is_integer=True)


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
        "Model folder, repository on the Hugging Face hub, or synthetic:NAME for random weights.",
        "the sample voice", metavar="PATH|REPO")
    revision: str | None = Topic.MODEL.setting(None, "Branch, tag or commit of a hub repository.",
        "the repository's main branch", metavar="REV")
    accept_licence: bool = Topic.MODEL.setting(False,
        "Accept the licence of the checkpoint's weights, where it asks; is remembered.",
        is_keyword=True, about=About.RUN, scope=Scope.ONE_RUN)
    device: str = Topic.DEVICE.setting("auto", "Where to compute: auto, cpu, cuda or cuda:N.",
        metavar="DEVICE", check=either(r"auto|cpu|cuda(:[0-9]{1,3})?", "auto, cpu, cuda or cuda:N"),
        is_keyword=True, is_completed=True)
    dtype: str = Topic.DEVICE.setting("auto",
        "Precision; auto is bfloat16 on cuda and float32 on cpu.",
        choices=("auto", "float32", "bfloat16"), about=About.SPEECH)
    max_batch: int | None = Topic.DEVICE.setting(None,
        "Rows spoken at once, a power of two; fewer take less memory.",
        "up to 256 on cuda, 512 from 1,024 rows on, 16 on cpu", limits=_whole(1, 1024),
        check=_power_of_two, is_keyword=True)
    no_graphs: bool = Topic.DEVICE.setting(False, "Run without CUDA graphs; slower, same audio.",
        is_keyword=True)
    kernels: str = Topic.DEVICE.setting("auto", "Kernels on cuda: auto; portable, which are "
        "those of older and consumer GPUs; or reference, PyTorch's own operations, to which auto "
        "falls back where Triton fails.", choices=("auto", "portable", "reference"))
    kernel_cache: Path | None = Topic.DEVICE.setting(None, "Folder of compiled kernels; a copy "
        "of a warmed-up one spares other machines of the same GPU and versions the compiling.",
        "TRITON_CACHE_DIR, or .triton/cache in the home folder", check=_folder, scope=Scope.USERS)
    workers: str | None = Topic.DEVICE.setting(None, "Speak with N workers through Ray, a GPU "
        "each (on a CPU a share of the cores), or with all GPUs there are; into one folder, as one "
        "run. Needs the extra ray.", "this process alone", metavar="N|all",
        check=either(r"all|[1-9][0-9]{0,3}", "all or a number, 1 to 9999"))
    ray_address: str | None = Topic.DEVICE.setting(None, "Put the workers on a Ray cluster that "
        "runs already: HOST:PORT, or auto for the one of this machine; without --workers, on all "
        "of its free GPUs.", "a Ray of the run's own on this machine", metavar="HOST:PORT|auto",
        check=_address, scope=Scope.USERS)
    reproducible: bool = Topic.DEVICE.setting(False, "On cuda, give a row the same audio "
        "whatever is spoken beside it, in whatever order, run, shard or worker: all work in shapes "
        "that --max-batch decides alone. Slower; on a CPU in float32 it is always so.",
        about=About.SPEECH)
    json: bool = Topic.MESSAGES.setting(False, "Print the result as JSON on stdout.")
    verbosity: int = 0  # -1 warnings only, 0 normal, 1 details: of -v and -q
    debug: bool = Topic.MESSAGES.setting(False,
        "As -v, with times, threads and modules, what libraries say, and tracebacks.")
    progress: str = Topic.MESSAGES.setting("auto", "How far a run is: auto is a bar on a "
        "terminal and a line every 30 s elsewhere, log always the lines.",
        choices=("auto", "log", "none"), scope=Scope.ANY)
    manifest_format: str | None = Topic.ROWS.setting(None, "How to read the manifest.",
        "by its suffix; jsonl on stdin",
        choices=("jsonl", "csv", "tsv", "txt", "xlsx", "subtitles"))
    map: str | None = Topic.ROWS.setting(None, "What the manifest's columns are: "
        'COLUMN=field,COLUMN=field, as in "Line ID=id,Dialogue=text,Character=character". A name '
        "with a comma, an equals sign or a quote stands in double quotes; COLUMN= is no field.",
        "columns have the names of fields", metavar="COLUMN=field,...", is_keyword=True)
    columns: str | None = Topic.ROWS.setting(None, "Names of the columns of a table without a "
        "header, as in id,text; path is a path that the id is made of, an empty place a column "
        "without a name.", "the first row has them; of lists of trainings, by their form",
        metavar="NAME,...")
    extra: str = Topic.ROWS.setting("error",
        "Columns that are no fields: an error, kept in timings.jsonl, or dropped.", choices=EXTRAS,
        is_keyword=True)
    sheet: str | None = Topic.ROWS.setting(None, "Sheet of an .xlsx manifest.",
        "the first that shows", metavar="NAME")
    encoding: str | None = Topic.ROWS.setting(None,
        "Encoding of the manifest, such as cp1252 or utf-16.", "UTF-8, or as its bytes show",
        metavar="NAME")
    cast: Path | None = Topic.ROWS.setting(None,
        "Who speaks in which voice: a TOML file with a table a character.", "none",
        metavar="FILE.toml", about=About.SPEECH)
    speaker_prefix: bool = Topic.ROWS.setting(False, "Take names in front of lines (Anna: Come "
        "in.) off; they are the character, where a cast is given.")
    ids: str = Topic.ROWS.setting("number", "What names rows without an id: their number, or "
        "their content (a hash of text and voice), so that a line put in at the top speaks one "
        "line.", choices=("number", "content"))
    limit: int | None = Topic.ROWS.setting(None, "Take only the first N rows.", "all",
        limits=_whole(1, ENDLESS), scope=Scope.ONE_RUN)
    shard: tuple[int, int] | None = Topic.ROWS.setting(None,
        "Take part I of N; a row's part depends on its id alone.", "all", metavar="I/N",
        parse=_shard_of, form="{}/{}", check=_part, scope=Scope.ONE_RUN)
    skip_invalid: bool = Topic.ROWS.setting(False,
        "Speak the good rows, record the bad ones as failed.")
    wordless: str = Topic.ROWS.setting("silence",
        "What becomes of rows without any letter or digit: half a second of silence, or a failure.",
        choices=("silence", "fail"), about=About.SPEECH)
    voices: Path | None = Topic.CLONING.setting(None, "Folder of voice files.",
        "voices in the user's data folder, see `tts-cli voices -h`")
    ref_root: Path | None = Topic.CLONING.setting(None,
        "Folder that every ref_audio must lie in, links followed.", "anywhere", exists=True,
        is_keyword=True, about=About.RUN, scope=Scope.USERS)
    ref_silence: float | None = Topic.CLONING.setting(None,
        "Seconds of silence behind a reference of mode icl, 0 to 10.", "by the model's family",
        metavar="SECONDS", limits=Range(0.0, 10.0, hint="0 is what the official package does"))
    free_voice: str | None = Topic.CLONING.setting(None, "Whose voice rows have that nothing "
        "gives one (Fish Speech without a reference): one, made before the first row and kept in "
        "DIR/.voices, one for each character; or each, another person in every row, which is then "
        "spoken in one however long it is.",
        "one; each for a single short text and for random weights", choices=("one", "each"))
    clone_model: str | None = Topic.CLONING.setting(None, "Base checkpoint, folder or "
        "repository, that speaks all rows in voices that a VoiceDesign checkpoint (--model) makes "
        "first, one for each character or description.", "none: every row is another person",
        metavar="PATH|REPO", is_keyword=False)
    voice_text: str | None = Topic.CLONING.setting(None,
        "What made voices say as their reference; 5 to 10 s are best.",
        "the first of their rows' texts of 5 to 10 s, or a sentence of our own", metavar="TEXT")
    made_voices: Path | None = Topic.CLONING.setting(None,
        "Take made voices from this output folder.", "they are made")
    many_voices: bool = Topic.CLONING.setting(False,
        "Make more than 20 voices of descriptions, though most have one or two rows.",
        about=About.RUN, scope=Scope.ONE_RUN)
    language: str = Topic.TEXT.setting("auto", "Language of rows that name none.", metavar="NAME",
        is_completed=True)
    normalize: str | None = Topic.TEXT.setting(None, "Read figures, money, dates, units and "
        "abbreviations in words: auto (by each row's language), off, or a language, which rows of "
        "language auto are then taken for.", "auto for the sample voice, off for others",
        metavar="auto|off|LANGUAGE", is_completed=True)
    lexicon: Path | None = Topic.TEXT.setting(None,
        "Words to be said in a way of their own: lines of from, to, language, case.", "none",
        metavar="FILE.tsv")
    strip_markup: bool = Topic.TEXT.setting(False, "Take tags of style and emphasis out of the "
        "texts (<b>, {i}, [color=red], **); what stands for something else ([name], {0}, %s) "
        "stays, and is told.")
    voice: str | None = Topic.SPEECH.setting(None, "Speaker of rows that name none.",
        "the checkpoint's first", metavar="NAME", is_completed=True)
    layout: str = Topic.SPEECH.setting("auto",
        "Where the text stands: in front of the speech (non_streaming), or beside it.",
        choices=("auto", "streaming", "non_streaming"))
    seed: int = Topic.SPEECH.setting(0,
        "Run seed, 0 to 2^53-1; a row's seed is made of it and the id.",
        limits=_whole(0, 2**53 - 1, hint="jq, pandas and browsers read no larger number exactly"))
    max_seconds: float | None = Topic.SPEECH.setting(None,
        "Longest audio of a row, in seconds; longer is a runaway.", "by its text",
        limits=Range(0.0, 86_400.0, is_low_open=True))
    split: str = Topic.SPEECH.setting("auto", "Speak longer rows in parts of at most so many "
        "characters (UTF-8 bytes), cut between paragraphs, sentences, clauses, words, and joined: "
        "a number, off, or auto: rows longer than the checkpoint speaks well, in parts of 0.6 of "
        "that.", metavar="auto|CHARS|off",
        check=either("auto|off|[0-9]{1,9}", "auto, off or a number of characters",
            _whole(40, 20_000)))
    pause_paragraph: float = Topic.SPEECH.setting(0.8,
        "Seconds between parts where a paragraph ends.", limits=_PAUSE)
    pause_sentence: float = Topic.SPEECH.setting(0.35,
        "Seconds between parts where a sentence ends.", limits=_PAUSE)
    pause_clause: float = Topic.SPEECH.setting(0.15, "Seconds between parts within a sentence.",
        limits=_PAUSE)
    retries: int = Topic.FAILURES.setting(2, "Times a row is tried again with another seed when "
        "its speech never ends, ends too early for its text, or stands still. A later run goes on "
        "with further seeds.", limits=_whole(0, 100), is_keyword=True)
    accept_truncated: bool = Topic.FAILURES.setting(False, "Keep rows that reach their cap, end "
        "too early or stand still as they are, instead of failing them.", about=About.SPEECH)
    max_failures: str | None = Topic.FAILURES.setting(None,
        "Stop with exit code 4 once more rows than N, or than P% of the run, have failed.",
        "no limit", metavar="N|P%",
        check=either("[0-9]{1,12}|0{0,9}(100|[0-9]{1,2})%", "a number of rows, or 0% to 100%"))
    out: Path | None = Topic.OUTPUT.setting(None,
        "Folder for the audio, timings.jsonl and run.json.", "nothing is written", about=About.RUN,
        scope=Scope.ONE_RUN)
    format: str = Topic.OUTPUT.setting("wav",
        "Audio format; ogg (Vorbis), mp3 and opus are lossy.", choices=tuple(SUBTYPES))
    subtype: str = Topic.OUTPUT.setting("PCM_16",
        "Sample format of wav and flac; FLOAT, ULAW and ALAW (telephony, lossy): wav only.",
        choices=SUBTYPES["wav"], metavar="|".join(SUBTYPES["wav"]))
    sample_rate: int | None = Topic.OUTPUT.setting(None, "Sample rate in Hz, 8000 to 192000.",
        "the checkpoint's", metavar="HZ", limits=_whole(8_000, 192_000))
    loudness: str | None = Topic.OUTPUT.setting(None, "Level of each file: LUFS (-40 to -10, "
        "ITU-R BS.1770-4; true peaks up to -1 dBTP), ebu (-23), podcast (-16), or acx (RMS -20 dB, "
        "peaks up to -3 dB, noise floor looked at).", "as the model speaks",
        metavar="LUFS|ebu|acx|podcast",
        check=either(r"ebu|acx|podcast|-[0-9]{1,2}(\.[0-9]{1,3})?",
            "ebu, acx, podcast or a number of LUFS, such as -19", Range(-40.0, -10.0)))
    highpass: float | None = Topic.OUTPUT.setting(None,
        "Take out rumble and DC below so many Hz, 10 to 500; 60 to 80 suit speech.", "off",
        metavar="HZ", limits=Range(10.0, 500.0))
    trim: bool = Topic.OUTPUT.setting(False, "Cut silence at both ends down to 0.05 s.")
    pad: tuple[float, float] | None = Topic.OUTPUT.setting(None,
        "Seconds of silence, 0 to 60, put at both ends, or in front and behind: 0.5,1.", "none",
        metavar="S[,S]", parse=_pad_of, form="{:g},{:g}", check=_seconds)
    save_codes: bool = Topic.OUTPUT.setting(False,
        "Also write <id>.codes.safetensors, codes (F, K) int16.")
    subtitles: str | None = Topic.OUTPUT.setting(None, "Also subtitles with the times of the "
        "audio, of each row, or of each chapter of a book: srt, vtt or both.", "none",
        metavar=",".join(SUBTITLES), check=_subtitles)
    dry_run: bool = Topic.AGAIN.setting(False,
        "Check everything, tell what would be spoken and why; change nothing.")
    voices_only: bool = Topic.AGAIN.setting(False,
        "Make the voices of the whole manifest, print their WAVs, and speak no row.")
    only: tuple[str, ...] = Topic.AGAIN.setting((), "Only these rows, parted by commas: an id, a "
        "pattern such as 'intro/*', @FILE with one of them a line, or the word suspects for rows "
        "that failed or that `tts-cli check` names. Can be given several times. Says which rows, "
        "not that they are spoken again.", "all", metavar="ID,...", about=About.ROWS,
        is_completed=True)
    overwrite: bool = Topic.AGAIN.setting(False, "Speak done rows again. The same seed gives the "
        "same audio, another --seed other audio; what is replaced is kept in DIR/takes/.")
    takes: int = Topic.AGAIN.setting(0, "Speak N more takes of each row, with other seeds, into "
        "DIR/takes/; the row's file stays what it is until `tts-cli pick` chooses another take.",
        limits=_whole(0, 100))
    retry_failed: bool = Topic.AGAIN.setting(False, "Speak only rows that failed in an earlier "
        "run, with further seeds where their speech went wrong.")
    verify_files: bool = Topic.AGAIN.setting(False,
        "Read every recorded file and speak again what is not as it was written.")
    prune: bool = Topic.AGAIN.setting(False, "Take rows out that the manifest no longer has: "
        "they are in no report, export or merge any more, and their audio is in DIR/removed/, "
        "until the manifest has them again.")
    take_over: bool = Topic.AGAIN.setting(False,
        "Take the folder from a run of another host, which must be dead.")
    asr: str | None = Topic.RECOGNISER.setting(None, "What hears the words: pocketsphinx "
        "(English, on a CPU), or the folder or hub repository of a Whisper checkpoint.",
        "nothing: no audio is read", metavar="pocketsphinx|PATH|REPO")
    batch: int | None = Topic.RECOGNISER.setting(None,
        "Heard at once: processes of pocketsphinx, or windows of 30 s by Whisper.",
        "one process a core; 64 windows on cuda, 4 on cpu", limits=_whole(1, 1024))
    drift: bool = Topic.DRIFT.setting(False, "Also measure how like its voice each row sounds, "
        "by the speaker encoder of the folder's checkpoint, or of --model: a Qwen3-TTS Base, whose "
        "weights are read.")
    pick: str | None = Topic.TAKES.setting(None, "best: of rows whose file is suspect, make a "
        "take without remarks the file; what somebody chose with `tts-cli pick` stays.",
        "takes stay as they are; the command for it is printed", choices=("best",))
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
