"""`tts-cli review` in a process of its own, and requests to it as any program can make them."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_process import Process, start

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


@dataclass
class Answer:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Review:
    """A running server."""

    process: Process
    address: str  # with the token

    @property
    def origin(self) -> str:
        return self.address.split("/", 3)[0] + "//" + self.address.split("/", 3)[2]

    def get(self, path: str = "", **headers: str) -> Answer:
        return request(self.address + path, headers)

    def post(self, name: str, values: Any, **headers: str) -> Answer:
        headers = {"content-type": "application/json", **headers}
        return request(f"{self.address}api/{name}", headers, json.dumps(values).encode())

    def decide(self, row: Mapping[str, Any], state: str, **more: Any) -> Answer:
        """Decide about a row of `folder()`, about its current take."""
        take = row["takes"][row.get("chosen", 0)]
        decision = {"id": row["id"], "take": take["take"], "sha256": take.get("sha256")}
        return self.post("decide", {**decision, "state": state, **more})

    def rows(self) -> dict[str, Any]:
        """The rows of the folder by id."""
        return {row["id"]: row for row in self.post("folder", None).json["rows"]}

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.process.kill()
        self.process.wait()


def request(address: str, headers: Mapping[str, str], data: bytes | None = None) -> Answer:
    asked = urllib.request.Request(
        address, data, {k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


RUN = "from tts_cli.__main__ import run; run()"
# A server that is killed before the n-th call that changes a file below a folder.
DEADLY = "import folder_calls; from tts_cli.__main__ import run; folder_calls.begin(); run()"


@contextmanager
def reviewing(
    out: Path, *flags: str, end: int = signal.SIGINT, kill: tuple[Path, int] | None = None
) -> Iterator[Review]:
    """Run `tts-cli review OUT --no-browser`; a signal ends it, unless the test has killed it.

    Args:
        kill: the server dies before the n-th call that changes a file below this folder.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    if kill is not None:
        plan = {"below": str(kill[0]), "result": "", "no_links": False, "do": "kill"}
        environment["FOLDER_CALLS"] = json.dumps({**plan, "how": {"at": kill[1]}})
    args = ["review", str(out), "--no-browser", *flags]
    process = start(RUN if kill is None else DEADLY, args, environment)
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    assert " review at " in line, process.stderr.read()
    try:
        yield Review(process, line.split()[-1])
    finally:
        was_killed = kill is not None or process.poll() is not None
        process.send_signal(end)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert was_killed or process.returncode == 128 + end, errors
        assert "Traceback" not in errors
