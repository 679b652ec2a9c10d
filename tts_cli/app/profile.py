"""Time the stages of a loaded model. `warmup` runs the same fixed rows."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

from models.base import Prompt, SpeechRequest, Voice
from models.device.buckets import is_power_of_two
from models.device.graphs import GraphRunner
from models.device.spans import time_stage
from tts_cli.config import RunConfig
from tts_cli.engine.kernels import with_fallback
from tts_cli.engine.load import Loaded, choose_device, open_checkpoint
from tts_cli.errors import UsageError
from tts_cli.plan.checkpoint import approved_info
from tts_cli.plan.checks import require_speakable
from tts_cli.plan.room import Needs
from tts_cli.store.files import AudioWriter
from tts_cli.versions import commit, versions
from tts_cli.voices.encoding import ENCODE_ROWS

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

BATCHES_CUDA, BATCHES_CPU = "1,16,64,256", "1,4,16"
VOCODER_ROWS = 32
HOST_REPEATS = 20
REFERENCE_S = 10.0  # length of a typical recording to clone
# parts: the parts of a frame. eager: the frame without its graph.
STAGES = ("prompt", "prefill", "parts", "frame", "eager", "vocoder", "write", "reference")


def profile(
    config: RunConfig, batches: str | None, frames: int, repeats: int | None, stages: str | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the figures of each batch size, and a report. Raises UsageError, SetupError."""
    is_cuda = choose_device(config).type == "cuda"
    sizes = parse_batches(batches or (BATCHES_CUDA if is_cuda else BATCHES_CPU))
    chosen = parse_stages(stages) if stages else STAGES
    require_speakable(approved_info(config))
    if config.max_batch is not None:
        sizes = [size for size in sizes if size <= config.max_batch] or [config.max_batch]
    loaded = open_checkpoint(replace(config, max_batch=max(sizes)))
    profiler = Profiler(loaded, frames, repeats or (50 if is_cuda else 5), chosen)
    results: list[dict[str, Any]] = []
    for size in sorted(sizes, reverse=True):  # slots only ever get fewer
        if results and size >= results[0]["batch"]:
            continue
        results.insert(0, with_fallback(functools.partial(profiler.measure, size), loaded.model))
    return results, profiler.report(results)


class Profiler:
    """Measures one checkpoint.

    Args:
        frames: length of rows. Decoding is timed half-way through a row, the vocoder on whole rows.
        repeats: timed runs of each device stage.
        stages: names from `STAGES`. Unless all are given, only the graphs that they run are
            captured.
    """

    def __init__(
        self, loaded: Loaded, frames: int, repeats: int, stages: Collection[str] = STAGES
    ) -> None:
        self.loaded = loaded
        self.model = loaded.model
        self.device = loaded.device
        self.frames = min(frames, loaded.model.info.max_frames)
        self.repeats = repeats
        self.chosen = frozenset(stages)
        self.captures: list[dict[str, Any]] = []  # of all batch sizes
        self.capture_s = 0.0

    def prepare(self, batch: int) -> None:
        """Allocate slots and capture graphs for `batch` rows, or fewer if memory is short.

        The number of slots is that of a run of this many rows, because it decides how a frame is
        launched: with one slot, a step is one launch (`kernels.persistent`).
        """
        prompt = sample_prompts(self.model, 1, 1)[0]
        # Rows continue from half-way while they are timed.
        room = prompt.num_tokens + self.frames + 2 * (self.repeats + 16)
        needs = Needs(
            rows=batch,
            max_positions=min(room, self.model.info.max_positions),
            max_frames=min(self.frames + 2 * (self.repeats + 16), self.model.info.max_positions),
            max_trailing=len(prompt.trailing_ids),
        )
        self.loaded.prepare(needs, is_whole=self.chosen.issuperset(STAGES))
        self.model.settle()  # so that it is neither timed nor counted
        self.capture_s += self.loaded.capture_s
        self.captures += [c for r in self.model.graph_runners() for c in r.stats.captures]

    @torch.inference_mode()
    def measure(self, batch: int) -> dict[str, Any]:
        """Measure one batch size, or the largest that fits. Unmeasured figures are None."""
        self.prepare(batch)
        model, info, batch = self.model, self.model.info, self.loaded.batch.rows
        prompts = sample_prompts(model, batch, self.frames)
        stages = []
        if "prompt" in self.chosen:
            request = prompts[0].request
            stages.append(self._host("prompt (one row)", lambda: model.prompt(request)))
        codes_xrt = eager_ms = vocoder_xrt = None
        if self.chosen & {"prefill", "parts", "frame", "eager"}:
            slots = list(range(batch))
            stages += self._frames(prompts, slots)
            model.release(slots)
        times = {stage["stage"]: stage["p50_ms"] for stage in stages}
        if frame_ms := times.get("frame"):
            codes_xrt = batch * info.frame_s * 1000 / frame_ms
            eager_ms = times.get("frame, eager")
        if "vocoder" in self.chosen:
            vocoder, vocoder_xrt = self._vocoder(min(batch, VOCODER_ROWS))
            stages.append(vocoder)
        if "write" in self.chosen:
            stages.append(self._write())
        if "reference" in self.chosen and info.can_clone:
            stages.append(self._reference(min(batch, ENCODE_ROWS)))
        xrt = 1 / (1 / codes_xrt + 1 / vocoder_xrt) if codes_xrt and vocoder_xrt else None
        return {
            "batch": batch,
            "stages": stages,
            "codes_xrt": codes_xrt,
            "vocoder_xrt": vocoder_xrt,
            "xrt": xrt,
            "rtf": 1 / xrt if xrt else None,
            "graph_speedup": eager_ms / frame_ms if eager_ms and frame_ms else None,
        }

    def _frames(self, prompts: list[Prompt], slots: list[int]) -> list[dict[str, Any]]:
        """Measure the prefill and the parts of a frame. The rows stay in the slots."""
        model, batch = self.model, len(slots)
        runner = model.graph_runners()[0]
        stages = []
        if "prefill" in self.chosen:
            run = functools.partial(model.prefill, prompts, slots)
            stages.append(self._device("prefill (batch)", run, min(5, self.repeats)))
        else:
            model.prefill(prompts, slots)
        model.decode_frames(batch, min(8, self.frames))
        frame = self._device("frame", lambda: runner.run(batch))
        for stage in model.stages(batch) if "parts" in self.chosen else ():
            captured = self._captured(stage.name, stage.run, runner.capturer)
            entry = self._device(stage.name, captured)
            entry["share"] = entry["p50_ms"] / frame["p50_ms"]
            stages.append(entry)
        frame["share"] = 1.0
        stages.append(frame)
        if "eager" in self.chosen and runner.capturer is not None:
            repeats = min(10, self.repeats)
            stages.append(self._device("frame, eager", lambda: runner.function(batch), repeats))
        return stages

    def _vocoder(self, rows: int) -> tuple[dict[str, Any], float]:
        info = self.model.info
        shape = (self.frames, info.num_codebooks)
        # The codebooks of every checkpoint have at least 32 entries.
        codes = [torch.randint(0, 32, shape, device=self.device) for _ in range(rows)]
        name = f"vocoder ({rows} x {self.frames} frames)"
        run = functools.partial(self.model.decode_audio, codes)
        entry = self._device(name, run, min(10, self.repeats))
        return entry, rows * self.frames * info.frame_s * 1000 / entry["p50_ms"]

    def _reference(self, rows: int) -> dict[str, Any]:
        waves = sample_references(self.model, rows, REFERENCE_S)
        name = f"reference ({rows} x {REFERENCE_S:g} s)"
        run = functools.partial(self.model.encode_voices, waves, ["icl"] * rows)
        return self._device(name, run, min(5, self.repeats))

    def _write(self) -> dict[str, Any]:
        info = self.model.info
        wave = np.zeros(self.frames * info.samples_per_frame, dtype=np.float32)
        with tempfile.TemporaryDirectory() as folder:
            writer = AudioWriter(Path(folder), RunConfig(), info.sample_rate_hz)
            return self._host("write (one row)", lambda: writer.make("row", wave))

    def _captured(self, name: str, run: Callable[[], Any], capturer: Any) -> Callable[[], Any]:
        stage: GraphRunner[int] = GraphRunner(name, lambda _: run(), capturer)
        stage.announce([0])
        stage.capture()
        return lambda: stage.run(0)

    def _device(
        self, name: str, run: Callable[[], Any], repeats: int | None = None
    ) -> dict[str, Any]:
        entry = stage_entry(name, time_stage(run, self.device, repeats or self.repeats))
        entry["launches"] = count_kernels(run, self.device)
        return entry

    def _host(self, name: str, run: Callable[[], Any]) -> dict[str, Any]:
        times = []
        for _ in range(HOST_REPEATS):
            started = time.perf_counter()
            run()
            times.append(1000 * (time.perf_counter() - started))
        return stage_entry(name, times)

    def report(self, results: list[dict[str, Any]]) -> dict[str, Any]:
        is_cuda = self.device.type == "cuda"
        return {
            "model": self.model.info.identity,
            "device": self.loaded.facts(),
            "versions": versions(),
            "commit": commit(),
            "frames": self.frames,
            "repeats": self.repeats,
            "load_s": round(self.loaded.load_s, 3),
            "capture_s": round(self.capture_s, 3),
            "peak_memory_bytes": torch.cuda.max_memory_allocated(self.device) if is_cuda else None,
            "graphs": self.captures,
            "results": results,
        }


def count_kernels(run: Callable[[], Any], device: torch.device) -> int | None:
    """Return the number of kernels, copies and fills of one call with its graphs; None on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    with torch_profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        run()
        torch.cuda.synchronize(device)
    entries = profiler.key_averages()
    return sum(int(entry.count) for entry in entries if entry.device_type.name == "CUDA")


def stage_entry(name: str, times: list[float]) -> dict[str, Any]:
    """Return the median, 95th and 99th percentile of times in ms."""
    p50, p95, p99 = (float(value) for value in np.percentile(times, [50, 95, 99]))
    entry = {"stage": name, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
    return {**entry, "share": None, "launches": None}


TEXT = "The quick brown fox jumps over the lazy dog, and nobody minds."


def sample_prompts(model: SpeechModel, count: int, max_frames: int) -> list[Prompt]:
    """Return prompts of equal length, with the checkpoint's voices in turn and one seed each."""
    info = model.info
    voices = info.voices or (None,)
    instruct = "a calm voice" if info.needs_instruct else None
    clone = sample_clone(model) if info.needs_reference else None
    return [
        model.prompt(
            SpeechRequest(
                TEXT,
                voice=voices[row % len(voices)],
                instruct=instruct,
                sampling=info.sampling,
                seed=row,
                max_frames=max_frames,
                clone=clone,
            )
        )
        for row in range(count)
    ]


def sample_references(model: SpeechModel, count: int, seconds: float) -> list[torch.Tensor]:
    """Return tones in place of recordings, (n,) float32 each."""
    rate_hz = model.info.sample_rate_hz
    time_s = torch.arange(round(seconds * rate_hz)) / rate_hz
    return [0.3 * torch.sin(2 * torch.pi * (110 + 10 * row) * time_s) for row in range(count)]


def sample_clone(model: SpeechModel) -> Voice:
    """Return a voice for a Base checkpoint, so that prompts have the usual length."""
    embedding, _ = model.encode_voices(sample_references(model, 1, 2.0), ["xvec"])[0]
    return Voice(embedding.float().cpu(), None, None, "xvec", model.info.identity, "sample")


def parse_batches(text: str) -> list[int]:
    """Parse `1,16,64` as a list of powers of two. Raises UsageError."""
    try:
        batches = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UsageError(
            f"--batches {text!r}: must be numbers with commas, such as 1,16,64"
        ) from None
    wrong = [batch for batch in batches if not is_power_of_two(batch) or batch > 1024]
    if wrong:
        raise UsageError(f"--batches: {wrong[0]} is not a power of two up to 1024")
    return batches


def parse_stages(text: str) -> list[str]:
    """Parse `frame,vocoder` as a list of stages. Raises UsageError."""
    names = text.split(",")
    wrong = [name for name in names if name not in STAGES]
    if wrong:
        raise UsageError(f"--stages: {wrong[0]!r} is not one of {', '.join(STAGES)}")
    return names
