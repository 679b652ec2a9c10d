"""Files measured as a recipient does, next to FFmpeg's and pyloudnorm's own measurements."""

from __future__ import annotations

import io
import math

import numpy as np
import pyloudnorm
import pytest
import soundfile
from sounds import Array, bursts, tone

from tts_cli.audio.file import check_format, encode
from tts_cli.audio.inspection import AudioFacts, inspect


def facts_of(samples: Array, rate_hz: int, format: str = "wav") -> AudioFacts:
    coding = check_format(format, "PCM_16", rate_hz)
    return inspect(io.BytesIO(encode(samples, rate_hz, format, coding)))


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 44_100, 48_000])
def test_levels_are_those_of_the_whole_file(rate_hz: int) -> None:
    samples = np.concatenate([bursts(40, rate_hz), 0.3 * bursts(7, rate_hz, seed=1)])
    found = facts_of(samples, rate_hz)
    exact = 20 * math.log10(math.sqrt(float(np.mean(samples.astype(np.float64) ** 2))))
    assert found.rms_dbfs == pytest.approx(exact, abs=0.01)
    if rate_hz >= 44_100:
        lufs = pyloudnorm.Meter(rate_hz, filter_class="DeMan").integrated_loudness(samples)
        assert found.lufs == pytest.approx(lufs, abs=0.05)
    assert found.seconds == pytest.approx(47, abs=1e-3)
    assert (found.format, found.channels, found.rate_hz) == ("wav", 1, rate_hz)


def test_the_true_peak_is_between_the_samples_and_across_blocks() -> None:
    rate_hz = 48_000
    time = np.arange(9 * rate_hz) / rate_hz
    wave = 0.5 * np.sin(2 * np.pi * rate_hz / 4 * time + np.pi / 4)  # its samples are at 0.354
    found = facts_of(wave.astype(np.float32), rate_hz)
    assert found.peak_dbtp == pytest.approx(20 * math.log10(0.5), abs=0.2)


def test_ffmpeg_measures_the_same() -> None:
    av = pytest.importorskip("av")
    data = encode(bursts(20, 44_100), 44_100, "mp3", "MPEG_LAYER_III", kbps=192)
    found = inspect(io.BytesIO(data))
    from av.filter import Graph

    with av.open(io.BytesIO(data)) as file:
        stream, graph, last = file.streams.audio[0], Graph(), {}
        nodes = graph.add_abuffer(template=stream), graph.add("ebur128", "peak=true:metadata=1")
        sink = graph.add("abuffersink")
        nodes[0].link_to(nodes[1])
        nodes[1].link_to(sink)
        graph.configure()
        for frame in file.decode(stream):
            graph.push(frame)
            while True:
                try:
                    last = graph.pull().metadata or last
                except (BlockingIOError, EOFError):
                    break
    peak = max(float(value) for name, value in last.items() if "true_peak" in name)
    assert found.lufs == pytest.approx(float(last["lavfi.r128.I"]), abs=0.1)
    assert found.peak_dbtp == pytest.approx(20 * math.log10(peak), abs=0.1)


def test_head_tail_and_floor() -> None:
    rate_hz = 44_100
    noise = np.random.default_rng(0).normal(0, 10 ** (-70 / 20), 4 * rate_hz).astype(np.float32)
    ends = noise[: round(0.7 * rate_hz)], noise[: 2 * rate_hz]
    samples = np.concatenate([ends[0], tone(1, 300, rate_hz), ends[1]])
    found = facts_of(samples, rate_hz)
    assert found.head_s == pytest.approx(0.7, abs=0.02)
    assert found.tail_s == pytest.approx(2.0, abs=0.02)
    assert found.floor_dbfs == pytest.approx(-70, abs=1)


def test_silence_and_short_files_have_no_level() -> None:
    assert facts_of(np.zeros(24_000, np.float32), 24_000).rms_dbfs is None
    assert facts_of(np.zeros(24_000, np.float32), 24_000).peak_dbtp is None
    short = facts_of(tone(0.004, 300), 24_000)
    assert short.floor_dbfs is None
    assert short.peak_dbtp is not None


def test_an_id3_tag_is_not_taken_for_frames() -> None:
    data = encode(bursts(1, 44_100), 44_100, "mp3", "MPEG_LAYER_III", kbps=192)
    tag = b"ID3\x04\0\0" + bytes([0, 0, 2, 1]) + b"\xff\xfb\x10\xc4" * 64 + b"\0"
    assert inspect(io.BytesIO(tag + data)).mp3_kbps == (192,)


def test_what_is_no_audio_is_an_error() -> None:
    with pytest.raises(soundfile.LibsndfileError):
        inspect(io.BytesIO(b"ID3 and nothing more"))
