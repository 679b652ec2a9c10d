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
from importlib import metadata
from importlib.metadata import version
from pathlib import Path

import pytest
from made_voices import keep
from spoken_folders import record, tone, with_file, write_folder
from workbench import ROOT, MakeCheckpoint, Workbench

from tts_cli.main import COMMANDS

HEAVY = ("torch", "triton", "transformers", "soundfile", "tokenizers", "huggingface_hub", "lxml")
ROW = {"id": "a", "text": "Hello there, on 3 May 1984."}
PROGRAM = (
    "import json, sys; from tts_cli.main import main; code = main(json.loads(sys.argv[1])); "
    f"print(json.dumps([code, sorted(set({HEAVY}) & set(sys.modules))]), file=sys.stderr)"
)


def run(*args: object, **environment: str) -> tuple[int, list[str], str]:
    """Exit code, what was imported of HEAVY, and stdout."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([str(arg) for arg in args])],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    code, imported = json.loads(done.stderr.splitlines()[-1])
    return code, imported, done.stdout


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory, make_checkpoint: MakeCheckpoint) -> list[str]:
    """A `synth` command line whose one row is done."""
    folder = tmp_path_factory.mktemp("spoken")
    manifest = folder / "rows.jsonl"
    manifest.write_text(json.dumps(ROW))
    args = ["synth", str(manifest), "--out", str(folder / "out"), "--model", str(make_checkpoint())]
    args += ["--max-seconds", "1", "--accept-truncated", "--device", "cpu"]
    code, imported, _ = run(*args, TRITON_INTERPRET="0", CUDA_VISIBLE_DEVICES="")
    assert code == 0
    assert "torch" in imported, "the list would say nothing"
    assert "triton" not in imported, "it is for CUDA devices"
    return args


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (["--device", "auto"], "nothing to do: all 1 rows are done already"),
        (["--json"], '"skipped": 1'),
        (["--dry-run"], "to speak: 0 rows"),
        (["--retry-failed", "--verify-files"], "nothing to do: no row of this manifest is recor"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_rerun_that_has_nothing_to_do(spoken: list[str], flags: list[str], answer: str) -> None:
    code, imported, out = run(*spoken, *flags)
    assert (code, imported) == (0, [])
    assert answer in out


@pytest.mark.parametrize(
    "args",
    [
        ["validate", "samples/manifest.jsonl"],
        ["validate", "samples/manifest.jsonl", "--json"],
        ["voices", "--voices", "no-such-folder"],
        ["voices", "--model", "synthetic:fish-s2-pro", "--voices", "no-such-folder"],
        ["lexicon", "test", "1984"],
        ["say", "--help"],
        ["--version"],
    ],
    ids=" ".join,
)
def test_what_only_looks(args: list[str]) -> None:
    code, imported, out = run(*args)
    assert (code, imported) == (0, [])
    assert out


@pytest.mark.parametrize("args", [["report"], ["pick"], ["voices", "--out"]], ids=" ".join)
def test_what_comes_after_a_run(spoken: list[str], args: list[str]) -> None:
    keep(Path(spoken[3]))
    code, imported, out = run(*args, spoken[3])
    assert (code, imported) == (0, [])
    assert out


def test_estimates_of_time(spoken: list[str]) -> None:
    manifest, out = spoken[1], spoken[3]
    code, imported, said = run("validate", manifest, "--out", out)
    assert (code, imported) == (0, [])
    assert "\ntime: about " in said


def test_a_device_is_asked_for_when_there_is_something_to_speak(
    spoken: list[str], bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """torch was imported first, only to hear that nothing was to do."""
    from tts_cli.app import device

    monkeypatch.setattr(device, "DRIVERS", (str(tmp_path),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert bench.run(*spoken, "--device", "cuda:900").out.startswith("nothing to do")
    result = bench.synth([ROW], "--device", "cuda:900")
    assert result.code == 3
    assert "--device cuda:900: " in result.err
    assert not bench.out().path.exists()


def test_another_version_of_the_tool_leaves_rows_done(
    spoken: list[str], bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """run.json has the version; no hash of a row may."""
    report = json.loads((Path(spoken[3]) / "run.json").read_text())
    assert report["versions"]["tts-cli"] == version("tts-cli")
    monkeypatch.setattr(metadata, "version", lambda _: "9.9.9")
    assert bench.run("--version").out.startswith("tts-cli 9.9.9\n")
    assert bench.run(*spoken).out == "nothing to do: all 1 rows are done already\n"


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
        "synthetic:qwen3-tts-0.6b",
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
        (3, ("doctor",)),
        (0, ("check", out)),
        (0, ("validate", manifest)),
        (0, ("voices",)),
        (0, ("pick", out)),
        (0, ("report", out)),
        (0, ("encode", out, "--format", "flac", "--out", "flac")),
        (0, ("export", out, "--to", "ljspeech", "--out", "lj")),
        (0, ("merge", out, "--out", "all")),
        (0, ("lexicon", "test", "1984")),
        (0, ("models", "list")),
        (0, ("config", "show")),
        (0, ("completion", "bash")),
    ]
    assert {args[0] for _, args in commands} == COMMANDS.keys()
    program = textwrap.dedent(f"""
        import sys
        from tts_cli.main import main
        for code, args in {[(code, list(map(str, args))) for code, args in commands]!r}:
            print("#", args, file=sys.stderr)
            found = main(args)
            assert found == code, (found, args)
    """)
    env = {**os.environ, "PYTHONPATH": f"{bench.folder}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=bench.folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: torch cannot be imported: ") == 9
    assert done.stderr.count("install it: pip install 'torch>=2.10'; `tts-cli doctor` tells") == 9
    assert "internal error" not in done.stderr
