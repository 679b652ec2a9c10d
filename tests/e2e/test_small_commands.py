"""What speaks nothing starts at once: no torch, and nothing else that takes long to import.

Such commands once took as long as importing torch, some seconds. No clock here: what a process has
imported says the same on a busy machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from made_voices import keep
from spoken_folders import record, tone, with_file, write_folder
from workbench import ROOT, MakeCheckpoint, Workbench

from tts_cli.cli import messages as msg
from tts_cli.main import COMMANDS

HEAVY = ("torch", "triton", "transformers", "soundfile", "tokenizers", "huggingface_hub", "lxml")
ROW = {"id": "a", "text": "Hello there, on 3 May 1984."}
PROGRAM = f"""
import json, sys
from tts_cli.main import main
for args in json.loads(sys.argv[1]):
    code = main(args)
    print(json.dumps([code, sorted(set({HEAVY}) & set(sys.modules))]))
"""


def run(*commands: list[str], **environment: str) -> list[tuple[int, list[str], str]]:
    """Commands in one process: exit code, what was imported of HEAVY until then, and stdout."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    found, said = [], ""
    for line in done.stdout.splitlines(keepends=True):
        if line.startswith("[0, ["):
            found.append((0, json.loads(line)[1], said))
            said = ""
        else:
            said += line
    assert len(found) == len(commands), done.stdout + done.stderr
    return found


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory, make_checkpoint: MakeCheckpoint) -> list[str]:
    """A `synth` command line whose one row is done."""
    folder = tmp_path_factory.mktemp("spoken")
    manifest = folder / "rows.jsonl"
    manifest.write_text(json.dumps(ROW))
    args = ["synth", str(manifest), "--out", str(folder / "out"), "--model", str(make_checkpoint())]
    args += ["--max-seconds", "1", "--accept-truncated", "--device", "cpu"]
    ((_, imported, _),) = run(args, TRITON_INTERPRET="0", CUDA_VISIBLE_DEVICES="")
    assert "torch" in imported, "the list would say nothing"
    assert "triton" not in imported, "it is for CUDA devices"
    return args


def test_what_only_looks_and_what_has_nothing_to_do(spoken: list[str]) -> None:
    _, manifest, _, out, *_ = spoken
    keep(Path(out))
    answers = [
        ([*spoken, "--device", "auto"], msg.nothing_to_do(1)),
        ([*spoken, "--json"], '"skipped": 1'),
        ([*spoken, "--dry-run"], ": ".join(msg.PLAN_PENDING).format(rows=msg.rows(0))),
        (
            [*spoken, "--retry-failed", "--verify-files"],
            msg.NOTHING_TO_DO.format(reason=msg.NONE_FAILED),
        ),
        (["validate", "samples/manifest.jsonl"], ""),
        (["validate", "samples/manifest.jsonl", "--json"], ""),
        (["validate", manifest, "--out", out], "\ntime: about "),
        (["voices", "--voice-dir", "no-such-folder"], ""),
        (["voices", "--model", "synthetic:fish-s2-pro", "--voice-dir", "no-such-folder"], ""),
        (["lexicon", "test", "1984"], ""),
        (["say", "--help"], ""),
        (["--version"], ""),
        # What comes after a run.
        (["pick", out], ""),
        (["voices", "--out", out], ""),
        (["align", "--help"], "--lexicon"),
        (["report", out], ""),  # the last one, because it reads audio
    ]
    found = run(*(args for args, _ in answers))
    for (args, answer), (_, imported, said) in zip(answers, found, strict=True):
        assert imported == ["soundfile"] * (args[0] == "report"), args
        assert said, args
        assert answer in said, args


def test_a_device_is_asked_for_when_there_is_something_to_speak(
    spoken: list[str], bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """torch was imported first, only to hear that nothing was to do."""
    from tts_cli.app import device

    monkeypatch.setattr(device, "DRIVERS", (str(tmp_path),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert bench.run(*spoken, "--device", "cuda:900").out.startswith(
        msg.NOTHING_TO_DO.format(reason="")
    )
    bench.synth([ROW], "--device", "cuda:900").expect(3, "--device cuda:900: ")
    assert not bench.out().path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        'OSError("libcudart.so.12: cannot open shared object file")',
        'ModuleNotFoundError("No module named \'torch\'", name="torch")',
        'ImportError("libtorch_cpu.so: undefined symbol: x", name="torch._C")',
    ],
)
def test_without_torch(bench: Workbench, fault: str) -> None:
    """Every command that needs it ended as an internal error; those that do not, work."""
    (bench.folder / "torch").mkdir()
    (bench.folder / "torch" / "__init__.py").write_text(f"raise {fault}\n")
    out = write_folder(bench.folder / "hp", [record("a", **with_file(tone(0.4)))])
    manifest = bench.write([{"text": "Hello."}])
    book = bench.write("# One\n\nHello.\n", "b.md")
    base = "synthetic:qwen3-tts-0.6b-base"
    design = (
        "--instruct",
        "Old.",
        "--text",
        "Hello.",
        "--design-model",
        base.removesuffix("-base"),
    )
    commands: list[tuple[int, tuple[object, ...]]] = [
        (3, ("synth", manifest, "--out", "o")),
        (3, ("say", "Hi.")),
        (3, ("book", book, "--out", "b")),
        (3, ("warmup",)),
        (3, ("profile", "--synthetic", "qwen3-tts-0.6b")),
        (3, ("voices", "add", "x", "--ref-audio", out / "a.wav", "--model", base)),
        (3, ("voices", "design", "x", *design, "--model", base)),
        (3, ("check", out, "--drift", "--model", base)),
        (3, ("check", out, "--asr", bench.folder)),
        (0, ("check", out)),
        (0, ("validate", manifest)),
        (0, ("voices",)),
        (0, ("pick", out)),
        (0, ("report", out)),
        (0, ("encode", out, "--format", "flac", "--out", "flac")),
        (0, ("export", out, "--to", "ljspeech", "--out", "lj")),
        (0, ("merge", out, "--out", "all")),
        (0, ("clean", out, "--dry-run")),
        (1, ("align", out)),  # a tone says no words
        (0, ("lexicon", "test", "1984")),
        (0, ("models", "list")),
        (0, ("config", "show")),
        (0, ("completion", "bash")),
        (3, ("doctor",)),
        (0, ("again", out, "--print")),
        (0, ("review", out, "--csv", "decisions.csv")),
        (2, ("mark", "verify", "nowhere")),
    ]
    assert {args[0] for _, args in commands} == COMMANDS.keys()
    if not fault.startswith("Module"):  # others are told alike
        commands = [commands[0], commands[10]]
    program = textwrap.dedent(f"""
        import sys
        from tts_cli.extras import all_extras
        from tts_cli.main import main
        for code, args in {[(code, list(map(str, args))) for code, args in commands]!r}:
            print("#", args, file=sys.stderr)
            if args == ["doctor"]:
                all_extras().clear()  # it imports them all
            found = main(args)
            assert found == code, (found, args)
    """)
    env = {**os.environ, "PYTHONPATH": f"{bench.folder}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=bench.folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = sum(code == 3 and args != ("doctor",) for code, args in commands)
    assert done.stderr.count("Error: torch cannot be imported: ") == told
    assert (
        done.stderr.count("install it: pip install 'torch>=2.10'; `tts-cli doctor` tells") == told
    )
    assert "internal error" not in done.stderr
