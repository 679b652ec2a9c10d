"""Processes below another one, and whether they end (Linux)."""

from __future__ import annotations

import time
from pathlib import Path

GONE_S = 20.0  # that processes have to end
# Ray's own, which hold nothing; after a kill -9 of the driver they look for it for a minute.
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")


def processes_below(pid: int) -> dict[int, str]:
    """Command lines of a process's descendants (Linux)."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            stat = (folder / "stat").read_text()
            names[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    for one in parents:
        above = one
        while above > 1 and above != pid:
            above = parents.get(above, 0)
        if above == pid and one != pid:
            found[one] = names[one]
    return found


def workers_of(pid: int) -> list[int]:
    """Return the processes of the workers of a driver."""
    return sorted(one for one, name in processes_below(pid).items() if name.startswith("ray::W"))


def without_agents(processes: dict[int, str]) -> list[int]:
    """Return the processes that must end soon, even if their parent was killed."""
    return [pid for pid, name in processes.items() if not name.startswith(AGENTS)]


def are_gone(pids: list[int], within_s: float = GONE_S) -> bool:
    """Whether processes end within a while; zombies count as ended."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if not any(is_alive(pid) for pid in pids):
            return True
        time.sleep(0.1)
    return False


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
