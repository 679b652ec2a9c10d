"""A chapter of twelve pages, measured: what was read wrong, subtitles, joints, levels, marks.

    python tests/tools/chapter.py speak OUT [flags of tts-cli book ...]
    python tests/tools/chapter.py score OUT [--jobs 2]
    python tests/tools/chapter.py epub FILE.epub

`speak` runs `tts-cli book` over texts/twelve_pages.md: dialogue, a sentence of 1,200 characters,
a paragraph parted by nothing but semicolons, quotations inside of quotations, abbreviations and
figures. It was written for this and nothing was tuned with it. texts/twelve_pages.tsv says how a
person reads the figures and abbreviations, so that a wrong reader is no way to a good figure.

`score` needs the recogniser (dev extra) and only OUT. Of every chapter's file in OUT/book.json:

- words: the file is cut in the middle of the pauses between rows, and each piece recognised with a
  bigram model of the text (recipe/score.py); word errors in percent, and of each row with an error
  the words that should have been read and, behind a bar, what was heard in their place, with
  neighbours; likewise what the tool read otherwise than a person would.
- subtitles: starts and ends of the cues in the .vtt against the times of the words that the
  recogniser heard, those of the audio's own edges and the estimated ones apart.
- joints: the energy above 4 kHz in all pauses, where a click would be, beside the energy in speech.
- levels: root mean square and peak of the file, and its floor, the quietest half second, in dBFS;
  digital silence is -inf. `tts-cli check --preset acx` compares them with the limits of ACX.
- marks: chapter marks of OUT/book.m4b, read back by PyAV, beside where the chapters lie.

`epub` makes an EPUB of three chapters of the same pages, for `speak --book FILE.epub` and
`score --table tests/tools/texts/twelve_pages.tsv`.

What was heard is kept in OUT/heard.json and used again while the chapters are the same. Ends with 1
if more than 6 % of the words are wrong, a joint clicks, or a mark is not where its chapter begins.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from long_rows import recipe_score

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
TEXTS = Path(__file__).parent / "texts"
BOOK = TEXTS / "twelve_pages.md"
MAX_WORD_ERROR = 6.0  # percent
NEAR_S = 0.3  # of a cue to the word it begins or ends with
MARK_S = 0.05  # of a mark to its chapter: a frame of AAC is up to 0.13 s at 8 kHz, 0.04 at 24 kHz
CLICK = 1e-6  # energy above 4 kHz; a step of the sample voice's mean makes 1e-5
FRAME_S = 0.01  # of the recogniser's segments

Array = np.ndarray[Any, Any]


class Word(NamedTuple):
    """A word as it should be heard, and the characters of the text that it stands for."""

    word: str
    start: int
    end: int


class Heard(NamedTuple):
    """A word that the recogniser heard, in seconds of the chapter."""

    word: str
    start_s: float
    end_s: float


class Cue(NamedTuple):
    """A cue of a WebVTT file."""

    text: str
    start_s: float
    end_s: float
    estimated: tuple[str, ...]  # of start and end, those that are


def read_table(path: Path) -> dict[str, str]:
    """Written -> read."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


def words_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Lower-case words, without apostrophes that are quotation marks."""
    for found in re.finditer(r"[a-z]+(?:'[a-z]+)*", text.lower()):
        yield found.group(), found.start(), found.end()


def read_aloud(text: str, table: dict[str, str]) -> list[Word]:
    """The words of a written text, as a person reads them. ValueError: the table lacks a figure."""
    keys = sorted(table, key=len, reverse=True)
    ends = {key: r"(?!\w)" if key[-1].isalnum() else "" for key in keys}
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(key)}{ends[key]}" for key in keys) or "(?!)")
    found: list[Word] = []
    place = 0

    def keep(end: int) -> None:
        if any(map(str.isdecimal, text[place:end])):
            raise ValueError(f"nobody says how to read {text[place:end]!r}")
        found.extend(Word(word, place + a, place + b) for word, a, b in words_of(text[place:end]))

    for match in pattern.finditer(text):
        keep(match.start())
        found += [Word(word, *match.span()) for word, _, _ in words_of(table[match.group()])]
        place = match.end()
    keep(len(text))
    return found


def matches(wanted: Sequence[str], heard: Sequence[str]) -> list[int | None]:
    """For each wanted word the index of the heard one it was, in an alignment of fewest errors."""
    rows = [list(range(len(heard) + 1))]
    for number, word in enumerate(wanted, 1):
        before, row = rows[-1], [number]
        for column, other in enumerate(heard, 1):
            row.append(
                min(before[column] + 1, row[column - 1] + 1, before[column - 1] + (word != other))
            )
        rows.append(row)
    found: list[int | None] = [None] * len(wanted)
    i, j = len(wanted), len(heard)
    while i and j:
        is_same = wanted[i - 1] == heard[j - 1]
        if rows[i][j] == rows[i - 1][j - 1] + (not is_same):
            i, j = i - 1, j - 1
            found[i] = j if is_same else None
        elif rows[i][j] == rows[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return found


def cuts_of(rows: Sequence[dict[str, Any]], seconds: float) -> list[tuple[float, float]]:
    """A chapter cut in the middle of the pauses, in seconds."""
    middles = [(a["end_s"] + b["start_s"]) / 2 for a, b in pairwise(rows)]
    return list(pairwise([0.0, *middles, seconds]))


def hear(chapter: Path, cuts: Sequence[tuple[float, float]], model: Path) -> list[list[Heard]]:
    """The words of each piece of a chapter, by one fresh recogniser."""
    score = recipe_score()
    decoder = score.make_decoder(model)
    padding_s = score.SILENCE_SAMPLES / score.SAMPLE_RATE_HZ
    found = []
    with tempfile.TemporaryDirectory() as scratch, soundfile.SoundFile(chapter) as file:
        for start_s, end_s in cuts:
            start, end = round(start_s * file.samplerate), round(end_s * file.samplerate)
            file.seek(start)
            path = Path(scratch) / "piece.wav"
            soundfile.write(path, file.read(end - start), file.samplerate, subtype="FLOAT")
            decoder.start_utt()
            decoder.process_raw(score.load_audio(path).tobytes(), no_search=False, full_utt=True)
            decoder.end_utt()
            offset_s = start_s - padding_s
            found.append(
                [
                    Heard(
                        segment.word.partition("(")[0],
                        offset_s + FRAME_S * segment.start_frame,
                        offset_s + FRAME_S * (segment.end_frame + 1),
                    )
                    for segment in decoder.seg() or ()
                    if segment.word[0] not in "<["
                ]
            )
    return found


def hear_book(
    out: Path, book: dict[str, Any], table: dict[str, str], jobs: int
) -> list[list[list[Heard]]]:
    """What is heard in each row of each chapter; that of an earlier call where it is the same."""
    kept = out / "heard.json"
    keys = [[chapter["path"], chapter["bytes"], jobs] for chapter in book["chapters"]]
    if kept.exists():
        known = json.loads(kept.read_text())
        if known["keys"] == keys:
            return [
                [[Heard(*word) for word in row] for row in chapter] for chapter in known["heard"]
            ]
    score = recipe_score()
    found = []
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(jobs) as pool:
        model = Path(scratch) / "closed.arpa"
        rows = [row for chapter in book["chapters"] for row in chapter["sentences"]]
        score.write_bigram_model(
            [[word.word for word in read_aloud(row["text"], table)] for row in rows], model
        )
        for chapter in book["chapters"]:
            cuts = cuts_of(chapter["sentences"], chapter["seconds"])
            share = -(-len(cuts) // jobs)
            shares = [cuts[start : start + share] for start in range(0, len(cuts), share)]
            futures = [pool.submit(hear, out / chapter["path"], part, model) for part in shares]
            found.append([row for future in futures for row in future.result()])
    kept.write_text(json.dumps({"keys": keys, "heard": found}))
    return found


def spoken_texts(out: Path) -> dict[str, str]:
    """Row -> what the model was given."""
    lines = map(json.loads, (out / "timings.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["id"]: line["spoken_text"] or line["text"] for line in lines if line["text"]}


def differences(wanted: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """Where two texts differ, as `before [wanted | other] behind`."""
    for kind, a, b, c, d in SequenceMatcher(None, wanted, other, autojunk=False).get_opcodes():
        if kind != "equal":
            before, behind = " ".join(wanted[max(0, a - 2) : a]), " ".join(wanted[b : b + 2])
            change = f"[{' '.join(wanted[a:b])} | {' '.join(other[c:d])}]"
            yield f"{before} {change} {behind}".strip()


def judge_words(
    out: Path, book: dict[str, Any], heard: list[list[list[Heard]]], table: dict[str, str]
) -> tuple[float, list[str]]:
    """Word errors in percent, and the report."""
    score = recipe_score()
    spoken = spoken_texts(out)
    lines: list[str] = []
    wrong: list[str] = []
    total = errors = num_rows = reader_errors = 0
    by_voice: dict[str, list[int]] = {}
    for chapter, pieces in zip(book["chapters"], heard, strict=True):
        for row, piece in zip(chapter["sentences"], pieces, strict=True):
            wanted = [word.word for word in read_aloud(row["text"], table)]
            read = [word for word, _, _ in words_of(spoken[row["id"]])]
            found = [word.word for word in piece]
            count = score.edit_distance(wanted, found)
            sums = by_voice.setdefault(row["voice"] or "the run's voice", [0, 0])
            sums[0], sums[1] = sums[0] + count, sums[1] + len(wanted)
            total, errors, num_rows = total + len(wanted), errors + count, num_rows + 1
            reader_errors += score.edit_distance(wanted, read)
            if not count and read == wanted:
                continue
            wrong.append(f"{count} in {row['start_s']:.1f} s, {row['place']}")
            wrong += [f"  heard: {difference}" for difference in differences(wanted, found)]
            wrong += [f"  read:  {difference}" for difference in differences(wanted, read)]
    percent = 100 * errors / total
    lines.append(
        f"words: {errors} of {total} wrong, {percent:.1f} %; {num_rows} rows, {reader_errors} words"
        " of them read otherwise than a person would"
    )
    lines += [
        f"  {voice}: {count} of {words}, {100 * count / words:.1f} %"
        for voice, (count, words) in by_voice.items()
    ]
    return percent, [*lines, *wrong]


def read_vtt(path: Path) -> list[Cue]:
    """The cues of a file as this tool writes it."""
    found = []
    _, head, *blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    estimated = {
        name: set(
            lines[0].split() if (lines := re.findall(rf"^{name}s of (.+)$", head, re.M)) else ()
        )
        for name in ("start", "end")
    }
    for block in blocks:
        number, times, *text = block.split("\n")
        start, end = (
            sum(float(part) * 60**power for power, part in enumerate(reversed(clock.split(":"))))
            for clock in times.split(" --> ")
        )
        names = tuple(name for name, numbers in estimated.items() if number in numbers)
        found.append(Cue(html.unescape(" ".join(text)), start, end, names))
    return found


def cue_errors(
    chapter: dict[str, Any], cues: Sequence[Cue], heard: list[list[Heard]], table: dict[str, str]
) -> Iterator[tuple[str, float, str]]:
    """Of each cue's start and end that can be judged: `exact` or `estimated`, seconds off, text.

    Cues and rows hold the same text but for spaces, so places are counted without them.
    """
    words: list[tuple[Word, Heard | None]] = []
    place = 0
    for row, piece in zip(chapter["sentences"], heard, strict=True):
        text = row["text"]
        dense = [0]
        for char in text:
            dense.append(dense[-1] + (not char.isspace()))
        wanted = read_aloud(text, table)
        found = matches([word.word for word in wanted], [word.word for word in piece])
        for word, index in zip(wanted, found, strict=True):
            at = Word(word.word, place + dense[word.start], place + dense[word.end])
            words.append((at, None if index is None else piece[index]))
        place += dense[-1]
    start = 0
    for cue in cues:
        end = start + len("".join(cue.text.split()))
        inside = [pair for pair in words if start <= pair[0].start and pair[0].end <= end]
        start = end
        if not inside:
            continue
        for name, time_s, (_, known) in (
            ("start", cue.start_s, inside[0]),
            ("end", cue.end_s, inside[-1]),
        ):
            if known is not None:
                word_s = known.start_s if name == "start" else known.end_s
                kind = "estimated" if name in cue.estimated else "exact"
                yield kind, time_s - word_s, f"{name} of {cue.text!r}"
    if start != place:
        raise ValueError(f"the cues hold {start} characters, the rows {place}")


def judge_subtitles(
    out: Path, book: dict[str, Any], heard: list[list[list[Heard]]], table: dict[str, str]
) -> list[str]:
    """Times of cues against those of words."""
    found: list[tuple[str, float, str]] = []
    num_cues = 0
    for chapter, pieces in zip(book["chapters"], heard, strict=True):
        path = (out / chapter["path"]).with_suffix(".vtt")
        if not path.exists():
            return ["subtitles: none in WebVTT"]
        cues = read_vtt(path)
        num_cues += len(cues)
        found += cue_errors(chapter, cues, pieces, table)
    found.sort(key=lambda error: error[0])
    lines = [
        f"subtitles: {num_cues} cues; of {2 * num_cues} starts and ends {len(found)} are of words "
        "that were heard"
    ]
    for kind, group in groupby(found, key=lambda error: error[0]):
        errors = sorted(group, key=lambda error: abs(error[1]))
        sizes = [abs(error[1]) for error in errors]
        near = sum(size <= NEAR_S for size in sizes)
        lines.append(
            f"  {kind}: {len(sizes)}, median {sizes[len(sizes) // 2]:.2f} s, 95 % within "
            f"{sizes[int(0.95 * (len(sizes) - 1))]:.2f} s, worst {sizes[-1]:.2f} s, "
            f"{100 * near / len(sizes):.1f} % within {NEAR_S:g} s"
        )
        lines += [f"    {error[1]:+.2f} s: {error[2]}" for error in errors[:-6:-1]]
    return lines


def high_energy(samples: Array, rate_hz: int) -> float:
    """Energy above 4 kHz of (512,) samples in [-1, 1]."""
    spectrum = np.fft.rfft(samples * np.hanning(len(samples)))
    first = round(4000 * len(samples) / rate_hz) + 1
    return float((np.abs(spectrum[first:]) ** 2).sum() / len(samples) ** 2)


def judge_joints(out: Path, book: dict[str, Any]) -> tuple[float, str]:
    """The most energy above 4 kHz in a pause, and the report.

    A pause is looked at from 10 ms behind the end of speech, where a soft last sound has ended, to
    10 ms before the next one's start: cut edges are 20 ms away from speech.
    """
    worst, num_pauses, where = 0.0, 0, ""
    inside: list[float] = []
    for chapter in book["chapters"]:
        samples, rate_hz = soundfile.read(out / chapter["path"], dtype="float64")
        spans = [
            (part["start_s"], part["end_s"])
            for row in chapter["sentences"]
            for part in (row.get("parts") or [row])
        ]
        for (_, end_s), (start_s, _) in pairwise(spans):
            first, last = round((end_s + 0.01) * rate_hz), round((start_s - 0.01) * rate_hz)
            num_pauses += 1
            for place in range(first, max(first + 1, last - 511), 64):
                energy = high_energy(samples[place : place + 512], rate_hz)
                if energy > worst:
                    worst, where = energy, f"{chapter['path']} {place / rate_hz:.3f} s"
        for start_s, end_s in spans:
            places = range(round(start_s * rate_hz), round(end_s * rate_hz) - 512, 4800)
            inside += [high_energy(samples[place : place + 512], rate_hz) for place in places]
    inside.sort()
    return worst, (
        f"joints: {num_pauses} pauses, most energy above 4 kHz {worst:.1e} ({where}); in speech "
        f"{inside[len(inside) // 2]:.1e} in the middle, {inside[-1]:.1e} at most"
    )


def levels_of(path: Path) -> dict[str, float]:
    """Root mean square, peak and floor of a file in dBFS."""
    samples, rate_hz = soundfile.read(path, dtype="float64")
    window = rate_hz // 2
    sums = np.concatenate([[0.0], np.cumsum(samples**2)])
    quietest = float((sums[window:] - sums[:-window]).min()) / window if len(sums) > window else 0.0
    values = {
        "rms": math.sqrt(sums[-1] / len(samples)),
        "peak": float(np.abs(samples).max()),
        "floor": math.sqrt(max(0.0, quietest)),
    }
    return {
        name: 20 * math.log10(value) if value > 1e-9 else -math.inf
        for name, value in values.items()
    }


def level_lines(out: Path, book: dict[str, Any]) -> list[str]:
    """Report the levels of every chapter."""
    levels = {chapter["path"]: levels_of(out / chapter["path"]) for chapter in book["chapters"]}
    return [
        f"levels: {path}: {', '.join(f'{name} {value:.1f} dBFS' for name, value in found.items())}"
        for path, found in levels.items()
    ]


def judge_marks(out: Path, book: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Marks that are not where their chapter is, and the report."""
    from m4b_marks import read_marks

    from tts_cli.book.m4b import PAUSE_S

    path = out / "book.m4b"
    if not path.exists():
        return [], ["marks: there is no book.m4b"]
    marks = read_marks(path)
    bad, lines, start_s = [], [], 0.0
    if len(marks) != len(book["chapters"]):
        bad.append(f"{len(marks)} marks, {len(book['chapters'])} chapters")
    for mark, chapter in zip(marks, book["chapters"], strict=False):
        lines.append(f"marks: {mark.title!r} at {mark.start_s:.3f} s, its chapter {start_s:.3f} s")
        if mark.title != chapter["title"] or abs(mark.start_s - start_s) > MARK_S:
            bad.append(lines[-1])
        start_s += chapter["seconds"] + PAUSE_S
    return bad, lines


def write_epub_of(text: str, path: Path) -> None:
    """The pages as an EPUB of three chapters, parted at scene breaks."""
    from make_epub import XHTML, document, package, write_epub

    pages = text.split("\n---\n", 1)[1].strip()  # behind the front matter
    title, _, pages = pages.partition("\n")
    scenes = pages.split("\n\n---\n\n")
    names = ("Backward", "The Door", "The Right Way")
    files, nav = {}, ""
    for number, name in enumerate(names):
        share = scenes[number * len(scenes) // 3 : (number + 1) * len(scenes) // 3]
        scene_texts = [
            "".join(f"<p>{html.escape(part)}</p>" for part in scene.split("\n\n") if part.strip())
            for scene in share
        ]
        files[f"OEBPS/{number}.xhtml"] = XHTML.format(
            f"<h1>{name}</h1>" + "<hr/>".join(scene_texts)
        )
        nav += f'<li><a href="{number}.xhtml">{name}</a></li>'
    items = {"nav": document("nav.xhtml", 'properties="nav"')}
    items |= {f"c{number}": document(f"{number}.xhtml") for number in range(len(names))}
    spine = [f"c{number}" for number in range(len(names))]
    files["OEBPS/book.opf"] = package(items, spine, title=title.removeprefix("# "))
    files["OEBPS/nav.xhtml"] = XHTML.format(f'<nav epub:type="toc"><ol>{nav}</ol></nav>')
    write_epub(path, files)


def speak(out: Path, book: Path, flags: Sequence[str]) -> int:
    """Run `tts-cli book`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tts_cli", "book", str(book), "--out", str(out), *flags]
    return subprocess.run(command, env=environment, check=False).returncode


def judge(out: Path, table: dict[str, str], jobs: int) -> int:
    """Print all figures. Returns the exit code."""
    book = json.loads((out / "book.json").read_text(encoding="utf-8"))
    if lost := [chapter["title"] for chapter in book["chapters"] if chapter["path"] is None]:
        sys.exit(f"chapters without a file: {', '.join(lost)}")
    heard = hear_book(out, book, table, jobs)
    percent, lines = judge_words(out, book, heard, table)
    print("\n".join(lines))
    print("\n".join(judge_subtitles(out, book, heard, table)))
    click, line = judge_joints(out, book)
    print(line)
    print("\n".join(level_lines(out, book)))
    bad, lines = judge_marks(out, book)
    print("\n".join(lines))
    if percent > MAX_WORD_ERROR:
        bad.append(f"{percent:.1f} % of the words are wrong")
    if click > CLICK:
        bad.append(f"a joint has {click:.1e} above 4 kHz")
    print("\n".join([*bad, f"{len(bad)} wrong"]))
    return int(bool(bad))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("speak", "score", "epub"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--book", type=Path, default=BOOK, help="what to speak (twelve_pages.md)")
    parser.add_argument(
        "--table", type=Path, help="how figures are read (the book's name with .tsv)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="recognisers (1)")
    options, flags = parser.parse_known_args()
    if options.command == "speak":
        return speak(options.out, options.book, flags)
    if flags:
        parser.error(f"{options.command} takes no {' '.join(flags)}")
    if options.command == "epub":
        write_epub_of(BOOK.read_text(encoding="utf-8"), options.out)
        return 0
    table = options.table or options.book.with_suffix(".tsv")
    return judge(options.out, read_table(table) if table.exists() else {}, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
