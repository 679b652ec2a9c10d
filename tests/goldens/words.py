"""What command lines answer: words and exit codes, one behind the other in one folder.

Rows end in any order, and are named in it: a line that names several is of a frozen folder.
"""

from __future__ import annotations

import shlex
import shutil
from typing import Any

from desk import HERE, SHORT, Desk, said_lines, write_recording
from freeze import LONG, ROWS

FOLDERS = (
    *("plain", "others", "picked", "failed", "pruned", "foreign", "mixed", "book", "garbage"),
    *("made_fish", "made_clone", "anchored"),
)
M = "--model models/tiny --device cpu"
C = "--model models/describer --clone-model models/cloner --device cpu --seed 10"
F = "--model models/maker --device cpu --seed 8 --accept-licence"
S = f"{M} {' '.join(SHORT)}"

# One a line, as in a shell; letters in braces are the flags above, `:copy` and `:remove` are ours.
LINES = HERE / "lines.txt"


def prepare(desk: Desk) -> None:
    """The files that the lines name."""
    desk.write("rows.jsonl", ROWS)
    desk.write("fewer.jsonl", ROWS[:3])
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
        for number, line in enumerate(LINES.read_text().splitlines(), 1):
            command, *rest = shlex.split(line.format(M=M, S=S, C=C, F=F))
            if command == ":copy":
                shutil.copy(mine.path / rest[0], mine.path / rest[1])
                continue
            if command == ":remove":
                shutil.rmtree(mine.path / rest[0])
                continue
            said = mine.run(command, *rest)
            found[f"{number:03d} {line}"] = [said.code, said_lines(said.out), said_lines(said.err)]
    return found
