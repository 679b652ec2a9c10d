"""The evaluation of `samples/quality.py`: its statistics, and the whole path at a small size.

Commands of ours run in this process, and so does the script for the official package, with a
stand-in for the package. A recognizer of random weights hears; one window of DNSMOS is enough.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hostile_audio import encoded, tone
from safetensors.torch import load_file
from sounds import bursts
from tiny_qwen3_tts import SPECS, write_checkpoint
from tiny_whisper import write_tiny_whisper

from tts_cli.checks import mos
from tts_cli.checks.asr.processes import Processes
from tts_cli.cli import messages as msg
from tts_cli.main import main as tts_cli

SAMPLES = Path(__file__).parents[2] / "samples"
VOICE = SAMPLES / "voice" / "checkpoint"
RATE_HZ, FRAME = 24_000, 1920
TEXTS = ("Good morning to all of you.", "The ship is here.")


@pytest.fixture(scope="module")
def scripts() -> Iterator[SimpleNamespace]:
    """The script and the modules beside it, which no other test sees."""
    names = ("quality", "figures", "judges", "official", "disturb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(SAMPLES), str(SAMPLES / "judging"), *sys.path])
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture
def here(scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be processes of their own runs here; the commands that were given."""
    commands: list[list[str]] = []

    def run(command: Sequence[str], **_: Any) -> SimpleNamespace:
        commands.append(list(command))
        if command[1] == "-c":
            return SimpleNamespace(returncode=int("qwen_tts" not in sys.modules))
        if command[1] == "-m":
            return SimpleNamespace(returncode=tts_cli(list(command[3:])))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", list(command[1:]))
            scripts.official.main()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(scripts.quality, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(
        Processes, "run", lambda self, asked: map(self._function, filter(None, asked))
    )
    whole = mos.windows
    monkeypatch.setattr(mos, "windows", lambda samples: itertools.islice(whole(samples), 1))
    return commands


@pytest.fixture(scope="module")
def ear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("whisper") / "tiny")


class Package:
    """Stands in for the official model: noise in bursts. It never ends texts with `ship`, and is
    over at once with others.
    """

    def __init__(self) -> None:
        self.model = SimpleNamespace(tts_model_type="custom_voice")
        self.calls: list[dict[str, Any]] = []

    def generate_custom_voice(self, **given: Any) -> tuple[list[Any], int]:
        self.calls.append(given)
        frames = [given["max_new_tokens"] if "ship" in text else 2 for text in given["text"]]
        return [bursts(count * FRAME / RATE_HZ) for count in frames], RATE_HZ


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    found = Package()
    module = ModuleType("qwen_tts")
    monkeypatch.setattr(module, "Qwen3TTSModel", Package, raising=False)
    monkeypatch.setattr(Package, "from_pretrained", lambda *_, **__: found, raising=False)
    monkeypatch.setitem(sys.modules, "qwen_tts", module)
    return found


def takes(count: int, draw: np.random.Generator, shift: float = 0.0) -> dict[Any, Any]:
    """So many texts in two voices: words wrong, and an opinion that follows the text."""
    return {
        (f"text {text}", f"{text}-{voice}"): {
            "wrong": float(draw.binomial(10, 0.1 + 0.1 * shift)),
            "words": 10.0,
            "mos": 3.0 + np.sin(text) - shift + draw.normal(0, 0.1),
        }
        for text in range(count)
        for voice in range(2)
    }


def verdicts(figures: Any, one: Any, other: Any) -> dict[str, str]:
    found = figures.compare(figures.tabulate([one, other]))
    return {difference.figure.value: difference.verdict for difference in found}


def test_equal_systems_seldom_differ(scripts, monkeypatch):
    monkeypatch.setattr(scripts.figures, "RESAMPLES", 1000)
    draw = np.random.default_rng(0)
    found = [
        set(verdicts(scripts.figures, takes(40, draw), takes(40, draw)).values()) != {"within"}
        for _ in range(60)
    ]
    assert sum(found) <= 8, "5 of 100 are expected"


def test_a_difference_is_found_behind_that_of_texts(scripts):
    draw = np.random.default_rng(0)
    good, bad = takes(60, draw), takes(60, draw, shift=0.1)
    assert verdicts(scripts.figures, bad, good)["mos"] == "worse"
    assert verdicts(scripts.figures, good, bad)["mos"] == "better"
    mos = scripts.figures.compare(scripts.figures.tabulate([bad, good]))[1]
    assert mos.ours.high - mos.ours.low > 3 * (mos.off.high - mos.off.low), "texts cancel out"
    worst = takes(60, draw, shift=2)
    assert verdicts(scripts.figures, worst, good) == {"wrong": "worse", "mos": "worse"}


def test_an_interval_is_the_one_of_the_books(scripts):
    draw = np.random.default_rng(0)
    values = draw.normal(3, 0.5, 100)
    one = {(str(place), ""): {"mos": value} for place, value in enumerate(values)}
    other = {key: {"mos": 0.0} for key in one}
    (found,) = scripts.figures.compare(scripts.figures.tabulate([one, other]))
    half = 1.96 * values.std() / 10
    assert found.ours.value == pytest.approx(values.mean())
    assert [found.ours.low, found.ours.high] == pytest.approx(
        [values.mean() - half, values.mean() + half], abs=0.02
    )


def test_a_share_counts_words_not_takes(scripts):
    one = {("a", "1"): {"wrong": 1.0, "words": 2.0}, ("b", "2"): {"wrong": 0.0, "words": 8.0}}
    other = {key: {"wrong": 0.0, "words": 5.0} for key in one}
    found = scripts.figures.compare(scripts.figures.tabulate([one, other]))
    assert found[0].ours.value == pytest.approx(10.0)
    told = scripts.figures.conclusion(found, "ours", "eager")
    same, worse = "No difference between ours and eager was found.", "Ours may still be worse"
    assert told.startswith(f"{same} {worse}")
    assert told.endswith(" in words wrong.")
    assert "| words wrong, % | 10.00 (0.00 to 50.00) | 0 |" in scripts.figures.table(
        found, "ours", "eager"
    )


def test_the_whole_path(scripts, here, package, ear, tmp_path, capsys):
    """Against a package that rambles, or says too little, the table says so. The second time nobody
    speaks or hears anything.
    """
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    out = tmp_path / "out"
    line = [str(VOICE), "--texts", str(texts), "--out", str(out), "--voices", "clara"]
    line += ["--against", "official", "--asr", str(ear), "--mos", "--device", "cpu"]
    line += ["--", "--format", "flac"]
    assert scripts.quality.main(line) in (0, 1)
    told = capsys.readouterr()
    assert "ours against official: 2 texts, 2 takes of each" in told.out
    report = json.loads((out / "quality.json").read_text())
    other = report["comparisons"]["official"]["figures"]
    names = [figure.name for figure in scripts.figures.FIGURES if figure.value != "similarity"]
    assert list(other) == names
    assert other["runaways, %"]["official"]["value"] == 50
    assert other["early ends, %"]["official"]["value"] == 50
    assert other["runaways, %"]["ours"]["value"] == other["early ends, %"]["ours"]["value"] == 0
    rows = [json.loads(row) for row in (out / "rows.jsonl").read_text().splitlines()]
    assert [row["voice"] for row in rows] == ["clara", "clara"]
    assert len({row["seed"] for row in rows}) == 2
    for row in rows:  # cut where ours would be
        frames = soundfile.info(out / "official" / f"{row['id']}.wav").frames
        assert frames == FRAME * (row["max_frames"] if "ship" in row["text"] else 2)
    assert here[1][-2:] == ["--format", "flac"]
    assert len(list((out / "ours").glob("*.flac"))) == 2
    calls, judged = len(package.calls), (out / "judged.jsonl").read_bytes()
    (out / "judged.jsonl").write_bytes(judged + b'["torn')
    assert scripts.quality.main(line) in (0, 1)
    again = capsys.readouterr()
    assert again.out.partition("ours against")[2] == told.out.partition("ours against")[2]
    assert again.err.count(": 0 of 4 to hear") == 2
    assert msg.NOTHING_TO_DO.format(reason="") in again.out
    assert len(package.calls) == calls


def test_rows_without_a_voice_are_spoken_by_all(scripts, tmp_path):
    """And each so many times, with seeds of their own; their caps are those of `synth`."""
    info = scripts.quality.read_info(scripts.quality.RunConfig(model=str(VOICE)))
    manifest = tmp_path / "rows.jsonl"
    rows = [{"text": "a", "seed": 5}, {"id": "b", "text": "b", "voice": "ewan", "max_seconds": 0.4}]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = [str(VOICE), "--texts", str(manifest), "--out", "out", "--voices", "arthur,clara"]
    args = scripts.quality.parser().parse_args([*line, "--seeds", "2"])
    found = scripts.quality.read_texts(args, info)
    names = ["000001-arthur-0", "000001-arthur-1", "000001-clara-0", "000001-clara-1", "b-0", "b-1"]
    assert [row["id"] for row in found] == names
    assert [row["voice"] for row in found] == [*["arthur"] * 2, *["clara"] * 2, *["ewan"] * 2]
    assert len({row["seed"] for row in found}) == 6
    assert [row["max_frames"] for row in found] == [67, 67, 67, 67, 5, 5]


def test_clones_are_held_against_their_recordings(scripts, here, tmp_path, capsys):
    """A list of seed-tts-eval, a Base checkpoint and both kinds of encoders, of random weights."""
    few = {"max_new_tokens": 80}  # of 10 ms
    model = write_checkpoint(tmp_path / "model", SPECS["base_wide"], generation=few)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "a.wav").write_bytes(encoded(tone(1.2)))
    listed = tmp_path / "meta.lst"
    names = ("one", "two", "three")
    listed.write_text("".join(f"{name}|It is said.|prompts/a.wav|Say {name}.\n" for name in names))
    line = [str(model), "--texts", str(listed), "--out", str(tmp_path / "out"), "--seeds", "2"]
    line += ["--against", "eager", "--device", "cpu"]
    assert scripts.quality.main(line) == 0
    own = json.loads((tmp_path / "out" / "quality.json").read_text())
    assert own["comparisons"]["eager"]["takes"] == 6
    same = own["comparisons"]["eager"]["figures"]
    assert all(one["difference"]["value"] == 0 for one in same.values()), "on a CPU they are one"
    likeness = same["speaker similarity"]
    assert -1 <= likeness["ours"]["value"] <= 1
    ours, eager = here
    assert "--ref-silence" in ours
    assert "--no-graphs" in set(eager) - set(ours)
    wavlm = write_tiny_wavlm(tmp_path / "wavlm")
    assert scripts.quality.main([*line, "--similarity", str(wavlm), "--judge-only"]) == 0
    other = json.loads((tmp_path / "out" / "quality.json").read_text())
    assert other["judges"] == [f"wavlm {wavlm}"]
    assert other["comparisons"]["eager"]["figures"]["speaker similarity"] != likeness
    assert len(here) == 2
    capsys.readouterr()
    assert scripts.quality.main([*line, "--similarity", str(tmp_path), "--judge-only"]) == 3
    assert f"Error: --similarity {tmp_path}: " in capsys.readouterr().err


def write_tiny_wavlm(folder: Path) -> Path:
    from transformers import Wav2Vec2FeatureExtractor, WavLMConfig, WavLMForXVector

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
    sizes |= {"num_attention_heads": 2, "conv_dim": (8,) * 7, "num_conv_pos_embeddings": 4}
    sizes |= {"num_conv_pos_embedding_groups": 2, "tdnn_dim": (8,) * 5, "xvector_output_dim": 8}
    torch.manual_seed(0)
    WavLMForXVector(WavLMConfig(**sizes)).save_pretrained(folder)
    Wav2Vec2FeatureExtractor().save_pretrained(folder)
    return folder


def test_rows_of_the_package_share_what_a_batch_shares(scripts):
    rows = [
        {"id": str(place), "text": "a", "max_frames": 100 - place, **more}
        for place, more in enumerate([{}, {"temperature": 0.5}, {}, {"greedy": True}, {}, {}])
    ]
    found = scripts.official.batches(rows, 3)
    assert sorted(sorted(row["id"] for row in batch) for batch in found) == [
        ["0"],
        ["1"],
        ["2", "4", "5"],
        ["3"],
    ]
    assert scripts.official.settings_of(rows[3]) == {"do_sample": False}
    row = {"subtalker_top_k": 5, "subtalker_greedy": False}
    assert scripts.official.settings_of(row) == {"subtalker_top_k": 5, "subtalker_dosample": True}


@pytest.mark.parametrize("kind", ["base", "voice_design"])
def test_the_package_is_called_as_its_kind_wants(scripts, kind):
    calls: dict[str, Any] = {}

    def generate(**given: Any) -> tuple[list[Any], int]:
        calls.update(given)
        return [np.zeros(FRAME)] * len(given["text"]), RATE_HZ

    model = SimpleNamespace(model=SimpleNamespace(tts_model_type=kind))
    name = {"base": "generate_voice_clone", "voice_design": "generate_voice_design"}[kind]
    setattr(model, name, generate)
    row = {"id": "1", "text": "a", "max_frames": 9, "instruct": "Gruff."}
    row |= {"ref_audio": "a.wav", "clone_mode": "xvec"} if kind == "base" else {}
    scripts.official.speak(model, [row])
    assert calls["max_new_tokens"] == 10
    assert calls["language"] == ["Auto"]
    if kind == "base":
        assert calls["x_vector_only_mode"] == [True]
        assert calls["ref_text"] == [None]
    else:
        assert calls["instruct"] == ["Gruff."]


def test_one_matrix_is_disturbed(scripts, tmp_path):
    model = write_checkpoint(tmp_path / "model", SPECS["custom_voice"])
    name = "talker.codec_head.weight"
    scripts.disturb.disturb(model, tmp_path / "out", name, 0.03)
    before, after = (
        load_file(folder / "model.safetensors") for folder in (model, tmp_path / "out")
    )
    changed = [key for key in before if not torch.equal(before[key], after[key])]
    assert changed == [name]
    noise = (after[name].float() - before[name].float()).std()
    assert float(noise / before[name].abs().max()) == pytest.approx(0.03, rel=0.1)
    with pytest.raises(KeyError, match="no tensor nonsense"):
        scripts.disturb.disturb(model, tmp_path / "other", "nonsense", 0.03)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--against", "theirs"), "--against theirs: is neither eager nor official"),
        (("--similarity", "own", "--judge-only"), "--similarity: no row has a recording"),
        (("--texts", "bad.jsonl"), "bad.jsonl, line 1: "),
        (("--judge-only",), "have no take in common"),
        (("--asr", "nothing/here/at/all"), "--asr nothing/here/at/all: the folder does not exist"),
        (("--against", "official"), "has no package qwen_tts; make an environment with it"),
    ],
)
def test_mistakes_are_told_before_anything_is_spoken(
    scripts, here, tmp_path, monkeypatch, capsys, flags, told
):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text(TEXTS[0])
    Path("bad.jsonl").write_text('{"txt": "a"}\n')
    line = [str(VOICE), "--texts", "texts.txt", "--out", "out", "--against", "eager", *flags]
    assert scripts.quality.main(line) in (2, 3)
    assert told in capsys.readouterr().err
    assert [command for command in here if "synth" in command] == []


@pytest.mark.oracle
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("qwen_tts", "librosa", "torchaudio", "einops", "sox"))),
    reason="needs the official package with all that it needs",
)
def test_the_official_package_is_understood_as_well(scripts, tmp_path, capfd):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    line = [str(VOICE), "--texts", str(texts), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert scripts.quality.main(line) == 0
    assert "ours against official: 2 texts, 2 takes of each" in capfd.readouterr().out
