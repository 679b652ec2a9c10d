"""`--clone-model`: a VoiceDesign checkpoint makes up voices, a Base checkpoint keeps them."""

from __future__ import annotations

import json
import os
import signal
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hostile_audio import encoded, tone
from safetensors.numpy import load_file
from workbench import MakeCheckpoint, Workbench, finish

from models.base import SpeechModel
from tts_cli.output.audio_file import to_int16
from tts_cli.run import load
from tts_cli.run.load import Session, open_session

# Speech that never ends: a row is as long as its cap. Frames of 20 ms, the same in both.
SHAPE = {
    "num_codebooks": 4,
    "codebook_size": 128,
    "upsample_rates": (8, 5, 3),
    "upsampling_ratios": (2, 2),
    "decoder_dim": 24,
    "eos_gain": 0.0,
}
CAP = ("--max-seconds", 1.1, "--accept-truncated", "--split", 60)
CALM, OLD = "A calm man.", "An old woman."
SENTENCES = (
    "The boat left the harbor after five, and nobody spoke.",
    "Nobody of them spoke at all.",
)
AFTER = "The boat left the harbor after five that day."
ANCHOR = ("--anchor", "first")


@pytest.fixture(scope="session")
def design(make_checkpoint: MakeCheckpoint) -> Path:
    """A VoiceDesign checkpoint."""
    return make_checkpoint("voice_design", **SHAPE)


@pytest.fixture(scope="session")
def base(make_checkpoint: MakeCheckpoint) -> Path:
    """The Base checkpoint of its family."""
    return make_checkpoint("base_wide", **SHAPE, encoder_ratios=(8, 6, 5))


@pytest.fixture(scope="session")
def other_base(make_checkpoint: MakeCheckpoint) -> Path:
    """Another one."""
    return make_checkpoint("base_wide", **SHAPE, encoder_ratios=(8, 6, 5), wave_gain=0.3)


@pytest.fixture
def designs(bench: Workbench, design: Path) -> Workbench:
    """The workbench, speaking with the VoiceDesign checkpoint."""
    bench.model = design
    return bench


def rows() -> list[dict[str, Any]]:
    return [
        {"id": "short", "text": "Good morning.", "instruct": CALM},
        {"id": "long", "text": " ".join(SENTENCES), "instruct": CALM},
        {"id": "pause", "text": f"Yes. [pause 300ms] {AFTER}", "instruct": OLD},
    ]


def voices(bench: Workbench, out: str = "out") -> list[dict[str, Any]]:
    """The journal of what was kept for the second checkpoint."""
    path = bench.out(out).path / ".voices" / "timings.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_in_parts_keep_a_voice_that_was_made_up(designs: Workbench, base: Path) -> None:
    flags = (*CAP, "--save-codes")
    result = designs.synth(rows(), *flags, "--clone-model", base)
    assert result.code == 0, result.err
    out = designs.out()
    assert out.status() == {"short": "ok", "long": "ok", "pause": "ok"}
    first, second = out.report["model"]["identity"], out.report["clone_model"]["identity"]
    assert out.report["model"]["type"] == "voice_design"
    assert out.report["clone_model"]["type"] == "base"
    told = {
        row_id: [part["model"] for part in out.records[row_id]["parts"]] for row_id in out.records
    }
    # A part of a good length gives the voice: of the row with a short first part the second one.
    assert told == {"short": [], "long": [first, second], "pause": [second, first]}
    assert {row_id: record["clone_model"] for row_id, record in out.records.items()} == {
        "short": None, "long": second, "pause": second,
    }  # fmt: skip
    assert out.report["totals"]["references"] == 2
    assert out.report["totals"]["ok"] == 3
    long, kept = out.records["long"], {line["text"]: line for line in voices(designs)}
    assert set(kept) == {SENTENCES[0], AFTER}
    lead = kept[SENTENCES[0]]
    assert long["ref_sha256"] == lead["sha256"]
    assert (long["clone_mode"], out.records["short"]["clone_mode"]) == ("icl", None)
    # The part that gives the voice is heard as it was spoken, and its codes are the row's.
    samples, _ = soundfile.read(out.path / ".voices" / lead["path"], dtype="float32")
    spoken = to_int16(samples * np.float32(8_388_608 / 8_388_607))
    whole, rate_hz = soundfile.read(out.path / "long.wav", dtype="int16")
    end = round(long["parts"][0]["end_s"] * rate_hz)
    fade = round(0.01 * rate_hz)
    assert np.array_equal(whole[: end - fade], spoken[: end - fade])
    codes = load_file(out.path / "long.codes.safetensors")["codes"]
    assert len(codes) == long["frames"] == sum(part["frames"] for part in long["parts"])
    # Alone, it is what the first checkpoint speaks of that text and seed.
    alone = {"id": "a", "text": SENTENCES[0], "instruct": CALM, "seed": long["parts"][0]["seed"]}
    assert designs.synth([alone], *flags, out="alone").code == 0
    assert np.array_equal(
        codes[: lead["frames"]],
        load_file(designs.out("alone").path / "a.codes.safetensors")["codes"],
    )


def test_short_rows_are_as_without_it(designs: Workbench, base: Path) -> None:
    assert designs.synth(rows(), *CAP, "--clone-model", base).code == 0
    done = designs.out().records["short"]
    result = designs.synth(rows(), *CAP)
    assert result.code == 0
    assert "longer than" not in result.err
    assert "its pauses are left out: nothing keeps its voice behind them" in result.err
    out = designs.out()
    assert "2 of 3 rows spoken, 1 were done" in result.out, "in one, and without the pause"
    assert out.records["short"] == done
    assert out.report["clone_model"] is None


def test_a_rerun_has_nothing_to_do(designs: Workbench, base: Path) -> None:
    flags = (*CAP, "--clone-model", base)
    assert designs.synth(rows(), *flags).code == 0
    files = designs.out().files
    assert designs.synth(rows(), *flags).out == "nothing to do: all 3 rows are done already\n"
    plan = designs.synth(rows(), *flags, "--dry-run")
    assert "to speak: 0 rows" in plan.out
    assert "orphans: 0" in plan.out or "orphans" not in plan.out
    assert designs.out().files == files


DIES_BETWEEN = """
import os, signal
from tts_cli.run.passes import Passes
def die(self):
    os.kill(os.getpid(), signal.SIGKILL)
Passes._release = die
"""


def test_killed_between_the_passes(designs: Workbench, base: Path, design: Path) -> None:
    """The parts that give voices are there, and the first checkpoint is not loaded again."""
    flags = (*CAP, "--clone-model", base)
    assert designs.synth(rows(), *flags, out="whole").code == 0
    args = designs.command(designs.write(rows()), *flags)
    assert finish(designs.start(args, DIES_BETWEEN)).code == -signal.SIGKILL
    assert designs.out().status() == {"short": "ok"}
    kept = voices(designs)
    assert len(kept) == 2
    result = designs.run(*args)
    assert result.code == 0, result.err
    assert "2 of 3 rows spoken, 1 were done" in result.out
    assert f"loading {base}" in result.err
    assert f"loading {design}" not in result.err
    assert voices(designs) == kept
    # The same samples, and the same files but for times in the journals.
    whole = designs.out("whole").files
    files = designs.out().files
    assert {name: data for name, data in files.items() if ".voices" not in name} == {
        name: data for name, data in whole.items() if ".voices" not in name
    }


def test_stopped_between_the_passes(designs: Workbench, base: Path) -> None:
    """The second checkpoint is not loaded for nothing; what was spoken is told and kept."""
    flags = (*CAP, "--clone-model", base)
    args = designs.command(designs.write(rows()), *flags)
    patch = (
        "import os, signal\n"
        "from tts_cli.run.passes import Passes\n"
        "real = Passes._release\n"
        "def stop(self):\n"
        "    real(self)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "Passes._release = stop\n"
    )
    result = finish(designs.start(args, patch))
    assert result.code == 143, result.err
    assert f"loading {base}" not in result.err
    out = designs.out()
    assert out.status() == {"short": "ok"}
    assert (out.report["exit_code"], out.report["totals"]["ok"]) == (143, 1)
    assert out.report["device"]["device"] == "cpu"
    assert len(voices(designs)) == 2


def test_another_clone_model_speaks_its_rows_again(
    designs: Workbench, base: Path, other_base: Path
) -> None:
    assert designs.synth(rows(), *CAP, "--clone-model", base).code == 0
    kept, before = voices(designs), designs.out().records
    result = designs.synth(rows(), *CAP, "--clone-model", other_base)
    assert "2 of 3 rows spoken, 1 were done" in result.out
    assert voices(designs) == kept, "in the voices that were made up before"
    after = designs.out().records
    assert after["short"] == before["short"]
    assert after["long"]["request_hash"] != before["long"]["request_hash"]
    assert after["long"]["ref_sha256"] == before["long"]["ref_sha256"]


def test_an_anchor_for_all(designs: Workbench, base: Path) -> None:
    """The anchor is spoken as described, all others in its voice, however they are described."""
    given = [{"id": "title", "text": "One.", "instruct": OLD}, *rows()]
    given[1]["text"] = "It was late in the year when the letter came."
    flags = (*CAP, *ANCHOR, "--clone-model", base)
    result = designs.synth(given, *flags)
    assert result.code == 0, result.err
    assert "anchor: row 'short', spoken first; 3 rows follow its voice" in result.err
    assert "its instruct is not that of the anchor, whose voice it has" in result.err
    out = designs.out()
    second = out.report["clone_model"]["identity"]
    assert out.records["short"]["clone_model"] is None
    assert out.records["short"]["anchor"] is None
    for row_id in ("title", "long", "pause"):
        record = out.records[row_id]
        assert (record["anchor"], record["clone_model"]) == ("short", second)
        assert all(part["model"] == second for part in record["parts"])
    assert out.report["anchor"]["digest"] == out.records["long"]["anchor_digest"]
    assert json.loads((out.path / "anchor.json").read_text())["id"] == "short"
    assert [line["text"] for line in voices(designs)] == [given[1]["text"]]
    assert out.report["totals"]["references"] == 1
    assert "4 of 4 rows spoken" in result.out
    totals = out.report["totals"]
    assert (totals["rows"], totals["ok"], totals["skipped"]) == (4, 4, 0)
    nothing = "nothing to do: all 4 rows are done already\n"
    assert designs.synth(given, *flags).out == nothing
    # A changed delivery makes files, and speaks nobody again.
    flac = designs.synth(given, *flags, "--format", "flac")
    assert flac.code == 0, flac.err
    assert "nothing to speak: 4 files made of what is kept" in flac.out
    assert designs.synth(given, *flags, "--format", "flac").out == nothing


def test_killed_behind_the_anchor(designs: Workbench, base: Path) -> None:
    given = rows()
    given[0]["text"] = "It was late in the year when the letter came."
    flags = (*CAP, *ANCHOR, "--clone-model", base)
    assert designs.synth(given, *flags, out="whole").code == 0
    args = designs.command(designs.write(given), *flags)
    assert finish(designs.start(args, DIES_BETWEEN)).code == -signal.SIGKILL
    assert designs.out().status() == {"short": "ok"}
    result = designs.run(*args)
    assert "2 of 3 rows spoken, 1 were done" in result.out
    assert "anchor: row 'short', as it was spoken; 2 rows follow its voice" in result.err
    names = ("short.wav", "long.wav", "pause.wav")
    assert designs.out().sounds(*names) == designs.out("whole").sounds(*names)


def test_an_anchor_of_an_earlier_run(designs: Workbench, base: Path) -> None:
    """Spoken without the second checkpoint; its audio file is the reference then."""
    given = rows()
    given[0]["text"] = "It was late in the year when the letter came."
    assert designs.synth(given[:1], *CAP).code == 0
    content = designs.out().records["short"]["sha256"]
    result = designs.synth(given, *CAP, "--anchor", "short", "--clone-model", base)
    assert result.code == 0, result.err
    assert "2 of 3 rows spoken, 1 were done" in result.out
    assert designs.out().records["long"]["ref_sha256"] == content


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"Yes. [pause 300ms] {AFTER}", "has pauses, so that it is not spoken in one"),
        ("A word " * 80, "would take about"),
    ],
)
def test_an_anchor_in_parts_is_refused(
    designs: Workbench, base: Path, text: str, reason: str
) -> None:
    given = [*rows(), {"id": "mine", "text": text, "instruct": CALM}]
    result = designs.synth(given, *CAP, "--anchor", "mine", "--clone-model", base)
    assert result.code == 2
    assert "row 'mine'" in result.err
    assert reason in result.err
    assert not designs.out().path.exists()


def test_takes_have_voices_of_their_own(designs: Workbench, base: Path) -> None:
    flags = (*CAP, "--clone-model", base)
    assert designs.synth(rows(), *flags).code == 0
    result = designs.synth(rows(), *flags, "--only", "long", "--takes", 2)
    assert result.code == 0, result.err
    out = designs.out()
    takes = {line["take"]: line for line in out.lines if line["id"] == "long"}
    assert set(takes) == {1, 2, 3}
    assert len({line["ref_sha256"] for line in takes.values()}) == 3, "three draws, three voices"
    assert len({line["clone_model"] for line in takes.values()}) == 1
    assert len(voices(designs)) == 4
    assert designs.run("pick", out.path, "long=2").code == 0
    assert designs.synth(rows(), *flags).out == "nothing to do: all 3 rows are done already\n"


def test_selected_rows_only(designs: Workbench, base: Path) -> None:
    flags = (*CAP, "--clone-model", base)
    assert "1 of 1 rows spoken" in designs.synth(rows(), *flags, "--limit", 1).out
    assert not voices_there(designs)
    shards = [designs.synth(rows(), *flags, "--shard", f"{n}/2", out=f"part{n}") for n in (1, 2)]
    assert [result.code for result in shards] == [0, 0]
    assert designs.synth(rows(), *flags, "--only", "pause").code == 0
    assert [line["text"] for line in voices(designs)] == [AFTER]
    both = {**designs.out("part1").status(), **designs.out("part2").status()}
    assert both == dict.fromkeys(("short", "long", "pause"), "ok")


def voices_there(bench: Workbench) -> bool:
    path = bench.out().path / ".voices" / "timings.jsonl"
    return path.exists() and bool(path.read_bytes())


def test_one_checkpoint_in_memory_at_a_time(
    designs: Workbench, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: list[weakref.ref[SpeechModel]] = []

    def opened(*args: Any) -> Session:
        assert [found() for found in models] == [None] * len(models)
        session = open_session(*args)
        models.append(weakref.ref(session.model))
        return session

    monkeypatch.setattr(load, "open_session", opened)
    assert designs.synth(rows(), *CAP, "--clone-model", base).code == 0
    assert len(models) == 2


def test_a_voice_that_fails_fails_its_row(designs: Workbench, base: Path) -> None:
    """Its first part never ends; the others of the run are spoken."""
    flags = ("--split", 60, "--max-seconds", 1.1, "--retries", 0, "--clone-model", base)
    result = designs.synth(rows()[1:2], *flags)
    assert result.code == 1
    assert "row long failed: part 1 of 2: no end of speech within 55 frames" in result.err
    assert voices(designs)[0]["status"] == "failed"
    assert designs.synth(rows()[1:2], *flags, "--retry-failed").code == 1
    again = designs.synth(rows()[1:2], *CAP, "--clone-model", base)
    assert again.code == 0, again.err
    tries = [(line["status"], line["attempts"]) for line in voices(designs)]
    assert tries == [("failed", 1), ("failed", 2), ("ok", 3)]
    assert len({line["seed"] for line in voices(designs)}) == 3


def test_a_voice_too_short_to_clone(designs: Workbench, base: Path) -> None:
    flags = ("--max-seconds", 0.4, "--accept-truncated", "--split", 60, "--clone-model", base)
    result = designs.synth(rows(), *flags)
    assert result.code == 1
    assert designs.out().status() == {"short": "ok", "long": "failed", "pause": "failed"}
    assert "long failed: part 1 of 2 gives no voice to the others" in result.err
    assert "lasts 0.40 s, at least 1 s are needed" in result.err
    short = [{"id": "yes", "text": "Yes. [pause 300ms] No.", "instruct": CALM}]
    plain = designs.synth(short, *CAP, "--clone-model", base, out="short")
    assert plain.code == 0
    assert "its pauses are left out" in plain.err, "none of its parts would be a reference"


def test_one_text(designs: Workbench, base: Path) -> None:
    target = designs.folder / "said.wav"
    text = rows()[2]["text"]
    args = ("--model", designs.model, "--device", "cpu", "--instruct", OLD, *CAP)
    args = ("say", text, "-o", target, *args, "--clone-model", base, "--json")
    result = designs.run(*args)
    assert result.code == 0, result.err
    assert result.json["parts"] == 2
    assert soundfile.info(target).duration == pytest.approx(2.5, abs=0.01)
    short = designs.run("say", "Good morning.", *args[2:])
    assert short.code == 0, short.err
    assert short.json["parts"] == 0


def test_a_book_in_one_voice(designs: Workbench, base: Path) -> None:
    book = designs.folder / "book.txt"
    book.write_text(f"{SENTENCES[0]} {AFTER}\n\n{SENTENCES[1]}\n")
    flags = ("--device", "cpu", *CAP, *ANCHOR, "--clone-model", base, "--model", designs.model)
    args = ("book", book, "--out", designs.folder / "out", *flags)
    result = designs.run(*args)
    assert result.code == 0, result.err
    out = designs.out()
    assert {record["anchor"] for record in out.records.values()} >= {None, *list(out.records)[:1]}
    assert sum(record["anchor"] is None for record in out.records.values()) == 1
    assert "nothing to do" in designs.run(*args).out


def test_validate_and_dry_run_know_it(designs: Workbench, base: Path) -> None:
    manifest = designs.write(rows())
    args = ("validate", manifest, "--model", designs.model, "--split", 60)
    assert "in parts" not in designs.run(*args).out
    assert "in parts: 2 rows, 4 parts" in designs.run(*args, "--clone-model", base).out
    plan = designs.synth(manifest, *CAP, "--clone-model", base, "--dry-run")
    assert "in parts: 2 rows, 4 parts" in plan.out
    assert not designs.out().path.exists()


def test_what_cannot_go_together_is_refused(
    designs: Workbench, base: Path, make_checkpoint: MakeCheckpoint, checkpoint: Path
) -> None:
    def refused(code: int, *flags: object, model: Path | None = None) -> str:
        result = designs.synth(rows(), *CAP, *flags, model=model)
        assert result.code == code, result.err
        assert not designs.out().path.exists()
        return result.err

    speakers = refused(2, "--clone-model", base, model=checkpoint)
    assert "makes up no voice that another checkpoint would have to keep" in speakers
    assert "makes up no voice" in refused(2, "--clone-model", base, model=base)
    assert "a custom_voice checkpoint cannot clone" in refused(2, "--clone-model", checkpoint)
    assert "a voice_design checkpoint cannot clone" in refused(2, "--clone-model", designs.model)
    other = make_checkpoint("base_wide")
    assert "its samples of a frame is 240" in refused(2, "--clone-model", other)
    missing = refused(3, "--clone-model", designs.folder / "none")
    assert f"--clone-model {designs.folder / 'none'}" in missing
    assert "--clone-model" in refused(2, *ANCHOR)
    workers = refused(2, "--clone-model", base, "--workers", 2)
    assert "with --workers only one checkpoint speaks" in workers
    silent = make_checkpoint("base_wide", **SHAPE, encoder_ratios=(8, 6, 5))
    os.remove(silent / "speech_tokenizer" / "model.safetensors")
    assert "--clone-model" in refused(3, "--clone-model", silent)


def test_a_folder_of_voices_that_leads_away(designs: Workbench, base: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    designs.out().path.mkdir()
    (designs.out().path / ".voices").symlink_to(elsewhere)
    result = designs.synth(rows(), *CAP, "--clone-model", base)
    assert result.code == 3
    assert ".voices: is a link" in result.err
    assert not list(elsewhere.iterdir())


def test_ids_do_not_meet_the_folder(designs: Workbench) -> None:
    result = designs.synth([{"id": ".voices/a", "text": "One."}])
    assert result.code == 2
    assert "which is kept for voices that rows are spoken in" in result.err


def test_a_bound_for_references_is_none_for_voices_of_its_own(
    designs: Workbench, base: Path
) -> None:
    inside = designs.folder / "inside"
    inside.mkdir()
    (inside / "a.wav").write_bytes(encoded(tone(1.2)))
    result = designs.synth(rows(), *CAP, "--clone-model", base, "--ref-root", inside)
    assert result.code == 0, result.err


@pytest.mark.gpu
@pytest.mark.slow
def test_on_a_gpu(designs: Workbench, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both passes have graphs, and the first one's memory is free before the second one loads."""
    before: list[int] = []

    def opened(*args: Any) -> Session:
        torch._C._cuda_clearCublasWorkspaces()  # 32 MiB for every stream that met a product
        before.append(torch.cuda.memory_allocated())
        return open_session(*args)

    monkeypatch.setattr(load, "open_session", opened)
    flags = (*CAP, "--clone-model", base, "--device", "cuda")
    result = designs.synth(rows(), *flags)
    assert result.code == 0, result.err
    report = designs.out().report
    assert report["device"]["graphs"] > 0
    assert report["totals"]["graph_hits"] > 0
    assert len(before) == 2
    assert before[1] <= before[0] + (1 << 20)
    assert designs.synth(rows(), *flags).out == "nothing to do: all 3 rows are done already\n"
