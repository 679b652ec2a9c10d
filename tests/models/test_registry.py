"""Registry: a checkpoint is recognised by its own config, and only then is the family imported."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import huggingface_hub.constants
import pytest
import tiny_fish_speech
import tiny_qwen3_tts
from tiny_qwen3_tts import LANGUAGES, write_checkpoint

from models.base import SpeechRequest, Voice
from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import Network
from models.family import named
from models.registry import (
    FAMILIES,
    FamilyEntry,
    describe,
    licences,
    load_model,
    load_prompt_counter,
    synthetic_names,
)
from models.sampling import Sampling
from models.slots.model import SpeechModel

ROOT = Path(__file__).resolve().parents[2]


def test_a_folder_is_described_without_its_weights(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "voice", "custom_voice")
    info = describe(str(folder))
    assert (info.family, info.type, info.size) == ("qwen3_tts", "custom_voice", "0b6")
    assert info.voices == ("ada", "boris", "chen")
    assert info.languages == ("auto", *LANGUAGES)
    assert (info.num_codebooks, info.samples_per_frame, info.sample_rate_hz) == (16, 1920, 24000)
    assert info.frame_s == 0.08
    assert info.max_frames == 8191
    assert load_model(str(folder)).info == info


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no config.json, so it is not a checkpoint"),
        ("{", "not readable as JSON"),
        ("[]", "is not a JSON object"),
        ("\xff\xfe", "not readable as JSON"),
        ("[" * 99999, "not readable as JSON"),
        ("{}", "model_type None is not one of qwen3_tts"),
        ('{"model_type": "llama"}', "model_type 'llama' is not one of"),
        ('{"model_type": ["qwen3_tts"]}', "is not one of"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=message):
        describe(str(tmp_path))
    with pytest.raises(CheckpointError, match=message):
        load_model(str(tmp_path))


@pytest.mark.parametrize("name", synthetic_names())
def test_synthetic_models_are_described_without_weights(name: str) -> None:
    info = describe(f"synthetic:{name}")
    has_voices = not name.endswith("-base") and name.startswith("qwen3")
    assert info.can_clone is not has_voices
    assert info.voices == (("synthetic",) if has_voices else ())
    assert info.num_codebooks == (16 if name.startswith("qwen3") else 10)
    assert info.identity == f"synthetic:{name}"


@pytest.mark.parametrize("entry", FAMILIES, ids=lambda entry: entry.folder)
def test_every_network_that_a_family_names_is_there(entry: FamilyEntry) -> None:
    family = entry.family
    assert issubclass(named(family.model), SpeechModel)
    for name in entry.synthetic:
        parts = family.parts(family.released(name))
        assert [part.name for part in parts][:2] == ["model", "vocoder"]
        assert all(issubclass(named(part.network), Network) for part in parts if part.name)
    assert family.licence is None or family.licence in licences()


def test_an_unknown_synthetic_model_names_the_known() -> None:
    with pytest.raises(CheckpointError, match=r"no synthetic model 'x'; there are qwen3-tts-0\.6b"):
        describe("synthetic:x")


def test_importing_the_registry_loads_no_family() -> None:
    script = (
        "import sys, models.registry; "
        "assert not [m for m in sys.modules if m.startswith(('models.qwen3', 'models.fish'))]"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


@pytest.mark.slow
def test_describing_imports_no_torch(tmp_path: Path) -> None:
    # It took seconds, and with them every `validate` and `voices`.
    folders = [write_checkpoint(tmp_path / name, name) for name in ("custom_voice", "base")]
    folders.append(tiny_fish_speech.write_checkpoint(tmp_path / "fish", "small"))
    sources = [*map(str, folders), *(f"synthetic:{name}" for name in synthetic_names())]
    script = (
        "import sys; from models.base import SpeechRequest; from models.registry import describe\n"
        "for source in sys.argv[1:]: describe(source)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, *sources], cwd=ROOT, check=True)


class TestPromptCounter:
    """Prompts are counted without a weight, and counted right."""

    def test_the_text_counts(self, tmp_path: Path) -> None:
        for folder, voice in (
            (tiny_qwen3_tts.write_checkpoint(tmp_path / "q", "custom_voice_wide"), "dora"),
            (tiny_fish_speech.write_checkpoint(tmp_path / "f"), None),
        ):
            request = SpeechRequest("Hello there, you.", voice=voice)
            if voice is None:
                request = replace(request, sampling=Sampling(repetition_penalty=1.0))
            expected = load_model(str(folder)).prompt(request).num_tokens
            assert load_prompt_counter(str(folder))(request, None) == expected

    @pytest.mark.parametrize("mode", ["icl", "xvec"])
    def test_a_reference_counts(self, tmp_path: Path, mode: str) -> None:
        folder = tiny_qwen3_tts.write_checkpoint(tmp_path, "base")
        model = load_model(str(folder))
        wave = tiny_qwen3_tts.reference_wave(1, 24_000)
        ((embedding, codes),) = model.encode_voices([wave], [mode])
        clone = Voice(embedding, codes, "What she says.", mode, "", "")
        request = SpeechRequest("Hello.", ref_audio="a.wav", ref_text="What she says.")
        # Streaming text stands beside the frames, the other layout before them.
        for layout in ("streaming", "non_streaming"):
            request = replace(request, layout=layout)
            expected = model.prompt(replace(request, clone=clone)).num_tokens
            assert load_prompt_counter(str(folder))(request, clone.num_frames) == expected

    def test_fish_speech_counts_references(self, tmp_path: Path) -> None:
        folder = tiny_fish_speech.write_checkpoint(tmp_path)
        clone = tiny_fish_speech.random_voice("small", 9, "What she says.", 1)
        request = SpeechRequest(
            "Hello.", ref_text="What she says.", sampling=Sampling(repetition_penalty=1.0)
        )
        expected = load_model(str(folder)).prompt(replace(request, clone=clone)).num_tokens
        assert load_prompt_counter(str(folder))(request, 9) == expected
        # The transcript of a voice file is not known here: one token, and no more than there are.
        assert load_prompt_counter(str(folder))(replace(request, ref_text=None), 9) < expected


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoic", "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"),
        ("qwen/qwen3-tts-12hz-1.7b-base", "Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
        ("Qwen3-TTS-12Hz-1.7B-VoiceDesign", "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign"),
        ("fishaudio/s2pro", "fishaudio/s2-pro"),
        ("org/tiny-voice", "org/tiny-voices"),  # in the cache
        ("{folder}/chekpoint", "{folder}/checkpoint"),
        ("fishaudio/s2-pro", None),
        ("somebody/something-else", None),
        ("/no/such/folder", None),
    ],
)
def test_names_of_checkpoints_that_are_almost_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, meant: str | None
) -> None:
    """A mistyped repository was only "not there"."""
    cache = tmp_path / "cache"
    (cache / "models--org--tiny-voices").mkdir(parents=True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    with pytest.raises(CheckpointError) as caught:
        describe(name.format(folder=tmp_path))
    said = "" if meant is None else f"; did you mean {meant.format(folder=tmp_path)}?"
    assert str(caught.value).partition("; did you")[2] == said.removeprefix("; did you")
