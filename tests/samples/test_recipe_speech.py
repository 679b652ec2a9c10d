"""Recipe: texts, the teacher's output, features and codes, on made-up speech."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

RATE_HZ = 16000


def tone(pitch_hz: float, seconds: float) -> np.ndarray:
    """A voiced sound: eight harmonics, int16 at 16 kHz."""
    time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    wave = sum(np.sin(2 * math.pi * pitch_hz * k * time) / k for k in range(1, 9))
    return (wave * 4000).astype(np.int16)


def utterances(data):
    return [
        data.Utterance("one", "rms", tone(100, 0.32), np.arange(4, dtype=np.int16)),
        data.Utterance("two", "slt", tone(200, 0.8), np.arange(10, dtype=np.int16)),
        data.Utterance("three", "awb", tone(120, 0.16), np.array([-1, 4], np.int16)),
    ]


class FixedGrammar:
    """Draws numbered sentences."""

    def draw(self) -> str:
        return f"It is number {random.randint(0, 999)}."


def test_rows_are_repeatable_and_leave_test_texts_out(recipe, monkeypatch):
    texts = recipe("texts")
    monkeypatch.setattr(texts, "NUM_DRAWS", 50)
    monkeypatch.setattr(texts, "NUM_JOINED", 20)
    examples = ["the dog ran over the hill", "what does it mean"]

    def make():
        random.seed(11)
        glosses, left_out = ["a kind of small boat"], {"the dog ran over the hill"}
        return texts.make_rows(examples, glosses, FixedGrammar(), left_out)

    rows = make()
    assert rows == make()
    assert {voice for voice, _ in rows} == set(texts.TEACHER_VOICES)
    lengths = [len(text) for _, text in rows]
    assert min(lengths) >= texts.MIN_CHARS
    assert 100 < max(lengths) <= texts.MAX_CHARS
    plain = [texts.plain(text) for _, text in rows]
    assert "the dog ran over the hill" not in plain
    assert "what does it mean" in plain


def test_wordnet_texts_are_filtered(recipe, tmp_path):
    lines = [
        '  1 This is the licence | "not an example at all"',
        '0001 n | (of boats) a very small boat; a ship; "we took the boat"; "too short"',
        '0002 n | a thing of xyzzy kind; "costs 5 dollars or so"; "the boat was small;"',
    ]
    (tmp_path / "data.noun").write_text("\n".join(lines) + "\n")
    words = "a very small boat ship we took the was too short thing of kind costs or so"
    known = set(words.split())
    examples, glosses = recipe("texts").read_wordnet(tmp_path, known)
    assert examples == ["the boat was small", "we took the boat"]
    assert glosses == ["a very small boat"]


def test_teacher_output_is_trimmed_to_whole_frames(recipe, tmp_path):
    data = recipe("data")
    spoken = tone(100, 1.0)
    pcm = np.concatenate([np.zeros(1000, np.int16), spoken])
    pcm.tofile(tmp_path / "c.pcm")
    (tmp_path / "c.txt").write_text("7|rms|Hello, you | there.\n8|slt|Lost.\n9|awb|Silent.\n")
    index = [
        "7 rms 16000 1000 16000 pau:0.300:-1:0 hh:0.400:0:5 ow:0.600:0:5 pau:1.000:-1:0",
        "8 FAIL",
        "9 awb 16000 0 1000 pau:0.020:-1:0 pau:0.040:-1:0 pau:0.060:-1:0",
    ]
    (tmp_path / "c.idx").write_text("\n".join(index) + "\n")
    [item] = data.read_driver_output(tmp_path / "c.idx", tmp_path / "c.txt", tmp_path / "c.pcm")
    assert (item.text, item.voice) == ("Hello, you | there.", "rms")
    # 0.08 s before the first phone (0.3 s) to 0.16 s behind the last (0.6 s): 0.54 s, 7 frames
    assert len(item.samples) == 7 * 1280
    first = int((0.3 - 0.08) * RATE_HZ)
    assert np.array_equal(item.samples[80:8000], spoken[first + 80 : first + 8000])
    assert item.samples[0] == 0
    assert not item.samples[8640:].any()
    # Frames from 0.22 s on, 0.08 s each: the pause, /h/, /oʊ/, and the mark behind the word.
    assert item.places.tolist() == [0, 1, 3, 3, 3, 5, 5]


def test_phones_share_the_bytes_of_their_token(recipe):
    data = recipe("data")
    fields = "pau:0.08:-1:0 t:0.16:3:4 uw:0.24:3:4 x:0.32:-1:0 pau:0.40:-1:0 y:0.48:8:1"
    phones = [data.parse_phone(field) for field in fields.split()]
    assert phones[1] == data.Phone("t", 0.16, 3, 4)
    assert data.frame_places(phones, 0, 7).tolist() == [0, 4, 6, -1, 7, 8, 8]
    assert data.frame_places(phones, RATE_HZ // 10, 2).tolist() == [4, 6]


def test_chunk_round_trip(recipe, tmp_path):
    data = recipe("data")
    items = utterances(data)
    data.save_chunk(tmp_path / "0003.npz", items)
    (tmp_path / "0001.part.npz").write_bytes(b"torn")
    assert data.finished_chunks(tmp_path) == [tmp_path / "0003.npz"]
    again = data.load_chunk(tmp_path / "0003.npz")
    for left, right in zip(items, again, strict=True):
        assert (left.text, left.voice) == (right.text, right.voice)
        assert np.array_equal(left.samples, right.samples)
        assert np.array_equal(left.places, right.places)


def test_resampling_keeps_a_tone(recipe):
    data = recipe("data")
    time = torch.arange(3200, dtype=torch.float64)
    wave = torch.sin(2 * math.pi * 1000 * time / 16000).float()[None, None]
    made = data.resample_to_24k(wave, data.resampling_filter())
    assert made.shape == (1, 1, 4800)
    time = torch.arange(4800, dtype=torch.float64)
    wanted = torch.sin(2 * math.pi * 1000 * time / 24000).float()
    error = (made[0, 0] - wanted)[200:-200]
    assert error.pow(2).mean().sqrt() < 2e-3


@pytest.mark.parametrize(("voice", "pitch_hz"), [("rms", 100.0), ("slt", 210.0), ("awb", 140.0)])
def test_features_find_the_pitch(recipe, voice, pitch_hz):
    features, data = recipe("features"), recipe("data")
    item = data.Utterance("", voice, tone(pitch_hz, 0.8), np.zeros(10, np.int16))
    samples = torch.from_numpy(item.samples).float()[None] / 32768
    result = features.Features("cpu")(samples, *data.pitch_ranges([item], "cpu"))
    assert result.shape == (1, 10, 648)
    assert torch.isfinite(result).all()
    semitones = result[0, 2:-2, 640:644] / features.PITCH_WEIGHT
    assert (semitones - 12 * math.log2(pitch_hz / 100)).abs().max() < 0.3
    assert (result[0, 2:-2, 644:] / features.VOICING_WEIGHT).min() > 0.9


def test_mel_filters_cover_the_band(recipe):
    filters = recipe("features").mel_bank(16000, 512, 40, 50.0, 8000.0)
    assert filters.shape == (40, 257)
    assert filters.min() >= 0
    assert filters.max() <= 1
    assert (filters.sum(0)[8:250] > 0).all()


def test_codes_are_the_same_whatever_the_batch(recipe, voice_folder):
    data, features = recipe("data"), recipe("features")
    extractor = features.Features("cpu")
    state = load_file(voice_folder / "recipe" / "codes.safetensors")
    quantizer = features.Quantizer(state, "cpu")
    items = utterances(data)
    alone = [data.encode([item], extractor, quantizer, "cpu")[0] for item in items]
    for max_frames in (1, 12, 6000):
        rows = data.encode(items, extractor, quantizer, "cpu", max_frames)
        assert [row.shape for row in rows] == [(4, 16), (10, 16), (2, 16)]
        for left, right in zip(rows, alone, strict=True):
            assert left.dtype == np.uint8
            # Windows at the end of a row see what follows: zeros either way.
            assert np.array_equal(left, right)


def test_more_codebooks_mean_less_error(recipe):
    features = recipe("features")
    generator = torch.Generator().manual_seed(5)
    frames = torch.randn(600, 648, generator=generator) @ torch.diag(torch.linspace(2, 0, 648))
    lines: list[str] = []
    state = features.fit(frames, 3, 8, 12, 6, lines.append)
    assert {name: tuple(value.shape) for name, value in state.items()} == {
        "mean": (648,),
        "basis": (648, 12),
        "books": (3, 8, 12),
    }
    assert len(lines) == 3
    quantizer = features.Quantizer(state, "cpu")
    codes = quantizer.encode(frames)
    assert codes.shape == (600, 3)
    assert codes.max() < 8
    errors = []
    for count in range(4):
        short = features.Quantizer(state, "cpu")
        short.books = state["books"].clone()
        short.books[count:] = 0
        errors.append((short.decode(codes) - frames).pow(2).mean().item())
    assert errors == sorted(errors, reverse=True)


def test_frames_for_fitting_are_whole_and_sorted(recipe):
    data, features, fit_codes = recipe("data"), recipe("features"), recipe("fit_codes")
    assert fit_codes.frames_of(utterances(data), features.Features("cpu")).shape == (16, 648)


def test_spectral_loss_and_discriminators(recipe):
    losses = recipe("codec_losses")
    wave = torch.randn(2, 1, 5000) * 0.1
    spectral = losses.SpectralLoss()
    assert spectral(wave, wave) == 0
    assert spectral(wave, wave * 0.1) > 0.5
    members = losses.Discriminators()
    judged = members(wave)
    assert len(judged) == 8
    assert losses.discriminator_loss(judged, 1).isfinite()
    assert losses.adversarial_loss(judged).isfinite()
    assert losses.feature_loss(judged, judged) == 0


def test_feed_takes_each_chunk_once(recipe, voice_folder, tmp_path):
    data, train = recipe("data"), recipe("train")
    for number in range(3):
        data.save_chunk(tmp_path / f"{number:04d}.npz", utterances(data)[number : number + 1])
    codes: Path = voice_folder / "recipe" / "codes.safetensors"
    feed = train.Feed(tmp_path, codes, max_chunks=2, device="cpu")
    feed.wait(3)
    taken = [[item.text for item in feed.more(1)[0]] for _ in range(3)]
    assert taken == [["one"], ["two"], []]
    team = [train.Feed(tmp_path, codes, 9, "cpu", rank, 2).more() for rank in (0, 1)]
    assert [[item.text for item in items] for items, _ in team] == [["one", "three"], ["two"]]
    fresh = data.encode(utterances(data)[1:2], feed.extractor, feed.quantizer, "cpu")
    assert np.array_equal(team[1][1][0], fresh[0])  # these were read back
    assert sorted(path.name for path in tmp_path.glob("*.npy")) == [
        f"{number:04d}.npy" for number in range(3)
    ]
    segments = recipe("codec").Segments(
        train.Feed(tmp_path, codes, max_chunks=3, device="cpu").more(), num_frames=4, device="cpu"
    )
    drawn, wave = segments.draw(5)
    assert drawn.shape == (5, 16, 4)
    assert wave.shape == (5, 1, 4 * 1920)


def test_the_talker_begins_when_enough_chunks_are_encoded(
    recipe, voice_folder, tmp_path, monkeypatch
):
    """Chunks are encoded as they come; the first ones here are all kept out of the training."""
    data, train = recipe("data"), recipe("train")
    speech, begun = tmp_path / "speech", []
    speech.mkdir()

    def save(number: int) -> None:
        data.save_chunk(speech / f"{number:04d}.npz", utterances(data)[number : number + 1])

    def come_later(seconds: float) -> None:
        assert (speech / "0001.npy").exists()  # encoded before the last chunk is there
        assert not begun
        save(2)

    def begin(store, validation, *rest) -> None:
        begun.append((len(validation.texts), len(store.texts)))

    save(0)
    save(1)
    monkeypatch.setattr(train.time, "sleep", come_later)
    monkeypatch.setattr(train, "train_talker", begin)
    feed = train.Feed(speech, voice_folder / "recipe" / "codes.safetensors", 9, "cpu")
    settings = train.TalkerTraining(seconds=1, device="cpu")
    train.run_talker(feed, settings, tmp_path, lambda line: None, None, first=3)
    assert begun == [(2, 1)]
