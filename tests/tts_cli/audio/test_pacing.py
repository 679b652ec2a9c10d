"""Where places of a text are heard, from letters, signs and pauses."""

from __future__ import annotations

import numpy as np
import pytest

from tts_cli.audio.pacing import Pause, letters_of, pauses_in, times_of

RATE_HZ = 24_000


def test_pauses_in_speech() -> None:
    tone = np.sin(np.arange(RATE_HZ) * 0.2).astype(np.float32)
    still = 1e-3 * np.random.default_rng(0).normal(0, 1, RATE_HZ).astype(np.float32)
    short = still[: round(0.03 * RATE_HZ)]
    samples = 0.3 * np.concatenate([still, tone, still[:7200], tone, short, tone, still])
    found = pauses_in(samples + np.float32(0.05), RATE_HZ, 10.0)
    assert [tuple(pause) for pause in found] == [pytest.approx((12.0, 12.3), abs=0.011)]


@pytest.mark.parametrize("num_samples", [0, 1, 239, 240, 5_000])
def test_no_speech_has_no_pauses(num_samples: int) -> None:
    assert pauses_in(np.zeros(num_samples, np.float32), RATE_HZ) == []


def test_letters_alone() -> None:
    text = "Nine ducks went over, and there were four more."
    cut = text.index("and")
    ((end_s, start_s),) = times_of(text, [cut], 2.0, 6.0, [])
    assert end_s == start_s == pytest.approx(2.0 + 4.0 * 17 / 37)


def test_a_sign_is_where_the_voice_pauses() -> None:
    text = "Nine ducks went over, and there were four more."
    cut = text.index("and")
    lips, comma = Pause(2.6, 2.68), Pause(4.3, 4.6)
    assert times_of(text, [cut], 2.0, 6.0, [lips, comma]) == [comma]
    assert times_of(text, [cut], 2.0, 6.0, [Pause(0.5, 0.9), comma, Pause(6.5, 7.0)]) == [comma]


def test_letters_are_counted_from_the_pause_before() -> None:
    text = "Well, nine ducks went over the lake today."
    slow = Pause(2.4, 4.4)
    cuts = [text.index("nine"), text.index("over")]
    (first, (place_s, _)) = times_of(text, cuts, 2.0, 7.0, [slow])
    assert first == slow
    assert place_s == pytest.approx(4.4 + 2.6 * 13 / 29)


def test_figures_are_longer_than_they_look() -> None:
    assert sum(letters_of("1987")) == 4 * sum(letters_of("year"))
    assert sum(letters_of("$5")) > sum(letters_of("five"))
    assert sum(letters_of("\u96e8")) == 3  # about what a syllable takes


def test_an_abbreviation_is_no_place_to_pause() -> None:
    text = "We called Dr. Hale at once. She came."
    pause = Pause(1.9, 2.2)
    cut = text.index("She")
    assert times_of(text, [cut], 0.0, 2.9, [pause]) == [pause]


def test_chinese() -> None:
    text = "\u4eca\u5929\u4e0b\u4e86\u96e8\uff0c\u6cb3\u6c34\u5f88\u9ad8\u3002"
    pause = Pause(1.2, 1.5)
    assert times_of(text, [6], 0.0, 2.6, [pause]) == [pause]


def test_more_signs_and_pauses_than_are_looked_at() -> None:
    assert len(times_of("a, " * 40 + "b.", [60], 0.0, 20.0, [])) == 1
    pauses = [Pause(k / 10, k / 10 + 0.06) for k in range(1, 190)]
    ((end_s, start_s),) = times_of("word " * 9, [20], 0.0, 20.0, pauses)
    assert 0 < end_s <= start_s < 20
