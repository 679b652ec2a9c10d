"""A disk that fills up, folders that go away, amid runs: nothing half-written stays.

    python tests/tools/disk_moments.py [--moments 10] [--rows 40] [--model DIR]

On a small tmpfs of its own (mounted in a mount namespace, which needs root or user namespaces):

- full: once a run has found room enough, the disk shrinks, so that it fills up amid the rows. The
  run must end with 4 and say why, and leave no partial file under a final name. Enlarged, the disk
  takes the same command again, and so on until all is done: the folder must then be what an
  undisturbed run makes, byte for byte.
- moved, removed, unmounted: after some rows the output folder goes away. The run must end with 4
  and say that the folder is gone. Brought back (or begun anew), the same command finishes it.

Ends with 1 at the first difference, and with 0 and a reason where nothing can be mounted.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from runs import (
    PATIENCE_S,
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

INSIDE = "TTS_TESTS_INSIDE"  # set where a mount namespace of our own is
GONE = "the output folder is gone"
FULL = "No space left on device"
LARGE = 1 << 28


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """A system command that must work."""
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)


def enter_namespace() -> str | None:
    """Start this script again where it may mount; why that cannot be, if it cannot."""
    for flags in (["--mount"], ["--map-root-user", "--mount"]):
        probe = ["unshare", *flags, "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
        try:
            found = subprocess.run(probe, capture_output=True, text=True)
        except FileNotFoundError:
            return "there is no unshare"
        if found.returncode == 0:
            again = ["unshare", *flags, sys.executable, *sys.argv]
            os.execvpe("unshare", again, {**os.environ, INSIDE: "1"})
    return found.stderr.strip()


class SmallDisk:
    """A tmpfs on a new folder, whose size may change."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={LARGE}", "none", place)

    def resize(self, size_bytes: int) -> None:
        """Make room, or leave less of it."""
        run("mount", "-o", f"remount,size={size_bytes}", self.place)

    def used_bytes(self) -> int:
        """What its files take."""
        return shutil.disk_usage(self.place).used

    def unmount(self) -> None:
        """Take it away, whoever still has files open."""
        run("umount", "--lazy", self.place)


def wait_for(is_reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for a state that a process brings about, or for its end."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_reached() and process.poll() is None:
        assert time.monotonic() < deadline_s, "it never came so far"
        time.sleep(0.002)


def fill(work: Work, wanted: dict[str, str], folder: Path, moments: int) -> str | None:
    """A disk that fills up about as often as asked; what is wrong, if anything is."""
    disk = SmallDisk(folder / "full")
    files = [path for path in (folder / "undisturbed").rglob("*") if path.is_file()]
    step = sum(path.stat().st_size + 4096 for path in files) // (moments + 1)
    out, code, num_full = disk.place / "out", 4, 0
    while code == 4:
        disk.resize(LARGE)
        rows = len(records_of(out))
        process = work.start(out)
        # The free space is looked at before the first row is spoken.
        wait_for(lambda count=rows: len(records_of(out)) > count, process)
        disk.resize(disk.used_bytes() + step)
        code, said = end_of(process)
        rows = len(records_of(out))
        print(f"full: {step} bytes more, exit {code}, {rows} rows recorded", flush=True)
        num_full += code == 4
        if problem := odd_word(said) or problem_amid(out, wanted):
            return problem
        if code == 4 and not (FULL in said and "make room" in said):
            return f"it does not say that the disk is full: {said[-500:]}"
        if code == 4 and list(out.rglob("*.part")):
            return "a part file was left"
    if code or not num_full:
        return f"exit {code} after a full disk {num_full} times: {said[-500:]}"
    problem = problem_at_end(out, wanted, work)
    disk.unmount()
    return problem


def lose(work: Work, wanted: dict[str, str], folder: Path, how: str, num_rows: int) -> str | None:
    """The folder goes away once so many rows are recorded; what is wrong, if anything."""
    disk = SmallDisk(folder / how)
    out, aside = disk.place / "out", disk.place / "aside"
    process = work.start(out)
    wait_for(lambda: len(records_of(out)) >= num_rows, process)
    actions: dict[str, Callable[[], object]] = {
        "moved": lambda: out.rename(aside),
        "removed": lambda: shutil.rmtree(out, ignore_errors=True),
        "unmounted": disk.unmount,
    }
    actions[how]()
    code, said = end_of(process)
    print(f"{how} after {num_rows} rows: exit {code}, {said.strip().splitlines()[-1]}", flush=True)
    problem = odd_word(said)
    if problem is None and (code != 4 or GONE not in said):
        problem = f"exit {code}: {said[-500:]}"
    if problem:
        return problem
    if how == "moved":
        shutil.rmtree(out, ignore_errors=True)
        aside.rename(out)
        problem = problem_amid(out, wanted)
    elif how == "unmounted":
        run("mount", "-t", "tmpfs", "none", disk.place)
    code, said = end_of(work.start(out))
    problem = problem or odd_word(said) or (f"exit {code}: {said[-500:]}" if code else None)
    problem = problem or problem_at_end(out, wanted, work)
    disk.unmount()
    disk.place.rmdir()
    return problem


def main() -> int:
    """Run the series."""
    parser = parser_of(__doc__, 40)
    parser.add_argument("--moments", type=int, default=10, help="of each kind")
    options = parser.parse_args()
    if INSIDE not in os.environ and (reason := enter_namespace()):
        print(f"skipped: nothing can be mounted here: {reason}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="disks-"))
    work = write_work(folder, options.rows, options.model)
    wanted, _ = speak_undisturbed(work, folder / "undisturbed")
    problem = fill(work, wanted, folder, options.moments)
    rng = random.Random(options.seed)
    for moment in range(3 * options.moments):
        if problem is None:
            how = ("moved", "removed", "unmounted")[moment % 3]
            problem = lose(work, wanted, folder, how, rng.randrange(1, options.rows // 2))
    if problem:
        print(f"WRONG: {problem}\nkept: {folder}")
        return 1
    print("every folder as if undisturbed")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
