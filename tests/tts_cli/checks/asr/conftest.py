"""A sentence of the sample voice, synthesized once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tts_cli.main import main

SENTENCE = "The weather will be cold and windy on Saturday afternoon."


@pytest.fixture(scope="package")
def sample_speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the sentence, in clara's voice."""
    folder = tmp_path_factory.mktemp("speech")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        path = folder / "say.wav"
        command = ["say", SENTENCE, "-o", str(path), "--voice", "clara", "--device", "cpu"]
        assert main(command) == 0
    return path
