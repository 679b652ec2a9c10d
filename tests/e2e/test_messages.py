"""What a run says on its way and at its end."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from workbench import Workbench

from tts_cli.cli import messages as msg

ROWS = [{"id": "a", "text": "Hello there."}, {"id": "b", "text": "Good morning."}]
CAP = ("--max-seconds", 1)


def test_the_end_names_the_folder_the_failures_and_the_next_command(
    bench: Workbench, endless: Path
) -> None:
    rows = [{"id": f"row{number}", "text": "Hm.", "max_frames": 4} for number in range(7)]
    result = bench.synth(rows, "--retries", 0, model=endless).expect(1)
    lines = result.out.splitlines()
    failed = [line for line in lines if line.startswith("failed: ")]
    assert len(failed) == 6
    assert re.match(r"failed: row\d: its audio did not end within 4 frames \(0.0 s\)", failed[0])
    assert failed[5] == "failed: 2 more; timings.jsonl lists all"
    place, step = lines[-2:]
    assert place == msg.PLACE.format(folder=f"{bench.folder / 'out'}/")
    words = msg.NEXT_FAILED.format(command="tts-cli ")
    assert step.startswith(words)
    args = shlex.split(step.removeprefix(words))
    assert args[-3:] == ["--retry-failed", "--retries", "2"]
    # The command does what it says.
    assert bench.run(*args).out.startswith(msg.synthesized(0, 7, failed=7) + "\n")
    assert bench.out().records["row3"]["attempts"] == 4  # that of the first run is one of them


def test_a_bad_row_is_told_once(bench: Workbench) -> None:
    """The check named it, and then the run again, in other words."""
    rows = [*ROWS, {"id": "bad", "text": ""}, {"id": "worse", "text": "x", "voice": "nobody"}]
    result = bench.synth(rows, *CAP, "--skip-invalid", "--accept-truncated").expect(1)
    said = result.out + result.err
    assert said.count("bad': text: is blank") == 1
    assert said.count("text: is blank") == 1
    assert said.count("nobody") == 1
    assert "\n" + msg.FAILED_INVALID.format(rows="2 invalid rows") + "\n" in result.out
    assert "\n" + msg.NEXT_FIXED.format(command="tts-cli synth ") in result.out
    assert bench.out().records["bad"]["error"] == "text: is blank"


def test_verbose(bench: Workbench, endless: Path) -> None:
    """-v said nothing that a normal run does not say."""
    rows = [{**ROWS[0], "max_frames": 4}]
    quiet = bench.synth(rows, "--retries", 1, model=endless, out="quiet").err
    told = bench.synth(rows, "--retries", 1, "-v", model=endless).err
    assert "DEBUG" not in told
    for words in (
        "settings: model ",
        "retries 1",
        f"reading weights in {endless}",
        "device: cpu (--device cpu); graphs: none, they need a CUDA device",
        "1 slots of 64 positions, at most 4 frames per row",
        "row a: attempt 1 ended after 4 frames (max_frames); retrying with another seed",
    ):
        assert words in told
        assert words not in quiet
    good = bench.synth(ROWS, *CAP, "--accept-truncated", "-v", out="good").err
    assert re.search(r"^row b: 0\.\d\d s of audio, \w+, attempt 1, ", good, re.MULTILINE)


def test_a_cap_of_the_row_wins_over_that_of_a_retry(bench: Workbench, endless: Path) -> None:
    """Retried with more seconds, such rows failed again within their own, and nobody said why."""
    rows = [
        {"id": "own", "text": "Hm.", "max_frames": 1},
        {"id": "other", "text": "Hm.", "max_seconds": 0.01},
        {"id": "free", "text": "Hm."},
    ]
    first = bench.synth(rows, "--retries", 0, "--max-seconds", 0.01, model=endless).expect(1)
    assert "first, which takes precedence over --max-seconds" not in first.err
    assert "row own failed: its audio did not end within 1 frame (0.0 s)" in first.err
    again = ("--retry-failed", "--max-seconds", 30, "--dry-run")
    result = bench.synth(rows, *again, model=endless)
    assert (
        "rows.jsonl: 2 rows give max_seconds or max_frames, 'own' first, which takes "
        "precedence over --max-seconds 30: change it there\n"
    ) in result.err
    # The next command has --retries once.
    step = first.out.splitlines()[-1]
    assert step.count("--retries") == 1
    assert step.endswith("--retry-failed --retries 2")


def test_passwords_in_urls_are_never_shown(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--model https://user:TOKEN@host/x` printed the token."""
    url = "https://user:TOKEN@host.invalid/x"
    manifest = bench.write([{"id": "a", "text": "Hello.", "ref_audio": url}])
    out = bench.folder / "out"
    commands = [
        ("synth", manifest, "--out", out, "--model", url),
        ("synth", manifest, "--out", out, "--model", url, "--debug"),
        ("synth", manifest, "--out", out, "--model", bench.model, "--skip-invalid"),
        ("synth", manifest, "--out", out, "--workers", url),
        ("synth", url, "--out", out),
        ("check", out, "--asr", url),
        ("models", "download", url),
        ("book", url, "--out", out),
        ("report", url),
        ("voices", "--model", url),
        ("report", out, url),
        (url,),
    ]
    for args in commands:
        result = bench.run(*args)
        assert result.code, args
        assert "TOKEN" not in result.out + result.err, args
    assert "TOKEN" not in (out / "timings.jsonl").read_text()
    monkeypatch.setenv("TTS_CLI_MODEL", url)
    for flags in ((), ("--json",)):
        shown = bench.run("config", "show", *flags)
        assert "https://***@host.invalid/x" in shown.out
        assert "TOKEN" not in shown.out


def test_quiet_prints_nothing(bench: Workbench) -> None:
    """Of good rows; `--json` and warnings come all the same."""
    synth = bench.command(bench.write(ROWS), *CAP, "--accept-truncated")
    manifest, out, page = synth[1], bench.folder / "out", bench.folder / "page.html"
    model = ("--model", bench.model)
    for command in (
        (*synth, "--dry-run"),
        synth,
        synth,
        (*synth, "--voices-only"),
        ("validate", manifest, *model),
        ("check", out),
        ("report", out, "--out", page),
        ("pick", out),
        (*synth, "--takes", 1),
        ("pick", out, f"{ROWS[0]['id']}=2"),
    ):
        result = bench.run(*command, "-q")
        assert result.out == "", command
    for command in (
        ("pick", out),
        ("voices", *model),
        ("voices", "--out", out),
        ("models", "list"),
        ("config", "show"),
        ("lexicon", "test", "Hello."),
    ):
        assert bench.run(*command, "-q").out, f"{command}: what was asked for"
    assert bench.run("pick", out, "-q", "--json").json
    result = bench.run("check", bench.folder, "-q")
    assert (result.out, result.err.startswith("Error: ")) == ("", True)
