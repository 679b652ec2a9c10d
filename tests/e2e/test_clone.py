"""Cloning with whole commands: references, voice files, bad recordings, designed voices."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hostile_audio import RATE_HZ, encoded, tone
from workbench import Store, Workbench

from tts_cli.cli import messages as msg

MakeCheckpoint = Callable[..., Path]

CAP = ("--max-seconds", 0.3, "--accept-truncated")
SAID = "What is said."


@pytest.fixture(scope="session")
def base(make_checkpoint: MakeCheckpoint) -> Path:
    """A Base checkpoint with frames of 10 ms."""
    return make_checkpoint("base_wide")


@pytest.fixture(scope="session")
def designer(make_checkpoint: MakeCheckpoint) -> Path:
    """A VoiceDesign checkpoint with frames of 80 ms, so that a few of them are a reference."""
    shape = {"upsample_rates": (8, 5, 4, 3), "upsampling_ratios": (2, 2)}
    return make_checkpoint("voice_design", **shape, eos_gain=0.8)


@pytest.fixture
def refs(bench: Workbench) -> Workbench:
    """The workbench, with recordings beside the manifest."""
    (bench.folder / "a.wav").write_bytes(encoded(tone(1.2)))
    (bench.folder / "copy of a.wav").write_bytes(encoded(tone(1.2)))
    (bench.folder / "deep").mkdir()
    (bench.folder / "deep" / "b.flac").write_bytes(encoded(tone(1.1, hz=220, channels=2), "FLAC"))
    return bench


def row(row_id: str, audio: str | None = "a.wav", text: str | None = SAID, **more: Any) -> Any:
    values = {"id": row_id, "text": "Good morning.", "seed": 5, "ref_audio": audio}
    values |= {"ref_text": text, **more}
    return {name: value for name, value in values.items() if value is not None}


def adding(bench: Workbench, base: Path, name: str, *flags: object) -> tuple[object, ...]:
    audio = bench.folder / "a.wav"
    voices = ("--voice-dir", bench.folder / "voices", "--model", base)
    return ("voices", "add", name, "--ref-audio", audio, *voices, *flags)


def add(bench: Workbench, base: Path, name: str, *flags: object) -> Any:
    return bench.run(*adding(bench, base, name, *flags))


def have(bench: Workbench, base: Path, name: str, *flags: object) -> None:
    """Like `add`, where the voice is but needed: each is made once."""
    bench.run_once(*adding(bench, base, name, *flags), out="voices")


def test_rows_of_every_kind_share_a_run(refs: Workbench, base: Path) -> None:
    have(refs, base, "anna", "--ref-text", SAID)
    rows = [
        row("icl"),
        row("same", "copy of a.wav"),
        row("xvec", text=None),
        row("transcript-unused", clone_mode="xvec"),
        row("other", "deep/b.flac"),
        row("file", None, None, voice="Anna"),
        row("bad", "none.wav"),
        row("other-words", text="Something else."),
    ]
    voices = ("--voice-dir", refs.folder / "voices")
    result = refs.synth(rows, *CAP, *voices, model=base).expect(1, "bad failed: ref_audio")
    out = refs.out()
    assert out.status() == {r["id"]: "failed" if r["id"] == "bad" else "ok" for r in rows}
    assert "none.wav' does not exist" in out.records["bad"]["error"]
    # Voice, text and seed are the same, so is the speech: by path, by a copy and by a voice file.
    assert len(set(out.sounds("icl.wav", "same.wav", "file.wav"))) == 1
    assert len(set(out.sounds("xvec.wav", "transcript-unused.wav"))) == 1
    different = ("icl", "xvec", "other", "other-words")
    assert len(set(out.sounds(*(f"{name}.wav" for name in different)))) == 4
    totals = out.report["totals"]
    assert totals["references"] == 4, "a in two modes and with other words, and b"
    assert totals["reference_ms"] > 0
    assert totals["reference_load_ms"] > 0
    spent = {name: record["reference_ms"] for name, record in out.records.items()}
    assert sum(spent.values()) == pytest.approx(totals["reference_ms"], rel=1e-3, abs=0.01)
    assert (spent["icl"] > 0) != (spent["same"] > 0), "the row that named it first pays"
    assert spent["file"] == 0
    assert out.records["file"]["voice"] == "Anna"
    assert out.records["icl"]["voice"] is None
    assert out.records["icl"]["prompt_tokens"] > 120 > out.records["xvec"]["prompt_tokens"]
    assert "4 references encoded in" in result.out
    content = hashlib.sha256((refs.folder / "a.wav").read_bytes()).hexdigest()
    told = {name: (line["clone_mode"], line["ref_sha256"]) for name, line in out.records.items()}
    assert told["icl"] == told["same"] == ("icl", content)
    assert told["xvec"] == ("xvec", content)
    assert told["file"] == ("icl", None), "a voice file"
    assert told["other"][1] not in (None, content)
    assert out.records["bad"]["text"] == "Good morning."


def test_a_rerun_knows_references_by_content(refs: Workbench, base: Path) -> None:
    rows = [row("a"), row("b", "deep/b.flac"), row("c", text=None)]
    refs.synth(rows, *CAP, model=base).expect(0)
    again = refs.synth(rows, *CAP, model=base).expect(0)
    assert again.out == msg.nothing_to_do(3) + "\n"
    rows[0]["ref_audio"] = "copy of a.wav"  # the same bytes
    (refs.folder / "deep" / "b.flac").write_bytes(encoded(tone(1.1, hz=330), "FLAC"))
    assert msg.synthesized(1, 3, done=2) in refs.synth(rows, *CAP, model=base).out
    # Silence stands behind references of icl only.
    refs.synth(rows, *CAP, "--ref-silence", 0, model=base).expect(2)
    result = refs.synth(rows, *CAP, "--ref-silence", 0, "--redo", model=base)
    assert msg.synthesized(2, 3, done=1) in result.out


def test_validate_hears_recordings_without_a_voice(refs: Workbench, base: Path) -> None:
    """It looked at headers only, and said that all was well."""
    (refs.folder / "still.wav").write_bytes(encoded(np.zeros(2 * RATE_HZ, np.float32)))
    late = np.concatenate([np.zeros(4 * RATE_HZ, np.float32), tone(2.0)])
    (refs.folder / "late.wav").write_bytes(encoded(late))
    loud = np.clip(tone(2.0) * 40, -1, 1)
    (refs.folder / "loud.wav").write_bytes(encoded(loud))
    rows = [row("still", "still.wav", text=None), row("late", "late.wav", text=None)]
    manifest = refs.write([row("good", text=None), *rows, row("loud", "loud.wav", text=None)])
    result = refs.run("validate", manifest, "--model", base).expect(1)
    still, late_, loud_ = result.err.splitlines()
    assert "id 'still': " in still
    assert "is silent (nothing but zeros" in still
    assert "id 'late': " in late_
    assert "begins with 4.0 s of silence" in late_
    assert "id 'loud': " in loud_
    assert "% of its samples" in loud_


def test_transcripts_that_cannot_be_the_recordings(refs: Workbench, base: Path) -> None:
    (refs.folder / "long.wav").write_bytes(encoded(tone(25.0)))
    rows = [row("fits"), row("short", "long.wav", text="Yes."), row("long", text="word " * 90)]
    manifest = refs.write(rows)
    result = refs.run("validate", manifest, "--model", base).expect(0)
    short, long = result.err.splitlines()
    assert "id 'short': ref_text takes about 0.2 s to say, but ref_audio is 25.0 s" in short
    assert "id 'long': ref_text takes about 27.7 s to say" in long
    told = refs.synth(rows, *CAP, "--dry-run", model=base).err
    assert short in told
    assert long in told
    flags = ("--ref-audio", refs.folder / "long.wav", "--ref-text", "Yes.", "--model", base)
    added = refs.run("voices", "add", "anna", "--voice-dir", refs.folder / "v", *flags)
    assert "warning: ref_text takes about 0.2 s to say" in added.err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"audio": None, "text": None}, "has no ref_audio and no voice, and"),
        ({"voice": "anna"}, "has both ref_audio and voice; give only one"),
        ({"audio": None, "text": None, "voice": "bert"}, "voice 'bert' is not in"),
        ({"audio": None, "text": None, "voice": "broken"}, "is not a safetensors file"),
        ({"text": None, "clone_mode": "icl"}, "clone_mode icl needs ref_text"),
        ({"audio": "https://example.org/a.wav"}, "is a URL; download the file and give its path"),
    ],
)
def test_bad_rows_are_found_before_a_weight_is_read(
    refs: Workbench, base: Path, values: dict[str, Any], words: str
) -> None:
    folder = refs.folder / "voices"
    folder.mkdir()
    (folder / "broken.voice.safetensors").write_bytes(b"broken")
    refs.synth([row("a", **values)], "--voice-dir", folder, model=base).expect(2, words)
    assert not refs.out().path.exists()


class TestRefusals:
    def test_the_sample_voice_cannot_clone(self, refs: Workbench) -> None:
        manifest = refs.write([row("a")])
        refs.run("synth", manifest, "--out", refs.folder / "out").expect(
            2, "the sample voice cannot clone; leave it out, or give a Base checkpoint with --model"
        )
        for command in (
            ("voices", "add", "x", "--ref-audio", refs.folder / "a.wav"),
            ("voices", "design", "x", "--instruct", "low", "--text", "a", "--design-model", "b"),
        ):
            refs.run(*command).expect(2, "the sample voice cannot clone; give a Base checkpoint")

    def test_a_custom_voice_checkpoint_knows_no_voice_files(
        self, refs: Workbench, base: Path
    ) -> None:
        have(refs, base, "anna")
        voices = ("--voice-dir", refs.folder / "voices")
        refs.synth([{"text": "hi", "voice": "anna"}], *voices).expect(
            2, "a voice file has that name, but a custom_voice checkpoint cannot"
        )


class TestVoicesAdd:
    def test_what_is_told(self, refs: Workbench, base: Path) -> None:
        folder = refs.folder / "voices"
        result = add(refs, base, "anna", "--ref-text", SAID, "--json").expect(0)
        path = folder / "anna.voice.safetensors"
        assert result.json["path"] == str(path)
        assert (result.json["mode"], result.json["text"]) == ("icl", SAID)
        assert result.json["frames"] == 170, "1.2 s and half a second of silence"
        assert add(refs, base, "bea").out == (
            f"wrote {folder / 'bea.voice.safetensors'}: xvec, 0 reference frames\n"
        )
        listed = refs.run("voices", "--model", base, "--voice-dir", folder, "--json").json
        assert [file["name"] for file in listed["voice_files"]] == ["anna", "bea"]
        assert [file["problem"] for file in listed["voice_files"]] == [None, None]
        assert listed["voices_folder"] == str(folder)
        table = refs.run("voices", "--model", base, "--voice-dir", folder).out
        assert f"voice files in {folder}" in table

    def test_an_existing_voice_is_kept_unless_told(self, refs: Workbench, base: Path) -> None:
        have(refs, base, "anna")
        path = refs.folder / "voices" / "anna.voice.safetensors"
        before = path.read_bytes()
        # Made of the same it is done: a kill may have come behind it.
        result = add(refs, base, "anna").expect(0)
        assert result.out.startswith(f"{path} already exists, with the same content: xvec")
        add(refs, base, "Anna", "--ref-text", SAID).expect(
            2, "already exists; add --overwrite to replace it"
        )
        assert path.read_bytes() == before
        add(refs, base, "Anna", "--ref-text", SAID, "--overwrite").expect(0)
        assert path.read_bytes() != before

    @pytest.mark.parametrize(
        ("name", "flags", "words"),
        [
            ("../anna", (), "contains '/'; the name of a voice is not a path"),
            ("anna", ("--clone-mode", "icl"), "clone_mode icl needs ref_text"),
            ("anna", ("--ref-text", " "), "ref_text: is blank"),
            ("anna", ("--ref-silence", 11), "--ref-silence must be 0 to 10"),
        ],
    )
    def test_mistakes(
        self, refs: Workbench, base: Path, name: str, flags: tuple[str, ...], words: str
    ) -> None:
        add(refs, base, name, *flags).expect(2, words)
        assert not (refs.folder / "voices").exists()

    def test_a_bad_recording(self, refs: Workbench, base: Path) -> None:
        (refs.folder / "a.wav").write_bytes(encoded(0 * tone()))
        add(refs, base, "anna").expect(2, "is silent")
        assert not (refs.folder / "voices").exists()

    def test_options_in_the_wrong_place(self, refs: Workbench, base: Path) -> None:
        refs.run("voices", "--model", base, "add", "anna", "--ref-audio", "a.wav").expect(
            2, "put --model after 'add'"
        )


class TestVoicesDesign:
    def design(self, refs: Workbench, base: Path, designer: Path, *flags: object) -> Any:
        return refs.run(
            *("voices", "design", "teller", "--model", base, "--design-model", designer),
            *("--voice-dir", refs.folder / "voices", "--instruct", "A low, calm voice."),
            *("--text", "It was late in the year when the letter came at last."),
            *flags,
        )

    def test_a_designed_voice_speaks(self, refs: Workbench, base: Path, designer: Path) -> None:
        result = self.design(refs, base, designer, "--seed", 3, "--json").expect(0)
        folder = refs.folder / "voices"
        assert {path.name for path in folder.iterdir()} == {
            "teller.wav",
            "teller.voice.safetensors",
        }
        samples, rate_hz = soundfile.read(folder / "teller.wav")
        assert rate_hz == 24_000
        assert np.abs(samples).max() > 0.01
        assert result.json["mode"] == "icl"
        assert result.json["text"].startswith("It was late in the year")
        assert result.json["frames"] == -(-(len(samples) + 12_000) // 240)
        # The recording beside it makes the same voice.
        first = (folder / "teller.voice.safetensors").read_bytes()
        words = ("--ref-text", result.json["text"], "--overwrite")
        (refs.folder / "a.wav").write_bytes((folder / "teller.wav").read_bytes())
        add(refs, base, "teller", *words).expect(0)
        assert (folder / "teller.voice.safetensors").read_bytes() == first
        flags = ("--voice-dir", folder)
        rows = [{"id": "a", "text": "Hi.", "voice": "teller"}]
        refs.synth(rows, *CAP, *flags, model=base).expect(0)
        assert refs.out().status() == {"a": "ok"}

    def test_it_asks_before_it_replaces(self, refs: Workbench, base: Path, designer: Path) -> None:
        (refs.folder / "voices").mkdir()
        recording = refs.folder / "voices" / "teller.wav"
        recording.write_bytes(b"mine")
        self.design(refs, base, designer).expect(2, "teller.wav already exists; add --overwrite")
        assert recording.read_bytes() == b"mine"

    def test_a_voice_is_heard_by_words(self, refs: Workbench, base: Path, designer: Path) -> None:
        """What a model makes of a dash would be kept as a voice."""
        self.design(refs, base, designer, "--text", "---").expect(
            2, "--text has no letter or digit; give a sentence or two"
        )

    def test_only_a_voice_design_checkpoint_designs(
        self, refs: Workbench, base: Path, checkpoint: Path
    ) -> None:
        self.design(refs, base, checkpoint).expect(
            2,
            "is a custom_voice checkpoint; give a VoiceDesign checkpoint, such as "
            "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        )

    def test_speech_that_never_ends(
        self,
        refs: Workbench,
        base: Path,
        make_checkpoint: MakeCheckpoint,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("tts_cli.text.words.CAP_S", 0.1)  # frames are as short as 1 ms here
        monkeypatch.setattr("tts_cli.text.words.CAP_S_PER_BYTE", 0.0)
        endless = make_checkpoint("voice_design", eos_gain=0.0, generation={"top_k": 5})
        self.design(refs, base, endless).expect(1, "its audio did not end within")
        assert not (refs.folder / "voices").exists()


def test_warmup_and_profile_speak_with_a_base_checkpoint(bench: Workbench, base: Path) -> None:
    assert "the model loads and works" in bench.run("warmup", "--model", base, "--max-batch", 2).out
    flags = ("--batches", "2", "--frames", 4, "--repeats", 1, "--json")
    bench.run("profile", "--model", base, *flags).expect(0, out="reference (2 x 10 s)")


def test_say_clones(refs: Workbench, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording or a voice file, as a row would."""
    monkeypatch.chdir(refs.folder)
    have(refs, base, "anna", "--ref-text", SAID)
    refs.synth([row("row")], *CAP, model=base).expect(0)
    command = ("say", "Good morning.", "--row-seed", 5, "--model", base, "--device", "cpu", *CAP)
    by_file = ("--voice", "anna", "--voice-dir", refs.folder / "voices")
    by_recording = ("--ref-audio", "a.wav", "--ref-text", SAID)
    for flags in (by_file, by_recording):
        refs.run(*command, *flags).expect(0)
        assert np.array_equal(Store(refs.folder).samples("say.wav"), refs.out().samples("row.wav"))
        (refs.folder / "say.wav").unlink()
    refs.run(*command, "--ref-audio", "none.wav").expect(1, "none.wav' does not exist")
