"""Command lines of other tools, and those that one guesses."""

from __future__ import annotations

import importlib
from pathlib import Path

import click
import pytest

from tts_cli.cli import other_tools as mistakes
from tts_cli.main import COMMANDS, main


@pytest.mark.parametrize(
    ("args", "words"),
    [
        # click offered --layout before --out, and --seed for --speaker
        (["synth", "m", "--output", "x"], "No such option '--output': here it is called --out."),
        (["synth", "m", "--speaker", "x"], "'--speaker': here it is called --voice."),
        (["book", "m", "--lang", "x"], "'--lang': here it is called --language."),
        (["synth", "m", "--max_batch", "4"], "'--max_batch': here it is called --max-batch."),
        (["synth", "m", "--batch-size", "4"], "here it is called --max-batch."),
        (["synth", "m", "--resume"], "the same command resumes automatically."),
        (["validate", "--input", "m"], "the manifest without a flag: tts-cli validate MANIFEST."),
        (["synth", "m", "--emotion", "x"], "describe the style in the row's field instruct"),
        (["voices", "--list"], "'--list': use `tts-cli voices`."),
        (["doctor", "--output", "x"], "No such option '--output'."),
        (["--out", "x"], "put options after the command, as in tts-cli synth MANIFEST --out"),
        (["synth", "m", "--subtype", "pcm16"], "'FLOAT', 'ULAW', 'ALAW'. Use PCM_16."),
        (["synth", "m", "--dtype", "fp16"], "Use bfloat16; float16 overflows in these models."),
        (["synth", "m", "--dtype", "FLOAT"], "Use float32."),
        (["synth", "m", "--limit", "0", "--out", "x"], "--limit must be at least 1, not 0"),
        (["usage"], "use tts-cli --help"),
        # names of earlier versions
        (["synth", "m", "--voices", "x"], "here it is called --voice-dir."),
        (["voices", "--voices", "x"], "here it is called --voice-dir."),
        (["check", "x", "--batch", "4"], "here it is called --asr-batch."),
        (["export", "x", "--min-s", "4"], "here it is called --shortest."),
        (["export", "x", "--max-s", "4"], "here it is called --longest."),
        (["voices", "add", "x", "--mode", "icl"], "here it is called --clone-mode."),
        (["list-voices"], "did you mean 'voices'?"),
        (["speak"], "did you mean 'synth'?"),
        ([__file__], f"to synthesize a manifest: tts-cli synth {__file__} --out DIR"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_meant(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--limit" in args:
        args[1] = str(Path(__file__))
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Did you mean" not in err


def test_a_slip_is_left_to_click(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--versoin"]) == 2
    assert "Did you mean '--version'?" in capsys.readouterr().err


def test_what_is_named_is_there() -> None:
    """No name of ours is among those of others, and none of those is meant twice."""
    for name in COMMANDS:
        command: click.Command = importlib.import_module(f"tts_cli.cli.{name}").command
        ours = {flag for param in command.params for flag in param.opts}
        others = [o for param in command.params for o in getattr(param, "others", "").split()]
        assert not ours & set(others)
        assert len(others) == len(set(others)), name
    assert not set(mistakes._by_name("commands")) & set(COMMANDS)
