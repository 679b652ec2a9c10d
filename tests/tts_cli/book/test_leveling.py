"""Chapters at a level: measured on the file, whatever its pauses, voices and sharp sounds are."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile
from sounds import Array, bursts

from tts_cli.audio.encode import Encoder
from tts_cli.audio.file import encode
from tts_cli.audio.tags import Tags
from tts_cli.book.chapter_audio import RowAudio, write_chapter
from tts_cli.config import RunConfig

RATE_HZ = 24_000
GAINS = {"anna": 0.05, "bert": 0.3}
TAGS = Tags("Die Mühle", "anna, bert", "Das Buch", "synthetic speech")


def rows(folder: Path, seconds: list[float]) -> list[RowAudio]:
    """Rows of two voices, one far louder than the other, with hiss around their speech."""
    takes = []
    for index, length in enumerate(seconds):
        voice = "anna" if index % 2 else "bert"
        samples = bursts(length, seed=index, gain=GAINS[voice])
        hiss = 1e-5 * np.random.default_rng(index).standard_normal(RATE_HZ // 4)
        path = folder / f"{index}.wav"
        path.write_bytes(
            encode(
                np.concatenate([hiss, samples, hiss]).astype(np.float32), RATE_HZ, "wav", "PCM_16"
            )
        )
        takes.append(RowAudio(path, 0.8, voice))
    return takes


def delivery(**settings: object) -> Encoder:
    return Encoder(RunConfig(**settings), RATE_HZ)  # type: ignore[arg-type]


def lufs(samples: Array) -> float:
    return float(pyloudnorm.Meter(RATE_HZ).integrated_loudness(samples.astype(np.float64)))


@pytest.mark.parametrize("text", ["ebu", "podcast", "-14"])
@pytest.mark.slow
def test_a_chapter_has_the_loudness_and_its_voices_are_alike(tmp_path: Path, text: str) -> None:
    takes = rows(tmp_path, [3.0, 2.0, 0.3, 40.0, 5.0])
    path = tmp_path / "chapter.wav"
    joined = write_chapter(path, takes, delivery(loudness=text), TAGS)
    samples, _ = soundfile.read(path)
    wanted = {"ebu": -23, "podcast": -16, "-14": -14}[text]
    assert lufs(samples) == pytest.approx(wanted, abs=0.1 if text == "ebu" else 0.2)
    assert joined.applied is not None
    assert joined.applied["after_db"] == pytest.approx(lufs(samples), abs=0.1)
    assert np.abs(samples).max() <= 10 ** (-1 / 20)
    gains = joined.applied["gains_db"]
    assert gains["anna"] - gains["bert"] > 10
    ends = [(round(s.start_s * RATE_HZ), round(s.end_s * RATE_HZ)) for s in joined.spans]
    voices = [lufs(samples[slice(*ends[index])]) for index in (0, 3)]
    assert voices[0] == pytest.approx(voices[1], abs=3)
    with soundfile.SoundFile(path) as file:
        assert file.copy_metadata()["title"] == "Die Mühle"
        assert file.frames == joined.num_samples


@pytest.mark.parametrize("format", ["wav", "flac", "mp3", "opus"])
def test_acx(tmp_path: Path, format: str) -> None:
    takes = rows(tmp_path, [1.0, 2.0, 4.0, 3.0])
    path = tmp_path / f"chapter.{format}"
    joined = write_chapter(path, takes, delivery(format=format, loudness="acx"), TAGS)
    samples, _ = soundfile.read(path)
    assert -23 <= 10 * np.log10(np.mean(samples**2)) <= -18
    # Also with loss, which moves peaks of noise more than those of a voice.
    assert 20 * np.log10(np.abs(samples).max()) <= -3
    window = RATE_HZ // 2
    quietest = min(
        np.mean(samples[start : start + window] ** 2)
        for start in range(0, len(samples) - window, window // 10)
    )
    assert 10 * np.log10(quietest + 1e-20) <= -60
    assert joined.applied is not None
    assert joined.applied["level_by"] == "rms"
    assert joined.applied["after_db"] == pytest.approx(-20, abs=0.5)  # noise is limited a lot
    with soundfile.SoundFile(path) as file:
        assert file.copy_metadata()["album"] == "Das Buch"


def test_trim_and_padding_are_of_the_chapter(tmp_path: Path) -> None:
    takes = rows(tmp_path, [1.0, 1.0])
    plain = write_chapter(tmp_path / "a.wav", takes, delivery())
    cut = write_chapter(tmp_path / "b.wav", takes, delivery(trim=True, pad=(0.5, 1.0)))
    samples, _ = soundfile.read(tmp_path / "b.wav")
    assert len(samples) == cut.num_samples
    assert not samples[: RATE_HZ // 2].any()
    assert not samples[-RATE_HZ:].any()
    assert cut.spans[0].start_s == pytest.approx(0.55, abs=0.011)
    lengths = [span.end_s - span.start_s for made in (plain, cut) for span in made.spans]
    assert lengths[:2] == pytest.approx(lengths[2:], abs=1e-3)
    assert cut.num_samples / RATE_HZ - cut.spans[1].end_s == pytest.approx(1.05, abs=0.011)


def test_without_settings_a_chapter_is_what_it_was(tmp_path: Path) -> None:
    takes = rows(tmp_path, [1.0, 1.0])
    plain = write_chapter(tmp_path / "a.wav", takes, delivery())
    told = write_chapter(tmp_path / "b.wav", takes, delivery(), TAGS)
    one, two = (tmp_path / "a.wav").read_bytes(), (tmp_path / "b.wav").read_bytes()
    assert two[8 : len(one)] == one[8:]
    assert plain == told
    assert plain.applied is None


@pytest.mark.slow
@pytest.mark.long  # test_chapter_audio.py has that what is joined takes no more
def test_hours_take_no_more_than_their_longest_row(tmp_path: Path) -> None:
    takes = rows(tmp_path, [4.0, 4.0]) * 60
    write_chapter(tmp_path / "short.wav", takes[:2], delivery(loudness="ebu"))
    tracemalloc.start()
    write_chapter(tmp_path / "long.wav", takes, delivery(loudness="ebu"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "long.wav").stat().st_size > 20e6
    assert peak < 60e6, "it is that of a stretch that is measured at once"
