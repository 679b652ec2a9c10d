"""A manifest that is cut, grown or emptied while it is spoken: no row vanishes unseen.

    python tests/e2e/manifest_moments.py [--moments 10] [--rows 40] [--seed 0] [--model DIR]

Each run is started over a manifest, which is changed at a random moment. The run must end with 4
and say so, or with 0 and every row of the manifest as it was before or after (the change then came
too late or early to matter), or with 2 and not a row spoken (it came before the check, which found
it bad or empty). What is recorded must be there, whole. Then the manifest is put in order, and the
same command must finish what an undisturbed run makes, byte for byte.

Ends with 1 at the first that does otherwise, and keeps its folder.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kill_moments import (
    Work,
    end_of,
    odd_word,
    parser_of,
    problem_amid,
    problem_at_end,
    records_of,
    speak_undisturbed,
    write_work,
)

SAYS = "was changed"


class Changes:
    """Runs over a manifest that does not stay.

    Args:
        work: its manifest has all rows; runs begin with three quarters of them.
        wanted: the files of the undisturbed run over all rows, which took `whole_s`.
    """

    def __init__(self, work: Work, wanted: dict[str, str], whole_s: float, seed: int) -> None:
        self.work = work
        self.wanted = wanted
        self.whole_s = whole_s
        self.ends: Counter[tuple[str, int]] = Counter()  # how, exit code
        self._all = work.manifest.read_bytes()
        lines = self._all.splitlines(keepends=True)
        self._begun = b"".join(lines[: len(lines) * 3 // 4])
        self._random = random.Random(seed)

    def run(self, how: str, out: Path) -> str | None:
        """One run, changed once; what is wrong, if anything is."""
        manifest = self.work.manifest
        manifest.write_bytes(self._begun)
        after = {
            "cut": self._begun[: self._random.randrange(1, len(self._begun))],
            "grown": self._all,
            "emptied": b"",
        }[how]
        moment_s = self._random.uniform(0, self.whole_s)
        process = self.work.start(out)
        time.sleep(moment_s)
        self._rewrite(how, after)
        code, said = end_of(process)
        self.ends[how, code] += 1
        done = {row_id for row_id, record in records_of(out).items() if record["status"] == "ok"}
        last = said.strip().splitlines()[-1] if said.strip() else ""
        print(f"{how} after {moment_s:.2f} s: exit {code}, {len(done)} rows, {last}", flush=True)
        return (
            odd_word(said)
            or self._problem(code, said, done, after)
            or problem_amid(out, self.wanted)
            or self._finish(out)
        )

    def _rewrite(self, how: str, after: bytes) -> None:
        """In place, as an editor or a script that still writes would."""
        with open(self.work.manifest, "r+b") as file:
            if how == "grown":
                file.seek(len(self._begun))
                file.write(after[len(self._begun) :])
            else:
                file.truncate(len(after))

    def _problem(self, code: int, said: str, done: set[str], after: bytes) -> str | None:
        if code == 4 and SAYS in said:
            return None
        if code == 2 and not done:
            return None
        num_lines = {self._begun.count(b"\n"), after.count(b"\n")}
        if code == 0 and done in [set(self.work.rows[:number]) for number in num_lines]:
            return None
        return f"exit {code} with {len(done)} rows: {said[-500:]}"

    def _finish(self, out: Path) -> str | None:
        """The whole manifest, spoken to its end."""
        self.work.manifest.write_bytes(self._all)
        code, said = end_of(self.work.start(out))
        problem = odd_word(said) or (f"exit {code}: {said[-500:]}" if code else None)
        return problem or problem_at_end(out, self.wanted, self.work)


def main() -> int:
    """Run the series."""
    parser = parser_of(__doc__, 40)
    parser.add_argument("--moments", type=int, default=10, help="of each kind")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="manifests-"))
    work = write_work(folder, options.rows, options.model)
    wanted, whole_s = speak_undisturbed(work, folder / "undisturbed")
    changes = Changes(work, wanted, whole_s, options.seed)
    for moment in range(options.moments):
        for how in ("cut", "grown", "emptied"):
            out = folder / f"{how}{moment}"
            if problem := changes.run(how, out):
                print(f"WRONG: {problem}\nkept: {out}")
                return 1
    for (how, code), count in sorted(changes.ends.items()):
        print(f"{how}: exit {code} {count} times")
    print("every folder as if undisturbed")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
