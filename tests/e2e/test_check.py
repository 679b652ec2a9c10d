"""`tts-cli check` on folders that were spoken: verdicts, files, exit codes, and what follows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spoken_folders import TEXT, record, tone, with_file, write_folder
from workbench import MakeCheckpoint, Workbench

from tts_cli.app import check as app_check
from tts_cli.audio.file import encode
from tts_cli.checks import outliers
from tts_cli.checks.asr import sphinx
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult, Identity
from tts_cli.checks.folder_rows import read_folder
from tts_cli.checks.page.content import content_of
from tts_cli.checks.verdicts import MosScores, verdicts_by_take

ROWS = 12


class Ear:
    """A recognizer that hears what it was told of each file."""

    def __init__(self, said: dict[str, str], name: str = "ear 1") -> None:
        self.said = said
        self.identity = Identity(name, ("en",))
        self.asked: list[str] = []

    def run(self, asked: Iterable[AsrRequest]) -> Iterator[AsrResult]:
        for one in reversed(list(asked)):
            assert not hasattr(one, "text"), "it never sees the text"
            name = one.path.name
            self.asked.append(name)
            if self.said.get(name) == "stop":
                raise KeyboardInterrupt
            if not one.path.exists():
                yield AsrResult(one.place, problem="gone")
                continue
            digest = hashlib.sha256(one.path.read_bytes()).hexdigest()
            yield AsrResult(one.place, self.said.get(name, TEXT), digest)

    def close(self) -> None:
        """Nothing to give back."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve rows of one voice, all fine by what was measured but the second, which is loud."""
    rows = []
    for number in range(ROWS):
        sound = tone(0.4, hz=200 + number)
        line = record(f"r{number:02d}", language="english", audio_s=4 + number % 4 / 10)
        rows.append({**line, **with_file(sound)})
    rows[1]["level_dbfs"] = -3.0
    audio = {line["path"]: tone(0.4, hz=200 + number) for number, line in enumerate(rows)}
    return write_folder(tmp_path / "out", rows, audio=audio)


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Workbench:
    return Workbench(tmp_path, tmp_path, capsys)


def listens(monkeypatch: pytest.MonkeyPatch, ear: Ear) -> Ear:
    monkeypatch.setattr(sphinx, "Sphinx", lambda processes: ear)
    return ear


def test_without_a_recogniser(bench: Workbench, folder: Path) -> None:
    bench.run("check", folder).expect(
        1,
        out=[
            "loud (-3.0 dBFS; usual for clara: -20.0)",
            f"12 rows checked, 1 suspect; results: {folder / 'checks.jsonl'}",
            "--only suspects --takes 3",
            "only loudness, length and pauses were checked; add --asr to check the words",
        ],
    )
    checks = verdicts_by_take(folder)
    assert len(checks) == ROWS
    assert [key for key, check in checks.items() if check.is_suspect] == [("r01", 1)]


@pytest.mark.parametrize("variable", ["TTS_CLI_JSON", "TTS_CLI_CHECK_JSON"])
def test_json_of_a_variable_is_printed_with_q(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """-q silenced stdout although the variable asked for JSON."""
    monkeypatch.setenv(variable, "1")
    assert bench.run("check", folder, "-q").json["rows"] == ROWS
    monkeypatch.setenv(variable, "0")
    assert bench.run("check", folder, "-q").out == ""


def test_words_are_heard_once(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another recognizer, or audio that was replaced, is heard anew; stale lines go."""
    ear = listens(monkeypatch, Ear({"r03.wav": "nothing of the kind was ever here", "r04.wav": ""}))
    result = bench.run("check", folder, "--asr", "pocketsphinx", "--json").expect(
        1, "ear 1: 12 takes transcribed"
    )
    found = {row["id"]: row for row in result.json["suspects"]}
    assert sorted(found) == ["r01", "r03", "r04"]
    assert found["r03"]["heard"] == "nothing of the kind was ever here"
    assert {reason["kind"] for reason in found["r04"]["reasons"]} >= {"words", "less"}
    assert result.json["suspects"][0]["id"] == "r04", "the worst first"
    assert result.json["next"][0].endswith(f"--out {folder} --only suspects --takes 3")
    assert len(ear.asked) == ROWS
    before = (folder / "checks.jsonl").read_bytes()
    again = bench.run("check", folder, "--asr", "pocketsphinx", "--json")
    assert (len(ear.asked), again.json["heard"], again.json["kept"]) == (ROWS, 0, ROWS)
    assert (folder / "checks.jsonl").read_bytes() == before
    plain = bench.run("check", folder, "--json")
    assert plain.json["suspects"] == result.json["suspects"], "what was heard stays known"
    other = tone(0.5)
    (folder / "r03.wav").write_bytes(other)
    with open(folder / "timings.jsonl", "a") as file:
        line = record("r03", language="english", **with_file(other))
        file.write(json.dumps(line) + "\n")
    assert [row["id"] for row in bench.run("check", folder, "--json").json["suspects"]] == [
        "r04",
        "r01",
    ]
    assert verdicts_by_take(folder)[("r03", 1)].asr is None
    ear.said = {}
    bench.run("check", folder, "--asr", "pocketsphinx")
    assert ear.asked[ROWS:] == ["r03.wav"]
    second = listens(monkeypatch, Ear({}, "ear 2"))
    last = bench.run("check", folder, "--asr", "pocketsphinx", "--json")
    assert len(second.asked) == ROWS
    assert [row["id"] for row in last.json["suspects"]] == ["r01"]


def test_what_was_heard_survives_a_stop(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = listens(monkeypatch, Ear({"r05.wav": "stop"}))
    bench.run("check", folder, "--asr", "pocketsphinx").expect(130)
    heard = [key for key, check in verdicts_by_take(folder).items() if check.asr is not None]
    assert len(heard) == 6
    ear.said, ear.asked = {}, []
    bench.run("check", folder, "--asr", "pocketsphinx").expect(1)
    assert sorted(ear.asked) == [f"r{number:02d}.wav" for number in range(6)]


def test_what_cannot_be_heard_is_told(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in other languages, without text, gone while it listens, and edited ones."""
    lines = [json.loads(line) for line in (folder / "timings.jsonl").read_text().splitlines()]
    lines[2]["language"] = "german"
    lines[3]["text"] = None
    lines[4]["text"] = "..."
    write = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "timings.jsonl").write_text(write)
    (folder / "r06.wav").write_bytes(tone(0.3))
    ear = listens(monkeypatch, Ear({}))
    hear = ear.run

    def losing(asked: Iterable[AsrRequest]) -> Iterator[AsrResult]:
        (folder / "r07.wav").unlink()
        return hear(asked)

    monkeypatch.setattr(ear, "run", losing)
    result = bench.run("check", folder, "--asr", "pocketsphinx")
    for said in (
        "1 take in a language that the recognizer does not support",
        "2 takes without words, or without a text in timings.jsonl",
        "1 take changed since the run: the current content was transcribed",
        "row r07 could not be transcribed: gone",
    ):
        assert said in result.err
    assert len(ear.asked) == ROWS - 3


def with_takes(folder: Path, *, role: str = "own") -> None:
    """The third row has two more takes."""
    lines = [json.loads(line) for line in (folder / "timings.jsonl").read_text().splitlines()]
    lines[2]["role"] = role
    for take in (2, 3):
        sound = tone(0.4, hz=500.0 + take)
        path = f"takes/r02/{take}.wav"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(sound)
        changes = {"take": take, "role": "extra", "path": path, "seed": 7 + take}
        lines.append({**lines[2], **changes, **with_file(sound)})
    (folder / "takes/r02/1.wav").write_bytes((folder / "r02.wav").read_bytes())
    lines[2]["path"] = "takes/r02/1.wav"
    (folder / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


WRONG = "what is this supposed to be I wonder"
NEARLY = TEXT.replace("street", "straight")


def test_the_best_take_is_picked(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_takes(folder)
    listens(monkeypatch, Ear({"1.wav": WRONG, "r02.wav": WRONG, "2.wav": NEARLY}))
    told = bench.run("check", folder, "--asr", "pocketsphinx", "--json")
    assert told.json["takes"] == ROWS + 2
    suspects = {row["id"]: row for row in told.json["suspects"]}
    assert suspects["r02"]["better_take"] == 3
    assert told.json["next"][0] == f"tts-cli pick {folder} r02=3"
    shown = bench.run("check", folder)
    assert f"next: tts-cli pick {folder} r02=3\n" in shown.out
    picked = bench.run("check", folder, "--pick", "best")
    assert "r02: take 3 is now the current take" in picked.out
    assert (folder / "r02.wav").read_bytes() == tone(0.4, hz=503.0)
    assert "r02" not in {row["id"] for row in bench.run("check", folder, "--json").json["suspects"]}


def loud_takes(folder: Path, **changes: Any) -> None:
    """The loud row has three more takes, as loud unless something else is said of them."""
    lines = [json.loads(line) for line in (folder / "timings.jsonl").read_text().splitlines()]
    for take in (2, 3, 4):
        path = f"takes/r01/{take}.wav"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(tone(0.4, hz=600.0 + take))
        fields = {"take": take, "role": "extra", "path": path, "seed": take, **changes}
        lines.append({**lines[1], **with_file(tone(0.4, hz=600.0 + take)), **fields})
    (folder / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def next_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("next: ")]


def test_advice_ends_where_no_take_passed(bench: Workbench, folder: Path) -> None:
    """More takes were advised for ever."""
    assert len(next_lines(bench.run("check", folder).out)) == 1
    loud_takes(folder)
    result = bench.run("check", folder).expect(
        1, out="no take of r01 passed, of 4; look at its text\n"
    )
    assert next_lines(result.out) == []
    told = bench.run("check", folder, "--json").json
    assert (told["no_take_passed"], told["next"]) == (["r01"], [])
    add_line(
        folder,
        record("new", path=None, status="failed", error="its audio did not end within", frames=0),
    )
    told = bench.run("check", folder, "--json").json
    assert [line.split(" --out ")[1] for line in told["next"]] == [
        f"{folder} --only=new --takes 3"
    ], "only rows that more takes may help"


def test_a_row_whose_file_was_deleted_was_passed_over(bench: Workbench, folder: Path) -> None:
    """`check` counted the others, said nothing of it and exited with 0."""
    line = record("r01", language="english", audio_s=4.1)
    add_line(folder, {**line, **with_file(tone(0.4, hz=201))})  # as loud as the others
    bench.run("check", folder).expect(0)
    (folder / "r02.wav").unlink()
    result = bench.run("check", folder)
    result.expect(1, out=f"{ROWS - 1} rows checked, 0 suspect, 1 without the audio file (r02); ")
    assert len(next_lines(result.out)) == 1
    told = bench.run("check", folder, "--json").json
    assert (told["missing"], told["failed"]) == (["r02"], [])
    bench.run("check", folder, "--only", "r03").expect(0)


def test_takes_are_not_advised_after_a_greedy_run(bench: Workbench, folder: Path) -> None:
    """`synth` answered that every take would be the same, and `check` advised them again."""
    report = json.loads((folder / "run.json").read_text())
    report["settings"]["greedy"] = True
    (folder / "run.json").write_text(json.dumps(report))
    result = bench.run("check", folder)
    assert "no take of r01 passed, of 1; look at its text\n" in result.out
    assert next_lines(result.out) == []


def add_line(folder: Path, line: dict[str, Any]) -> None:
    with open(folder / "timings.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def test_rows_that_no_seed_helps_are_to_be_fixed(bench: Workbench, folder: Path) -> None:
    changes = {"path": None, "frames": 0, "seed": None, "attempts": 0, "text": ""}
    add_line(folder, record("#7", status="failed", error="text: is blank", **changes))
    result = bench.run("check", folder)
    assert "not synthesized: #7: text: is blank; fix that first\n" in result.out
    (line,) = next_lines(result.out)
    assert line.endswith(f" --out {folder} --only=r01 --takes 3")
    loud_takes(folder)
    (line,) = next_lines(bench.run("check", folder).out)
    assert line.endswith(f" --out {folder}"), "the manifest again, once its line is fixed"


def test_takes_of_an_earlier_text_are_not_advised(bench: Workbench, folder: Path) -> None:
    """They are no takes of what the row is now; the next run would drop the choice again."""
    loud_takes(folder, text="What the row said before.", level_dbfs=-20.0)
    (line,) = next_lines(bench.run("check", folder).out)
    assert line.endswith("--only suspects --takes 3")
    assert bench.run("check", folder, "--pick", "best", "--json").json["picked"] == []


def test_a_run_that_goes_on_names_its_manifest(bench: Workbench, folder: Path) -> None:
    """Its `run.json` comes at its end."""
    run = {"run_id": "1", "manifests": ["/books/lines.jsonl"], "settings": {"seed": 3}}
    (folder / "run.json").unlink(missing_ok=True)
    (folder / "runs.jsonl").write_text(json.dumps({**run, "totals": None}) + "\n")
    (line,) = next_lines(bench.run("check", folder).out)
    assert line.startswith("next: tts-cli synth /books/lines.jsonl --seed 3 --out ")
    (folder / "runs.jsonl").write_text(json.dumps({**run, "manifests": [], "totals": None}) + "\n")
    (line,) = next_lines(bench.run("check", folder).out)
    assert line.endswith(" (with your manifest in place of MANIFEST)"), "it came from a pipe"


def test_what_somebody_chose_stays(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_takes(folder, role="held")
    listens(monkeypatch, Ear({"1.wav": WRONG, "r02.wav": WRONG}))
    result = bench.run("check", folder, "--asr", "pocketsphinx", "--pick", "best", "--json")
    assert result.json["picked"] == []
    assert f"tts-cli pick {folder} r02=2" in result.json["next"]


def test_suspects_are_spoken_again(tmp_path: Path, checkpoint: Path, capsys: Any) -> None:
    """By `--only suspects`, as `check` names them, until their audio is replaced."""
    bench = Workbench(tmp_path, checkpoint, capsys)
    rows = [{"id": f"r{number}", "text": "Good morning to you."} for number in range(4)]
    bench.synth(rows, "--seed", 3).expect(0)
    out = bench.folder / "out"
    lines = {line["id"]: line for line in bench.out().lines}
    calm = ({**line, "clipped_share": 0.0, "suspect": []} for line in lines.values())
    (out / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in calm))
    check = {"id": "r2", "take": 1, "verdict": "suspect", "sha256": lines["r2"]["sha256"]}
    check["reasons"] = [{"kind": "words", "text": "all", "weight": 3.0}]
    stale = {**check, "id": "r3", "sha256": "00"}
    (out / "checks.jsonl").write_text(json.dumps(check) + "\n" + json.dumps(stale) + "\n")
    bench.synth(rows, "--seed", 3, "--only", "suspects", "--takes", 1).expect(0)
    takes = [line["id"] for line in bench.out().lines if line["take"] == 2]
    assert takes == ["r2"]


def test_opinions_are_asked_once(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that was heard before gets its scores, and keeps what was heard; a row far below its
    voice is suspect as `quality`, which the page and an export have.
    """

    class Rater(Ear):
        def run(self, asked: Iterable[AsrRequest]) -> Iterator[AsrResult]:
            for answer in super().run(list(asked)):
                mos = 2.0 if self.asked[-1] == "r05.wav" else 3.4 + answer.place / 100
                yield answer._replace(mos=MosScores("ear 1", mos, 3.6, 4.0, 3.7))

    rater = Rater({})
    monkeypatch.setattr(app_check, "Dnsmos", lambda: rater)
    listens(monkeypatch, Ear({}))
    bench.run("check", folder, "--asr", "pocketsphinx").expect(1)
    result = bench.run("check", folder, "--mos", "--json")
    assert "ear 1: 12 takes rated" in result.err
    found = {row["id"]: row for row in result.json["suspects"]}
    assert (sorted(found), found["r05"]["mos"]) == (["r01", "r05"], 2.0)
    assert found["r05"]["reasons"][0]["kind"] == "quality"
    assert found["r05"]["reasons"][0]["text"] == "2.0 of 5; usual: 3.5"
    again = bench.run("check", folder, "--mos", "--only", "r05", "--json")
    assert "0 takes rated; 1 rated earlier" in again.err
    assert len(rater.asked) == ROWS
    checks = verdicts_by_take(folder)
    assert all(check.asr and check.mos for check in checks.values())
    content = content_of(read_folder(folder), None)
    row = next(row for row in content["rows"] if row["id"] == "r05")
    assert (row["takes"][0]["mos"], row["reasons"][0][0]) == ([2.0, 3.6, 4.0, 3.7], "quality")
    assert content["charts"]["mos"]["voices"][0]["rows"] == ROWS
    bench.run("export", folder, "--to", "audiofolder", "--out", bench.folder / "set").expect(0)
    lines = (bench.folder / "set" / "train" / "metadata.jsonl").read_text().splitlines()
    assert {json.loads(line)["id"]: json.loads(line)["mos"] for line in lines}["r05"] == 2.0


def test_drift(
    bench: Workbench, make_checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the speaker encoder of a Base checkpoint; one row of another sound, and a part of a long
    one, stand out. To random weights all sounds are 0.98 alike, so less of a difference must do.
    """
    checks = [
        check._replace(minimum=0.01) if check.kind == "drift" else check
        for check in outliers.CHECKS
    ]
    monkeypatch.setattr(outliers, "CHECKS", checks)
    draw = np.random.default_rng(0)

    def sound(seconds: float, hz: float) -> Any:
        times = np.arange(round(seconds * 24_000)) / 24_000
        return 0.3 * np.sin(2 * np.pi * hz * times) + draw.normal(0, 0.003, len(times))

    sounds = {f"r{number:02d}": sound(1.5, 180 + number) for number in range(10)}
    sounds["odd"] = draw.normal(0, 0.2, 36_000)
    sounds["long"] = np.concatenate([sound(1.5, 190), draw.normal(0, 0.2, 36_000)])
    part = {"text_start": 0, "text_end": 9}
    parts = [{**part, "start_s": 0.0, "end_s": 1.5}, {**part, "start_s": 1.5, "end_s": 3.0}]
    rows, audio = [], {}
    for name, samples in sounds.items():
        content = encode(samples.astype(np.float32), 24_000, "wav", "PCM_16")
        more = {"parts": parts} if name == "long" else {}
        rows.append(record(name, **more, **with_file(content)))
        audio[f"{name}.wav"] = content
    out = write_folder(bench.folder / "out", rows, audio=audio)
    model = make_checkpoint("base")
    result = bench.run("check", out, "--drift", "--model", model, "--device", "cpu", "--json")
    found = {row["id"]: row["reasons"] for row in result.json["suspects"]}
    assert sorted(found) == ["long", "odd"]
    assert found["long"][0]["text"].startswith(
        "similarity of a piece to its voice 0.98; usual: 1.00"
    )
    checks = verdicts_by_take(out)
    assert checks["long", 1].similarity is not None
    assert checks["long", 1].similarity.lowest_part is not None
    assert checks["long", 1].similarity.lowest_part < checks["r00", 1].similarity.similarity  # type: ignore[union-attr]
    bench.run("check", out, "--drift", "--device", "cpu").expect(
        2,
        "--drift: sample voice has no speaker encoder; give a Qwen3-TTS Base "
        "checkpoint with --model",
    )


@pytest.mark.parametrize(
    ("flags", "said", "code"),
    [
        (("--only", "r99"), "--only: .* has no row 'r99'", 2),
        (("--asr-batch", 0), "--asr-batch must be", 2),
        (("--pick", "worst"), "'worst' is not", 2),
        (("--asr", "./none"), "the folder does not exist; give --asr pocketsphinx", 3),
    ],
)
def test_mistakes(bench: Workbench, folder: Path, flags: Any, said: str, code: int) -> None:
    result = bench.run("check", folder, *flags).expect(code)
    assert re.search(said, result.err), result.err
