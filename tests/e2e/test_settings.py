"""Settings from files and variables: which counts, where it is told, and what they may not do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cases import cases
from workbench import ROOT, Workbench

from tts_cli.app import offers
from tts_cli.cli.settings_files import load_settings
from tts_cli.config import SETTINGS
from tts_cli.errors import UsageError
from tts_cli.main import COMMANDS, cli

CASES = cases(__file__)["settings"]

ROW = [{"id": "a", "text": "Hello there."}]
CAP = ("--max-seconds", 0.2, "--accept-truncated")


@pytest.fixture
def project(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a folder below, which is the working folder."""
    below = bench.folder / "project" / "below"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for name in [name for name in os.environ if name.startswith("TTS_CLI_")]:
        monkeypatch.delenv(name)
    return below.parent


def write(folder: Path, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tts-cli.toml"
    path.write_text(content)
    return path


def shown(bench: Workbench, *args: str) -> dict[str, tuple[object, str]]:
    """Value and origin of each setting."""
    result = bench.run("config", "show", *args, "--json").expect(0)
    return {
        name: (entry["value"], entry["origin"]) for name, entry in result.json["settings"].items()
    }


def test_a_run_tells_and_keeps_them(bench: Workbench, project: Path) -> None:
    path = write(project, 'seed = 3\nvoice = "emil"\nmap = {Dialogue = "text"}\n')
    rows = [{"id": "a", "Dialogue": "Hello there."}]
    bench.synth(rows, *CAP, "--seed", 4).expect(
        0, f"settings from {path}: map Dialogue=text, voice emil"
    )
    assert bench.out().records["a"]["voice"] == "emil"
    report = bench.out().report
    assert report["settings"]["seed"] == 4
    assert report["settings_from"]["voice"] == f"{path}:2"
    assert report["settings_from"]["seed"] == "flag"
    assert "split" not in report["settings_from"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *CASES["files_that_are_none"],
        ("a = " + "[" * 50_000, "tts-cli.toml: "),
        ("#" * (1 << 21), "has more than 1 MiB"),
    ],
)
def test_files_that_are_none(bench: Workbench, project: Path, content: str, words: str) -> None:
    path = write(project, content)
    result = bench.synth(ROW, *CAP)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {path}")
    assert words in result.err
    assert len(result.err) < 600
    assert not bench.out().path.exists()
    bench.run("synth", "--help").expect(0)


# What a project's file, which may be anybody's, may say: nothing that names what is written,
# accepts terms, sends texts or voices to a host, widens what may be read, or hides messages.
HARMLESS = (
    *("model", "revision", "device", "dtype", "max_batch", "no_graphs", "kernels", "reproducible"),
    *("workers", "manifest_format", "sheet", "encoding", "map", "columns", "extra", "cast"),
    *("speaker_prefix", "ids", "approved"),
    *("skip_invalid", "voice_dir", "ref_silence", "free_voice", "voice_text"),
    *("made_voices", "clone_model", "voice", "language"),
    *(
        "normalize",
        "lexicon",
        "strip_markup",
        "layout",
        "seed",
        "max_seconds",
        "split",
        "pause_paragraph",
    ),
    *("pause_sentence", "pause_clause", "retries", "accept_truncated", "wordless", "format"),
    *("subtype", "sample_rate", "loudness", "highpass", "trim", "pad", "save_codes", "subtitles"),
    *("max_failures", "progress", "asr", "asr_batch", "drift", "mos", "greedy", "subtalker_greedy"),
    *("temperature", "top_k", "top_p", "repetition_penalty", "subtalker_temperature"),
    *("subtalker_top_k", "subtalker_top_p", "join", "instruct", "to", "splits", "shard_mb"),
    *("link", "of_voice", "of_language", "shortest", "longest", "max_error", "no_suspects"),
    *("all_takes", "row_seed", "verify", "retakes", "verify_device", "words"),
    *("bitrate", "preset", "speed", "fit", "labels", "mark", "cover"),
)
WRITTEN_THERE = {
    ("voices add", "voice_dir"),
    ("voices design", "voice_dir"),
    ("say", "made_voices"),
}
OF_A_FLAG_ALONE = {("voices design", "instruct")}


def test_what_a_projects_file_may_say(bench: Workbench, project: Path) -> None:
    """All settings of all commands. `[say] target = "mine.wav"` replaced that file."""
    ctx = click.Context(cli, info_name="tts-cli", **cli.context_settings)
    num_refused = 0
    for names, command in commands_of(ctx, cli):
        for param in command.params:
            if not isinstance(param, click.Option) or param.hidden:
                continue
            name = str(param.name)
            section = ".".join(names)
            write(project, f"[{section}]\n{name} = {value_of(param)}\n")
            try:
                found = load_settings(ctx, names, command)
            except UsageError as error:
                refused = "command line", "is not allowed in a project file"
                is_allowed = not any(words in str(error) for words in refused)
            else:
                is_allowed = True
                assert name in found.values
            place = " ".join(names), name
            is_harmless = name in HARMLESS and place not in WRITTEN_THERE | OF_A_FLAG_ALONE
            assert is_allowed == is_harmless, place
            num_refused += not is_allowed
    assert num_refused > 50


def commands_of(
    ctx: click.Context, group: click.Group
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its names, those below others too."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield (name,), command
        if isinstance(command, click.Group):
            yield from (((name, *names), one) for names, one in commands_of(ctx, command))


def value_of(param: click.Option) -> str:
    """A value of the kind that a flag takes; whether it is a good one is no matter."""
    if param.is_flag:
        return "true"
    return "1" if param.type in (click.INT, click.FLOAT) or param.count else '"x"'


def test_validate_knows_the_flags_that_only_synth_has(bench: Workbench, project: Path) -> None:
    """A file for many GPUs was refused: `validate` has no --workers."""
    manifest = bench.write('{"id": "a", "text": "Hello."}\n')
    path = write(project, '[synth]\nworkers = "all"\ndevice = "cpu"\n')
    result = bench.run("validate", manifest, "--model", bench.model).expect(0)
    assert "workers" not in result.err
    for line, words in (
        ("workers = 0", "workers: --workers '0': must be all or a number"),
        ("workrs = 2", "unknown key 'workrs'; did you mean 'workers'?"),
    ):
        write(project, f"[synth]\n{line}\n")
        bench.run("validate", manifest, "--model", bench.model).expect(2, f"{path}:2: {words}")


def test_paths_start_from_the_file(bench: Workbench, project: Path) -> None:
    (project / "words.tsv").write_text("Hello\tGood day\n")
    (project / "ckpt").mkdir()
    lines = ('lexicon = "words.tsv"', 'model = "ckpt"', 'clone-model = "ckpt"', "split = 300")
    write(project, "\n".join(lines))
    found = shown(bench)
    assert found["lexicon"][0] == str(project / "words.tsv")
    assert found["model"][0] == found["clone_model"][0] == str(project / "ckpt")
    assert found["split"][0] == "300"
    write(project, 'model = "org/name"\n')
    assert shown(bench)["model"][0] == "org/name"


def test_a_file_of_somebody_else(
    bench: Workbench, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that all may write to, anybody can leave one."""
    path = write(project, "seed = 3\n")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if path.stat().st_uid != 0:
        result = bench.run("config", "show")
        assert f"{path}: belongs to another user, so it is not read" in result.err
        assert "built-in" in shown(bench)["seed"][1]
    monkeypatch.setenv("TTS_CLI_SETTINGS", str(path))
    assert shown(bench)["seed"][0] == 3
    monkeypatch.setenv("TTS_CLI_SETTINGS", "off")
    assert shown(bench)["seed"][0] == 0
    monkeypatch.setenv("TTS_CLI_SETTINGS", str(project / "gone.toml"))
    assert "gone.toml: No such file or directory" in bench.run("config", "show").err


def test_variables_that_are_wrong(
    bench: Workbench, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTS_CLI_VERSION", "0.2.0")  # somebody's note of what is installed
    monkeypatch.setenv("TTS_CLI_TEMPERATURE", "hot")
    bench.synth(ROW).expect(
        2, "'--temperature' (from TTS_CLI_TEMPERATURE): 'hot' is not a valid float"
    )
    monkeypatch.setenv("TTS_CLI_TEMPERATURE", "0")
    assert "TTS_CLI_TEMPERATURE: --temperature must be 0.001 to 100" in bench.synth(ROW).err
    monkeypatch.setenv("TTS_CLI_TEMPERATURE", "")
    monkeypatch.setenv("TTS_CLI_VOISE", "x")
    bench.synth(ROW, *CAP).expect(0, "TTS_CLI_VOISE is not a setting; did you mean TTS_CLI_VOICE?")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_tells_of_unknown_variables(
    bench: Workbench, project: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """`doctor`, `models`, `config` and others said nothing, and none looked behind its name."""
    for name in ("SYNTH_VOICE", "PROFILE_STAGES", "VOICES_ADD_REF_TEXT", "KERNELS"):
        monkeypatch.setenv(f"TTS_CLI_{name}", "")
    monkeypatch.setenv("TTS_CLI_VOISE", "x")
    monkeypatch.setenv("TTS_CLI_SYNTH_VOISE", "x")
    monkeypatch.setenv("TTS_CLI_STAGES", "x")  # of profile, which takes it by its full name alone
    told = bench.run(command, "--no-such-option").err
    assert "TTS_CLI_VOISE is not a setting; did you mean TTS_CLI_VOICE?" in told
    assert "TTS_CLI_SYNTH_VOISE is not a setting; did you mean TTS_CLI_SYNTH_VOICE?" in told
    assert "TTS_CLI_STAGES is not a setting; " in told
    assert told.count("is not a setting") == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VOICES", "VOICE_DIR"),
        ("SYNTH_VOICES", "SYNTH_VOICE_DIR"),
        ("VOICES_ADD_MODE", "VOICES_ADD_CLONE_MODE"),
        ("CHECK_BATCH", "CHECK_ASR_BATCH"),
        ("EXPORT_MAX_S", "EXPORT_LONGEST"),
    ],
)
def test_variables_of_earlier_versions(
    bench: Workbench, project: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    monkeypatch.setenv(f"TTS_CLI_{old}", "x")
    told = bench.run("pick", "--no-such-option").err
    assert f"TTS_CLI_{old} is not a setting; did you mean TTS_CLI_{new}?" in told


def test_subcommands_have_settings(bench: Workbench, project: Path) -> None:
    path = write(project, '[voices.add]\nref_silence = 0.1\n[lexicon.test]\nlanguage = "xx"\n')
    bench.run("lexicon", "test", "NASA").expect(2, "language: 'xx' is unknown")
    bench.run("voices").expect(0)
    path.write_text("[lexicon.test]\nlanguag = 1\n")
    assert f"{path}:2: unknown key 'languag'" in bench.run("lexicon", "test", "NASA").err


def test_of_no_command(bench: Workbench, project: Path) -> None:
    bench.run("config", "show", "sinth").expect(
        2, "no such command 'sinth'; the commands are synth, say"
    )
    result = bench.run("config", "show")
    assert result.out.startswith("synth; files: none, such as ")
    assert bench.run("config").out.startswith("Usage: tts-cli config")


# What bash is given for each line, the cursor at its end; torch is not there.
COMPLETE = """
import os, sys
sys.modules["torch"] = None
from tts_cli.main import main
os.environ["_TTS_CLI_COMPLETE"] = "bash_complete"
for line in sys.argv[1:]:
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = line, str(line.count(" "))
    try:
        main([])
    except SystemExit:
        pass
    print("--")
"""


def test_completion(bench: Workbench, project: Path) -> None:
    write(project, "not toml")  # nobody wants to hear of it now
    model = f"tts-cli synth --model {bench.model} "
    wanted = {
        "tts-cli comp": ["completion"],
        f"{model}--voice ": ["dora", "emil", "fang"],
        f"{model}--voice E": ["emil"],
        "tts-cli synth --model org/not-here --voice ": [],
    }
    some = {"tts-cli synth --vo": "--voice", f"{model}--language e": "english"}
    some["tts-cli synth --device c"] = "cpu"
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE, *wanted, *some],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    answers = [part.split() for part in done.stdout.split("--\n")[:-1]]
    names = [[answer.partition(",")[2] for answer in part] for part in answers]
    assert done.stderr == ""
    assert names[: len(wanted)] == list(wanted.values())
    for one, found in zip(some.values(), names[len(wanted) :], strict=True):
        assert one in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(bench: Workbench, shell: str) -> None:
    result = bench.run("completion", shell).expect(0, out="_TTS_CLI_COMPLETE")
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=result.out, text=True).returncode == 0


def test_completing_ids(bench: Workbench) -> None:
    from tts_cli.app.offers import completions
    from tts_cli.core import Status
    from tts_cli.store.entry import JournalEntry

    lines = [
        JournalEntry(name, Status.OK).to_line().strip() for name in ("intro/1", "intro/2", "end")
    ]
    bench.write("\n".join([*lines, "{torn"]), "timings.jsonl")
    assert completions("only", {"out": str(bench.folder)}, "intro") == ["intro/1", "intro/2"]
    assert completions("only", {"out": None}, "intro") == []


def test_what_is_completed() -> None:
    assert {name for name, one in SETTINGS.items() if one.is_completed} == offers._OFFERS.keys()
