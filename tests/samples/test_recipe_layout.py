"""Recipe: the checkpoint it writes and the sequences it trains on match what the tool reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from models.base import SpeechRequest
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.prompt import build_prompt

TEXTS = ["A user and his assistant.", "Hé!", "Nine seven."]
VOICES = ["michael", "fenrir", "heart"]
PLACES = [np.array(row, np.int16) for row in ([0, 10, 24], [-1], [0, 1, 5, 6, 9, 11])]


@pytest.fixture
def store(recipe):
    """Three utterances of 3, 1 and 6 frames."""
    data = recipe("talker_data").Store("cpu")
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 256, (frames, 16)).astype(np.uint8) for frames in (3, 1, 6)]
    data.add(TEXTS[:2], VOICES[:2], codes[:2], PLACES[:2])
    data.add(TEXTS[2:], VOICES[2:], codes[2:], PLACES[2:])
    data.freeze()
    return data


def test_export_writes_the_shipped_checkpoint(recipe, voice_folder, tmp_path):
    """The recipe's own export of the shipped weights gives the shipped files, byte for byte."""
    shipped = voice_folder / "checkpoint"
    talker = load_file(shipped / "model.safetensors")
    talker["speaker_encoder.weight"] = torch.zeros(3)  # not the talker's: left out
    decoder = {
        name.removeprefix("decoder."): value
        for name, value in load_file(shipped / "speech_tokenizer" / "model.safetensors").items()
    }
    recipe("export").write_checkpoint(talker, decoder, tmp_path, 0.3, 0.05)
    names = sorted(path.relative_to(shipped) for path in shipped.rglob("*") if path.is_file())
    assert names == sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    for name in names:
        assert (tmp_path / name).read_bytes() == (shipped / name).read_bytes(), name


def test_official_names_and_shapes_at_another_size(recipe):
    export, config = recipe("export"), recipe("config")
    predictor = {**config.PREDICTOR, "hidden_size": 256, "num_hidden_layers": 1}
    shapes = export.talker_shapes({**config.TALKER, "num_hidden_layers": 2}, predictor)
    assert shapes["talker.model.layers.1.mlp.down_proj.weight"] == (256, 768)
    assert shapes["talker.code_predictor.model.layers.0.self_attn.o_proj.weight"] == (256, 192)
    assert "talker.code_predictor.small_to_mtp_projection.weight" not in shapes
    state = {name: torch.zeros(shape) for name, shape in shapes.items()}
    weights = export.talker_weights(state, shapes)
    assert {value.dtype for value in weights.values()} == {torch.bfloat16}


def test_export_names_what_does_not_fit(recipe):
    export = recipe("export")
    shapes = {"talker.a": (2,), "talker.b": (3,)}
    state = {"talker.a": torch.zeros(1), "talker.c": torch.zeros(1), "other": torch.zeros(1)}
    with pytest.raises(ValueError, match=r"talker\.a.*talker\.b.*talker\.c"):
        export.talker_weights(state, shapes)


@pytest.mark.parametrize("language", ["english", "auto"])
def test_training_sequences_are_the_prompts_the_tool_speaks(recipe, store, voice_folder, language):
    """Up to the first frame, a training sequence is the prompt that `synth` prefills."""
    talker_data, config = recipe("talker_data"), recipe("config")
    model_config = Qwen3TTSConfig.from_folder(voice_folder / "checkpoint")
    batch = store.batch([0, 1, 2], has_language=language == "english")
    tokens = {"<|im_start|>": 257, "<|im_end|>": 258}

    def tokenize(text: str) -> list[int]:
        ids = []
        while text:
            name = next((name for name in tokens if text.startswith(name)), None)
            if name:
                ids.append(tokens[name])
                text = text[len(name) :]
                continue
            end = text.find("<|")
            part, text = (text, "") if end < 0 else (text[:end], text[end:])
            ids += talker_data.text_ids(part)
        return ids

    for row, (text, voice) in enumerate(zip(TEXTS, VOICES, strict=True)):
        request = SpeechRequest(text=text, voice=config.VOICES[voice], language=language)
        prompt = build_prompt(model_config, tokenize, request)
        length = prompt.num_tokens
        assert batch.text[row, :length].tolist() == prompt.text_ids
        assert batch.codec[row, :length].tolist() == prompt.codec_ids
        assert prompt.trailing_ids == []


def test_frames_and_labels_follow_the_prompt(recipe, store):
    ids = recipe("config").TALKER
    batch = store.batch([1, 0])
    assert batch.num_frames == 4
    assert batch.text.shape[1] % 16 == 0
    assert batch.codes.shape == (*batch.text.shape, 16)
    for row, item in enumerate((1, 0)):
        codes = torch.from_numpy(store.codes[item]).long()
        is_frame = batch.codes[row, :, 0] >= 0
        first = int(is_frame.nonzero()[0])
        assert batch.codec[row, first - 1] == ids["codec_bos_id"]
        assert torch.equal(batch.codes[row, is_frame], codes)
        assert (batch.codec[row, first:] == -1).all()
        assert (batch.text[row, first:] == 261).all()
        labels = batch.labels[row, first - 1 : first + len(codes)]
        assert labels.tolist() == [*codes[:, 0].tolist(), ids["codec_eos_token_id"]]
        assert (batch.labels[row] != -100).sum() == len(codes) + 1


def test_batches_hold_everything_once_within_the_limit(store):
    groups = store.batches(80, torch.Generator().manual_seed(0))
    assert sorted(index for group in groups for index in group) == [0, 1, 2]
    assert len(groups) > 1
    for group in groups:
        longest = max(int(store.lengths[index]) for index in group)
        assert len(group) == 1 or longest * len(group) <= 80


def test_bytes_become_places_among_the_ids(recipe):
    """`user` and `assistant` are one id each."""
    text = "A user and his assistant."
    places = recipe("talker_data").text_places(text, np.array([-1, 0, 2, 5, 6, 15, 23, 24, 25]))
    ids = recipe("talker_data").text_ids(text)
    assert places.tolist() == [-1, 0, 2, 2, 3, 12, 12, 13, 14]
    assert ids[13] == ord(".")
    assert len(ids) == 14  # a place behind the text is that of its end token


@pytest.mark.parametrize("has_language", [True, False])
def test_spoken_bytes_stand_where_their_frames_are_predicted(recipe, store, has_language):
    batch = store.batch([0, 1, 2], has_language)
    for row, (text, places) in enumerate(zip(TEXTS, PLACES, strict=True)):
        labels, spoken = batch.labels[row], batch.spoken[row]
        frames = [index for index in range(len(labels)) if 0 <= labels[index] < 256]
        ids = recipe("talker_data").text_ids(text)
        ahead = [*ids, recipe("config").SPECIAL_TOKENS["<tts_text_eod>"]]
        wanted = [
            -1 if place < 0 else ahead[place]
            for place in recipe("talker_data").text_places(text, places)
        ]
        heard = [-1 if spoken[i] < 0 else int(batch.text[row, spoken[i]]) for i in frames]
        assert heard == wanted
        others = [i for i in range(len(labels)) if i not in frames]
        assert (spoken[others] == -1).all()
