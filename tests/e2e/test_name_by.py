"""`--name-by`: names of delivered files, in the order of the manifest."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import soundfile
from cases import cases
from workbench import Result, Workbench

CASES = cases(__file__)["name_by"]

pytestmark = pytest.mark.slow

ROWS = [
    {"id": "zeta", "text": "Hello there.", "character": "Anna", "scene": "3"},
    {"id": "sub/alpha", "text": "Good morning.", "character": "Bob/B", "scene": "1"},
    {"id": "beta", "text": "And good night.", "character": "Anna", "scene": "1"},
]
NAMES = ["Anna/0001_zeta", "Anna/0003_beta", "Bob_B/0002_sub/alpha"]
PATTERN = "{character}/{n:04}_{id}"


@pytest.fixture
def wavs(bench: Workbench) -> Path:
    cast = bench.folder / "cast.toml"
    cast.write_text('"Anna".voice = "emil"\n"Bob/B".voice = "fang"\n', encoding="utf-8")
    bench.synth_once(ROWS, "--cast", cast, "--extra", "keep", "--max-seconds", 1)
    return bench.out().path


def audio(folder: Path, suffix: str) -> list[str]:
    found = folder.rglob(f"*.{suffix}")
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in found)


def export(bench: Workbench, wavs: Path, pattern: str, *flags: object) -> Result:
    out = bench.folder / "delivery"
    return bench.run("export", wavs, "--to", "files", "--name-by", pattern, "--out", out, *flags)


def test_encode_gives_rows_these_names(bench: Workbench, wavs: Path) -> None:
    game = bench.folder / "game"
    before = {path: path.read_bytes() for path in wavs.rglob("*") if path.is_file()}
    flags = ("--name-by", PATTERN, "--format", "flac", "--out", game)
    bench.run("encode", wavs, *flags).expect(0)
    assert audio(game, "flac") == NAMES
    frames = soundfile.info(wavs / "zeta.wav").frames
    assert soundfile.info(game / "Anna/0001_zeta.flac").frames == frames
    again = bench.run("encode", wavs, *flags)
    assert "0 files written, 3 already done" in again.out
    assert bench.run("check", game).code in (0, 1)
    assert {path: path.read_bytes() for path in wavs.rglob("*") if path.is_file()} == before


def test_earlier_names_were_rows_of_another_folder(bench: Workbench, wavs: Path) -> None:
    given = ("encode", wavs, "--format", "flac", "--out", bench.folder / "game", "--name-by")
    bench.run(*given, "{n:02}_{id}").expect(0)
    told = "also has 3 rows of other folders or earlier names, kept: "
    bench.run(*given, "{n:03}_{id}").expect(0, out=told)


def test_export_copies_and_lists_in_manifest_order(bench: Workbench, wavs: Path) -> None:
    export(bench, wavs, PATTERN).expect(0)
    delivery = bench.folder / "delivery"
    assert audio(delivery, "wav") == NAMES
    with open(delivery / "files.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["zeta", "sub/alpha", "beta"]
    assert [row["file"] for row in rows] == [
        "Anna/0001_zeta.wav",
        "Bob_B/0002_sub/alpha.wav",
        "Anna/0003_beta.wav",
    ]
    assert rows[1]["text"] == "Good morning."
    export(bench, wavs, "{scene}-{n}", "--overwrite").expect(0)
    assert audio(delivery, "wav") == ["1-2", "1-3", "3-1"]


@pytest.mark.parametrize(("pattern", "words"), CASES["what_is_refused_before_anything_is_written"])
def test_what_is_refused_before_anything_is_written(
    bench: Workbench, wavs: Path, pattern: str, words: str
) -> None:
    export(bench, wavs, pattern).expect(2, words)
    assert not (bench.folder / "delivery").exists()
    target = bench.folder / "game"
    bench.run("encode", wavs, "--name-by", pattern, "--out", target).expect(2, words)
    assert not target.exists()


def test_where_names_are_fixed(bench: Workbench, wavs: Path) -> None:
    bench.run("encode", wavs, "--name-by", "{n}").expect(2, "--out")
    out = bench.folder / "nemo"
    bench.run("export", wavs, "--to", "nemo", "--name-by", "{n}", "--out", out).expect(
        2, "--to files"
    )
