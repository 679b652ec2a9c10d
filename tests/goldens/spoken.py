"""Requests of every kind, synthesized in float32 on a CPU: their hashes, codes and lengths.

No audio is stored: its last bits depend on the processor. The codes of tiny checkpoints are drawn
with a margin, which `write.py --shake` tests; those of the sample voice may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from desk import SHORT, STRICT, Desk, Rows, Series, length_of, lines_of, sum_of, write_recording
from freeze import LONG, REF

HELLO, HM = "Hello there.", "Hm."
LOSSY = (".ogg", ".mp3", ".opus")  # what they sound like is libsndfile's
SHORT_HASH = 16  # digits that are kept
HASHES = ("request_hash", "content_hash", "delivery_hash")
OF_ROWS = ("status", "voice")
OF_PARTS = ("text_start", "text_end", "boundary")
# Fields that follow from the codes that were drawn.
OF_SPEECH = ("frames", "attempts", "seed", "finish_reason")
OF_PART_SPEECH = ("start_s", "frames", "seed", "attempts")
IS_DRAWN_ANYHOW = ("sample", "made_anew")  # series whose draws have no margin
IS_NARROW = ("takes/b/3", "library/c")  # rows whose draws came out otherwise with noise
HAS_NEW_VOICE = ("made_anew",)  # series whose voices are synthesized first, and hashed


def _hello(name: str, **values: Any) -> dict[str, Any]:
    return {"id": name, "text": HELLO, **values}


def _sampled(**values: Any) -> dict[str, Any]:
    return _hello("-".join(f"{name}.{value}" for name, value in values.items()), seed=5) | values


CAST = '[Anna]\nvoice = "emil"\nseed = 5\n\n["Old Tom"]\nvoice = "fang"\nlanguage = "german"\n'
LEXICON = "SQL\tsequel\ntete\ttet\n"
STORY = "# One\n\nHello there. Hm.\n\n# Two\n\nThe rain came, and it went.\n"

ONE: Rows = [_hello("a")]
TWO: Rows = [*ONE, {"id": "b", "text": HM}]
IN_PARTS: Rows = [{"id": "long", "text": LONG, "seed": 3}]
FREE: Rows = [*IN_PARTS, {"id": "short", "text": HM}]
MAKER = ("--seed", 8, "--split", 60, "--accept-licence")

SERIES: dict[str, Series] = {
    "voices": Series(
        [
            _hello(f"{voice}/{language}", voice=voice, language=language)
            for voice, language in (("dora", "auto"), ("emil", "english"), ("fang", "german"))
        ]
    ),
    "sampling": Series(
        [
            _sampled(seed=0),
            _sampled(seed=2**53 - 1),
            _sampled(max_frames=3),
            _sampled(max_seconds=0.03),
            _sampled(greedy=True),
            _sampled(greedy=True, subtalker_greedy=False),
            _sampled(temperature=0.6),
            _sampled(top_k=10, top_p=0.8),
            _sampled(repetition_penalty=1.3),
            _sampled(subtalker_temperature=0.5, subtalker_top_k=4, subtalker_top_p=0.7, seed=8),
        ]
    ),
    "flags": Series(
        [{"id": "a", "text": HELLO}, {"id": "b", "text": HM, "temperature": 1.1}],
        ("--seed", 7, "--temperature", 0.7, "--top-k", 20, "--subtalker-top-p", 0.9),
    ),
    "greedy": Series(ONE, ("--greedy",)),
    "streaming": Series(ONE, ("--layout", "streaming")),
    "in_front": Series(ONE, ("--layout", "non_streaming")),
    "reproducible": Series(ONE, ("--reproducible", "--max-batch", 4)),
    "one_by_one": Series([_hello(n) for n in "abc"], ("--max-batch", 1)),
    "parts": Series(FREE, ("--split", 60, "--save-codes")),
    "quick_parts": Series(
        IN_PARTS, ("--split", 60, "--pause-sentence", 0.01, "--pause-paragraph", 0.02)
    ),
    "whole": Series(IN_PARTS, ("--split", "off")),
    "pauses": Series(
        [
            {"id": "a", "text": "Come here. [pause 20ms] No, wait."},
            {"id": "b", "text": "[Pause 10 MS] Hm. [pause 0.03 s]"},
        ]
    ),
    "english": Series(
        [
            {"id": "money", "text": "It costs $5.20."},
            {"id": "date", "text": "On 3 May 2024 at 5:30 pm."},
            {"id": "german", "text": "Das kostet 21 \u20ac.", "language": "german"},
            {"id": "plain", "text": "Nothing to read."},
        ],
        ("--normalize", "auto", "--language", "english"),
    ),
    "lexicon": Series([{"id": "a", "text": "SQL, a tete."}], ("--lexicon", "words.tsv")),
    "markup": Series([{"id": "a", "text": "<b>Hello</b> {i}there{/i}."}], ("--strip-markup",)),
    "unicode": Series(
        [
            {"id": "chinese", "text": "\u4f60\u597d\u3002"},
            {"id": "apart", "text": "Cafe\u0301, nai\u0308ve."},
            {"id": "unseen", "text": "soft\u00adly\u200b now\ufeff"},
            {"id": "emoji", "text": "Well \U0001f600 done."},
        ]
    ),
    "wordless": Series([{"id": "a", "text": "..."}, {"id": "b", "text": HM}]),
    "takes": Series(TWO, ("--takes", 2)),
    "contents": Series([{"text": HELLO}, {"text": HM, "voice": "emil"}], ("--ids", "content")),
    "cast": Series(
        [
            _hello("a", character="Anna"),
            _hello("b", character="old tom"),
            _hello("c", character="Anna", voice="dora"),
        ],
        ("--cast", "cast.toml"),
    ),
    "in_vain": Series([{"id": n, "text": f"Row {n}."} for n in "abc"], caps=STRICT, codes=(0, 1)),
    "cloned": Series(
        [
            _hello("icl", **REF),
            _hello("xvec", ref_audio="ref.wav"),
            _hello("asked", **REF, clone_mode="xvec"),
            {**IN_PARTS[0], **REF},
        ],
        ("--split", 60),
        model="base",
    ),
    "silence": Series([_hello("icl", **REF)], ("--ref-silence", 0.5), model="base"),
    "voice_file": Series(
        TWO,
        ("--voice-dir", "voice_file/voices", "--voice", "anna"),  # frozen: made anew it may differ
        model="base",
    ),
    "design": Series([_hello(f"d{n}", instruct=f"Voice {n}.") for n in range(2)], model="design"),
    "fish": Series(
        [
            _hello("a", **REF),
            {"id": "tags", "text": "[whisper] Come closer.", **REF, "seed": 1},
            {**IN_PARTS[0], **REF},
        ],
        ("--split", 60, "--accept-licence"),
        model="fish",
        caps=("--max-seconds", "0.3", "--accept-truncated"),
    ),
    "made_fish": Series(
        [*FREE, _hello("c", character="anna")],
        ("--made-voices", "made_fish/out", *MAKER),  # frozen, and so below
        model="maker",
    ),
    "made_clone": Series(
        [
            {**row, "id": f"{row['id']}-{who[:4]}", "instruct": f"A {who}."}
            for row in FREE
            for who in ("calm man", "child")
        ],
        ("--made-voices", "made_clone/out", *("--clone-model", "models/cloner", "--seed", 10)),
        model="describer",
    ),
    "made_anew": Series(FREE, MAKER, model="maker", codes=(0, 4)),
    "each": Series(FREE, ("--free-voice", "each", *MAKER), model="maker"),
    "sample": Series(
        [
            {"id": "a", "text": "The lamp stood by the window.", "max_frames": 20},
            {"id": "b", "text": "It cost $5.", "voice": "clara", "max_frames": 16},
            {
                "id": "c",
                "text": "The boat left the harbor after five. Nobody spoke of it.",
                "max_frames": 12,
            },
        ],
        ("--split", 40, "--save-codes"),
        model="",
        caps=("--accept-truncated",),
    ),
}
DELIVERIES: dict[str, tuple[object, ...]] = {
    "flac": ("--format", "flac", "--subtype", "PCM_24"),
    "ogg": ("--format", "ogg"),
    "mp3": ("--format", "mp3"),
    "opus": ("--format", "opus"),
    "float": ("--subtype", "FLOAT"),
    "phone": ("--subtype", "ULAW", "--sample-rate", 8000),
    "fast": ("--sample-rate", 44_100),
    "clean": ("--highpass", 80, "--trim", "--pad", "0.01,0.02"),
    "loud": ("--loudness", "podcast"),
    "acx": ("--loudness", "acx"),
}
for _name, _flags in DELIVERIES.items():
    SERIES[f"as_{_name}"] = Series([_hello("a", seed=5)], _flags)


def speak_all(desk: Desk) -> dict[str, dict[str, Any]]:
    """Facts of all rows, by series/id/take."""
    write_recording(desk)
    desk.write("cast.toml", CAST)
    desk.write("words.tsv", LEXICON)
    device = ("--device", "cpu")
    found: dict[str, dict[str, Any]] = {}
    for name, series in SERIES.items():
        desk.write("rows.jsonl", series.rows)
        model = ("--model", f"models/{series.model}") if series.model else ()
        given = ("--out", f"spoken/{name}", *device, *model, *series.caps, *series.flags)
        desk.must("synth", "rows.jsonl", *given, codes=series.codes)
        found |= facts_of(desk, name)
    for name, speak in OTHER_DOORS.items():
        found |= {f"{name}/{key}": value for key, value in speak(desk).items()}
    for name in IS_NARROW:
        for key in (*OF_SPEECH, "audio", "codes"):
            found[name].pop(key, None)
    return found


def facts_of(desk: Desk, name: str) -> dict[str, dict[str, Any]]:
    """The facts of a folder's rows that do not depend on the processor, by NAME/id/take."""
    out = desk.path / "spoken" / name
    is_fixed = name not in IS_DRAWN_ANYHOW
    hashes = HASHES[-1:] if name in HAS_NEW_VOICE else HASHES
    keys = (*OF_ROWS, *(OF_SPEECH if is_fixed else ()))
    part_keys = (*OF_PARTS, *(OF_PART_SPEECH if is_fixed else ()))
    found = {}
    for line in lines_of(out / "timings.jsonl"):
        facts = {key: line[key][:SHORT_HASH] for key in hashes}
        facts |= {key: line[key] for key in keys}
        path, codes = out / str(line["path"]), out / f"{line['id']}.codes.safetensors"
        if is_fixed and line["path"] and path.suffix not in LOSSY:
            facts["audio"] = length_of(path)
        if is_fixed and codes.exists():
            facts["codes"] = sum_of(codes.read_bytes())
        if line["parts"]:
            facts["parts"] = [[part[key] for key in part_keys] for part in line["parts"]]
        found[f"{name}/{line['id']}/{line['take']}"] = facts
    return found


def _say(desk: Desk) -> dict[str, dict[str, Any]]:
    given = ("--model", "models/tiny", "--device", "cpu", *SHORT, "--seed", 3)
    desk.must("say", HELLO, "-o", "said.wav", *given)
    return {"wav": {"audio": length_of(desk.path / "said.wav")}}


def _book(desk: Desk) -> dict[str, dict[str, Any]]:
    desk.write("story.md", STORY)
    given = ("--model", "models/tiny", "--device", "cpu", *SHORT, "--language", "english")
    desk.must("book", "story.md", "--out", "spoken/book", *given)
    found: dict[str, dict[str, Any]] = facts_of(desk, "book")
    for path in sorted((desk.path / "spoken/book").glob("*.wav")):
        found[path.name] = {"audio": length_of(path)}
    return found


def _speaker(desk: Desk) -> dict[str, dict[str, Any]]:
    from tts_cli import Speaker

    given: dict[str, Any] = {"model": str(desk.path / "models/tiny"), "device": "cpu"}
    found = {}
    with Speaker(**given, max_seconds=0.06, accept_truncated=True) as speaker:
        rows = [TWO[1], {**IN_PARTS[0], "id": "c"}]
        for speech in [speaker.say(HELLO, seed=1), *speaker.batch(rows)]:
            found[speech.id] = {
                "audio": len(speech.samples),
                "codes": sum_of(speech.codes.tobytes()),
                "seed": speech.seed,
            }
    return found


OTHER_DOORS: dict[str, Callable[[Desk], dict[str, dict[str, Any]]]] = {
    "say": _say,
    "book": _book,
    "library": _speaker,
}
