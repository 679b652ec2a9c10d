"""Recipe: texts, the teacher's output, features and codes, on made-up speech."""

from __future__ import annotations

import math
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

RATE_HZ = 24000


def tone(pitch_hz: float, seconds: float) -> np.ndarray:
    """A voiced sound: eight harmonics, int16 at 24 kHz."""
    time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    wave = sum(np.sin(2 * math.pi * pitch_hz * k * time) / k for k in range(1, 9))
    return (wave * 4000).astype(np.int16)


def utterances(data):
    return [
        data.Utterance("one", "michael", tone(100, 0.32), np.arange(4, dtype=np.int16)),
        data.Utterance("two", "heart", tone(200, 0.8), np.arange(10, dtype=np.int16)),
        data.Utterance("three", "fenrir", tone(120, 0.16), np.array([-1, 4], np.int16)),
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


def test_speech_is_trimmed_to_whole_frames(recipe):
    data = recipe("data")
    wave = np.concatenate([np.zeros(9600), np.full(4800, 0.5), np.zeros(9600)]).astype(np.float32)
    first, end = data.speech_span(wave)
    assert (first, end) == (9600 - 1920, 14399 + 3840)
    samples = data.whole_frames(wave[first:end])
    assert len(samples) == 6 * 1920  # 0.44 s and what fills the last frame
    assert samples[0] == 0
    assert samples.max() == round(0.5 * 32767)
    assert data.speech_span(np.zeros(100, np.float32)) is None


class FakeReader:
    """Spells: a letter is a phoneme, and a token a word with its space."""

    def tokenize(self, text):
        words = text.split(" ")
        ends = [" "] * (len(words) - 1) + [""]
        return [SimpleNamespace(text=w, whitespace=e) for w, e in zip(words, ends, strict=True)]

    def phonemize_tokens(self, tokens):
        for token in tokens:
            token.phonemes = token.text[:2]
        return tokens


def test_phonemes_know_the_letters_they_speak(recipe):
    reading = recipe("reading")
    vocabulary = {letter: code for code, letter in enumerate(" abcdefghNO")}
    phrase = reading.read_sentence(FakeReader(), vocabulary, "head NONO ba", 100)
    assert phrase.ids == [8, 5, 0, 9, 0, 2, 1]  # "he", "N" of a word in capitals, "ba"
    assert phrase.places == [101, 103, 104, 107, 109, 110, 111]
    # Where the rules read other letters than are written, nobody knows.
    reader = FakeReader()
    reader.tokenize = lambda text: FakeReader().tokenize("cab")
    assert reading.read_sentence(reader, vocabulary, "head", 0).places == [-1, -1]


def test_frames_know_the_letters_they_speak(recipe):
    ends = np.array([1920, 3840, 9600])
    places = recipe("reading").frame_places(ends, [4, 7, 9], 0, 6, 1920)
    assert places.tolist() == [4, 7, 9, 9, 9, 9]
    assert recipe("reading").frame_places(ends, [4, 7, 9], 1900, 1, 1920).tolist() == [7]


def test_the_men_s_styles_lie_beside_their_model(recipe, tmp_path):
    teachers, config = recipe("teachers"), recipe("config")
    for place, voice in enumerate(teachers.MEN):
        np.full((510, 1, 256), place, np.float32).tofile(tmp_path / f"am_{voice}.bin")
    styles = teachers.read_styles(tmp_path)
    assert [style.shape for style in styles.values()] == [(510, 256)] * 2
    assert {*styles, teachers.HEART} == set(config.VOICES)
    assert (styles[teachers.MEN[1]] == 1).all()


def test_pack_keeps_what_the_talker_learns_from(recipe, tmp_path):
    data = recipe("data")
    items = utterances(data)
    codes = [np.full((len(item.places), 16), place, np.uint8) for place, item in enumerate(items)]
    data.save_pack(tmp_path / f"00{data.PACK}", items, codes)
    again, rows = data.load_pack(tmp_path / f"00{data.PACK}")
    assert [(item.text, item.voice) for item in again] == [(i.text, i.voice) for i in items]
    assert all(np.array_equal(*pair) for pair in zip(rows, codes, strict=True))
    assert all(len(item.samples) == 0 for item in again)


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


@pytest.mark.parametrize(
    ("voice", "pitch_hz"), [("michael", 100.0), ("heart", 210.0), ("fenrir", 140.0)]
)
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
    shares = [[item.text for item in items] for items, _ in team]
    assert sorted(shares[0] + shares[1]) == ["one", "three", "two"]
    fresh = data.encode(utterances(data)[1:2], feed.extractor, feed.quantizer, "cpu")
    kept = {
        item.text: rows for items, codes in team for item, rows in zip(items, codes, strict=True)
    }
    assert np.array_equal(kept["two"], fresh[0])  # these were read back
    assert sorted(path.name for path in tmp_path.glob("*.npy")) == [
        f"{number:04d}.npy" for number in range(3)
    ]
    codec = recipe("codec")
    settings = codec.CodecTraining(1, device="cpu", frames=4, decoded_frames=3)
    corpus = train.Feed(tmp_path, codes, max_chunks=3, device="cpu").more()
    segment = codec.Segments(corpus, settings).draw(5)
    assert segment.codes.shape == (5, 16, 4)
    assert segment.speech.shape == (5, 1, (3 - codec.EDGE_FRAMES) * 1920)


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
