"""What command lines answer: words and exit codes, one behind the other in one folder."""

from __future__ import annotations

import shlex
import shutil
from typing import Any

from desk import Desk, said_lines, write_recording
from freeze import LONG, ROWS, SHORT

FOLDERS = ("plain", "others", "picked", "failed", "pruned", "foreign", "mixed", "book", "garbage")
M = "--model models/tiny --device cpu"
S = f"{M} {' '.join(SHORT)}"

# One a line, as in a shell; {M} and {S} stand for the flags above, `:copy` is ours.
LINES = """
--help
frobnicate
syhth rows.jsonl
synth --help
say --help
book --help
check --help
encode --help
export --help
merge --help
pick --help
report --help
validate --help
voices --help
config --help
synth
synth rows.jsonl
synth rows.jsonl --out new {S}
synth rows.jsonl --out new {S}
synth rows.jsonl --out new {S} -v
synth rows.jsonl --out new {S} -q
synth rows.jsonl --out new {S} --json --dry-run
synth rows.jsonl --out new {S} --format flac
synth rows.jsonl --out new {S} --loudness podcast --retry-failed
synth rows.jsonl --out verbose {S} -v --max-batch 2
synth rows.jsonl --out quiet {S} -q
synth rows.jsonl --out new {S} --takes 1 --only a
synth rows.jsonl --out new {S} --only nobody
synth rows.jsonl --out new {S} --only 'x*'
synth rows.jsonl --out new {S} --overwrite --seed 4 --only c
synth changed.jsonl --out new {S}
:copy rows.jsonl strays.jsonl
synth strays.jsonl --out strayed {S} -q
:copy fewer.jsonl strays.jsonl
synth strays.jsonl --out strayed {S}
synth strays.jsonl --out strayed {S} --prune
synth strays.jsonl --out strayed {S} --prune
:copy rows.jsonl strays.jsonl
synth strays.jsonl --out strayed {S}
synth rows.jsonl --out new {S} --verify-files
synth long.jsonl --out parts {S} --split 60
synth rows.jsonl --out new {S} --split 5
synth rows.jsonl --out new {S} --shard 3/2
synth rows.jsonl --out new {S} --max-batch 3
synth rows.jsonl --out new {S} --loudnes podcast
synth rows.jsonl --out new {S} --loudness 5
synth rows.jsonl --out new {S} --voice nobody
synth rows.jsonl --out new {S} --format ogg --subtype PCM_24
synth rows.jsonl --out new {S} --cast nowhere.toml
synth rows.jsonl --out new {S} --lexicon bad.tsv
synth rows.jsonl --out new --model nowhere --device cpu
synth nowhere.jsonl --out new {S}
synth empty.jsonl --out new {S}
synth binary.jsonl --out new {S}
synth bad.jsonl --out new {S}
synth bad.jsonl --out skipped {S} --skip-invalid
synth twice.jsonl --out new {S}
synth rows.txt --out texts {S}
synth rows.csv --out tables {S}
synth rows.csv --out tables {S} --map Line=text,Who=voice --extra keep
synth - --out new {S}
synth cloned.jsonl --out new {S}
synth rows.jsonl --out rows.jsonl {S}
synth rows.jsonl --out foreign/out {S}
synth rows.jsonl --out strict {M} --max-seconds 0.06 --retries 0
synth rows.jsonl --out strict {M} --max-seconds 0.06 --retries 0 --retry-failed
synth rows.jsonl --out few {M} --max-seconds 0.06 --retries 0 --max-failures 1 --max-batch 1
synth mixed/rows.jsonl --out mixed/out {S} --split 60 --format flac --dry-run
synth rows.jsonl --out garbage/out {S} --dry-run
say "Hello there." -o said.wav {S}
say "Hello there." -o nowhere/said.wav {S}
say "" -o said.wav {S}
say ... -o said.wav {S}
say Hello -o said.wav {S} --voice nobody
say Hello -o said.wav {S} --json
book story.md --out story {S} --language english
book story.md --out story {S} --language english
book story.md --out other --dry-run {S} --language english
book empty.md --out other {S}
book story.doc --out other {S}
check plain/out
check plain/out --json --only a
check nowhere
check models
check picked/out --only nobody
check mixed/out --pick best
encode plain/out --format flac {M}
encode plain/out --format flac {M}
encode mixed/out --sample-rate 16000 --out phone {M}
encode nowhere --format flac {M}
encode failed/out --format flac {M}
lexicon test "SQL costs $5"
report plain/out
report nowhere
pick picked/out
pick picked/out a=1
pick picked/out a=9
pick picked/out nobody=1
pick picked/out sub/b=seed:1
pick picked/out a
pick plain/out
export plain/out --to ljspeech --out lj
export plain/out --to ljspeech --out lj
export plain/out --to ljspeech --out lj --split train=0.5,test=0.5
export plain/out --to nemo --out none --min-s 5
export mixed/out --to audiofolder --out af --no-suspects
export plain/out --out lj
export nowhere --to nemo --out nm
merge plain/out others/out --out merged
merge plain/out others/out --out merged
merge plain/out picked/out --out clash
merge plain/out picked/out --out clash --prefer picked/out
merge nowhere --out merged
config show synth
validate rows.jsonl --model models/tiny
validate rows.jsonl --model models/tiny --json
validate bad.jsonl --model models/tiny
validate cloned.jsonl --model models/base
voices --model models/tiny
voices --model models/base
voices add anna --ref-audio ref.wav --voices v --model models/base --device cpu
voices --voices v --model models/base
voices add anna --ref-audio nowhere.wav --voices v --model models/base --device cpu
models list
completion bash
warmup {M}
"""


def prepare(desk: Desk) -> None:
    """The files that the lines name."""
    for name in FOLDERS:
        if not (desk.path / name).exists():
            raise RuntimeError(f"{name} was not unpacked")
    desk.write("rows.jsonl", ROWS)
    desk.write("fewer.jsonl", ROWS[:2])
    desk.write("changed.jsonl", [{**ROWS[0], "text": "Something else."}, *ROWS[1:]])
    desk.write("long.jsonl", [{"id": "long", "text": LONG}, {"id": "odd", "text": "<b>..."}])
    desk.write("empty.jsonl", "")
    desk.write("binary.jsonl", bytes(range(256)) * 4)
    bad = ({"id": "e", "text": ""}, {"text": "x", "voise": "dora"}, {"id": "../x", "text": "y"})
    desk.write("bad.jsonl", [ROWS[0], *bad, {"id": "f", "text": "z", "seed": -1}])
    desk.write("twice.jsonl", [ROWS[0], {"id": "A", "text": "The same id."}])
    desk.write(
        "cloned.jsonl", [{**ROWS[0], "ref_audio": "ref.wav"}, {**ROWS[1], "ref_audio": "none.wav"}]
    )
    desk.write("rows.txt", "Hello there.\n\nHm.\n")
    desk.write("rows.csv", "id,Line,Who,Scene\na,Hello there.,emil,1\nb,Hm.,dora,2\n")
    desk.write("bad.tsv", "SQL\n")
    desk.write("story.md", "# One\n\nHello there. Hm.\n\n# Two\n\nThe rain came.\n")
    desk.write("empty.md", "")
    desk.write("story.doc", "no book")
    write_recording(desk)


def words_of(desk: Desk) -> dict[str, Any]:
    """By number and line: what each answers."""
    found = {}
    with desk.scratch("models", *FOLDERS) as mine:
        prepare(mine)
        for number, line in enumerate(LINES.strip().splitlines(), 1):
            command, *rest = shlex.split(line.replace("{M}", M).replace("{S}", S))
            if command == ":copy":
                shutil.copy(mine.path / rest[0], mine.path / rest[1])
                continue
            said = mine.run(command, *rest)
            found[f"{number:03d} {line}"] = [said.code, said_lines(said.out), said_lines(said.err)]
    return found
