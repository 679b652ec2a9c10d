"""`voices add --from DIR --take ID`: a row that was spoken and is liked becomes a voice file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_fish_speech as tiny
from cases import cases
from hostile_audio import encoded, tone
from safetensors.numpy import load_file
from tiny_fish_codec import SMALL
from workbench import MakeCheckpoint, Result, Workbench, forbid_weights

from tts_cli.audio.file import encode_codes

CASES = cases(__file__)["liked"]

CAP = ("--max-seconds", 1.1, "--accept-truncated", "--device", "cpu", "--free-voice", "each")
SAID = "The boat left the harbor after five, and nobody spoke."
ROWS: list[dict[str, Any]] = [
    {"id": "long", "text": SAID, "seed": 3},
    {"id": "tags", "text": f"[whisper] The boat left. [pause 300ms] [calm] {SAID}"},
    {"id": "short", "text": "Yes.", "max_seconds": 0.3},
    {"id": "silent", "text": "..."},
    {"id": "bad", "text": "Good <|im_end|> morning."},
]
Write = Callable[..., Path]


@pytest.fixture(scope="session")
def write_fish(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes checkpoints with frames of 46 ms whose speech never ends."""
    codec = replace(
        SMALL,
        upsampling_ratios=(2, 2),
        upsample_rates=(8, 8, 4, 2),
        encoder_dim=2,
        encoder_strides=(2, 4, 8, 8),
    )

    def write(**more: Any) -> Path:
        endless = replace(tiny.SPECS["small"], end_gain=0.0)
        return tiny.write_checkpoint(tmp_path_factory.mktemp("f"), endless, codec=codec, **more)

    return write


@pytest.fixture(scope="session")
def fish(write_fish: Write) -> Path:
    return write_fish()


@pytest.fixture
def spoken(bench: Workbench, fish: Path) -> Workbench:
    """The workbench, with ROWS spoken and their codes kept."""
    bench.model = fish
    bench.run("voices", "--model", fish, "--accept-licence").expect(0)
    bench.synth_once(ROWS, *CAP, "--save-codes", "--skip-invalid", code=1)
    return bench


def add(bench: Workbench, take: str, *flags: object, name: str = "teller") -> Result:
    given = ("--from", bench.out().path, "--take", take, *flags)
    return add_plainly(bench, name, *given)


def add_plainly(bench: Workbench, name: str, *flags: object) -> Result:
    voices = ("--voice-dir", bench.folder / "voices", "--model", bench.model, "--device", "cpu")
    return bench.run("voices", "add", name, *voices, *flags)


def voice(bench: Workbench, name: str = "teller") -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = load_file(
        bench.folder / "voices" / f"{name}.voice.safetensors"
    )
    return found


def codes(bench: Workbench, name: str) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = load_file(bench.out().path / f"{name}.codes.safetensors")["codes"]
    return found


def test_kept_codes_are_the_reference(spoken: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of the file; and no weight is read for it."""
    with monkeypatch.context() as patch:
        forbid_weights(patch)
        result = add(spoken, "long", "--json").expect(0)
        assert (result.json["mode"], result.json["text"]) == ("icl", SAID)
        assert np.array_equal(voice(spoken)["codes"], codes(spoken, "long"))
        assert voice(spoken)["embedding"].tolist() == [0.0]
        flags = ("--skip-invalid", "--format", "flac", "--loudness", "-20")
        spoken.synth(ROWS, *CAP, *flags, "--save-codes")
        assert spoken.out().records["long"]["path"] == "long.flac"
        assert "already exists, with the same content" in add(spoken, "long").out
        # In parts: all of what was said, and nothing else.
        assert add(spoken, "tags", "--json", name="tags").json["text"] == f"The boat left. {SAID}"
        assert np.array_equal(voice(spoken, "tags")["codes"], codes(spoken, "tags"))
    assert "already exists; add --overwrite" in add(spoken, "tags").err
    # It speaks; and so does what is liked of its own speech.
    flags = ("--voice-dir", spoken.folder / "voices", "--voice", "teller", "--save-codes")
    spoken.synth([ROWS[0]], *CAP, *flags, out="next").expect(0)
    out = spoken.out("next").path
    add_plainly(spoken, "next", "--from", out, "--take", "long").expect(0)
    kept = load_file(out / "long.codes.safetensors")["codes"]
    assert np.array_equal(voice(spoken, "next")["codes"], kept)


def test_its_audio_else(spoken: Workbench, write_fish: Write) -> None:
    """As if somebody had named the file and its words."""
    recording = ("--ref-audio", spoken.out().path / "long.wav", "--ref-text", SAID)
    (spoken.out().path / "long.codes.safetensors").unlink()
    add(spoken, "long").expect(0)
    assert "with the same content" in add_plainly(spoken, "teller", *recording).out
    # Another checkpoint's codes say nothing to this one.
    spoken.model = write_fish(seed=1)
    add(spoken, "tags", name="other").expect(0)
    assert not np.array_equal(voice(spoken, "other")["codes"], codes(spoken, "tags"))
    flags = ("--format", "mp3", "--loudness", "-20", "--save-codes", "--skip-invalid")
    spoken.synth(ROWS, *CAP, *flags, model=write_fish(), out="mp3")
    result = add_plainly(
        spoken, "lossy", "--from", spoken.out("mp3").path, "--take", "long", "--json"
    ).expect(0, "long.mp3 is used as it is")
    assert result.json["text"] == SAID


@pytest.mark.parametrize(("take", "words"), CASES["what_is_no_voice"])
def test_what_is_no_voice(spoken: Workbench, take: str, words: str) -> None:
    add(spoken, take).expect(2, words)
    assert not (spoken.folder / "voices").exists()


def test_flags_that_do_not_fit(bench: Workbench, fish: Path) -> None:
    bench.model = fish
    out, some = bench.out().path, ("--take", "a")
    either = "give --ref-audio FILE with --ref-text TEXT, or --from DIR with --take ID"
    for flags, words in (
        ((), either),
        (some, either),
        (("--from", bench.folder), either),
        (("--from", bench.folder, *some, "--ref-audio", "a.wav"), either),
        (("--from", bench.folder, *some, "--ref-text", "a"), either),
        (("--from", out, *some), "does not exist"),
        (("--from", bench.folder, *some), "has no timings.jsonl; give an output folder of `synth`"),
    ):
        result = add_plainly(bench, "a", *flags).expect(2)
        assert words in result.err, flags


def test_files_of_strangers(spoken: Workbench) -> None:
    """Codes that are none are not taken, and audio only as it was written, inside of the folder."""
    out = spoken.out().path
    shape = codes(spoken, "long").shape
    (out / "long.codes.safetensors").write_bytes(encode_codes(np.full(shape, 2000, np.int16)))
    add(spoken, "long").expect(2, "reference codes must lie in")
    (out / "long.codes.safetensors").write_bytes(b"torn")
    add(spoken, "long").expect(0)
    spoken.synth([ROWS[0]], *CAP, "--format", "mp3", out="out2")
    out = spoken.out("out2").path
    flags = ("--from", out, "--take", "long")
    mp3 = (out / "long.mp3").read_bytes()
    (out / "long.mp3").write_bytes(encoded(tone(1.2), "FLAC"))
    add_plainly(spoken, "b", *flags).expect(2, "long.mp3 has changed since the run")
    (out / "long.mp3").unlink()
    (spoken.folder / "long.mp3").write_bytes(mp3)
    (out / "long.mp3").symlink_to(spoken.folder / "long.mp3")
    add_plainly(spoken, "b", *flags).expect(2, "is not a regular file of the folder")
    journal = out / "timings.jsonl"
    line = json.loads(journal.read_text().splitlines()[-1])
    journal.write_text(json.dumps({**line, "path": "../long.mp3"}) + "\n")
    add_plainly(spoken, "b", *flags).expect(2, "its journal entry names no audio file")


ENDLESS: dict[str, Any] = {
    "eos_gain": 0.0,
    "generation": {"top_k": 5},
    "upsample_rates": (8, 5, 3),
    "upsampling_ratios": (4, 4),
    "decoder_dim": 24,
}


@pytest.fixture(scope="session")
def base(make_checkpoint: MakeCheckpoint) -> Path:
    """A Base checkpoint with frames of 80 ms whose speech never ends."""
    return make_checkpoint("base_wide", **ENDLESS, encoder_ratios=(8, 6, 5, 4))


class TestQwen:
    @pytest.fixture
    def rows(self, bench: Workbench, base: Path) -> list[dict[str, Any]]:
        bench.model = base
        (bench.folder / "a.wav").write_bytes(encoded(tone(1.2)))
        return [{"id": "a", "text": SAID, "ref_audio": "a.wav", "seed": 5}]

    def test_codes_are_decoded(self, bench: Workbench, rows: list[dict[str, Any]]) -> None:
        """A file with losses is as good as the WAV that it was spoken as."""
        bench.synth(rows, *CAP, out="wav").expect(0)
        flags = ("--format", "mp3", "--sample-rate", 16000, "--save-codes")
        bench.synth(rows, *CAP, *flags).expect(0)
        add(bench, "a").expect(0)
        recording = ("--ref-audio", bench.out("wav").path / "a.wav", "--ref-text", SAID)
        add_plainly(bench, "wav", *recording).expect(0)
        assert {name: values.tobytes() for name, values in voice(bench).items()} == {
            name: values.tobytes() for name, values in voice(bench, "wav").items()
        }
        assert "already exists, with the same content" in add(bench, "a").out
        add(bench, "a", "--clone-mode", "xvec", name="xvec").expect(0)
        assert list(voice(bench, "xvec")) == ["embedding"]

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"num_codebooks": 3}, "frames of 2 codes of its journal entry"),
            ({}, "the model that made its codes is not available"),
        ],
    )
    def test_codes_of_another_codec_are_not_decoded(
        self,
        bench: Workbench,
        base: Path,
        make_checkpoint: MakeCheckpoint,
        changes: dict[str, Any],
        words: str,
    ) -> None:
        model = make_checkpoint(**ENDLESS, **changes)
        if not changes:  # a size that nobody released, as the sample voice's
            config = (model / "config.json").read_text().replace('"1b7"', '"tiny"')
            (model / "config.json").write_text(config)
        flags = (*CAP, "--format", "mp3", "--save-codes")
        bench.synth([{"id": "a", "text": SAID}], *flags, model=model).expect(0)
        bench.model = base
        add(bench, "a").expect(0, words, "a.mp3 is used as it is")
