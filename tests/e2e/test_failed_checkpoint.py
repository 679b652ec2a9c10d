"""What is wrong with a checkpoint is said by name, before anything is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_qwen3_tts import write_checkpoint
from workbench import Workbench

ROWS = [{"id": f"row{number}", "text": "Hello there."} for number in range(8)]


class TestCheckpoint:
    """What is wrong with a checkpoint is said by name, with exit code 3."""

    @staticmethod
    def refuse(bench: Workbench, model: Path | str, *words: str) -> None:
        result = bench.run(
            "synth", bench.write(ROWS), "--out", bench.out().path, "--model", model
        ).expect(3)
        assert result.out == ""
        for word in words:
            assert word in result.err
        assert bench.run("voices", "--model", model).code in (0, 3)

    @pytest.fixture
    def copied(self, checkpoint: Path, tmp_path: Path) -> Path:
        """A checkpoint to break."""
        return Path(shutil.copytree(checkpoint, tmp_path / "copied"))

    def test_base_cannot_be_spoken_with(self, bench: Workbench, tmp_path: Path) -> None:
        """Without its encoder it can speak no row at all, and everything says so at once."""
        base = write_checkpoint(tmp_path / "base", "base", has_audio_encoder=False)
        words = (
            "Error: a Base checkpoint clones a reference recording, and this copy cannot: "
            "its speech tokenizer has no encoder; download the complete checkpoint, or use "
            "a CustomVoice or VoiceDesign one\n"
        )
        manifest = bench.write(ROWS)
        for command in ("synth", "validate"):
            out = ("--out", bench.out().path)
            result = bench.run(command, manifest, "--model", base, *out)
            assert (result.code, result.out, result.err) == (3, "", words)
        for command in ("warmup", "profile"):
            assert bench.run(command, "--model", base).err == words
        assert not bench.out().path.exists()
        assert "cloning: not possible with this copy" in bench.run("voices", "--model", base).out
