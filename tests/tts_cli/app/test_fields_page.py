"""The page of fields: its tables are what is written into files, its examples run.

That its words are those of the code, `tests/samples/test_evidence.py` tries.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from kernels.launch.dispatch import AUTO
from tts_cli import startup
from tts_cli.app.run_report import report_of
from tts_cli.app.totals import run_totals
from tts_cli.audio.join import JoinedPart
from tts_cli.audio.treatment import PostProcessReport
from tts_cli.book.book_file import MadeBook, MadeFile, write_book_file
from tts_cli.book.chapter_audio import JoinedChapter, SpeechSpan
from tts_cli.book.utterances import BookPauses, segment_book
from tts_cli.checks.outliers import KINDS
from tts_cli.checks.reviews import Decision
from tts_cli.checks.verdicts import OK as FINE
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.checks.word_times import TimedWord, WordTimes
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Remark, Result, Role, Status
from tts_cli.engine import load
from tts_cli.engine.loop import Engine
from tts_cli.engine.made_voices import _keep as keep_made
from tts_cli.engine.pieces import part_facts
from tts_cli.engine.session import SessionFacts
from tts_cli.events import Event, Events
from tts_cli.plan.free_voices import FreeVoices
from tts_cli.plan.plan import Plan
from tts_cli.sources.chapters import Book, Chapter, Paragraph
from tts_cli.store.entry import FIELDS, JournalEntry
from tts_cli.store.journal import Journal
from tts_cli.store.run_file import FolderTotals, RunLog, with_folder, write_report
from tts_cli.store.sources import AudioSource
from tts_cli.store.store import _choice
from tts_cli.voices.voice_store import VoiceStore
from tts_cli.workers.worker_handle import WorkerHandle

PAGE = (Path(__file__).parents[3] / "samples" / "guide" / "fields.md").read_text()
TABLES = {
    name: re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    for name, table in re.findall(r"<!-- fields:(\w+) -->(.*?)<!-- / -->", PAGE, re.DOTALL)
}
STARTED = "2026-11-22T13:05:00.250Z"
OK = JournalEntry(
    "000001", Status.OK, run_id="r1", path="000001.wav", voice="clara", seed=2**53 - 1,
    audio_s=90.0, frames=1125, frames_per_char=1.5, started=STARTED, latency_ms=1500.0,
    level_dbfs=-20.0, clipped_share=0.0, silence_inside_s=0.3,
)  # fmt: skip
ROWS = [
    replace(OK, status=Status.FAILED, error="no end"),
    OK,
    replace(OK, id="000002", path="000002.wav", audio_s=30.0, clipped_share=0.01),
    replace(OK, id="b", voice="emil", path="b.wav", silence_inside_s=1.5, frames_per_char=0.5),
    JournalEntry("c", Status.FAILED, error="text: is blank", run_id="r1"),
]
FIRST = '{"id": "a", "status": "ok", "voice": "emil", "audio_s": 60.0, "request_hash": "h"}\n'


EVENTS = Events()
for _ in range(3):
    EVENTS.add(Event.SYNTHESIZED, audio_s=70.0)


@pytest.fixture
def report(make_source: Any, make_info: Any) -> dict[str, Any]:
    return report_of(
        Plan(make_source("Hm.\n", "m.txt"), RunConfig(), make_info()),
        None,
        run_totals(EVENTS, wall_s=4.0),
        run_id="r1",
        started=datetime(2026, 11, 22, tzinfo=timezone.utc),
        exit_code=1,
        facts=SessionFacts(device={"device": "cpu"}),
    )


@pytest.fixture
def out(tmp_path: Path, report: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one run, and the working folder."""
    with Journal(tmp_path) as journal:
        journal.append(*ROWS)
        runs = RunLog(tmp_path)
        runs.append(report)
        write_report(tmp_path, with_folder(report, runs.totals(journal.totals())))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def book(tmp_path: Path) -> dict[str, Any]:
    """What is written of a book of one sentence."""
    text = Book((Chapter("One", (Paragraph("It rained.", "a.md:1"),)),))
    audio = JoinedChapter(24_000, 24_000, (SpeechSpan(0.25, 0.75, 0.1),))
    made = MadeBook({0: (MadeFile("01-one.wav", "k", 48_044), audio)})
    write_book_file(tmp_path, text, segment_book(text, BookPauses()), made, set())
    found: dict[str, Any] = json.loads((tmp_path / "book.json").read_text())
    return found


def made_voice(out: Path, ask: Any, info: Any) -> dict[str, Any]:
    """What is written of a voice that a run has made."""
    made = VoiceStore(out=out)
    voices: Any = SimpleNamespace(
        made=made, maker=SimpleNamespace(info=info), config=RunConfig(seed=1)
    )
    task: Any = SimpleNamespace(row=SimpleNamespace(text="Hm."), request=SimpleNamespace())
    task.request.language = "english"
    spoken = Result(samples=np.zeros(9, np.float32), codes=np.zeros((1, 2), np.int64))
    keep_made(ask, task, spoken, voices)
    found: dict[str, Any] = json.loads(next((out / ".voices").glob("*.json")).read_text())
    return found


def gpu_facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is written of a GPU, with one that is none."""
    gpu = SimpleNamespace(name="GPU", total_memory=1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 1)
    loaded: Any = SimpleNamespace(
        device=torch.device("cuda"),
        dtype=torch.float32,
        batch=SimpleNamespace(rows=1, is_fixed=False),
        model=SimpleNamespace(graph_runners=list, kernels=AUTO),
        recorded=(0, 0.0),
        step_downs=0,
        memory={},
    )
    counts = dict.fromkeys(("steps", "row_steps", "padded_steps", "sparse_steps"), 0)
    engine: Any = SimpleNamespace(**counts, shrinks=0, fall_backs=0)
    return {**load.Loaded.facts(loaded), **Engine.facts(engine), "busy_share": None}


def test_tables_are_what_is_written(
    tmp_path: Path,
    report: dict[str, Any],
    book: dict[str, Any],
    make_info: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = with_folder(report, FolderTotals(1, 1, 1.0, 1, 1.0))
    piece: Any = SimpleNamespace(written=(0, 1), boundary=None)
    kept = AudioSource("audio", tmp_path / "a.wav", 1, None).as_source(tmp_path, tmp_path)
    ask: Any = SimpleNamespace(voice=".voices/a", character="Ann", description=None, shown="Ann")
    wanted: Any = SimpleNamespace(asks={"a": ask}, config=RunConfig())
    ask.rows, ask.is_gone = 1, False
    names: dict[str, Iterable[str]] = {
        "timings": FIELDS,
        "status": Status,
        "role": Role,
        "finish": Finish,
        "remark": Remark._fields,
        "part": part_facts(piece, Result(error="no end"), JoinedPart(0, 1), 24_000),
        "applied": PostProcessReport(is_own_pace=True).as_dict(),
        "source": kept,
        "run": written,
        "wanted_voice": FreeVoices.facts(wanted)[0],
        "start": startup.MOMENTS,
        "device": gpu_facts(monkeypatch),
        "totals": written["totals"],
        "worker": WorkerHandle(1, None).facts(),
        "text": written["text"],
        "folder": written["folder"],
        "checks": json.loads(TakeVerdict("a", 1, "00", FINE).to_line()),
        "kind": KINDS,
        "reviews": Decision.__struct_fields__,
        "words": WordTimes.__struct_fields__,
        "timed_word": TimedWord.__struct_fields__,
        "choice": json.loads("{" + _choice(OK) + "}")["000001"],
        "book": book,
        "chapter": book["chapters"][0],
        "sentence": book["chapters"][0]["sentences"][0],
        "made_voice": made_voice(tmp_path, ask, make_info()),
    }
    assert list(TABLES) == list(names)
    for name, found in names.items():
        assert sorted(TABLES[name]) == sorted(map(str, found)), name


def test_lines_have_these_fields(out: Path) -> None:
    for line in (out / "timings.jsonl").read_text().splitlines():
        assert tuple(json.loads(line)) == FIELDS
    run = json.loads((out / "runs.jsonl").read_text())
    assert {*run, "folder"} == {*TABLES["run"]}


def jq(command: str) -> list[Any]:
    """What one line of the page prints: with -r texts, else values."""
    program = pytest.importorskip("jq", reason="jq comes with the dev extra")
    _, *options, source, name = shlex.split(command)
    text = Path(name).read_text()
    values = [json.loads(line) for line in text.splitlines()] if ".jsonl" in name else [text]
    if name.endswith(".json"):
        values = [json.loads(text)]
    if any("s" in option for option in options):
        values = [values]
    compiled = program.compile(source)
    return [found for value in values for found in compiled.input_value(value).all()]


def test_jq(out: Path) -> None:
    """A line of the first version, which has no `take`, changes nothing of it."""
    with open(out / "timings.jsonl", "a") as file:
        file.write(FIRST)
    commands = [line.strip() for line in PAGE.splitlines() if line.startswith("    jq ")]
    failed, minutes, listen, runs, speed, ended = commands
    assert jq(failed) == ["c\ttext: is blank"]
    assert jq(minutes) == [["clara", 2.0], ["emil", 2.5]]
    assert jq(listen) == ["000002.wav", "b.wav"]
    assert jq(runs) == ["r1\t1\t3\t52.5"]
    assert jq(speed) == [52.5]
    moment = datetime(2026, 11, 22, 13, 5, 1, 500_000, timezone.utc).timestamp()
    spoken = ["000001", "000001", "000002", "b"]
    assert jq(ended) == [[row_id, moment] for row_id in spoken]


def test_pandas(out: Path) -> None:
    pytest.importorskip("pandas", reason="pandas comes with the dev extra")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    rows = names["rows"]
    assert list(rows.index) == ["000001", "000002", "b", "c"]
    assert list(rows["status"]) == ["ok", "ok", "ok", "failed"]
    assert int(rows["seed"]["000001"]) == 2**53 - 1, "above that, a missing seed rounds the others"
    assert rows["started"]["000001"].isoformat() == "2026-11-22T13:05:00.250000+00:00"
    assert names["by_voice"]["audio_s"].to_dict() == {"clara": 60.0, "emil": 90.0}
    assert list(names["fast"].index) == ["b"]
    assert names["runs"]["totals.audio_s"].tolist() == [210.0]
