"""The settings of a run, in one frozen dataclass from which the flags are made.

To add a setting, add a field here and use it; `SettingFacts` describes it. Settings of sampling are
in the table of `models.sampling`.
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

SAMPLE_VOICE = "sample voice"  # name of the default model in messages and reports
SUBTITLES = ("srt", "vtt")
MIN_SPEED, MAX_SPEED = 0.5, 2.0
MAX_FIT_SPEED = 1.4  # of rows that must fit a length; faster speech is hard to follow
MARKS = ("c2pa", "watermark")
LABELS = ("audacity", "reaper", "cue")
EXTRAS = ("error", "keep", "drop")
CEILING_DBTP = -1.0  # true peak before encoding, with --loudness
# The same with --loudness acx, which requires -3 dB: encoding to MP3 raised peaks by up to 1.8 dB.
ACX_CEILING_DBTP = -5.0
# Default batch sizes; a run of MANY_ROWS rows on cuda has twice as many.
BATCH_CUDA, BATCH_CPU, MANY_ROWS = 256, 16, 1024
# Sample formats of each audio format; `audio.file.FORMATS` has its other facts. Lossy ones accept
# only the default and ignore it.
SUBTYPES: dict[str, tuple[str, ...]] = {
    "wav": ("PCM_16", "PCM_24", "FLOAT", "ULAW", "ALAW"),
    "flac": ("PCM_16", "PCM_24"),
    "ogg": ("PCM_16",),
    "mp3": ("PCM_16",),
    "opus": ("PCM_16",),
}
PRESETS = ("acx", "podcast", "broadcast", "game")  # see audio/presets.toml
# Settings that exclude each other.
AGAIN = (
    *(("redo", "keep_done"), ("redo", "retry_failed"), ("redo", "takes")),
    *(("overwrite", "keep_done"), ("overwrite", "retry_failed"), ("overwrite", "takes")),
    *(("retry_failed", "takes"), ("verify", "takes")),
)
REDO_CHANGED, REDO_ALL = "changed", "all"
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


def _list_of(names: tuple[str, ...], text: str) -> str | None:
    unknown = [name for name in text.lower().split(",") if name not in names]
    return f"{unknown[0]!r} is not one of {', '.join(names)}" if unknown else None


@dataclass(frozen=True)
class RunConfig:
    """All shared and `synth` settings. None: decided later, as the help states."""

    # fmt: off
    model: str | None = Topic.MODEL.setting(None,
        "Model: a folder, a Hugging Face repository, or synthetic:NAME for random weights.",
        "the sample voice", metavar="PATH|REPO", is_common=True,
        others="--model-name --model-path --model-id --model-dir --model-name-or-path --checkpoint "
        "--ckpt --ckpt-path --weights -m")
    revision: str | None = Topic.MODEL.setting(None,
        "Branch, tag or commit of the Hugging Face repository.", "its main branch", metavar="REV")
    accept_licence: bool = Topic.MODEL.setting(False,
        "Accept the licence of the model's weights. You are asked only once.",
        is_keyword=True, about=About.RUN, scope=Scope.ONE_RUN)
    device: str = Topic.DEVICE.setting("auto", "Device: auto, cpu, cuda or cuda:N.",
        metavar="DEVICE", check=_device, is_keyword=True, is_completed=True, is_common=True)
    dtype: str = Topic.DEVICE.setting("auto",
        "Precision of the weights. auto: bfloat16 on cuda, float32 on a CPU.",
        choices=("auto", "float32", "bfloat16"), about=About.SPEECH)
    max_batch: int | None = Topic.DEVICE.setting(None,
        "Synthesize at most N rows at a time. N is a power of two; a smaller N needs less memory.",
        "256 on cuda, 512 for 1,024 rows or more, 16 on a CPU", limits=_whole(1, 1024),
        check=_power_of_two, is_keyword=True, is_common=True,
        others="--batch --batch-size --batchsize --max-batch-size --bs -b")
    no_graphs: bool = Topic.DEVICE.setting(False,
        "Do not use CUDA graphs. Slower; the audio is the same.", is_keyword=True)
    kernels: str = Topic.DEVICE.setting("auto", "Kernels to use on cuda. portable: the ones for "
        "older and consumer GPUs. reference: PyTorch's own operations, which auto falls back to if "
        "Triton fails.", choices=("auto", "portable", "reference"))
    kernel_cache: Path | None = Topic.DEVICE.setting(None, "Folder of compiled kernels. You can "
        "copy it to machines with the same GPU and versions, which then compile nothing.",
        "TRITON_CACHE_DIR, or .triton/cache in your home folder", check=_folder, scope=Scope.USERS)
    workers: str | None = Topic.DEVICE.setting(None, "Run N workers through Ray, one per GPU, or "
        "all: one on each GPU. All workers fill the same folder. On a CPU they share the cores. "
        "Needs the extra ray.", "one process without Ray", metavar="N|all",
        check=either(r"all|[1-9][0-9]{0,3}", "all or a number, 1 to 9999"))
    ray_address: str | None = Topic.DEVICE.setting(None, "Run the workers on an existing Ray "
        "cluster: HOST:PORT, or auto for the one on this machine. Without --workers they use all "
        "of its free GPUs.", "a new Ray on this machine", metavar="HOST:PORT|auto",
        check=_address, scope=Scope.USERS)
    reproducible: bool = Topic.DEVICE.setting(False, "On cuda, give a row the same audio in every "
        "batch, order, shard and worker, as long as --max-batch is the same. Slower. On a CPU in "
        "float32 this is always so.", about=About.SPEECH)
    json: bool = Topic.MESSAGES.setting(False, "Print the result as JSON on stdout.")
    verbosity: int = 0  # -1 warnings only, 0 normal, 1 details: of -v and -q
    debug: bool = Topic.MESSAGES.setting(False,
        "Like -v, with times, threads, modules, messages of libraries, and tracebacks.")
    progress: str = Topic.MESSAGES.setting("auto", "How to show progress. auto: a bar on a "
        "terminal, otherwise a line every 30 s. log: always lines.",
        choices=("auto", "log", "none"), scope=Scope.ANY)
    manifest_format: str | None = Topic.ROWS.setting(None, "Format of the manifest.",
        "by its suffix; jsonl on stdin",
        choices=("jsonl", "csv", "tsv", "txt", "xlsx", "parquet", "po", "xml", "fountain",
            "subtitles"), others="--input-format")
    map: str | None = Topic.ROWS.setting(None, "Map columns to fields, such as "
        '"Line ID=id,Dialogue=text,Character=character". COLUMN= ignores a column. Put a name that '
        "contains a comma, an equals sign or a quote in double quotes.",
        metavar="COLUMN=field,...", is_keyword=True, is_common=True)
    columns: str | None = Topic.ROWS.setting(None, "Names of the columns of a table without a "
        "header, such as id,text. A column called path becomes the id; a column may be unnamed.",
        "the first row, or the known columns of training lists", metavar="NAME,...")
    extra: str = Topic.ROWS.setting("error", "Unrecognized columns: stop with an error, keep them "
        "in timings.jsonl, or drop them.", choices=EXTRAS, is_keyword=True)
    sheet: str | None = Topic.ROWS.setting(None, "Sheet of an .xlsx, .ods or .xls manifest.",
        "the first visible one", metavar="NAME")
    encoding: str | None = Topic.ROWS.setting(None,
        "Encoding of the manifest, such as cp1252 or utf-16.", "UTF-8, or detected",
        metavar="NAME")
    cast: Path | None = Topic.ROWS.setting(None,
        "Voices of the characters: a TOML file with one table per character.",
        metavar="FILE.toml", about=About.SPEECH, is_common=True)
    speaker_prefix: bool = Topic.ROWS.setting(False, "Remove the speaker's name from the start of "
        "a line (Anna: Come in.). With --cast, the name is the row's character.")
    ids: str = Topic.ROWS.setting("number", "Ids of rows that have none. number: the row's "
        "position. content: a hash of text and voice, so that a new line renames no other row.",
        choices=("number", "content"))
    limit: int | None = Topic.ROWS.setting(None, "Use only the first N rows.",
        limits=_whole(1, ENDLESS), scope=Scope.ONE_RUN, is_common=True,
        others="--max-rows --num-rows --max-samples --head")
    shard: tuple[int, int] | None = Topic.ROWS.setting(None,
        "Use only part I of N parts. A row's part depends only on its id.", metavar="I/N",
        parse=_shard_of, form="{}/{}", check=_part, scope=Scope.ONE_RUN)
    skip_invalid: bool = Topic.ROWS.setting(False,
        "Record invalid rows as failed and synthesize the others.", is_common=True)
    wordless: str = Topic.ROWS.setting("silence",
        "Rows without a letter or digit: write half a second of silence, or fail them.",
        choices=("silence", "fail"), about=About.SPEECH)
    voice_dir: Path | None = Topic.CLONING.setting(None, "Folder of voice files.",
        "your voice folder, see `tts-cli voices -h`", others="--voices --voices-dir --voice-folder")
    ref_root: Path | None = Topic.CLONING.setting(None,
        "Accept reference recordings (ref_audio) only from this folder. Links are followed.",
        "any folder", exists=True, is_keyword=True, about=About.RUN, scope=Scope.USERS)
    ref_silence: float | None = Topic.CLONING.setting(None,
        "Silence after the reference recording in cloning mode icl, 0 to 10 s.",
        "depends on the model family",
        limits=Range(0.0, 10.0, hint="0 is what the official package does"))
    free_voice: str | None = Topic.CLONING.setting(None, "Voice of rows that name none (Fish "
        "Speech without a reference). one: generate one voice per character before the first row, "
        "and store it in DIR/.voices. each: a different voice in every row; long rows are not "
        "split.", "one; each for a single short text or random weights",
        choices=("one", "each"))
    clone_model: str | None = Topic.CLONING.setting(None, "Base model that synthesizes the rows, "
        "in voices that --model, a VoiceDesign model, generates first: one per character or "
        "description.", "every row has a different voice", metavar="PATH|REPO", is_keyword=False)
    voice_text: str | None = Topic.CLONING.setting(None,
        "Words of the recording of a generated voice; 5 to 10 s are best.",
        "a text of 5 to 10 s from its rows, or a built-in sentence", metavar="TEXT")
    made_voices: Path | None = Topic.CLONING.setting(None,
        "Use the generated voices of this output folder.")
    many_voices: bool = Topic.CLONING.setting(False,
        "Generate more than 20 voices from descriptions, even if most are used by one or two rows.",
        about=About.RUN, scope=Scope.ONE_RUN)
    language: str = Topic.TEXT.setting("auto", "Language of rows that name none.", metavar="NAME",
        is_completed=True, is_common=True,
        others="--lang --language-code --lang-code --locale -l")
    normalize: str | None = Topic.TEXT.setting(None, "Write numbers, money, dates, units and "
        "abbreviations as words. auto: in each row's language. LANGUAGE: use this language for "
        "rows whose language is auto.", "auto for the sample voice, off for other models",
        metavar="auto|off|LANGUAGE", is_completed=True)
    lexicon: Path | None = Topic.TEXT.setting(None,
        "Pronunciations: a table with the columns from, to, language, case and alphabet (text, "
        "ipa, arpabet or pinyin), or a .pls file.",
        metavar="FILE.tsv", is_common=True, others="--dictionary --dict --pronunciations")
    strip_markup: bool = Topic.TEXT.setting(False, "Remove tags for style and emphasis from "
        "texts (<b>, {i}, [color=red], **). Placeholders ([name], {0}, %s) stay, with a warning.")
    voice: str | None = Topic.SPEECH.setting(None, "Voice of rows that name none.",
        "the model's first speaker", metavar="NAME", is_completed=True, is_common=True,
        others="--speaker --speaker-id --speaker-name --spk --voice-id --voice-name")
    layout: str = Topic.SPEECH.setting("auto",
        "When the model reads the text: all of it first (non_streaming), or word by word while it "
        "generates audio (streaming).",
        choices=("auto", "streaming", "non_streaming"))
    seed: int = Topic.SPEECH.setting(0,
        "Seed of the run, 0 to 2^53-1. A row's seed is derived from it and the row's id.",
        limits=_whole(0, 2**53 - 1, hint="jq, pandas and browsers read no larger number exactly"),
        is_common=True)
    max_seconds: float | None = Topic.SPEECH.setting(None,
        "Maximum length of a row's audio. Longer output counts as a runaway.",
        "depends on the text", limits=Range(0.0, 86_400.0, is_low_open=True),
        others="--max-length --max-len --max-duration --max-tokens --max-new-tokens "
        "--max-audio-length")
    split: str = Topic.SPEECH.setting("auto", "Split rows longer than CHARS characters (UTF-8 "
        "bytes) at paragraphs, sentences, clauses or words, and join the audio of the pieces. "
        "auto: split rows that are too long for the model, into pieces of 0.6 of its limit.",
        metavar="auto|CHARS|off",
        check=either("auto|off|[0-9]{1,9}", "auto, off or a number of characters",
            _whole(40, 20_000)))
    pause_paragraph: float = Topic.SPEECH.setting(0.8,
        "Pause between pieces at the end of a paragraph, in seconds.", limits=_PAUSE)
    pause_sentence: float = Topic.SPEECH.setting(0.35,
        "Pause between pieces at the end of a sentence, in seconds.", limits=_PAUSE)
    pause_clause: float = Topic.SPEECH.setting(0.15,
        "Pause between pieces within a sentence, in seconds.", limits=_PAUSE)
    retries: int = Topic.FAILURES.setting(2, "Retry a row up to N times with other seeds if its "
        "audio does not end, ends too early or gets stuck. A later run uses further seeds.",
        limits=_whole(0, 100), is_keyword=True)
    accept_truncated: bool = Topic.FAILURES.setting(False, "Accept rows whose audio reaches the "
        "maximum length, ends too early or gets stuck, instead of failing them.",
        about=About.SPEECH)
    max_failures: str | None = Topic.FAILURES.setting(None,
        "Stop with exit code 4 when more than N rows, or P% of the rows of the run, have failed.",
        metavar="N|P%",
        check=either("[0-9]{1,12}|0{0,9}(100|[0-9]{1,2})%", "a number of rows, or 0% to 100%"))
    out: Path | None = Topic.OUTPUT.setting(None,
        "Output folder: audio, timings.jsonl and run.json.", about=About.RUN,
        scope=Scope.ONE_RUN, is_common=True,
        others="--output --output-dir --output-folder --output-path --out-dir --outdir --out-path "
        "--save-dir --save-path --dest --target -O")
    format: str = Topic.OUTPUT.setting("wav",
        "Audio format. ogg (Vorbis), mp3 and opus are lossy.", choices=tuple(SUBTYPES),
        is_common=True, others="--output-format --audio-format --ext --extension")
    subtype: str = Topic.OUTPUT.setting("PCM_16",
        "Sample format of wav and flac. FLOAT, ULAW and ALAW (telephony, lossy) are for wav only.",
        choices=SUBTYPES["wav"], metavar="|".join(SUBTYPES["wav"]))
    sample_rate: int | None = Topic.OUTPUT.setting(None, "Sample rate in Hz, 8000 to 192000.",
        "the model's", metavar="HZ", limits=_whole(8_000, 192_000),
        others="--sr --sampling-rate --samplerate --rate-hz")
    bitrate: int | None = Topic.OUTPUT.setting(None, "Bit rate of lossy formats in kbit/s, such "
        "as 192. Constant in mp3, about as much in opus and ogg.", "the format's", metavar="KBPS",
        limits=_whole(6, 320), others="--bit-rate --audio-bitrate --abr --cbr")
    preset: str | None = Topic.OUTPUT.setting(None, "Settings and limits of a recipient: acx "
        "(audiobooks: MP3, RMS -23 to -18 dB, peaks up to -3 dB, room tone), podcast (MP3, -16 "
        "LUFS), broadcast (EBU R 128) or game (Ogg, -23 LUFS). Each file is measured after "
        "encoding, and corrected. Flags that you also give take precedence.",
        choices=PRESETS, is_common=True)
    loudness: str | None = Topic.OUTPUT.setting(None, "Loudness of each file: LUFS (-40 to -10), "
        "ebu (-23), podcast (-16), or acx (RMS -20 dB). LUFS are measured by ITU-R BS.1770-4. "
        "With acx the noise floor is checked too. "
        f"True peaks before encoding: up to {CEILING_DBTP:g} dBTP, {ACX_CEILING_DBTP:g} with acx.",
        "unchanged",
        metavar="LUFS|ebu|acx|podcast",
        check=either(r"ebu|acx|podcast|-[0-9]{1,2}(\.[0-9]{1,3})?",
            "ebu, acx, podcast or a number of LUFS, such as -19", Range(-40.0, -10.0)))
    highpass: float | None = Topic.OUTPUT.setting(None,
        "Remove rumble and DC below this frequency, 10 to 500 Hz; 60 to 80 suit speech.",
        metavar="HZ", limits=Range(10.0, 500.0))
    trim: bool = Topic.OUTPUT.setting(False, "Trim silence at both ends to 0.05 s.")
    pad: tuple[float, float] | None = Topic.OUTPUT.setting(None,
        "Add silence at both ends, 0 to 60 s, or different lengths at start and end: 0.5,1.",
        metavar="S[,S]", parse=_pad_of, form="{:g},{:g}", check=_seconds)
    speed: float | None = Topic.OUTPUT.setting(None, "Pace of rows that have none, 0.5 to 2.0; 1.2 "
        "is a fifth faster. The pitch stays.", "1.0", limits=Range(MIN_SPEED, MAX_SPEED),
        others="--rate --tempo --speaking-rate --length-scale")
    fit: str | None = Topic.OUTPUT.setting(None, "cues: fit each row into the time of its cue in "
        f"the subtitles, up to {MAX_FIT_SPEED:g} times as fast; shorter rows get silence at the "
        "end.", choices=("cues",))
    mark: str | None = Topic.OUTPUT.setting(None, "Mark each file as generated audio: c2pa "
        "(Content Credentials in wav, flac, mp3 and m4b, signed with --mark-key; needs the extra "
        "mark), watermark (in the sound; needs the extra watermark), or both.",
        metavar="c2pa,watermark", check=partial(_list_of, MARKS))
    mark_key: Path | None = Topic.OUTPUT.setting(None, "Key and certificates for --mark, in one "
        "PEM file. `tts-cli mark key` makes one of an unknown signer.", metavar="FILE.pem",
        scope=Scope.USERS)
    save_codes: bool = Topic.OUTPUT.setting(False, "Also save the model's codes of each row, as "
        "<id>.codes.safetensors. `encode` can make other formats from them.",
        others="--save-tokens")
    subtitles: str | None = Topic.OUTPUT.setting(None, "Also write subtitles for each row, or "
        "for each chapter of a book: srt, vtt or both.",
        metavar=",".join(SUBTITLES), check=partial(_list_of, SUBTITLES))
    join: str | None = Topic.BOOK.setting(None,
        "Also join all chapters into one file with chapter marks.", choices=("m4b",),
        is_common=True)
    cover: Path | None = Topic.BOOK.setting(None, "Cover of book.m4b, which is also written as "
        "cover.jpg or cover.png: a JPEG or PNG file.", "that of the EPUB", metavar="FILE",
        others="--cover-image --artwork --image")
    chapters: str | None = Topic.BOOK.setting(None, "Synthesize only these chapters, such as "
        "3-5,9. What the folder has of other chapters stays.", metavar="N,N-N",
        check=either(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*",
            "numbers and ranges, such as 3-5,9"), scope=Scope.ONE_RUN)
    labels: str | None = Topic.BOOK.setting(None, "Also write labels of the sentences of each "
        "chapter for Audacity or Reaper, or a cue sheet of the chapters, book.cue.",
        metavar="audacity,reaper,cue", check=partial(_list_of, LABELS))
    dry_run: bool = Topic.AGAIN.setting(False,
        "Check everything, show what would be synthesized and why, and change nothing.",
        is_common=True, others="--check --plan -n")
    voices_only: bool = Topic.AGAIN.setting(False,
        "Generate the voices of the whole manifest, print their WAV files, and stop.")
    only: tuple[str, ...] = Topic.AGAIN.setting((), "Use only these rows: ids separated by commas, "
        "patterns such as 'intro/*', @FILE with one per line, suspects, rejected or retakes. "
        "suspects: rows that failed or that `tts-cli check` flagged. rejected, retakes: decided in "
        "`tts-cli review`. Can be given several times. Done rows are synthesized again only with "
        "--redo all or --takes.",
        metavar="ID,...", about=About.ROWS, is_completed=True, is_common=True)
    redo: str | None = Topic.AGAIN.setting(None, "Synthesize again the done rows that the settings "
        "given now, this version or this model would make differently. all: every done row. The "
        "same seed gives the same audio. The old audio moves to DIR/takes/.",
        metavar="changed|all", choices=(REDO_CHANGED, REDO_ALL), bare=REDO_CHANGED, is_common=True,
        others="--force --force-overwrite -f -y")
    keep_done: bool = Topic.AGAIN.setting(False, "Keep done rows that the settings given now would "
        "make differently, and use these settings for the other rows.")
    overwrite: bool = Topic.AGAIN.setting(False, "The earlier name of --redo all.")
    forget: tuple[str, ...] = Topic.AGAIN.setting((), "Do not take these settings from the last "
        "run in DIR: names separated by commas, such as lexicon,trim, or all.",
        metavar="NAME,...")
    takes: int = Topic.AGAIN.setting(0, "Synthesize N more takes of each row, with other seeds, "
        "into DIR/takes/. The current take stays until `tts-cli pick` chooses another.",
        limits=_whole(0, 100), is_common=True)
    retry_failed: bool = Topic.AGAIN.setting(False, "Synthesize only rows that failed in an "
        "earlier run. Rows whose audio was faulty get other seeds.", is_common=True)
    verify_files: bool = Topic.AGAIN.setting(False,
        "Read every recorded file, and synthesize a row again if its file is damaged.")
    prune: bool = Topic.AGAIN.setting(False, "Move rows that are no longer in the manifest to "
        "DIR/takes/. Reports, exports and merges leave them out. They are restored when the "
        "manifest has them again.")
    take_over: bool = Topic.AGAIN.setting(False,
        "Take the folder over from a run on another host. Make sure that this run has ended.")
    asr: str | None = Topic.RECOGNISER.setting(None, "Recognizer that transcribes the audio: "
        "pocketsphinx (English, on a CPU), or the folder or Hugging Face repository of a Whisper "
        "or Qwen3-ASR model. Without it, no audio is read.", metavar="pocketsphinx|PATH|REPO",
        is_common=True)
    asr_batch: int | None = Topic.RECOGNISER.setting(None,
        "Transcribe in N processes (pocketsphinx), or N windows of 30 s at a time (models).",
        "one process per core; 64 windows on cuda, 4 on a CPU", limits=_whole(1, 1024),
        others="--batch --batch-size")
    drift: bool = Topic.DRIFT.setting(False, "Also measure how similar each row is to its voice, "
        "with the speaker encoder of a Qwen3-TTS Base model: the one that made the folder, or "
        "--model.", is_common=True)
    mos: bool = Topic.DRIFT.setting(False, "Also predict how people would rate the sound of each "
        "row, from 1 to 5, with DNSMOS on a CPU. A row far below the usual score of its voice "
        "is flagged.")
    pick: str | None = Topic.TAKES.setting(None, "best: if the current take of a row is suspect "
        "and another take is not, make that take current. Takes that you chose with `tts-cli "
        "pick` stay. Without it, only print the command.", choices=("best",), is_common=True)
    verify: str | None = Topic.VERIFY.setting(None, "Transcribe rows during the run, retry the "
        "suspect ones, and keep the best take. Takes the same recognizers as `check --asr`.",
        metavar="pocketsphinx|PATH|REPO", is_common=True, is_keyword=True)
    retakes: int = Topic.VERIFY.setting(2, "Synthesize up to N more takes of each suspect row.",
        limits=_whole(0, 100), is_keyword=True)
    verify_device: str | None = Topic.VERIFY.setting(None, "Device of the recognizer of --verify: "
        "auto, cpu, cuda or cuda:N.", "the device of --device", metavar="DEVICE", check=_device,
        is_completed=True, is_keyword=True)
    words: str | None = Topic.WORDS.setting(None, "After the last row, find the time of each "
        "word, as `tts-cli align --with` does: pocketsphinx (English, on a CPU), or the folder or "
        "Hugging Face repository of a Qwen3-ForcedAligner.", metavar="pocketsphinx|PATH|REPO",
        is_keyword=True)
    sampling: Mapping[str, float] = field(default_factory=dict)  # values of flags, by name
    # Names of settings from a flag, a variable, a file, or `forget`, not from the last run.
    chosen: frozenset[str] = frozenset()
    # fmt: on

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> RunConfig:
        """Build the settings from a command's parameters, and check them. Raises UsageError.

        `verbose` and `quiet` are counts of -v and -q.
        """
        values = dict(options)
        flags = {name: values.pop(name) for name in SAMPLING_FLAGS if name in values}
        values["sampling"] = {
            name: value for name, value in flags.items() if value is not None and value is not False
        }
        values["overwrite"] = bool(values.get("overwrite")) or values.get("redo") == REDO_ALL
        verbosity = int(values.pop("verbose", 0)) - int(values.pop("quiet", 0))
        config = cls(**values)
        config = replace(config, verbosity=max(-1, min(1, config.verbosity + verbosity)))
        config.validate()
        return config

    def validate(self) -> None:
        """Check what needs no model and no file. Raises UsageError with the flag's name."""
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
    def split_limit(self) -> int | None:
        """The number of --split; None for a word."""
        return int(self.split) if self.split.isdecimal() else None

    @property
    def subtitle_formats(self) -> tuple[str, ...]:
        """The formats of --subtitles, without duplicates."""
        return tuple(dict.fromkeys(self.subtitles.lower().split(","))) if self.subtitles else ()

    def has_chapter(self, number: int) -> bool:
        """Whether --chapters selects a chapter, from 1."""
        parts = [part.split("-") for part in (self.chapters or "0-99999").split(",")]
        return any(int(part[0]) <= number <= int(part[-1]) for part in parts)

    def has_mark(self, name: str) -> bool:
        return name in (self.mark or "").lower().split(",")

    @property
    def label_forms(self) -> tuple[str, ...]:
        """The programs of --labels, without duplicates."""
        return tuple(dict.fromkeys(self.labels.lower().split(","))) if self.labels else ()

    def failures_allowed(self, num_rows: int) -> int | None:
        """Return how many of a run's rows may fail, from --max-failures; None: all."""
        if self.max_failures is None:
            return None
        number = int(self.max_failures.removesuffix("%"))
        return number * num_rows // 100 if self.max_failures.endswith("%") else number

    @property
    def max_takes(self) -> int:
        """The maximum number of takes that a run adds to a row's own."""
        return max(self.takes, self.retakes) if self.verify else self.takes

    @property
    def has_workers(self) -> bool:
        return self.workers is not None or self.ray_address is not None

    @property
    def num_workers(self) -> int | None:
        """The number of workers; None: one per device."""
        return int(self.workers) if self.workers and self.workers.isdecimal() else None

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values, for run.json."""
        found = {
            name: one.plain(self.sampling.get(name, getattr(self, name, one.default)))
            for name, one in SETTINGS.items()
        }
        return {**found, "verbosity": self.verbosity}


SETTINGS = table_of(RunConfig)


def users_folder(variable: str, otherwise: str) -> Path:
    """Return our folder in the one that a variable names, or in `otherwise` in the user's home."""
    named = os.environ.get(variable, "")
    return (Path(named) if os.path.isabs(named) else Path.home() / otherwise) / "tts-cli"
