"""Folders become data sets, and the libraries that read those give back every row."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from exports import READERS, check_read, read_audiofolder, size_of, sound, write_rows
from spoken_folders import RATE_HZ, record, run, tone, with_file, write_folder
from workbench import Result, Workbench, finish

from tts_cli.checks.verdicts import TakeVerdict, Transcript, write_verdicts
from tts_cli.checks.word_times import TimedWord, WordTimes
from tts_cli.store.lock import LOCK_NAME

SPLIT = ("--split", "train=0.7,valid=0.2,test=0.1")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def export(bench: Workbench, to: str, *flags: object, source: str = "wavs") -> Result:
    out = bench.folder / to
    return bench.run("export", bench.folder / source, "--to", to, "--out", out, *flags)


def exported(bench: Workbench, to: str, *flags: object) -> dict[str, Any]:
    """The statistics of an export that must come out well."""
    result = export(bench, to, *flags, "--json").expect(0)
    return result.json


def folder(bench: Workbench, *lines: dict[str, Any], **files: bytes) -> Path:
    audio = files or {line["path"]: tone(0.1) for line in lines if line["path"] is not None}
    return write_folder(bench.folder / "wavs", lines, audio=audio)


def ids(bench: Workbench, *flags: object) -> list[str]:
    """The rows of an export by NeMo's manifest."""
    exported(bench, "nemo", *flags, "--overwrite")
    manifest = bench.folder / "nemo" / "train_manifest.jsonl"
    return sorted(json.loads(line)["id"] for line in manifest.read_text().splitlines())


@pytest.mark.parametrize("to", READERS)
def test_read_back_by_the_libraries_of_its_users(bench: Workbench, to: str) -> None:
    wanted = write_rows(bench.folder / "wavs", 50)
    found = exported(bench, to, *SPLIT, "--link")
    assert check_read(to, bench.folder / to, wanted) == 50
    assert found["rows"] == 50
    assert sum(split["rows"] for split in found["splits"].values()) == 50
    assert set(found["splits"]) == {"train", "valid", "test"}
    linked = 50 if to in ("audiofolder", "nemo") else 0
    assert found["files_linked"] == linked
    assert found["files_changed"] == (50 if to == "ljspeech" else 0)
    assert not list((bench.folder / to).rglob("*.part"))


@pytest.mark.long
def test_5000_rows_read_back(bench: Workbench) -> None:
    wanted = write_rows(bench.folder / "wavs", 5000)
    for to in READERS:
        assert exported(bench, to, "--split", "train=0.95,valid=0.05")["rows"] == 5000
        assert check_read(to, bench.folder / to, wanted) == 5000
        assert size_of(bench.folder / to)[0] > 3


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_shards_are_bounded(bench: Workbench, to: str) -> None:
    big = tone(20.0)
    lines = [record(f"r{n}", text=f"{n}", **with_file(big)) for n in range(10)]
    write_folder(bench.folder / "wavs", lines, audio={line["path"]: big for line in lines})
    exported(bench, to, "--shard-mb", 1)
    shards = sorted((bench.folder / to / "data").iterdir())
    assert len(shards) == 4  # three files of 320 kB each
    assert all(path.stat().st_size < 1_010_000 for path in shards)
    assert len(list(READERS[to](bench.folder / to))) == 10
    # An export with fewer of them leaves none of the others.
    exported(bench, to, "--shard-mb", 2, "--overwrite")
    assert len(list((bench.folder / to / "data").iterdir())) == 2
    assert len(list(READERS[to](bench.folder / to))) == 10


def test_row_groups_are_bounded(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow.parquet import ParquetFile

    from tts_cli.export import parquet

    monkeypatch.setattr(parquet, "GROUP_BYTES", 5000)
    write_rows(bench.folder / "wavs", 20)
    exported(bench, "parquet")
    file = ParquetFile(bench.folder / "parquet" / "data" / "train-00000.parquet")
    groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    assert sum(group.num_rows for group in groups) == 20
    assert len(groups) >= 10
    features = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]
    assert features["audio"] == {"sampling_rate": RATE_HZ, "_type": "Audio"}


def test_filters(bench: Workbench) -> None:
    folder(
        bench,
        record("short", audio_s=0.5),
        record("long", audio_s=50.0, voice="dora", language="german"),
        record("code", language="de-AT"),
        record("nl", language="nl-NL"),
        record("odd", suspect=["too long"]),
        record("failed", status="failed", path=None),
        record("old", text=None),
        record("silence", finish_reason="wordless", text="..."),
    )
    everything = ["code", "long", "nl", "odd", "short"]
    assert ids(bench) == everything
    assert ids(bench, "--shortest", 1) == ["code", "long", "nl", "odd"]
    assert ids(bench, "--longest", 10) == ["code", "nl", "odd", "short"]
    assert ids(bench, "--voice", "dora") == ["long"]
    assert ids(bench, "--voice", "dora", "--voice", "clara") == everything
    assert ids(bench, "--language", "de") == ["code", "long"]
    assert ids(bench, "--language", "auto") == ["odd", "short"]
    assert ids(bench, "--language", "nl-BE") == ["nl"]
    assert ids(bench, "--no-suspects") == ["code", "long", "nl", "short"]
    found = exported(bench, "nemo", "--shortest", 1, "--no-suspects", "--overwrite")
    assert found["left_out"] == {
        "failed": 1,
        "its journal entry has no text": 1,
        "its text has no words": 1,
        "shorter than 1 s": 1,
        "suspect": 1,
    }


def test_errors_that_a_recogniser_heard(bench: Workbench) -> None:
    out = folder(bench, *(record(name, **with_file(tone(0.1))) for name in ("good", "bad", "deaf")))
    digest = with_file(tone(0.1))["sha256"]
    export(bench, "nemo", "--max-error", 0.1).expect(2, "tts-cli check")

    def heard(row_id: str, error: float, sha256: str = digest) -> TakeVerdict:
        asr = Transcript("whisper", "heard", error, "words", 10, 1)
        return TakeVerdict(row_id, 1, sha256, "suspect" if error > 0.5 else "ok", asr=asr)

    stale = heard("deaf", 0.0, "0" * 64)
    write_verdicts(out, [heard("good", 0.1), heard("bad", 0.6), stale])
    assert ids(bench, "--max-error", 0.1) == ["good"]
    assert ids(bench, "--max-error", 0.6) == ["bad", "good"]
    assert ids(bench, "--no-suspects") == ["deaf", "good"]
    exported(bench, "audiofolder")
    lines = (bench.folder / "audiofolder" / "train" / "metadata.jsonl").read_text().splitlines()
    errors = {row["id"]: row["error"] for row in map(json.loads, lines)}
    assert errors == {"good": 0.1, "bad": 0.6, "deaf": None}


def facts_of(bench: Workbench, to: str) -> list[dict[str, Any]]:
    """What an export says of its rows, in its order."""
    out = bench.folder / to
    if to == "parquet":
        from pyarrow.parquet import read_table

        (path,) = out.rglob("*.parquet")
        rows: list[dict[str, Any]] = read_table(path).to_pylist()
        return rows
    if to == "webdataset":
        with tarfile.open(next(out.rglob("*.tar"))) as tar:
            names = [name for name in tar.getnames() if name.endswith(".json")]
            return [json.loads(tar.extractfile(name).read()) for name in names]  # type: ignore[union-attr]
    name = "train_manifest.jsonl" if to == "nemo" else "train/metadata.jsonl"
    return [json.loads(line) for line in (out / name).read_text().splitlines()]


@pytest.mark.parametrize("to", ["audiofolder", "nemo", "webdataset", "parquet"])
def test_rows_are_as_in_the_manifest(bench: Workbench, to: str) -> None:
    """In its order, whichever thread wrote first, with characters and kept columns."""
    facts = {
        "scene9": {"character": "Anna", "extra": {"Notes": "low", "id": "7"}},
        "scene10": {"character": None, "extra": {"Take length": 3}},
        "added": {},
    }
    folder(bench, *(record(row_id, **facts[row_id]) for row_id in ("added", "scene10", "scene9")))
    manifest = bench.write("Line;Dialogue\nscene10;Yes.\ngone;No.\nscene9;Yes.\n", "script.csv")
    report = {
        "manifests": [str(manifest)],
        "settings": {"map": "Line=id,Dialogue=text", "extra": "keep", "seed": 3},
    }
    path = bench.folder / "wavs" / "run.json"
    path.write_text(json.dumps(report))
    exported(bench, to)
    rows = facts_of(bench, to)
    assert [row["id"] for row in rows] == ["scene10", "scene9", "added"]
    told = [[row.get(name) for name in ("character", "Notes", "Take length")] for row in rows]
    assert told == [[None, None, "3"], ["Anna", "low", None], [None, None, None]]
    assert rows[1]["extra_id"] == "7", "its own columns keep their names"
    manifest.unlink()
    exported(bench, to, "--overwrite")
    wanted = ["added", "scene9", "scene10"]
    assert [row["id"] for row in facts_of(bench, to)] == wanted, "as people count"


def test_kept_columns_are_no_files(bench: Workbench) -> None:
    """`datasets` looked for a file of that name, and read no row of the export."""
    extra = {"map_file_name": "a.map", "file_name": "b.map"}
    folder(bench, record("a", extra=extra, **with_file(tone(0.1))))
    exported(bench, "audiofolder")
    assert [row_id for row_id, _ in read_audiofolder(bench.folder / "audiofolder")] == ["a"]
    (row,) = facts_of(bench, "audiofolder")
    assert (row["extra_map_file_name_"], row["extra_file_name_"]) == ("a.map", "b.map")


@pytest.mark.parametrize("to", ["audiofolder", "parquet"])
def test_times_of_words(bench: Workbench, to: str) -> None:
    """Of the file that was exported, and of no other; read back as the hub's library does."""
    library = pytest.importorskip("datasets", reason="datasets comes with the dev extra")
    lines = [
        record(name, text=name.upper(), **with_file(tone(0.1)))
        for name in ("aligned", "stale", "no")
    ]
    out = folder(bench, *lines)
    words = [TimedWord("ALIGNED", 0.01, 0.09, None, 0, 7, "neighbours")]
    for name, sha256 in (("aligned", lines[0]["sha256"]), ("stale", "0" * 64)):
        times = WordTimes(name, 1, sha256, "an aligner", name.upper(), 0.1, 0.3, words, ["low"])
        (out / f"{name}.words.json").write_bytes(times.encode())
    exported(bench, to)
    kind, files = ("json", "*/metadata.jsonl") if to == "audiofolder" else (to, "data/*")
    read = library.load_dataset(kind, data_files=str(bench.folder / to / files), split="train")
    if to == "parquet":  # which knows it as audio
        read = read.cast_column("audio", library.Audio(decode=False))
    rows = {row["id"]: (row["words"], row["words_unsure"]) for row in read}
    word = {"word": "ALIGNED", "start": 0.01, "end": 0.09, "score": None}
    assert rows == {"aligned": ([word], True), "stale": (None, None), "no": (None, None)}


def test_only_files_that_are_what_was_written(bench: Workbench) -> None:
    content = tone(0.1)
    lines = [record(name, **with_file(content)) for name in ("good", "cut", "gone", "edited")]
    files = {"good.wav": content, "cut.wav": content[:-9], "edited.wav": tone(0.1, hz=300.0)}
    folder(bench, *lines, **files)
    for to in READERS:
        result = export(bench, to, "--json").expect(1)
        assert result.json["rows"] == 1
        assert result.json["left_out"] == {"its file is missing or has changed": 3}
    assert [path.name for path in (bench.folder / "nemo" / "audio").iterdir()] == ["good.wav"]


def test_takes(bench: Workbench) -> None:
    one, two = tone(0.1), tone(0.2)
    lines = [
        record("a", take=1, path="takes/a/1.wav", **with_file(one)),
        record("a", take=2, role="extra", path="takes/a/2.wav", audio_s=0.2, **with_file(two)),
        record("a", take=1, role="extra", path="takes/a/1.wav", **with_file(one)),
        record("a", take=2, role="held", path="takes/a/2.wav", audio_s=0.2, **with_file(two)),
        record("a-take1", path="a-take1.wav", **with_file(one)),
    ]
    files = {"takes/a/1.wav": one, "takes/a/2.wav": two, "a.wav": two, "a-take1.wav": one}
    folder(bench, *lines, **files)
    exported(bench, "nemo")
    audio = bench.folder / "nemo" / "audio"
    assert sorted(path.name for path in audio.iterdir()) == ["a-take1.wav", "a.wav"]
    assert (audio / "a.wav").read_bytes() == two
    assert exported(bench, "nemo", "--all-takes", "--overwrite")["rows"] == 3
    names = sorted(path.name for path in audio.iterdir())
    assert names[1:] == ["a-take1.wav", "a.wav"]
    assert re.fullmatch(r"a-take1-[0-9a-f]{10}\.wav", names[0])
    assert (audio / names[0]).read_bytes() == one


def test_another_rate(bench: Workbench) -> None:
    content = sound(3)
    flac = bench.folder / "x.flac"
    samples = soundfile.read(io.BytesIO(content), dtype="float32")[0]
    soundfile.write(flac, samples, RATE_HZ)
    lines = [
        record("a", **with_file(content)),
        record("b", path="b.flac", **with_file(flac.read_bytes())),
    ]
    folder(bench, *lines, **{"a.wav": content, "b.flac": flac.read_bytes()})
    exported(bench, "audiofolder")
    names = sorted(path.name for path in (bench.folder / "audiofolder" / "train").iterdir())
    assert names == ["a.wav", "b.flac", "metadata.jsonl"]
    exported(bench, "audiofolder", "--sample-rate", 16_000, "--overwrite")
    names = sorted(path.name for path in (bench.folder / "audiofolder" / "train").iterdir())
    assert names == ["a.wav", "b.wav", "metadata.jsonl"]
    for _, row in read_audiofolder(bench.folder / "audiofolder"):
        assert row.rate_hz == 16_000
        assert len(row.samples) == pytest.approx(2 * len(samples), abs=2)
    assert b"synthetic speech" in (bench.folder / "audiofolder" / "train" / "b.wav").read_bytes()
    found = exported(bench, "audiofolder", "--sample-rate", RATE_HZ, "--link", "--overwrite")
    assert (found["files_linked"], found["files_changed"]) == (1, 1)
    other = soundfile.read(bench.folder / "audiofolder" / "train" / "b.wav", dtype="float32")[0]
    assert np.array_equal(other, samples)


def test_the_card(bench: Workbench) -> None:
    yaml = pytest.importorskip("yaml")
    model = {"source": "/home/me/secret/ckpt", "family": "fish_speech", "identity": "abc123"}
    licence = "Fish Audio Research License"
    told = {"seed": 3, "preset": "acx", "speed": 1.2, "mark": "c2pa", "lexicon": "/home/me/l.tsv"}
    settings = {**told, "ref_root": "/home/me"}
    made = run(model={**model, "licence": licence}, settings=settings)
    lines = [record("a", language="no"), record("b", language="english", voice="a|b<x>")]
    write_folder(bench.folder / "wavs", lines, runs=[made])
    exported(bench, "parquet", "--split", "train=0.5,valid=0.5")
    card = (bench.folder / "parquet" / "README.md").read_text()
    _, head, body = card.split("---\n", 2)
    values = yaml.safe_load(head)
    assert values["language"] == ["en", "no"]
    assert values["license"] == "other"
    assert values["license_name"] == "fish-audio-research-license"
    assert values["size_categories"] == ["n<1K"]
    splits = {entry["split"]: entry["path"] for entry in values["configs"][0]["data_files"]}
    assert all(path == f"data/{name}-*" for name, path in splits.items())
    assert "All speech in this data set is synthetic: 2 rows" in body
    assert "Fish Audio Research License" in body
    assert r"a\|b\<x\>" in body
    assert "- source: ckpt" in body
    del told["lexicon"]  # a path
    last = body.split("Settings of the folder's last run:")[1]
    assert json.loads(re.search(r"{.*}", last)[0]) == told
    state = (bench.folder / "parquet" / "export.json").read_text()
    assert "/home/me" not in card + state


def test_the_folder_must_be_empty_or_ours(bench: Workbench) -> None:
    folder(bench, record("a"))
    (bench.folder / "nemo").mkdir()
    mine = bench.folder / "nemo" / "mine.txt"
    mine.write_text("mine")
    export(bench, "nemo").expect(2, "is not empty, and not an export")
    export(bench, "nemo", "--overwrite").expect(2)
    mine.unlink()
    exported(bench, "nemo")
    export(bench, "nemo", "--shortest", 1).expect(2, "add --overwrite")
    write_folder(bench.folder / "other", [record("a")])
    export(bench, "nemo", "--overwrite", source="other").expect(2, "is an export of another folder")
    for out in ("wavs/inside", "wavs", "."):
        bench.run("export", bench.folder / "wavs", "--to", "nemo", "-o", bench.folder / out).expect(
            2, "contain one another"
        )


def test_a_command_that_died_is_told(bench: Workbench) -> None:
    """`encode` was killed: its rows were left out as if they had failed, with exit code 0."""
    lines = [record("a", **with_file(tone(0.1))), record("b", text="b", **with_file(tone(0.1)))]
    wavs = folder(bench, *lines)
    (wavs / "b.wav").write_bytes(tone(0.2))  # the new file of its last entry has no name yet
    (wavs / LOCK_NAME).write_text("{}")
    result = export(bench, "nemo", "-q").expect(1)
    said = result.err.splitlines()
    assert said[0].endswith(
        "wavs: a command is writing there, or was killed: some of its rows may be left out"
    )
    assert "left out: 1, its file is missing or has changed" in said[1]
    assert (
        json.loads((bench.folder / "nemo" / "export.json").read_text())["statistics"]["rows"] == 1
    )


def test_no_row_is_left(bench: Workbench) -> None:
    folder(bench, record("a"))
    export(bench, "parquet", "--voice", "nobody").expect(2, "left out: 1 another voice")
    assert not list(bench.folder.glob("parquet*"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("train=0.5", "the shares must be positive and add up to 1"),
        ("train=0.5,test=0.6", "the shares must be positive and add up to 1"),
        ("a=0.5,A=0.5", "different names"),
        ("a=x,b=1", "not of the form NAME=SHARE"),
        ("../a=1", "is not a valid name"),
        ("a=nan,b=1", "must be positive"),
        ("", "is not a valid name"),
    ],
)
def test_splits_that_cannot_be(bench: Workbench, value: str, message: str) -> None:
    folder(bench, record("a"))
    export(bench, "nemo", "--split", value).expect(2, message)
    assert not (bench.folder / "nemo").exists()


def test_nothing_leads_outside(bench: Workbench) -> None:
    """A folder from a stranger: odd ids and paths, links, pipes, texts that are no Unicode."""
    secret = bench.folder / "secret"
    secret.mkdir()
    (secret / "s.wav").write_bytes(tone(0.3))
    good, other = with_file(tone(0.1)), with_file(tone(0.3))
    lines = [
        record("a", **{**good, "text": "half \ud800", "voice": "../../x"}),
        record("../secret/s", path="../secret/s.wav", **other),
        record("link", path="link.wav", **other),
        record("sub/s", path="sub/s.wav", **other),
        record("b", path="../secret/s.wav", **other),
        record("pipe", **other),
    ]
    wavs = folder(bench, *lines, **{"a.wav": tone(0.1)})
    (wavs / "link.wav").symlink_to(secret / "s.wav")
    (wavs / "sub").symlink_to(secret)
    os.mkfifo(wavs / "pipe.wav")
    for to in READERS:
        result = export(bench, to, "--json").expect(1)
        assert result.json["rows"] == 1
        assert sum(result.json["left_out"].values()) == 4  # and one line makes no sense
        assert not any(path.is_symlink() for path in (bench.folder / to).rglob("*"))
    assert sorted(path.name for path in secret.iterdir()) == ["s.wav"]


def test_without_pyarrow(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    folder(bench, record("a"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    export(bench, "parquet").expect(3, "pyarrow>=16")
    export(bench, "webdataset").expect(0)


STOPPED = """
import os, time
from tts_cli import signals
count, check = 12, signals.check
def stop():
    global count
    count -= 1
    if not count:
        os.kill(os.getpid(), 15)
        time.sleep(0.2)
    check()
signals.check = stop
"""


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_stopped_midway_there_is_no_data_set(bench: Workbench, to: str) -> None:
    wanted = write_rows(bench.folder / "wavs", 20)
    out = bench.folder / to
    args = ["export", str(bench.folder / "wavs"), "--to", to, "--out", str(out)]
    finish(bench.start(args, STOPPED)).expect(143)
    assert not list(bench.folder.glob(f"{to}*"))
    bench.run(*args).expect(0)
    assert check_read(to, out, wanted) == 20
