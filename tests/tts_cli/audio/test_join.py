"""Parts behind each other: pauses as asked, no speech lost, no click."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tts_cli.audio.join import MARGIN_S, Pauses, join, speech_span
from tts_cli.text.boundaries import Boundary

Array = np.ndarray[Any, Any]
RATE_HZ = 24_000
CLAUSE, SENTENCE, PARAGRAPH = Boundary.CLAUSE, Boundary.SENTENCE, Boundary.PARAGRAPH
PAUSES = Pauses(paragraph=0.8, sentence=0.35, clause=0.15, word=0.05)


def voice(seconds: float, before_s: float = 0.0, behind_s: float = 0.0, dc: float = 0.0) -> Array:
    """A tone in int16 with near-silence around it, all on an offset."""
    time = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    tone = 0.3 * np.sin(2 * np.pi * 220 * time + 0.7)
    noise = np.random.default_rng(0).normal(0, 2e-5, round((before_s + behind_s) * RATE_HZ))
    cut = round(before_s * RATE_HZ)
    samples = np.concatenate([noise[:cut], tone, noise[cut:]]) + dc
    return np.rint(32767 * samples).astype(np.int16)


def gap_s(joined: Array, rate_hz: int = RATE_HZ) -> float:
    """Seconds between the first tone's end and the second one's start."""
    loud = np.flatnonzero(np.abs(joined.astype(np.int64)) > 900)
    return float(np.diff(loud).max()) / rate_hz


@pytest.mark.parametrize("boundary", list(Boundary))
@pytest.mark.parametrize("silence_s", [0.0, 0.005, 0.03, 0.5])
def test_the_pause_is_that_of_the_boundary(boundary: Boundary, silence_s: float) -> None:
    parts = [voice(0.5, 0.2, silence_s), voice(0.5, silence_s, 0.1)]
    joined, _ = join(parts, [PAUSES.seconds(boundary)], RATE_HZ)
    assert gap_s(joined) == pytest.approx(PAUSES.seconds(boundary), abs=0.022)


@pytest.mark.parametrize("silence_s", [0.0, 0.03, 0.5])
@pytest.mark.parametrize("dc", [0.0, 0.01])
def test_a_text_can_say_each_pause(silence_s: float, dc: float) -> None:
    parts = [voice(0.5, silence_s, 0.2, dc), voice(0.4, 0.1, silence_s, dc), voice(0.3, 0.2, dc=dc)]
    joined, places = join(parts, [0.25, 0.35], RATE_HZ, 1.5, 0.6)
    loud = np.flatnonzero(np.abs(joined.astype(np.int64)) > 900)
    gaps = np.diff(loud)
    found = sorted(float(gap) / RATE_HZ for gap in gaps[gaps > 0.1 * RATE_HZ])
    assert found == pytest.approx([0.25, 0.35], abs=0.02)
    assert loud[0] / RATE_HZ == pytest.approx(1.5, abs=0.02)
    assert (len(joined) - loud[-1]) / RATE_HZ == pytest.approx(0.6, abs=0.02)
    assert (places[0].start, places[-1].end) != (0, len(joined))
    # No click: nothing steps by more than the tone itself does, where silence begins or ends.
    steps = np.abs(np.diff(joined.astype(np.int64)))
    edges = [place.start for place in places] + [place.end for place in places]
    assert max(int(steps[max(0, edge - 3) : edge + 3].max()) for edge in edges) < 60


def test_the_ends_of_the_row_are_not_cut() -> None:
    parts = [voice(0.5, before_s=0.3), voice(0.5, behind_s=0.4)]
    joined, places = join(parts, [0.15], RATE_HZ)
    assert places[0].start == 0
    assert places[1].end == len(joined)
    assert places[0].end == len(parts[0])
    assert np.array_equal(joined[: places[0].end - 120], parts[0][:-120])
    assert np.array_equal(joined[places[1].start + 120 :], parts[1][120:])


def test_places_hold_each_part_without_its_silence() -> None:
    parts = [voice(0.5, 0.3, 0.4), voice(0.7, 0.2, 0.6), voice(0.4, 0.1, 0.3)]
    joined, places = join(parts, [0.15, 0.8], RATE_HZ)
    spoken = [speech_span(part, RATE_HZ) for part in parts]
    margin = round(MARGIN_S * RATE_HZ)
    assert places[1].end - places[1].start == spoken[1][1] - spoken[1][0] + 2 * margin
    assert [place.start < place.end for place in places] == [True] * 3
    assert places[0].end <= places[1].start
    middle = joined[places[1].start + 120 : places[1].end - 120]
    assert np.array_equal(middle, parts[1][spoken[1][0] - margin + 120 :][: len(middle)])


def test_a_soft_last_sound_is_kept() -> None:
    """40 dB below the vowels, as a last f may be."""
    soft = np.rint(100 * np.sin(np.arange(2400) * 1.3)).astype(np.int16)
    part = np.concatenate([voice(0.5), soft, np.zeros(4800, np.int16)])
    assert speech_span(part, RATE_HZ)[1] == pytest.approx(len(part) - 4800, abs=240)


def test_an_offset_is_no_sound() -> None:
    """The sample voice arthur carries DC: its pauses were louder than -60 dB."""
    part = voice(0.5, 0.3, 0.4, dc=0.01)
    start, end = speech_span(part, RATE_HZ)
    assert start == pytest.approx(0.3 * RATE_HZ, abs=240)
    assert end == pytest.approx(0.8 * RATE_HZ, abs=240)


@pytest.mark.parametrize("kind", [np.int16, np.float32])
@pytest.mark.parametrize("dc", [0.0, 0.05])
def test_no_click(kind: type, dc: float) -> None:
    """What is above 4 kHz at a joint is no more than in the tone itself: a step would be 40 dB
    above it. Parts cut in the middle of a tone, without silence, are the worst case.
    """
    parts = [voice(0.5137, dc=dc), voice(0.4993, dc=dc), voice(0.3331, 0.2, 0.1, dc=dc)]
    if kind is np.float32:
        parts = [(part / 32767).astype(np.float32) for part in parts]
    joined, places = join(parts, [0.15, 0.35], RATE_HZ)
    assert joined.dtype == kind
    full_scale = 32767 if kind is np.int16 else 1
    edges = [places[0].end, places[1].start, places[1].end, places[2].start]
    for edge in edges:
        energy = high_energy(joined[edge - 256 : edge + 256] / full_scale)
        assert energy < 1e-6, edge
    step = np.concatenate([parts[0][-256:], np.zeros(256, kind)]) / full_scale
    assert high_energy(step) > 1e-5


def high_energy(samples: Array) -> float:
    """Energy above 4 kHz of (512,) samples."""
    spectrum = np.fft.rfft(samples * np.hanning(len(samples)))
    return float((np.abs(spectrum[86:]) ** 2).sum() / len(samples) ** 2)


@pytest.mark.parametrize("part", [np.zeros(5_000, np.int16), np.zeros(0, np.int16)])
def test_a_part_without_sound(part: Array) -> None:
    joined, places = join([voice(0.5), part, voice(0.5)], [0.15, 0.15], RATE_HZ)
    assert places[1].end - places[1].start == len(part)
    assert len(joined) == places[2].end


def test_boundaries_must_fit() -> None:
    with pytest.raises(ValueError, match="pauses"):
        join([voice(0.1), voice(0.1)], [], RATE_HZ)
