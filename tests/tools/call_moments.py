"""kill -9 before every call that changes a folder, of every command that does: no speech is lost.

    python tests/tools/call_moments.py [--sample N] [--only encode,pick] [--part 1/8] [--no-links]

In copies of a worn folder (see `folder_cases.py`) each command is killed before its first change
to the disk (a file opened for writing, written, synced, renamed, linked, removed, a folder made or
removed), before its second, and so on, at `--sample` of them or all. Then the same command runs,
and then others: most often `synth` with another text in every second row. With `--no-links` hard
links fail, as on some file systems.

After each command, the folder must have a file with the content of everything that was reported ok
before, and of every file that a user edited; no number of a take may stand for two speeches. The
same command must end as it does undisturbed, and in the end each row's file must be what it is
then. A file of another format or level may go if it can be made again.
"""

from __future__ import annotations

import argparse
import sys

from folder_cases import CASES, Series, chosen, differences, files_of_rows, run_cases


def run_case(series: Series, options: argparse.Namespace) -> tuple[int, list[str]]:
    """Kill a command again and again; returns how often, and what was wrong."""
    case, place, problems = series.case, series.place, []
    undisturbed = series.begin()
    assert not undisturbed.learn(first=True)
    first = place.run(*case.command(place))
    assert first.code in (0, 1), first.said
    codes, problem = series.follow(undisturbed)
    if problem:
        problems.append(f"undisturbed: {problem}")
    wanted, num_calls = files_of_rows(place), first.found["calls"]
    moments = chosen(list(range(1, num_calls + 1)), options)
    for moment in moments:
        found = series.begin()
        problem = found.learn(first=True)
        place.run(*case.command(place), at=moment)
        problem = problem or found.learn()
        if not problem:
            again, problem = series.follow(found)
            if not problem and (again[0] not in (first.code, codes[0]) or again[1:] != codes[1:]):
                problem = f"exit codes {again}, undisturbed {codes}"
            if not problem and (names := differences(files_of_rows(place), wanted)):
                problem = f"other files than undisturbed: {', '.join(names)}"
        if problem:
            problems.append(f"killed before call {moment} of {num_calls}: {problem}")
    return len(moments), problems


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, tuple(case.name for case in CASES), run_case))
