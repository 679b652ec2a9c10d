"""The long-row table: what becomes of texts that are longer than a checkpoint speaks well.

    python tests/tools/long_rows.py speak OUT [--texts long|test] [--jobs 4] [--device cpu]
    python tests/tools/long_rows.py score OUT [--jobs 4]

`speak` runs `tts-cli synth` with its default settings over eight texts of 163 to 3,018 characters,
three voices and five seeds each, and one of 20,000 with one seed (or over the 180 test sentences of
the sample voice, one voice and seed each), and prints a table: how many of each length are ok, how
the others ended, and which of the ok ones are suspect. It needs nothing but the tool. With --jobs,
processes share the rows, each with a folder of its own in OUT; on a CPU no row depends on it.

`score` needs the recogniser (dev extra) and only the files in OUT. It adds the words of the ok
rows: word error with a bigram model of the texts (recipe/score.py), the share of words that
were lost, which is one minus the longest sequence of words heard in their order, and how many
sentences have less than half of their words in it. `elsewhere` is the control: the least share that
is lost when a text is compared with the speech of another one. The longest text is heard part by
part, by the places in the journal.

Ends with 1 if a row that lost half of its words is ok, or if a test sentence failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from scripts import load_script  # noqa: E402

RECIPE = ROOT / "samples" / "voice" / "recipe"
TEST_FILES = ("sentences.txt", "sentences_fresh.txt", "sentences_dev.txt")
VOICES = ("arthur", "clara", "ewan")
LENGTHS = (163, 340, 531, 921, 1008, 1061, 2000, 3018)
LONGEST = 20_000  # one seed; most that a row may have
ENDINGS = ("eos", "early", "stuck", "max_frames")
MAX_LOST = 0.5
# Written for this table; none of it is among the training texts.
STORY = """
The boat left the harbor a little after five, while the lamps on the wall were still burning.
Three people stood on the deck and none of them wanted to speak first.
An old teacher held a basket of apples, a young nurse read the same letter again and again, and
a boy of about ten counted the birds that followed us out to sea.
The wind was cold but steady, and the captain said that we would reach the island before noon.
Nobody had lived on that island for many years.
There was a white church without a roof, a row of stone cottages, and one long street where the
grass grew as high as my knees.
My father was born in the last house of that street, and he had asked me to bring him a stone from
its garden.
I had promised to do it when I was still a student, and then I forgot, as we forget most of the
things that are easy to promise.
Now he was too weak to leave his bed, so I took a week off and bought a ticket.
The nurse folded her letter and asked me whether I was going to sell the land.
I told her about the stone, and she smiled for the first time that morning.
Her own story was not so simple.
She had found the letter inside the cover of a book about cooking, and it was signed by a man whose
name no one in her family had ever mentioned.
He wrote about a well behind the church, and about something that he had hidden there before the
winter of the great storm.
The teacher had heard every word, and he shook his head slowly.
He said that the well had been dry since he was a child, and that half of the village had
climbed down into it looking for silver.
They had found a broken clock, two spoons, and a very angry cat.
The boy laughed so loudly that the birds turned around.
After that we were friends, and we shared the apples and a bottle of warm tea.
When the island rose out of the fog, it looked smaller than I had expected, like a loaf of bread
that somebody had left on a gray table.
We stepped on the beach and walked up the hill together.
The church door was open, and the floor was covered with leaves and feathers.
The nurse went straight to the well and looked down for a long time.
There was no silver, of course, but on the inner wall, just below the edge, someone had cut two
names and a heart into the rock.
One was the name of the stranger, and the other was the name of her grandmother.
She put her hand on the letters and did not say anything at all.
Meanwhile the boy had found my garden, or what was left of it, and he came running with a
round black stone that was still wet from the rain.
I put it into my pocket, and it was so heavy that I had to hold my coat with both hands on the way
back.
My father kept it beside his bed until the spring.
He said that it smelled of salt and smoke, and that it was exactly the right one.
On the way home from the hospital I often thought about the two names in the well, and about
the person who had cut them so deep that neither rain nor time could take them away.
The nurse writes to me every summer, and the boy, who is a sailor now, has sent me a picture of
his first boat, which he painted red and named after the cat.
""".strip().replace("\n", " ")


def sentences_of(text: str) -> list[str]:
    """A text by its full stops."""
    return [f"{part}." for part in re.split(r"\.\s+", text.strip().rstrip("."))]


def longest_text() -> str:
    """Seventeen pages of a story in paragraphs, and the other story behind it."""
    watchman = (Path(__file__).parent / "texts" / "night_watchman.txt").read_text().strip()
    return f"{watchman}\n\n{STORY}"


def text_of(length: int) -> str:
    """So many characters of the story, or a few less so that it ends with a word; each length
    starts with another sentence.
    """
    if length == LONGEST:
        return longest_text()
    parts = sentences_of(STORY)
    start = 3 * LENGTHS.index(length) % len(parts)
    text = " ".join([*parts[start:], *parts[:start]])
    return text if len(text) <= length else text[:length].rpartition(" ")[0].rstrip(",.") + "."


def rows_of(texts: str, lengths: Sequence[int], num_seeds: int) -> list[dict[str, Any]]:
    """The manifest of one table; the folder of an id names the line it belongs to."""
    if texts == "long":
        return [
            {"id": f"{length}/{voice}-{seed}", "text": text_of(length), "voice": voice}
            | {"language": "english", "seed": seed}
            for length in lengths
            for voice in VOICES
            for seed in range(1 if length == LONGEST else num_seeds)
        ]
    rows = []
    for file in TEST_FILES:
        for index, line in enumerate((RECIPE / file).read_text().splitlines()):
            voice = VOICES[len(rows) % len(VOICES)]
            row_id = f"{Path(file).stem}/{index:03d}-{voice}"
            rows.append({"id": row_id, "text": line, "voice": voice, "language": "english"})
    return rows


def speak(out: Path, rows: Sequence[dict[str, Any]], jobs: int, device: str) -> None:
    """Run `synth` over the rows, in one process or several."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shares: list[list[dict[str, Any]]] = [[] for _ in range(min(jobs, len(rows)))]
    for row in sorted(rows, key=lambda row: -len(row["text"])):
        min(shares, key=lambda share: sum(len(row["text"]) for row in share)).append(row)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    if jobs > 1:
        environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
    running = []
    for job, share in enumerate(shares, 1):
        manifest = out / f"job{job}.jsonl"
        manifest.write_text("".join(json.dumps(row) + "\n" for row in share))
        command = [sys.executable, "-m", "tts_cli", "synth", str(manifest), "--device", device]
        command += ["--out", str(out / f"job{job}")]
        running.append(subprocess.Popen(command, env=environment))
    codes = [process.wait() for process in running]
    if not set(codes) <= {0, 1}:
        sys.exit(f"synth ended with {codes}")


def records_of(out: Path) -> dict[str, dict[str, Any]]:
    """The last line of each id, its audio's path made whole."""
    found = {}
    for journal in sorted(out.glob("job*/timings.jsonl")):
        for line in journal.read_text().splitlines():
            record = json.loads(line)
            found[record["id"]] = {**record, "file": journal.parent / (record["path"] or "")}
    return found


def in_order(wanted: Sequence[str], heard: Sequence[str]) -> list[int]:
    """Places of the wanted words in the longest sequence that was heard in their order."""
    rows = [[0] * (len(heard) + 1)]
    for word in wanted:
        above, row = rows[-1], [0]
        for column, other in enumerate(heard, 1):
            row.append(
                above[column - 1] + 1 if word == other else max(above[column], row[column - 1])
            )
        rows.append(row)
    places, index, column = [], len(wanted), len(heard)
    while index and column:
        if wanted[index - 1] == heard[column - 1]:
            index, column = index - 1, column - 1
            places.append(index)
        elif rows[index - 1][column] >= rows[index][column - 1]:
            index -= 1
        else:
            column -= 1
    return places[::-1]


def lost_share(wanted: Sequence[str], heard: Sequence[str]) -> float:
    """Share of words that were not heard in their order."""
    return 1 - len(in_order(wanted, heard)) / len(wanted)


class Piece(NamedTuple):
    """A stretch of a row's audio and the text that is spoken in it."""

    row_id: str
    text: str
    file: Path
    span_s: tuple[float, float] | None  # None: the whole file
    model: Path  # the recogniser's


@cache
def recipe_score() -> Any:
    """The recogniser of the sample voice's recipe."""
    return load_script(RECIPE / "score.py")


def words_heard(piece: Piece) -> list[str]:
    """The words of one piece."""
    import soundfile

    score = recipe_score()
    if piece.span_s is None:
        return list(score.recognise([piece.file], piece.model)[0])
    samples, rate_hz = soundfile.read(piece.file, dtype="int16")
    start, end = (round(second * rate_hz) for second in piece.span_s)
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        soundfile.write(file.name, samples[start:end], rate_hz)
        return list(score.recognise([Path(file.name)], piece.model)[0])


def pieces_of(row: dict[str, Any], record: dict[str, Any], model: Path) -> list[Piece]:
    """What is heard by itself of a row: all of it, or each part of the longest."""
    text, file = row["text"], record["file"]
    if len(text) < LONGEST / 2:
        return [Piece(row["id"], text, file, None, model)]
    return [
        Piece(
            row["id"],
            text[p["text_start"] : p["text_end"]],
            file,
            (p["start_s"], p["end_s"]),
            model,
        )
        for p in record["parts"]
    ]


def lost_sentences(text: str, found: set[int], words: Callable[[str], list[str]]) -> int:
    """Sentences of which less than half of the words are among the places that were heard."""
    lost = start = 0
    for sentence in sentences_of(text):
        end = start + len(words(sentence))
        lost += len(found & set(range(start, end))) < (end - start) / 2
        start = end
    return lost


def listen(out: Path, rows: Sequence[dict[str, Any]], jobs: int) -> dict[str, dict[str, float]]:
    """What was heard of the ok rows: their word error in percent, and the shares that were lost."""
    score = recipe_score()
    records = records_of(out)
    spoken = [row for row in rows if records[row["id"]]["status"] == "ok"]
    texts = list(dict.fromkeys(row["text"] for row in rows))
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        # The longest text has a model of its own, so that the others stay comparable.
        models = {}
        for is_longest in (False, True):
            models[is_longest] = Path(scratch) / f"closed{is_longest:d}.arpa"
            some = [text for text in texts if (len(text) > LONGEST / 2) is is_longest]
            parts = dict.fromkeys(part for text in some for part in sentences_of(text))
            if parts:
                score.write_bigram_model([score.words(part) for part in parts], models[is_longest])
        pieces = [
            piece
            for row in spoken
            for piece in pieces_of(row, records[row["id"]], models[len(row["text"]) > LONGEST / 2])
        ]
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            heard = pool.map(words_heard, pieces, chunksize=1)
    for row in spoken:
        mine = [(p, words) for p, words in zip(pieces, heard, strict=True) if p.row_id == row["id"]]
        wanted, places = [], set[int]()
        for piece, words in mine:
            own = score.words(piece.text)
            places.update(len(wanted) + place for place in in_order(own, words))
            wanted += own
        other = score.words(texts[(texts.index(row["text"]) + 1) % len(texts)])
        found[row["id"]] = {
            "wer_percent": score.word_error_rate(
                [score.words(piece.text) for piece, _ in mine], [words for _, words in mine]
            ),
            "lost": 1 - len(places) / len(wanted),
            "sentences": lost_sentences(row["text"], places, score.words),
            "elsewhere": lost_share(other[: len(mine[0][1])], mine[0][1]),
        }
    return found


def table(
    rows: Sequence[dict[str, Any]],
    records: dict[str, dict[str, Any]],
    heard: dict[str, dict[str, float]],
) -> Iterator[str]:
    """One line a folder of ids."""
    yield (
        f"{'':>16} rows    ok "
        + " ".join(f"{end:>10}" for end in ENDINGS[1:])
        + "  other  suspect   seconds   wer median, worst   lost median, worst"
        + "  sentences  elsewhere"
    )
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["id"].partition("/")[0], []).append(records[row["id"]])
    for name, group in groups.items():
        good = [record for record in group if record["status"] == "ok"]
        ends = Counter(record["finish_reason"] for record in group if record not in good)
        other = sum(ends.values()) - sum(ends[end] for end in ENDINGS[1:])
        spans = sorted(record["audio_s"] for record in good)
        line = f"{name:>16} {len(group):4d} {len(good):5d} "
        line += " ".join(f"{ends[end]:10d}" for end in ENDINGS[1:])
        line += f" {other:6d} {sum(bool(record['suspect']) for record in good):8d}"
        line += f" {spans[len(spans) // 2]:9.1f}" if spans else f" {'-':>9}"
        figures = [heard[record["id"]] for record in good if record["id"] in heard]
        if figures:
            wer = sorted(figure["wer_percent"] for figure in figures)
            lost = sorted(100 * figure["lost"] for figure in figures)
            line += f" {wer[len(wer) // 2]:10.1f}, {wer[-1]:5.1f} %"
            line += f" {lost[len(lost) // 2]:11.1f}, {lost[-1]:5.1f} %"
            line += f" {sum(figure['sentences'] for figure in figures):10d}"
            line += f" {100 * min(figure['elsewhere'] for figure in figures):9.1f} %"
        yield line


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("speak", "score"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", choices=("long", "test"), default="long")
    parser.add_argument(
        "--lengths", default=",".join(map(str, (*LENGTHS, LONGEST))), help="some of them"
    )
    parser.add_argument("--seeds", type=int, default=5, help="of each long text and voice (5)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N (cpu)")
    options = parser.parse_args()
    if options.command == "speak":
        lengths = [int(length) for length in options.lengths.split(",")]
        rows = rows_of(options.texts, lengths, options.seeds)
        speak(options.out, rows, options.jobs, options.device)
    rows = [json.loads(line) for line in (options.out / "rows.jsonl").read_text().splitlines()]
    heard = listen(options.out, rows, options.jobs) if options.command == "score" else {}
    records = records_of(options.out)
    print("\n".join(table(rows, records, heard)))
    bad = [
        f"{name}: {100 * found['lost']:.0f} % of its words are lost, and it is ok"
        for name, found in heard.items()
        if found["lost"] >= MAX_LOST
    ]
    for row in rows:
        record = records[row["id"]]
        if record["status"] != "ok" and row["id"].startswith("sentences"):
            bad.append(f"{row['id']}: {record['error']}")
    print("\n".join([*bad, f"{len(bad)} wrong"]))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
