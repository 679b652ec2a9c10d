"""The folder remembers: a forgotten flag changes nothing, a changed one asks, an upgrade redoes
nothing, and `again` repeats the command.
"""

from __future__ import annotations

import io
import json
import shlex
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from workbench import Result, Workbench, forbid_weights

from tts_cli.cli import messages as msg
from tts_cli.plan import changes, resolve

ROWS = [
    {"id": "a", "text": "Hello there."},
    {"id": "b", "text": "Good morning."},
    {"id": "c", "text": "Hm."},
]
NEW = {"id": "new", "text": "Hi."}
CAP = ("--max-seconds", 1)
NOTHING = msg.nothing_to_do(3) + "\n"
ASKS = "add --redo to synthesize such rows again, or --keep-done to keep them"


@pytest.fixture
def checkpoint(longer: Path) -> Path:
    return longer


@pytest.fixture
def manifest(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest in the working folder, which has a checkpoint as well."""
    monkeypatch.chdir(bench.folder)
    shutil.copytree(bench.model, bench.folder / "tiny")
    bench.model = bench.folder / "tiny"
    return bench.write(ROWS)


def bare(bench: Workbench, *flags: object, manifest: str = "rows.jsonl") -> Result:
    """Run `synth` with these flags only."""
    return bench.run("synth", bench.folder / manifest, "--out", bench.out().path, *flags)


def kept_by(bench: Workbench) -> dict[str, bytes]:
    return {name: data for name, data in bench.out().files.items() if "report" not in name}


class TestForgotten:
    """Flags of the first run that a second one does not have."""

    def test_nothing_changes(
        self, bench: Workbench, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = bench.write("there\tyou\n", "words.tsv")
        flags = ("--seed", 7, "--format", "flac", "--lexicon", "words.tsv", "--trim", *CAP)
        bench.run_once(*bench.command(manifest, *flags))
        forbid_weights(monkeypatch)
        journal = bench.out().lines
        result = bare(bench)
        assert (result.code, result.out) == (0, NOTHING)
        (line,) = result.err.splitlines()
        assert line.startswith(f"settings from the last run in {bench.out().path}/: ")
        told = line.split(": ", 1)[1].split(", ")
        assert {"--seed 7", "--format flac", "--trim", f"--lexicon {words}"} <= set(told)
        assert f"--model {bench.model}" in told
        assert not any("--device" in one or "--max-batch" in one for one in told)
        assert bench.out().lines == journal

    def test_only_what_was_chosen(self, bench: Workbench, manifest: Path) -> None:
        """A newer default is no choice, and neither are flags for one run."""
        flags = ("--only", "a", "--limit", 1, "--accept-truncated", "--retries", 3)
        bench.synth(ROWS, *flags, *CAP).expect(0)
        told = bare(bench, "--dry-run").err
        assert told.count("--") == 2, told
        assert {"--model", "--max-seconds"} <= set(told.split())

    def test_what_a_conversion_was_told(
        self, bench: Workbench, manifest: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a line in runs.jsonl the next run would convert the files back."""
        bench.run_once(*bench.command(manifest, *CAP))
        forbid_weights(monkeypatch)
        bare(bench, "--format", "flac").expect(0)
        assert bare(bench).out == NOTHING
        assert "a.flac" in bench.out().files

    @pytest.mark.parametrize("name", ["lexicon", "all"])
    def test_forget(self, bench: Workbench, manifest: Path, name: str) -> None:
        bench.write("Hello\tGoodbye\n", "words.tsv")
        bench.run_once(*bench.command(manifest, "--lexicon", "words.tsv"))
        flags = ("--model", bench.model) if name == "all" else ()
        bare(bench, "--forget", name, *flags).expect(2, "1 done row of ", "--lexicon none, before ")
        bare(bench, "--forget", "lexikon").expect(2)
        (bench.folder / "words.tsv").unlink()
        bare(bench).expect(2, "give another --lexicon, or --forget lexicon")


PLACES = ("flag", "environment", "folder", "project", "user")
SEEDS = {name: number for number, name in enumerate(PLACES, 1)}


@pytest.mark.parametrize("strongest", range(len(PLACES)))
def test_precedence(
    bench: Workbench,
    manifest: Path,
    config_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    strongest: int,
) -> None:
    there = PLACES[strongest:]
    first = ("--seed", SEEDS["folder"]) if "folder" in there else ()
    bench.run_once(*bench.command(manifest, *first, *CAP))
    if "environment" in there:
        monkeypatch.setenv("TTS_CLI_SEED", str(SEEDS["environment"]))
    for name, folder in (("project", bench.folder), ("user", config_home / "tts-cli")):
        if name in there:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tts-cli.toml").write_text(f"seed = {SEEDS[name]}\n")
    flags = ("--seed", SEEDS["flag"]) if "flag" in there else ()
    bench.write([*ROWS, {**NEW, "seed": 99}])
    result = bare(bench, *flags, "--keep-done").expect(0)
    report = bench.out().report
    assert report["settings"]["seed"] == SEEDS[there[0]]
    assert bench.out().records["new"]["seed"] == 99  # the row counts first
    if there[0] == "folder":
        assert f"--seed 3 (not {bench.folder}/tts-cli.toml:1)" in result.err


@pytest.fixture
def done(bench: Workbench, manifest: Path) -> Workbench:
    """A folder whose rows are done; before `no_model`, so that a test can run alone."""
    bench.run_once(*bench.command(manifest, *CAP))
    return bench


class TestChanged:
    """Settings that are given and differ."""

    def test_delivery_is_done(self, done: Workbench, no_model: None) -> None:
        assert bare(done, "--format", "flac").out.startswith("nothing to synthesize: 3 files")
        bare(done, "--subtitles", "srt").expect(0)
        assert {"a.flac", "a.srt"} <= set(done.out().files)

    @pytest.mark.parametrize("by", ["flag", "variable", "file"])
    def test_a_seed_stops(
        self, done: Workbench, no_model: None, monkeypatch: pytest.MonkeyPatch, by: str
    ) -> None:
        if by == "variable":
            monkeypatch.setenv("TTS_CLI_SEED", "8")
        if by == "file":
            (done.folder / "tts-cli.toml").write_text("seed = 8\n")
        before = kept_by(done), done.out().lines, done.out().runs
        for flags in ((), ("--dry-run",)):
            result = bare(done, *flags, *(("--seed", 8) if by == "flag" else ()))
            assert (result.code, result.out) == (2, "")
            assert "3 done rows of " in result.err
            assert "would change: --seed 8, before 0; " + ASKS in result.err
        assert (kept_by(done), done.out().lines, done.out().runs) == before

    def test_redo(self, done: Workbench) -> None:
        before = done.out().files
        assert bare(done, "--seed", 8, "--redo").summary == msg.synthesized(3, 3)
        assert done.out().files["takes/a/1.wav"] == before["a.wav"] != done.out().files["a.wav"]
        assert bare(done).out == NOTHING

    def test_keep_done(self, done: Workbench) -> None:
        before = done.out().files
        done.write([*ROWS, NEW])
        result = bare(done, "--voice", "emil", "--keep-done")
        assert result.summary == msg.synthesized(1, 4, done=3)
        assert msg.OLDER_STAY % "3 done rows were" in result.err
        assert {name: done.out().files[name] for name in before} == before
        assert done.out().records["new"]["voice"] == "emil"
        for flags in ((), ("--voice", "emil")):  # the folder knows by now
            result = bare(done, *flags)
            assert result.out == msg.nothing_to_do(4) + "\n"
        assert bare(done, "--redo").summary == msg.synthesized(3, 4, done=1)

    def test_rows_that_the_manifest_changed(self, done: Workbench) -> None:
        """They are synthesized as ever, and the others are asked for."""
        rows = [{**ROWS[0], "text": "Changed."}, {**ROWS[1], "temperature": 0.5}, ROWS[2]]
        done.write(rows)
        bare(done, "--seed", 8).expect(2, "1 done row of ")
        assert bare(done, "--seed", 8, "--keep-done").summary == msg.synthesized(2, 3, done=1)
        done.write([{**rows[0], "voice": "emil"}, *rows[1:]])
        assert bare(done).summary == msg.synthesized(1, 3, done=2)

    def test_on_a_terminal(self, done: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tts_cli.cli.synth.can_ask", lambda: True)
        for answer, code, seed in (("\n", 2, 0), ("keep\n", 0, 8), ("redo\n", 0, 9)):
            monkeypatch.setattr("sys.stdin", io.StringIO(answer))
            bare(done, "--seed", seed or 8).expect(
                code,
                "warning: 3 done rows of ",
                "Synthesize them again (redo), keep them (keep), or stop?",
            )
        assert bare(done).out == NOTHING
        assert set(done.out().records) == {"a", "b", "c"}


def test_a_lexicon(bench: Workbench, manifest: Path) -> None:
    """An edited file is like an edited manifest; another file is another setting."""
    bench.write("Hello\tGoodbye\n", "words.tsv")
    bench.run_once(*bench.command(manifest, "--lexicon", "words.tsv", *CAP))
    bench.write("Hello\tWelcome\n", "words.tsv")
    assert bare(bench).summary == msg.synthesized(1, 3, done=2)
    bench.write("Good\tBad\n", "more.tsv")
    bare(bench, "--lexicon", "more.tsv").expect(2, "2 done rows of ")
    assert bare(bench, "--lexicon", "more.tsv", "--redo").summary == msg.synthesized(2, 3, done=1)


def test_a_cast(bench: Workbench, manifest: Path) -> None:
    rows = [{**row, "character": "anna"} for row in ROWS]
    bench.write(rows)
    bench.write('[anna]\nvoice = "dora"\n', "cast.toml")
    bench.write('[anna]\nvoice = "emil"\n', "other.toml")
    bench.run_once(*bench.command(manifest, "--cast", "cast.toml", *CAP))
    assert bare(bench).out == NOTHING
    bare(bench, "--cast", "other.toml").expect(2, "3 done rows of ")
    bench.write('[anna]\nvoice = "fang"\n', "cast.toml")
    assert bare(bench).summary == msg.synthesized(3, 3)


class TestUpgrade:
    """What the user did not choose redoes nothing."""

    def test_another_identity_of_the_model(
        self, bench: Workbench, manifest: Path, checkpoint: Path
    ) -> None:
        model = bench.folder / "model"
        shutil.copytree(checkpoint, model)
        bench.run_once(*bench.command(manifest, *CAP, model=model))
        before = bench.out().files
        weights = load_file(model / "model.safetensors")
        weights["talker.model.text_embedding.weight"][ord("~")] += 1
        save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
        result = bare(bench)
        assert (result.code, result.out) == (0, NOTHING)
        assert msg.OLDER_STAY % "3 done rows were" in result.err
        bench.write([{**ROWS[0], "text": "Changed."}, *ROWS[1:], NEW])
        assert bare(bench).summary == msg.synthesized(2, 4, done=2)
        assert bench.out().files["b.wav"] == before["b.wav"]
        assert bare(bench, "--redo").summary == msg.synthesized(2, 4, done=2)

    @pytest.mark.parametrize("is_text", [False, True])
    def test_another_version(
        self, bench: Workbench, manifest: Path, monkeypatch: pytest.MonkeyPatch, is_text: bool
    ) -> None:
        """Its hashes differ, or it reads a text in another way."""
        bench.run_once(*bench.command(manifest, "--normalize", "english", *CAP))
        if is_text:
            from tts_cli.text import frontend

            monkeypatch.setattr(frontend.TextFrontend, "leaves", lambda *_: False)
            monkeypatch.setattr(
                frontend, "normalize", lambda text, *_: [frontend.Edit(0, 1, text[0].swapcase())]
            )
        else:
            kind = resolve.ResolvedRow
            real = kind.request_hash
            monkeypatch.setattr(kind, "request_hash", lambda row: real(row)[::-1])
            monkeypatch.setattr(changes, "versions", lambda: {"tts-cli": "9.9"})
        result = bare(bench)
        assert (result.code, result.out) == (0, NOTHING)
        assert msg.OLDER_STAY % "3 done rows were" in result.err
        bench.write([{**ROWS[0], "text": "Changed."}, *ROWS[1:]])
        assert bare(bench).summary == msg.synthesized(1, 3, done=2)
        bare(bench, "--seed", 5).expect(2)
        assert bare(bench, "--redo").summary == msg.synthesized(2, 3, done=1)


class TestAgain:
    def test_manifests(self, bench: Workbench, manifest: Path) -> None:
        other = bench.write([{"key": "x", "text": "Hello you."}], "other.jsonl")
        bench.run_once(*bench.command(manifest, "--voice", "dora", *CAP))
        flags = ("--voice", "emil", "--map", "key=id", *CAP)
        bench.synth(other, *flags, "--keep-done").expect(0)
        result = bench.run("again", "out", "--device", "cpu")
        assert (result.code, result.out.count("nothing to do: ")) == (0, 2)
        result = bench.run("again", bench.out().path, "--print", "--json")
        first, second = map(shlex.split, result.json)
        assert first[:3] == ["tts-cli", "synth", str(manifest)]
        assert second[:3] == ["tts-cli", "synth", str(other)]
        assert first[first.index("--voice") + 1] == "dora"
        assert second[second.index("--map") + 1] == "key=id"
        assert not {"--keep-done", "--device"} & {*first, *second}
        for command in (first, second):
            assert bench.run(*command[1:]).out.startswith("nothing to do: ")
        bench.write([*ROWS, NEW])
        bench.run("again", "out").expect(0)
        assert bench.out().records["new"]["voice"] == "dora"

    def test_further_flags(self, bench: Workbench, manifest: Path) -> None:
        bench.run_once(*bench.command(manifest, "--only", "a", *CAP))
        assert bench.run("again", "out").summary == msg.synthesized(2, 3, done=1)
        bench.run("again", "out", "--seed", 8).expect(2)
        result = bench.run("again", "out", "--seed", 8, "--redo", "--out", "elsewhere")
        assert result.summary == msg.synthesized(3, 3)
        assert not (bench.folder / "elsewhere").exists()

    def test_the_folder_of_a_part_got_all_parts(self, bench: Workbench, manifest: Path) -> None:
        bench.synth(manifest, "--shard", "1/3", *CAP).expect(0)
        assert "nothing to do: " in bench.run("again", "out").expect(0).out
        bench.synth(manifest, "--shard", "3/3", *CAP).expect(0)
        (told,) = bench.run("again", "out", "--print", "--json").json
        assert "--shard" not in told, "one of the parts would be left out"

    def test_a_strangers_folder(
        self, bench: Workbench, manifest: Path, done: Workbench, no_model: None
    ) -> None:
        out = bench.out().path
        secret = bench.folder.parent / "secret.tsv"
        secret.write_text("Hello\tsecret\n")
        harm = {
            "out": "/evil",
            "accept_licence": True,
            "kernel_cache": "/evil",
            "ray_address": "evil:1",
            "ref_root": "/",
            "dry_run": True,
            "prune": True,
            "seed": "--out=/evil",
            "format": ["wav"],
            "voice": "--out=/evil",
            "greedy": "--out=/evil",
            "clone_model": "https://user:token@evil.org/model",
            "model": "evil/model",
            "lexicon": str(secret),
            "evil": 1,
        }
        line = {
            **bench.out().runs[-1],
            "run_id": "evil",
            "settings": harm,
            "settings_from": dict.fromkeys(harm, "flag"),
        }
        with (out / "runs.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.write('{"settings": 1, "manifests": {}, "model": [], "read_as": 5}\n')
        printed = bench.run("again", "out", "--print").out
        assert not any(word in printed for word in ("token", "accept", "evil:1", "prune", "kernel"))
        words = shlex.split(printed)
        assert words[-2:] == ["--out", "out"]
        assert "--voice=--out=/evil" in words
        assert words.count("--out") == 1
        bench.run("again", "out").expect(
            2, f"{secret}, --model evil/model (to download); if this folder is"
        )


STORY = "# The Ferry\n\n## One\n\nIt rained.\n\n## Two\n\nThe ferry left.\n"


def test_a_book_with_fewer_flags(bench: Workbench, manifest: Path) -> None:
    pytest.importorskip("av", reason="PyAV (extra m4b) is not installed")
    story = bench.write(STORY, "story.md")
    flags = ("--join", "m4b", "--subtitles", "srt", "--format", "flac", "--seed", 7)
    command = ("book", story, "--out", "out", "--model", bench.model, "--device", "cpu", *CAP)
    bench.run(*command, *flags).expect(0)
    before = bench.out().files
    made = {name for name in before if name.endswith(("flac", "srt", "m4b")) and "/" not in name}
    assert len(made) > 3
    result = bench.run("book", story, "--out", "out").expect(0, "--join m4b")
    assert "kept as they are" not in result.err
    assert bench.out().files == before
    story.write_text(STORY.replace("rained", "snowed"))
    bench.run("again", "out").expect(0)
    after = bench.out().files
    assert made <= after.keys()
    assert {"book.m4b", "01-one.flac"} <= {name for name in made if after[name] != before[name]}
    (words,) = bench.run("again", "out", "--print", "--json").json
    assert {"book", str(story), "--join", "m4b"} <= set(shlex.split(words))
