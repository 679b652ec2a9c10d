"""`tts-cli models convert`, and consent to the licence of what it makes usable."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import tiny_fish_speech as tiny
from workbench import Workbench

from tts_cli.plan.checkpoint import consent_file

NAME = "Fish Audio Research License"
ROWS = [{"id": "a", "text": "Hello there."}]
CPU = ("--device", "cpu", "--max-seconds", "0.05", "--accept-truncated")


@pytest.fixture
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Fish Speech checkpoint as it is released: its codec is a pickle."""
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), as_pickle=True)


@pytest.fixture
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_checkpoint(tmp_path_factory.mktemp("fish"))


class TestConvert:
    def test_once(self, bench: Workbench, released: Path) -> None:
        bench.run("voices", "--model", released).expect(
            3, f"run `tts-cli models convert {released}` once"
        )
        digest = hashlib.sha256((released / "codec.pth").read_bytes()).hexdigest()
        first = bench.run("models", "convert", released).expect(0)
        assert first.out == (
            f"wrote {released}/codec.safetensors\nfrom {released}/codec.pth, SHA-256 {digest}\n"
        )
        bench.run("voices", "--model", released).expect(0)
        bench.run("models", "convert", released).expect(0, out=["already exists", digest])

    def test_json(self, bench: Workbench, released: Path) -> None:
        found = bench.run("models", "convert", released, "--json").json
        assert found["is_new"] is True
        assert found["target"] == str(released / "codec.safetensors")
        assert bench.run("models", "convert", released, "--json").json == {**found, "is_new": False}

    def test_other_checkpoints_need_none(self, bench: Workbench) -> None:
        result = bench.run("models", "convert", bench.model)
        assert (result.code, result.err) == (0, "")
        assert "nothing to convert" in result.out
        assert bench.run("models", "convert", bench.model, "--json").json["target"] is None

    def test_a_file_that_is_no_codec(self, bench: Workbench, released: Path) -> None:
        (released / "codec.pth").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
        bench.run("models", "convert", released).expect(3, "refused")
        assert not (released / "codec.safetensors").exists()

    def test_no_such_folder(self, bench: Workbench) -> None:
        bench.run("models", "convert", bench.folder / "nothing").expect(
            3, "the checkpoint folder does not exist"
        )

    def test_alone_it_shows_its_help(self, bench: Workbench) -> None:
        bench.run("models").expect(0, out="convert")
        bench.run("models", "--json", "convert", "x").expect(2)


class TestConsent:
    def test_nothing_is_spoken_before(self, bench: Workbench, converted: Path) -> None:
        manifest = bench.write(ROWS)
        result = bench.synth(manifest, "--model", converted, *CPU).expect(2)
        for words in (NAME, "non-commercial", "--accept-licence"):
            assert words in result.err
        assert not bench.out().path.exists()
        bench.synth(manifest, "--model", converted, *CPU, "--accept-licence").expect(
            0, "non-commercial"
        )
        assert NAME in json.loads(consent_file().read_text())
        again = bench.synth(manifest, "--model", converted, *CPU, "--overwrite").expect(0)
        assert NAME not in again.err

    @pytest.mark.parametrize("command", ["warmup", "profile"])
    def test_other_commands_that_load_it_ask(
        self, bench: Workbench, converted: Path, command: str
    ) -> None:
        bench.run(command, "--model", converted, "--device", "cpu").expect(2, NAME)
