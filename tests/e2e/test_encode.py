"""Other formats and levels of what was spoken: nothing is spoken for them, nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyloudnorm
import pytest
import soundfile
from made_voices import keep, names
from workbench import Result, Store, Workbench, forbid_weights

from tts_cli.checks.word_times import TimedWord, WordTimes, read_words
from tts_cli.cli import messages as msg
from tts_cli.named import counted

ROWS = [
    {"id": "one", "text": "Hello there."},
    {"id": "sub/two", "text": "Good morning, all of you.", "voice": "emil"},
    {"id": "three", "text": "Größe, Straße", "seed": 5},
]
IDS = [str(row["id"]) for row in ROWS]
CAP = ("--max-seconds", 1)
MADE_3 = msg.NOTHING_BUT_CONVERTED.format(files=counted(3, "file")) + "\n"

pytestmark = pytest.mark.slow


def runs_of(out: Store) -> set[str]:
    """The runs that spoke what the folder holds."""
    return {record["run_id"] for record in out.records.values()}


def encode(bench: Workbench, *flags: object, source: str = "out", to: str | None = None) -> Result:
    into = () if to is None else ("--out", bench.folder / to)
    return bench.run("encode", bench.folder / source, *into, *flags)


FORMATS: list[tuple[tuple[object, ...], str, str, int]] = [
    (("--format", "flac"), ".flac", "PCM_16", 24_000),
    (("--format", "flac", "--subtype", "PCM_24"), ".flac", "PCM_24", 24_000),
    (("--format", "opus"), ".opus", "OPUS", 24_000),
    (("--format", "ogg"), ".ogg", "VORBIS", 24_000),
    (("--format", "mp3"), ".mp3", "MPEG_LAYER_III", 24_000),
    (("--subtype", "ULAW", "--sample-rate", 8_000), ".wav", "ULAW", 8_000),
    (("--subtype", "ALAW", "--sample-rate", 8_000), ".wav", "ALAW", 8_000),
]


def test_a_changed_format_speaks_nothing(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.synth_once(ROWS, *CAP)
    out = bench.out()
    spoken, before = runs_of(out), {name: out.samples(f"{name}.wav") for name in IDS}
    forbid_weights(monkeypatch)
    planned = bench.synth(ROWS, *CAP, "--format", "flac", "--dry-run")
    assert ": ".join(msg.PLAN_PENDING).format(rows=msg.rows(0)) in planned.out
    assert (
        ": ".join(msg.PLAN_CONVERTED).format(parts=msg.PLAN_FROM_AUDIO.format(count=3))
        in planned.out
    )
    for flags, suffix, subtype, rate_hz in FORMATS:
        result = bench.synth(ROWS, *CAP, *flags)
        assert (result.code, result.out) == (0, MADE_3)
        assert runs_of(out) == spoken
        for name, record in out.records.items():
            assert record["path"] == f"{name}{suffix}"
            with soundfile.SoundFile(out.path / record["path"]) as file:
                found, told = (file.samplerate, file.channels, file.subtype), file.copy_metadata()
            assert found == (rate_hz, 1, subtype)
            assert (told["title"], told["artist"]) == (name, record["voice"])
            assert told["comment"].startswith("synthetic speech; model qwen3_tts")
            original, _ = soundfile.read(out.path / record["source"]["path"], dtype="float32")
            assert np.array_equal(original, before[name])
            if suffix == ".flac" and subtype == "PCM_16":
                assert np.array_equal(out.samples(record["path"]), before[name])
    assert bench.synth(ROWS, *CAP, *FORMATS[-1][0]).out.startswith(msg.nothing_to_do(3))
    assert bench.synth(ROWS, *CAP, "--forget", "all").out == MADE_3
    assert all(np.array_equal(out.samples(f"{name}.wav"), before[name]) for name in IDS)


def test_one_level_after_the_other(bench: Workbench, longer: Path) -> None:
    """A second level is made of what was spoken, not of the first one's file."""
    bench.model = longer  # what is very short has no loudness
    bench.synth_once(ROWS, *CAP)
    out = bench.out()
    raw = out.samples("one.wav")
    for lufs in (-23, -17, -20):
        chain = ("--loudness", lufs, "--highpass", 60, "--trim", "--pad", "0.5,0.75")
        assert bench.synth(ROWS, *CAP, *chain).out.startswith(
            msg.NOTHING_BUT_CONVERTED.format(files=counted(3, "file"))
        )
        record = out.records["one"]
        assert record["source"]["path"] == "takes/one/1.source.wav"
        assert np.array_equal(out.samples("takes/one/1.source.wav"), raw)
        samples = out.samples("one.wav")
        assert record["audio_s"] == pytest.approx(len(samples) / 24_000, abs=1e-4)
        meter = pyloudnorm.Meter(24_000)
        assert meter.integrated_loudness(samples.astype(np.float64)) == pytest.approx(lufs, abs=0.1)
        applied = record["applied"]
        assert (applied["level_by"], applied["highpass_hz"]) == ("lufs", 60)
        assert applied["after_db"] == pytest.approx(lufs, abs=0.05)
        assert (applied["pad_start_s"], applied["pad_end_s"]) == (0.5, 0.75)
        assert not samples[: 24_000 // 2].any()
    # What the row's text has become is another matter.
    rows = [{**ROWS[0], "text": "Something else."}, *ROWS[1:]]
    result = bench.synth(rows, *CAP, *chain)
    assert result.summary == msg.synthesized(1, 3, done=2)
    # The old one is kept as a take, and what its file was made of with it.
    assert (out.path / "takes" / "one" / "1.wav").exists()
    assert (out.path / "takes" / "one" / "1.source.wav").exists()
    bench.run("pick", out.path, "one=1").expect(0)
    encode(bench).expect(0)
    assert np.array_equal(out.samples("one.wav"), raw)


def test_lossy_rows_come_from_their_codes(bench: Workbench) -> None:
    bench.synth_once(ROWS, *CAP, out="wanted")
    bench.synth(ROWS, *CAP, "--format", "mp3", "--save-codes").expect(0)
    spoken = runs_of(bench.out())
    result = bench.synth(ROWS, *CAP, "--forget", "all")
    assert result.out == MADE_3
    assert runs_of(bench.out()) == spoken
    wanted = bench.out("wanted").files
    assert {name: bench.out().files[f"{name}.wav"] for name in IDS} == {
        name: wanted[f"{name}.wav"] for name in IDS
    }
    assert {record["source"]["kind"] for record in bench.out().records.values()} == {"codes"}


def test_long_rows_come_from_their_codes(bench: Workbench) -> None:
    text = "The first sentence stands here. " * 6
    rows = [{"id": "long", "text": text}]
    flags = ("--split", 60, "--accept-truncated", "--save-codes")
    bench.synth(rows, *flags).expect(0)
    assert len(bench.out().records["long"]["parts"]) > 2
    encode(bench, to="again").expect(0)
    wanted = bench.out().files["long.wav"]
    assert bench.out("again").files["long.wav"] == wanted
    (bench.out().path / "long.wav").unlink()
    encode(bench, to="codes").expect(0)
    assert bench.out("codes").records["long"]["source"]["kind"] == "codes"
    assert bench.out("codes").files["long.wav"] == wanted
    encode(bench, "--pad", 0.5, to="padded").expect(0)
    before, after = (bench.out(name).records["long"]["parts"] for name in ("again", "padded"))
    for one, other in zip(before, after, strict=True):
        assert other["start_s"] == pytest.approx(one["start_s"] + 0.5, abs=1e-6)


def test_what_is_lost_is_spoken_again_and_said(bench: Workbench) -> None:
    bench.synth_once(ROWS, *CAP, "--loudness", "ebu")
    result = bench.synth(ROWS, *CAP, "--loudness", "podcast")
    assert result.summary == msg.synthesized(3, 3)
    assert msg.CANNOT_CONVERT.split(";")[0].split(":")[0] % msg.rows_are(3) in result.err
    assert "one: its audio was already processed (loudness, filter, trim or padding)" in result.err


def test_encode_into_another_folder(bench: Workbench) -> None:
    bench.synth_once(ROWS, *CAP)
    keep(bench.out().path)
    before = bench.out().files
    assert encode(bench, "--format", "flac", "--json", to="flac").json["made"] == 3
    assert bench.out().files == before
    assert names(bench.folder / "flac") == names(bench.out().path)  # `synth` asks for them
    again = encode(bench, "--format", "flac", to="flac")
    assert again.summary == "0 files written, 3 already done, 0 not possible"
    result = bench.synth(ROWS, *CAP, "--format", "flac", out="flac")
    assert result.out.startswith(msg.nothing_to_do(3))
    named = {record["source"]["path"] for record in bench.out("flac").records.values()}
    assert named == {None}


def test_rows_that_cannot_be_made_are_named(bench: Workbench) -> None:
    cut = {"id": "cut", "text": "Hello there.", "max_frames": 2}
    bench.synth([*ROWS, cut], *CAP, "--retries", 0).expect(1)
    (bench.out().path / "one.wav").unlink()
    data = bytearray((bench.out().path / "three.wav").read_bytes())
    data[60] ^= 1
    (bench.out().path / "three.wav").write_bytes(data)
    result = encode(bench, "--format", "flac", to="flac").expect(1)
    lines = result.out.splitlines()
    assert lines[0] == "1 file written, 0 already done, 3 not possible"
    assert any(line.startswith("not possible: one: ") and "is missing" in line for line in lines)
    assert "not possible: cut: it failed when it was synthesized" in lines
    assert any("three.wav has changed since the run" in line for line in lines)
    assert list(bench.out("flac").files) == ["sub/two.flac"]


def test_the_next_run_undid_a_level_without_a_word(bench: Workbench) -> None:
    """What `encode` tells to give to `synth` is all that it needs, and nothing undoes it."""
    bench.synth_once(ROWS, *CAP)
    told = "for later runs into "
    expected = [
        (("--loudness", -20), "--loudness -20"),
        (("--format", "flac", "--pad", "0.2,0.1"), "--format flac --pad 0.2,0.1 --forget loudness"),
        ((), "--format wav --forget pad"),
    ]
    for given, flags in expected:
        line = encode(bench, *given).out.splitlines()[-1]
        assert line.startswith(told)
        assert line.endswith(f", also give {flags}")
        result = bench.synth(ROWS, *CAP, *flags.split())
        assert (result.code, result.out) == (0, msg.nothing_to_do(3) + "\n")
    assert told not in encode(bench, "--loudness", -20, to="other").out


def test_encode_needs_a_folder_of_ours(bench: Workbench) -> None:
    (bench.folder / "empty").mkdir()
    encode(bench, source="empty").expect(2, "has no timings.jsonl")
    assert list((bench.folder / "empty").iterdir()) == []
    bench.synth_once(ROWS, *CAP)
    (bench.folder / "mine").mkdir()
    (bench.folder / "mine" / "one.flac").write_bytes(b"a song")
    encode(bench, "--format", "flac", to="mine").expect(2, "one.flac: in ")
    assert (bench.folder / "mine" / "one.flac").read_bytes() == b"a song"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--loudness", "loud"), "must be ebu, acx, podcast or a number"),
        (("--loudness", "-5"), "--loudness must be"),
        (("--highpass", "5"), "--highpass must be"),
        (("--pad", "1,2,3"), "not of the form S or S,S"),
        (("--pad", "61"), "--pad must be"),
        (("--format", "flac", "--subtype", "ULAW"), "--subtype ULAW does not exist in flac"),
        (("--format", "opus", "--sample-rate", "44100"), "opus does not support 44100 Hz"),
    ],
)
def test_wrong_settings_are_told(bench: Workbench, flags: tuple[str, ...], message: str) -> None:
    bench.synth(ROWS, *flags).expect(2, message)


class TestHostileFolders:
    """A journal that somebody else has written leads nowhere."""

    @pytest.fixture
    def done(self, bench: Workbench) -> Workbench:
        bench.synth_once(ROWS[:1], *CAP)
        shutil.copy(bench.out().path / "one.wav", bench.folder / "secret.wav")
        return bench

    @pytest.mark.parametrize(
        "changes",
        [
            {"path": "../secret.wav"},
            {"path": "/etc/passwd"},
            {"source": {"kind": "audio", "path": "../secret.wav", "bytes": 1, "sha256": None}},
            {"source": {"kind": "codes"}, "path": "../secret.wav"},
            {"source": {"kind": ["x"]}},
            {"id": "../one", "path": "../one.wav"},
            {"id": "truncated/x"},
            {"path": "one.wav\0"},
        ],
    )
    def test_paths(self, done: Workbench, changes: dict[str, Any]) -> None:
        line = {**done.out().lines[-1], **changes}
        (done.out().path / "timings.jsonl").write_text(json.dumps(line) + "\n")
        result = encode(done, "--format", "flac", to="flac")
        assert result.code in (0, 1)
        assert list(done.out("flac").files) == []
        assert sorted(path.name for path in done.folder.iterdir()) == [
            "flac",
            "out",
            "rows.jsonl",
            "secret.wav",
        ]

    def test_huge_and_foreign_codes(self, done: Workbench) -> None:
        from safetensors.numpy import save_file

        out = done.out()
        (out.path / "one.wav").unlink()
        frames = out.records["one"]["frames"]
        for codes in (
            np.full((frames, 4), 32_000, np.int16),
            np.full((frames, 4), -1, np.int16),
            np.zeros((frames + 1, 4), np.int16),
            np.zeros((frames, 4), np.int32),
        ):
            save_file({"codes": codes}, out.path / "one.codes.safetensors")
            encode(done, to="again").expect(1)
        (out.path / "one.codes.safetensors").write_bytes(b"\xff" * 100)
        encode(done, to="again").expect(1)
        assert done.out("again").files == {}


def test_a_replacement_that_an_earlier_version_did_not_finish(bench: Workbench) -> None:
    """The row is synthesized again, and what was there is kept."""
    bench.synth_once(ROWS[:1], *CAP)
    out = bench.out()
    line = {**out.records["one"], "status": "failed", "unfinished": "replacing", "schema": 3}
    with open(out.path / "timings.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    before = out.files["one.wav"]
    (out.path / "one.wav").rename(out.path / "one.wav.original")
    (out.path / "one.wav").write_bytes(b"RIFF")
    result = bench.synth(ROWS[:1], *CAP)
    assert result.summary == msg.synthesized(1, 1)
    assert "1 file has a new name: see timings.jsonl and takes/" in result.err
    assert out.status()["one"] == "ok"
    assert out.files["one.wav"] == before
    assert out.files[f"takes/one/1.{hashlib.sha256(before).hexdigest()[:8]}.wav"] == before
    assert out.files["takes/one/2.wav"] == b"RIFF"


class TestTakes:
    @pytest.fixture
    def taken(self, bench: Workbench) -> Workbench:
        """Row one has two takes, and the second is chosen."""
        bench.synth_once(ROWS, *CAP)
        bench.synth(ROWS, *CAP, "--only", "one", "--takes", 1).expect(0)
        bench.run("pick", bench.out().path, "one=2").expect(0)
        return bench

    def test_what_was_edited_counts(self, taken: Workbench) -> None:
        out = taken.out()
        edited = np.concatenate([out.samples("one.wav"), np.zeros(500)])
        soundfile.write(out.path / "one.wav", edited, 24_000, "PCM_16")
        kept, first = out.files["one.wav"], out.files["takes/one/1.wav"]
        encode(taken, "--format", "flac").expect(0, "1 changed file is kept in takes/: one")
        assert len(out.samples("one.flac")) == len(edited)
        assert out.files["takes/one/3.source.wav"] == kept
        assert out.files["takes/one/1.wav"] == first
        record = out.records["one"]
        assert (record["take"], record["role"], record["origin"]) == (3, "held", "user")


@pytest.mark.parametrize("to", [None, "other"])
def test_times_of_words_follow_what_is_put_on_and_cut_off(bench: Workbench, to: str | None) -> None:
    bench.synth_once(ROWS, *CAP)
    out, record = bench.out(), bench.out().records["sub/two"]
    word = TimedWord("Good", 0.01, 0.02, 0.5, 0, 4, "dictionary")
    facts = (1, record["sha256"], "an aligner", record["text"], record["audio_s"], 0.5, [word])
    times = WordTimes("sub/two", *facts)
    (out.path / "sub/two.words.json").write_bytes(times.encode())
    (out.path / "sub/two.TextGrid").write_text("edited")
    stale = WordTimes("one", 1, "another sum", *facts[2:])
    (out.path / "one.words.json").write_bytes(stale.encode())
    encode(bench, "--pad", "0.25", "--format", "flac", to=to).expect(0)
    made = bench.out(to or "out")
    found = read_words(made.path, "sub/two")
    assert found is not None
    assert found.sha256 == made.records["sub/two"]["sha256"]
    assert (found.words[0].start_s, found.words[0].end_s) == (0.26, 0.27)
    assert found.audio_s == pytest.approx(record["audio_s"] + 0.5)
    grid = (made.path / "sub/two.TextGrid").read_text()
    assert grid == "edited" if to is None else 'text = "Good"' in grid
    assert not (made.path / "sub/two.words.vtt").exists()
    told = read_words(made.path, "one")
    assert told is None or told.sha256 == "another sum", "it was of other audio"
    if to is None:  # back again
        encode(bench).expect(0)
        assert read_words(made.path, "sub/two") == times


def test_subtitles_go_along(bench: Workbench) -> None:
    """They stayed behind, and so did times of words where the new file had the same bytes."""
    bench.synth_once(ROWS, *CAP, "--subtitles", "srt,vtt")
    out, record = bench.out().path, bench.out().records["one"]
    times = WordTimes(
        "one", 1, record["sha256"], "an aligner", record["text"], record["audio_s"], 0.5, []
    )
    (out / "one.words.json").write_bytes(times.encode())
    mended = "1\r\n00:00:00,010 --> 00:00:00,020\r\nHELLO at 00:00:00,010\r\n"
    (out / "one.srt").write_bytes(mended.encode())
    listed = (out / "derived.jsonl").read_text().splitlines()
    of_other_audio = json.dumps({**json.loads(listed[-1]), "audio": "another sum"})
    (out / "derived.jsonl").write_text("\n".join([*listed, of_other_audio, ""]))
    assert json.loads(of_other_audio)["path"] == "three.vtt"
    (out / "three.srt").unlink()
    (out / "three.srt").symlink_to(out / "one.srt")
    encode(bench, to="same").expect(0)
    same = bench.out("same").path
    for name in ("one.srt", "one.vtt", "one.words.json", "sub/two.srt", "sub/two.vtt"):
        assert (same / name).read_bytes() == (out / name).read_bytes()
    assert not [path for path in same.glob("three.*") if path.suffix != ".wav"]
    (same / "one.srt").write_text("somebody's own")
    encode(bench, to="same").expect(0)
    assert (same / "one.srt").read_text() == "somebody's own"
    for _ in range(2):  # once only
        encode(bench, "--pad", "1.5", "--format", "flac").expect(0)
        moved = mended.replace("00:00:00,010 --> 00:00:00,020", "00:00:01,510 --> 00:00:01,520")
        assert (out / "one.srt").read_bytes().decode() == moved
    encode(bench).expect(0)
    assert (out / "one.srt").read_bytes().decode() == mended


def test_words_do_not_replace_subtitles_of_another_row(bench: Workbench) -> None:
    """Row `a` has words in a.words.vtt, unless that is the subtitles of row `a.words`."""
    rows = [{"id": "a", "text": "Hello there."}, {"id": "a.words", "text": "Good morning."}]
    bench.synth_once(rows, *CAP, "--subtitles", "vtt")
    out, record = bench.out().path, bench.out().records["a"]
    facts = (1, record["sha256"], "an aligner", record["text"], record["audio_s"], 0.5, [])
    (out / "a.words.json").write_bytes(WordTimes("a", *facts).encode())
    encode(bench, "--format", "flac", to="made").expect(0)
    made = bench.out("made").files
    assert made["a.words.vtt"] == (out / "a.words.vtt").read_bytes()
    assert {"a.words.json", "a.vtt"} <= made.keys()


def test_rows_that_were_removed_leave_the_other_folder(bench: Workbench) -> None:
    """They stayed there without a word, and `report` and `export` showed them."""
    bench.synth_once(ROWS, *CAP, "--subtitles", "srt")
    encode(bench, "--format", "flac", to="made").expect(0)
    made = bench.out("made")
    mine = {"id": "mine", "text": "Of another script."}
    bench.synth([mine], *CAP, out="other").expect(0)
    encode(bench, "--format", "flac", source="other", to="made").expect(0)
    before = made.files
    bench.synth(ROWS[:1], *CAP, "--prune").expect(0)
    encode(bench, "--format", "flac", to="made").expect(
        0,
        out=[
            f"2 rows are no longer in {bench.out().path}/, moved to {made.path}/takes/: ",
            f"{made.path}/ also has 1 row of another folder, kept: mine\n",
        ],
    )
    for name in ("sub/two.flac", "sub/two.srt", "three.flac", "three.srt"):
        stem, suffix = os.path.splitext(name)
        assert made.files[f"takes/{stem}/1{suffix}"] == before[name]
        assert name not in made.files
    exported = bench.folder / "exported"
    args = ("--to", "ljspeech", "--out", exported)
    bench.run("export", made.path, *args).expect(0)
    assert len((exported / "metadata.csv").read_text().splitlines()) == 2
    again = encode(bench, "--format", "flac", "--json", to="made").json
    assert (again["removed"], again["not_in_source"], again["done"]) == (0, 1, 1)
    bench.synth(ROWS, *CAP).expect(0)  # they come back
    assert encode(bench, "--format", "flac", "--json", to="made").json["made"] == 2
    assert (made.path / "sub/two.flac").is_file()
    assert encode(bench, "--format", "flac", "--json", to="made").json["done"] == 3


def test_files_of_an_earlier_format_are_reported(bench: Workbench) -> None:
    bench.synth_once(ROWS, *CAP)
    encode(bench, "--format", "ogg", to="made").expect(0)
    assert "earlier format" not in encode(bench, "--format", "ogg", to="made").out
    old = bench.out("made").files
    result = encode(bench, "--format", "flac", to="made")
    path = bench.out("made").path
    assert "earlier format" not in result.out
    assert not list(path.rglob("*.ogg"))  # they can be made again
    for name in IDS:  # earlier versions kept them
        (path / f"{name}.ogg").write_bytes(old[f"{name}.ogg"])
    result = encode(bench, "--format", "flac", to="made")
    assert f"{path}/ also has 3 files in an earlier format, kept: one.ogg, sub/two.ogg, " in (
        result.out
    )
    assert (path / "one.ogg").is_file()
