"""`synth --verify`: heard beside the speaking, suspects spoken again, the best take chosen."""

from __future__ import annotations

import json
import math
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import planted
import pytest
import soundfile
from fake_cluster import use_fake_cluster
from planted import KINDS, ByHeart, Planter
from workbench import Workbench, finish

from tts_cli import Speaker
from tts_cli.app import verify
from tts_cli.checks import outliers
from tts_cli.checks.asr import sphinx
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult
from tts_cli.cli import messages as msg
from tts_cli.errors import SetupError, StoppedEarly
from tts_cli.plan.checkpoint import sample_voice

WORDS = (
    *("river", "horses", "bridge", "lamps", "harbour", "letter"),
    *("morning", "apples", "gate", "clock", "tower", "noon"),
)
ROWS = [
    {"id": f"r{number:02d}", "text": f"The {one} was near every {WORDS[number * 5 % 11]} by now."}
    for number, one in enumerate([*WORDS, *WORDS[:6]])
]
FAULTS = {f"r{4 * place + 1:02d}": kind for place, kind in enumerate(KINDS)}
OTHER = "Nobody had told the old captain that his ship was sold."
FLAGS = ("--language", "english", "--max-seconds", 1, "--retries", 20)
RETRIED = msg.RETRIED.format(ids="")
VERIFY = ("--verify", "pocketsphinx")


@pytest.fixture(scope="module")
def checkpoint(longer: Path) -> Path:
    """One whose speech is seldom too short."""
    return longer


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads look sooner whether rows came; a batch still waits longer than for the next row."""
    for name, wait_s in (("IDLE_S", 0.1), ("LOOK_S", 0.005), ("WAIT_S", 0.01)):
        monkeypatch.setattr(verify, name, wait_s)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.jsonl"
    path.touch()
    return path


def verdicts(out: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """What checks.jsonl says of each take."""
    lines = (out / "checks.jsonl").read_text().splitlines()
    return {(line["id"], line["take"]): line for line in map(json.loads, lines)}


def heard(notes: Path) -> Counter[str]:
    """How often each audio was heard."""
    lines = map(json.loads, notes.read_text().splitlines())
    return Counter(line["heard"] for line in lines if "heard" in line)


def test_faults_of_first_takes_are_mended(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is left, good rows stay as they were spoken, and all is told."""
    Planter({}, notes).install(monkeypatch.setattr)
    bench.synth(ROWS, *FLAGS, out="good").expect(0)
    Planter(FAULTS, notes).install(monkeypatch.setattr)
    result = bench.synth(ROWS, *FLAGS, *VERIFY).expect(0)
    told = msg.VERIFIED.format(rows=msg.rows(18), right=13, fixed=len(FAULTS), suspect=0)
    assert told in result.out
    (line,) = (line for line in result.out.splitlines() if line.startswith(RETRIED))
    assert sorted(line.removeprefix(RETRIED).split(", ")) == sorted(FAULTS)
    good, files = bench.out("good").files, bench.out().files
    for row in ROWS:
        name = f"{row['id']}.wav"
        assert (files[name] == good[name]) == (row["id"] not in FAULTS)
    takes = {name for name in files if name.startswith("takes/")}
    records = bench.out().records
    assert takes == {
        f"takes/{row_id}/{take}.wav"
        for row_id in FAULTS
        for take in (1, 2, 3)
        if take != records[row_id]["take"]
    }
    assert max(heard(notes).values()) == 1
    verified = bench.out().report["verified"]
    assert (verified["rows"], verified["right"], verified["heard"]) == (18, 13, 18 + 10)
    assert (sorted(verified["mended"]), verified["suspect"]) == (sorted(FAULTS), [])
    bench.run("check", bench.out().path).expect(0)

    again = bench.synth(ROWS, *FLAGS, *VERIFY)
    assert (again.code, again.summary) == (0, msg.nothing_to_do(18))
    assert msg.VERIFIED.format(rows=msg.rows(18), right=18, fixed=0, suspect=0) in again.out
    assert bench.out().files == files
    assert (len(heard(notes)), sum(heard(notes).values())) == (28, 28), "nothing twice"


def test_faults_of_every_take_are_named(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1; the next command speaks other takes of these."""
    Planter(FAULTS, notes, on_every_take=True).install(monkeypatch.setattr)
    result = bench.synth(ROWS, *FLAGS, *VERIFY, "--retakes", 1).expect(1)
    named = [
        line.split(": ")[1]
        for line in result.out.splitlines()
        if msg.STILL_SUSPECT.partition("{")[0] in line
    ]
    assert sorted(named) == sorted(FAULTS)
    assert msg.NEXT_RETAKES.format(command="tts-cli synth ") in result.out
    before = bench.out().files
    assert len(bench.out().lines) == 18 + len(FAULTS), "one more take"
    told = bench.synth(ROWS, *FLAGS, *VERIFY, "--retakes", 1, "--json")
    assert (told.code, sorted(told.json["verified"]["suspect"])) == (1, sorted(FAULTS))
    assert told.json["totals"]["takes"] == len(FAULTS)
    after = bench.out().files
    assert {name: after[name] for name in before if name != "checks.jsonl"} == {
        name: data for name, data in before.items() if name != "checks.jsonl"
    }
    last = bench.synth(ROWS, *FLAGS, *VERIFY, "--retakes", 1).out
    assert all(f"no take of {row_id} passed; look at its text" in last for row_id in FAULTS)
    assert "next, for other takes" not in last


@pytest.mark.parametrize("on_every_take", [False, True])
def test_it_ends_as_four_commands(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch, on_every_take: bool
) -> None:
    """Byte by byte: verdicts, reasons, files, and which take is which row's, though threads come in
    another order each time.
    """
    kinds = {**FAULTS, "r02": "other", "r03": "cut"}
    Planter(kinds, notes, on_every_take).install(monkeypatch.setattr)
    planted.shuffle(on_every_take, monkeypatch.setattr)
    one = bench.synth(ROWS, *FLAGS, *VERIFY, "--retakes", 3, out="one").expect(int(on_every_take))
    four, asr = bench.out("four").path, ("--asr", "pocketsphinx")
    bench.synth(ROWS, *FLAGS, out="four").expect(0)
    bench.run("check", four, *asr).expect(1)
    bench.synth(ROWS, *FLAGS, "--only", "suspects", "--takes", 3, out="four")
    bench.run("check", four, *asr, "--pick", "best").expect(one.code)
    assert bench.out("one").files == bench.out("four").files
    chosen = [(bench.out(name).path / "takes.json").read_bytes() for name in ("one", "four")]
    assert chosen[0] == chosen[1]
    shown = [bench.run("pick", bench.out(name).path, "--json").json for name in ("one", "four")]
    assert shown[0] == shown[1]


def test_failed_rows_end_as_by_four_commands(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Path
) -> None:
    """A row that failed is spoken anew, and a further take of it may become its file."""
    rows = [*ROWS[:8], {"id": "long", "text": "There is far too much here for it. " * 4}]
    rows.append({"id": "bad", "text": " "})
    flags = (*FLAGS[:-2], "--retries", 0, "--skip-invalid")
    Planter({"r05": "cut"}, notes).install(monkeypatch.setattr)
    one = bench.synth(rows, *flags, *VERIFY, "--retakes", 4, out="one")
    four = bench.out("four").path
    bench.synth(rows, *flags, out="four").expect(1)
    bench.run("check", four, "--asr", "pocketsphinx").expect(1)
    bench.synth(rows, *flags, "--only", "suspects", "--takes", 4, out="four")
    last = bench.run("check", four, "--asr", "pocketsphinx", "--pick", "best", "--json")
    assert (one.code, last.code) == (1, 1)
    assert verdicts(bench.out("one").path) == verdicts(four)
    verified = bench.out("one").report["verified"]
    assert sorted(verified["failed"]) == sorted(last.json["failed"])
    assert verified["suspect"] == [found["id"] for found in last.json["suspects"]]
    totals = bench.out("one").report["totals"]
    assert totals["ok"] + totals["failed"] == totals["rows"] == len(rows)
    assert totals["failed"] == len(verified["failed"])


def test_a_recogniser_that_ends_leaves_what_it_heard(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are spoken; the next run hears the others."""
    Planter(FAULTS, notes).install(monkeypatch.setattr)
    hear = ByHeart.run

    def ends(self: ByHeart, asked: Iterable[AsrRequest | None]) -> Iterator[AsrResult]:
        yield from islice(hear(self, asked), 5)
        raise StoppedEarly("its process died", "run it again")

    monkeypatch.setattr(ByHeart, "run", ends)
    bench.synth(ROWS, *FLAGS, *VERIFY).expect(4, "its process died")
    assert len(bench.out().records) == 18
    monkeypatch.setattr(ByHeart, "run", hear)
    bench.synth(ROWS, *FLAGS, *VERIFY).expect(0)
    assert (len(heard(notes)), sum(heard(notes).values())) == (28, 28)


def test_nothing_is_spoken_where_none_can_hear(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    bench.synth(ROWS[:1], *VERIFY).expect(3, "needs pocketsphinx")
    bench.synth(ROWS[:1], "--verify", tmp_path / "nothing").expect(3)
    bench.run("say", "Hm.", "--model", bench.model, *VERIFY).expect(3)
    with pytest.raises(SetupError, match="the folder does not exist"):
        Speaker(bench.model, device="cpu", verify=tmp_path / "nothing")
    assert bench.out().lines == []


# Files are kept 18 times, heard 18 times beside that, then 10 of each, then 5 chosen.
LATER = (2, 7, 15, 25, 33, 38, 45, 49)
MOMENTS = [pytest.param(moment, marks=pytest.mark.long) for moment in LATER]


@pytest.mark.parametrize("moment", [22, *MOMENTS])
def test_a_killed_run_goes_on(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """What comes of it is the same, and nothing that was heard is heard again."""
    support = Path(planted.__file__).parent
    patch = f"sys.path.insert(0, {str(support)!r})\nfrom pathlib import Path\nimport planted\n"
    patch += f"planted.Planter({FAULTS!r}, Path({str(notes)!r})).install()\n"
    patch += f"planted.die_at({moment})"
    command = bench.command(bench.write(ROWS), *FLAGS, *VERIFY)
    finish(bench.start(command, patch)).expect(-signal.SIGKILL)
    Planter(FAULTS, notes).install(monkeypatch.setattr)
    bench.run(*command).expect(0)
    after = heard(notes)
    assert sum(after.values()) <= len(after) + 1, "but for the one that was heard at that moment"
    assert len(after) == 18 + 10
    whole = bench.synth(ROWS, *FLAGS, *VERIFY, out="whole")
    assert verdicts(bench.out().path) == verdicts(bench.out("whole").path)
    ours, theirs = bench.out().files, bench.out("whole").files
    for files in (ours, theirs):
        del files["checks.jsonl"]
    assert ours == theirs
    assert whole.code == 0


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pocketsphinx has heard: it hears the same in the same audio, and takes its time."""
    return tmp_path_factory.mktemp("heard")


@pytest.mark.long
@pytest.mark.parametrize("on_every_take", [False, True])
def test_the_sample_voice_is_verified(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, memory: Path, on_every_take: bool
) -> None:
    """By a real recognizer: of 600 rows one in twenty has a fault. All are mended, or named, hardly
    a good one is spoken again, and four commands end as one.
    """
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "tools")
    from planted_faults import MAX_ALARMS, plain_rows

    bench.run("say", OTHER, "-o", bench.folder / "other.wav", "--device", "cpu").expect(0)
    other, _ = soundfile.read(bench.folder / "other.wav", dtype="int16")
    rows = random.Random(7).sample(plain_rows(), 600)
    kinds = {row["id"]: KINDS[place % 5] for place, row in enumerate(rows[::20])}
    Planter(kinds, None, on_every_take, other=other).install(monkeypatch.setattr)
    monkeypatch.setattr(sphinx, "transcribe_one", partial(planted.hear_once, memory))
    model = sample_voice()
    result = bench.synth(rows, *VERIFY, "--json", model=model, out="one")
    verified = result.json["verified"]
    assert set(kinds) <= set(verified["suspect" if on_every_take else "mended"]), verified
    assert result.code == int(bool(verified["suspect"]))
    again = {*verified["mended"], *verified["suspect"]} - set(kinds)
    assert len(again) <= MAX_ALARMS * len(rows), again
    chosen = bench.run("pick", bench.out("one").path, "--json").json
    assert {take["id"] for take in chosen} <= {*kinds, *again}, "no other row has a second take"

    four, asr = bench.out("four").path, ("--asr", "pocketsphinx")
    bench.synth(rows, model=model, out="four").expect(0)
    bench.run("check", four, *asr).expect(1)
    flags = ("--only", "suspects", "--takes", 2)
    bench.synth(rows, *flags, model=model, out="four").expect(0)
    bench.run("check", four, *asr, "--pick", "best").expect(result.code)
    assert bench.out("one").files == bench.out("four").files
    assert bench.run("pick", four, "--json").json == chosen


def test_workers_speak_what_is_heard(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is spoken again; what comes of it is what comes of one process."""
    use_fake_cluster(monkeypatch)
    # Random speech is suspect in many ways: leave the checks of transcripts.
    checks = [check for check in outliers.CHECKS if check.kind in outliers.MEASURED_KINDS]
    monkeypatch.setattr(outliers, "CHECKS", checks)
    monkeypatch.setattr(outliers, "_of_run", lambda take: [])
    long = {"id": "long", "text": f"{ROWS[4]['text']} " * 4}
    flags = (*FLAGS, "--accept-truncated", *VERIFY)
    found = []
    for out, more in (("one", ()), ("many", ("--workers", 2))):
        Planter({"r01": "other", "long": "cut"}, notes, is_toned=False).install(monkeypatch.setattr)
        bench.synth([long], *flags, "--retakes", 0, out=out).expect(1)
        bench.synth([long, *ROWS[:4]], *flags, *more, out=out).expect(0)
        assert sorted(bench.out(out).report["verified"]["mended"]) == ["long", "r01"]
        found.append(bench.out(out).files)
    assert found[0] == found[1]
    assert [one["rows"] for one in bench.out("many").report["workers"]] == [2, 2], "of the last"


def test_a_book_is_heard(bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chapters are of the takes that were chosen."""
    path = bench.folder / "story.md"
    path.write_text("# Horses\n\nThe ferryman was near every river by now.\n\nHe waited for her.\n")
    book = ("book", path, "--model", bench.model, "--device", "cpu", *FLAGS[2:])
    Planter({}, notes).install(monkeypatch.setattr)
    bench.run(*book, "--out", bench.out("good").path).expect(0)
    text = (bench.out("good").path / "book.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    row_id = next(row["id"] for row in rows if "ferryman" in row["text"])
    Planter({row_id: "other"}, notes).install(monkeypatch.setattr)
    bench.run(*book, "--out", bench.out().path, *VERIFY).expect(0, out=f"{RETRIED}{row_id}")
    good, files = bench.out("good").files, bench.out().files
    assert files[f"takes/{row_id}/1.wav"] != files[f"{row_id}.wav"]
    assert files["01-horses.wav"] != good["01-horses.wav"]
    assert {name for name in good if files[name] == good[name]} >= {
        f"{row['id']}.wav" for row in rows if row["id"] != row_id
    }


TEXT = "The river was near every bridge by now."


def test_a_text_is_heard(bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`say` keeps the better take, or says that there is none."""
    path = bench.folder / "a.wav"
    say = ("say", TEXT, "-o", path, "--model", bench.model, "--device", "cpu", *FLAGS, "--json")
    Planter({}, notes).install(monkeypatch.setattr)
    good = bench.run(*say, *VERIFY)
    assert (good.code, good.json["verified"]["take"], good.json["suspect"]) == (0, 1, [])
    assert good.json["verified"]["heard"] == TEXT
    assert bench.run(*say).json["verified"] is None
    Planter({"say": "other"}, notes).install(monkeypatch.setattr)
    mended = bench.run(*say, *VERIFY)
    assert (mended.code, mended.json["verified"]["verdict"]) == (0, "ok")
    assert mended.json["verified"]["take"] > 1
    assert mended.json["seed"] != good.json["seed"]
    Planter({"say": "other"}, notes, on_every_take=True).install(monkeypatch.setattr)
    bad = bench.run(*say, *VERIFY)
    assert (bad.code, bad.json["verified"]["take"]) == (1, 1)
    assert "listen to it: " in bad.err
    assert "differ from the text" in bad.err
    assert max(heard(notes).values()) <= 3, "each take once a command"


def test_a_stream_is_heard(bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `Speaker` hands on better takes, whatever is heard first; and good ones as they were."""
    settings: dict[str, Any] = {"device": "cpu", "max_batch": 4, "language": "english"}
    settings |= {"max_seconds": 1.0, "retries": 20}
    monkeypatch.setattr(verify, "STALL_S", math.inf)  # rows wait for each other under any load
    found = []
    for is_ordered in (True, False):
        Planter(FAULTS, notes).install(monkeypatch.setattr)
        planted.shuffle(int(is_ordered), monkeypatch.setattr)
        with Speaker(bench.model, verify="pocketsphinx", **settings) as speaker:
            said = {one.id: one for one in speaker.batch(ROWS, ordered=is_ordered)}
            assert speaker.say(TEXT).verdict == "ok"
        found.append(
            {
                one.id: (one.take, one.verdict, one.suspect, one.heard, one.samples.tobytes())
                for one in said.values()
            }
        )
    assert found[0] == found[1]
    assert {row_id for row_id, one in found[0].items() if one[0] > 1} == set(FAULTS)
    assert {one[1] for one in found[0].values()} == {"ok"}


def test_a_stream_that_waits_for_its_results_goes_on(
    bench: Workbench, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows wait for each other, but not where the next one comes only behind a result."""
    monkeypatch.setattr(verify, "STALL_S", 0.2)
    came = threading.Semaphore(2)

    def rows() -> Iterator[dict[str, str]]:
        for row in cycle(ROWS):
            came.acquire()
            yield {**row, "id": f"{row['id']}-{next(count)}"}

    count = iter(range(10**6))
    Planter({}, notes).install(monkeypatch.setattr)
    with Speaker(
        bench.model, verify="pocketsphinx", device="cpu", max_seconds=1.0, retries=20
    ) as it:
        batch = it.batch(rows(), look_ahead=8)
        for speech in islice(batch, 5):
            assert speech.verdict == "ok"
            came.release()
        batch.close()
