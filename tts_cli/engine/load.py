"""From settings to a model that is ready: device, dtype, weights, memory, graphs.

The order is a contract: load, size, allocate, capture. Without a requested number of slots, as many
are made as fit. The cache of every slot has the length of the longest row, so one very long row can
lower that number, which is logged.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from kernels.launch.compilation import Compilation, cache_folder, use_cache_folder, watch
from models.checkpoint.files import CheckpointError
from models.device.beside import Beside, load_libraries
from models.device.buckets import next_power_of_two
from models.device.memory import Room, room_for
from models.registry import load_model
from tts_cli import signals, startup
from tts_cli.config import BATCH_CPU, BATCH_CUDA, MANY_ROWS, RunConfig
from tts_cli.engine.kernels import choose_kernels, probe_kernels, settle_kernels, with_fallback
from tts_cli.engine.scheduler import BatchSize
from tts_cli.errors import SetupError
from tts_cli.named import counted, shown_size
from tts_cli.plan.checkpoint import model_label, model_source
from tts_cli.plan.room import Needs
from tts_cli.voices.encoding import VoiceCache

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

T = TypeVar("T")


class ScopedSetting(Generic[T]):
    """A setting of the process that is changed while at least one thread holds it."""

    def __init__(self, read: Callable[[], T], write: Callable[[T], None], value: T) -> None:
        self._read = read
        self._write = write
        self._value = value
        self._mutex = threading.Lock()
        self._num_holders = 0
        self._before: T | None = None

    def hold(self) -> None:
        """Change the setting if this is the first holder. Each call needs a `release`."""
        with self._mutex:
            if not self._num_holders:
                self._before = self._read()
                self._write(self._value)
            self._num_holders += 1

    def release(self) -> None:
        with self._mutex:
            assert self._num_holders, "released more often than held"
            self._num_holders -= 1
            if not self._num_holders:
                before, self._before = self._before, None
                self._write(before)  # type: ignore[arg-type]  # read by `hold`

    @contextmanager
    def held(self) -> Iterator[None]:
        self.hold()
        try:
            yield
        finally:
            self.release()


def choose_device(config: RunConfig) -> torch.device:
    """Return the device of `--device`. Raises SetupError if it does not exist."""
    signals.check()  # torch has been imported
    if config.device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    kind, _, number = config.device.partition(":")
    index = int(number or 0)  # torch uses eight bits of it: cuda:300 would be cuda:44
    if kind == "cuda":
        count = int(torch.cuda.is_available())
        if count and index:  # the first always exists; counting takes 0.1 s
            count = torch.cuda.device_count()
        if index >= count:
            found = f"{count} CUDA devices found" if count else "no CUDA device found"
            raise SetupError(
                f"--device {config.device}: {found}",
                remedy="use --device cpu, or see `tts-cli doctor`",
            )
        return torch.device(kind, index)
    return torch.device(kind)


def choose_dtype(config: RunConfig, device: torch.device) -> torch.dtype:
    if config.dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.float32 if config.dtype == "float32" else torch.bfloat16


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def read_tf32() -> tuple[bool, bool]:
    """Return whether matrix products and cuDNN may round float32 to TF32."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def write_tf32(are_allowed: tuple[bool, bool]) -> None:
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = are_allowed


# float32 means float32: the parity promise holds without TF32.
TF32 = ScopedSetting(read_tf32, write_tf32, (False, False))


log = logging.getLogger(__name__)

POSITION_STEP = 64  # cache lengths are rounded up to this
COMPILED_STEP = 20  # kernels between two messages about compiling


@dataclass
class Loaded:
    """A model with its slots and its encoded voices. Not thread-safe."""

    model: SpeechModel
    device: torch.device
    dtype: torch.dtype
    batch: BatchSize  # slots in use; falls where memory is short, unless shapes are fixed
    load_s: float
    is_batch_chosen: bool = False  # by the user, who is warned if it is lowered
    capture_s: float = 0.0
    kernels: Compilation = field(default_factory=Compilation)  # compiled while capturing
    room: Needs | None = None  # needs that its slots were made for
    step_downs: int = 0  # times that the slots were halved for lack of memory
    recorded: tuple[int, float] = (0, 0.0)  # graphs, and ms, before the first row
    memory: dict[str, int] = field(default_factory=dict)  # bytes on a GPU, see `_note_memory`
    at_end: Callable[[], object] = lambda: None  # restores settings of the process

    def __post_init__(self) -> None:
        self.voices = VoiceCache(self.model, self.device)

    def prepare(self, needs: Needs, is_whole: bool = False) -> None:
        """Allocate slots and capture graphs for the rows of a run.

        Args:
            is_whole: capture every graph that such rows could use. Otherwise only the first is
                captured now, and the others at their second use.
        Raises:
            SetupError: not even one row fits into device memory, or fewer than a fixed batch.
        """
        with on_device(self.device):
            _prepare(self, needs, is_whole)

    def drop_slots(self) -> None:
        """Free the memory of slots and graphs. `prepare` must follow."""
        self.model.allocate(1, POSITION_STEP, 1)
        self.room = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def facts(self) -> dict[str, Any]:
        device = self.device
        facts: dict[str, Any] = {
            "device": str(device),  # [text] device, such as `cuda:0` or `cpu`
            "dtype": str(self.dtype).removeprefix("torch."),  # [text] precision, such as `bfloat16`
            "max_batch": self.batch.rows,  # [rows] largest batch size, at the end of the run
            # [text] kernels in use at the end, Triton's or the PyTorch reference, and the reason
            "kernels": self.model.kernels.describe(device),
            "threads": torch.get_num_threads(),  # [number] threads of PyTorch on the CPU
        }
        if device.type == "cuda":
            properties = torch.cuda.get_device_properties(device)
            cudnn: Any = torch.backends.cudnn  # torch's types lack its `version`
            runners = self.model.graph_runners()
            count, took_ms = _recorded(self)
            facts |= {
                "name": properties.name,  # [text] name of the GPU
                "memory_bytes": properties.total_memory,  # memory of the GPU
                "cuda": torch.version.cuda,  # [text] version of CUDA (since 0.3)
                "cudnn": cudnn.version(),  # [number] version of cuDNN (since 0.3)
                # [true, false] whether shapes were fixed, for `--reproducible` (since 0.3)
                "has_fixed_shapes": self.batch.is_fixed,
                # [number] number of CUDA graphs that were captured
                "graphs": sum(len(runner.keys) for runner in runners),
                # [number] graphs that could not be captured; their steps run without one (since
                # 0.4)
                "graphs_failed": sum(len(runner.stats.failures) for runner in runners),
                "graphs_s": round(took_ms / 1000, 3),  # time to capture all graphs (since 0.4)
                # [number] CUDA graphs captured within `wall_s` (since 0.4)
                "graphs_while_speaking": count - self.recorded[0],
                # time to capture these graphs (since 0.4)
                "graphs_while_speaking_ms": round(took_ms - self.recorded[1], 1),
                # [times] how often the number of slots was lowered at the start, because memory was
                # short (since 0.4)
                "setup_step_downs": self.step_downs,
                "memory": self.memory  # [object] memory of the device, see below (since 0.4)
                | {
                    "peak": torch.cuda.max_memory_allocated(self.device),
                    "reserved": torch.cuda.max_memory_reserved(self.device),
                },
            }
        return facts

    @property
    def peak_bytes(self) -> int | None:
        """Return the peak of the device memory in use, or None if it is not measured."""
        if self.device.type != "cuda":
            return None
        return torch.cuda.max_memory_allocated(self.device)

    def close(self) -> None:
        """Free the model and the device memory. Other references to the model keep both in use."""
        del self.model, self.voices
        gc.collect()  # reference cycles hold tensors
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.at_end()


def open_checkpoint(config: RunConfig) -> Loaded:
    """Load the weights of a checkpoint whose licence `checkpoint.approved_info` has checked.

    Raises SetupError if it cannot be loaded, or cannot keep the promise of `--reproducible`.
    """
    startup.reach("imported_s")
    device = choose_device(config)
    dtype = choose_dtype(config, device)
    if config.kernel_cache is not None:
        use_cache_folder(config.kernel_cache)
    is_fixed = config.reproducible and _needs_fixed_shapes(device, dtype)
    started = time.perf_counter()
    source = model_source(config.model)
    is_cuda = device.type == "cuda"
    why = ", because there is no CUDA device" * (config.device == "auto" and not is_cuda)
    graphs = "captured for the first frame, and on first use"
    if config.no_graphs or not is_cuda:
        graphs = f"none, {'because of --no-graphs' if is_cuda else 'they need a CUDA device'}"
    log.debug("device: %s (--device %s%s); graphs: %s", device, config.device, why, graphs)
    log.info("loading %s on %s in %s", model_label(config.model), device, str(dtype)[6:])
    if is_cuda:
        torch.cuda.set_device(device)
        TF32.hold()
    kernels = choose_kernels(config.kernels, device)
    probe = probe_kernels(kernels, device)
    if is_cuda:
        Beside(device).start(partial(load_libraries, device, dtype))
    startup.reach("device_s")
    try:
        model = load_model(source, device, dtype, config.revision, not config.no_graphs, kernels)
        if is_fixed:
            model.fix_shapes()
        settle_kernels(probe, model, device)
    except BaseException as error:
        if is_cuda:
            TF32.release()
        if isinstance(error, CheckpointError):
            raise SetupError(str(error)) from None
        if isinstance(error, torch.OutOfMemoryError):
            raise SetupError(
                f"{device} does not have enough memory for the weights of "
                f"{model_label(config.model)}",
                remedy="free memory on the device, choose another with --device, or use a smaller "
                "model",
            ) from None
        raise
    max_batch = config.max_batch or (BATCH_CUDA if is_cuda else BATCH_CPU)
    load_s = time.perf_counter() - started
    log.debug("loaded in %.1f s", load_s)
    startup.reach("loaded_s")
    is_chosen = config.max_batch is not None
    batch = BatchSize(max_batch, is_fixed)
    loaded = Loaded(model, device, dtype, batch, load_s, is_chosen)
    if is_cuda:
        loaded.at_end = weakref.finalize(loaded, TF32.release)  # once: on `close` or collection
        _note_memory(loaded, "weights")
    return loaded


def _prepare(loaded: Loaded, needs: Needs, is_whole: bool) -> None:
    model, batch = loaded.model, loaded.batch
    max_positions = -(-needs.max_positions // POSITION_STEP) * POSITION_STEP
    if not batch.is_fixed:
        batch.rows = _wanted_rows(loaded, needs)
    if loaded.room is not None and loaded.device.type == "cuda":
        loaded.drop_slots()  # else their memory would not count as free
    _fit_rows(loaded, needs, max_positions)
    runners = [runner for runner in model.graph_runners() if runner.capturer is not None]
    if runners:
        log.info(
            "allocating slots and graphs for up to %s at a time; the first run on a machine "
            "also compiles kernels, which takes longer",
            counted(batch.rows, "row"),
        )
    started = time.perf_counter()
    with watch(_say_compiled) as loaded.kernels:
        while not _make_slots(loaded, needs, max_positions, is_whole):
            _halve(loaded)
    loaded.capture_s = time.perf_counter() - started
    loaded.recorded = _recorded(loaded)
    if loaded.device.type == "cuda":
        loaded.memory["ready"] = torch.cuda.memory_reserved(loaded.device)
    loaded.room = replace(needs, max_positions=max_positions)
    log.debug(
        "%d slots of %d positions, at most %d frames per row, %d text tokens after the "
        "prompt, %d reference frames; they take %s",
        batch.rows,
        max_positions,
        needs.max_frames,
        needs.max_trailing,
        needs.max_reference_frames,
        shown_size(
            batch.rows * model.slot_bytes(max_positions, needs.max_frames, needs.max_trailing)
        ),
    )
    if runners:
        count = sum(len(runner.keys) for runner in runners)
        waiting = sum(len(runner.announced) for runner in runners)
        more = f"; {waiting} more on first use" if waiting else ""
        log.info("captured %s in %.1f s%s", counted(count, "graph"), loaded.capture_s, more)
    if loaded.kernels.compiled:
        log.info(
            "compiled %s in %.1f s of that, stored in %s",
            counted(loaded.kernels.compiled, "kernel"),
            loaded.kernels.compile_s,
            cache_folder(),
        )


def _wanted_rows(loaded: Loaded, needs: Needs) -> int:
    """Return the number of rows at a time if memory does not matter.

    Large runs are faster with twice the default; in small ones many slots would be empty at the
    end.
    """
    rows = loaded.batch.rows
    is_free = loaded.device.type == "cuda" and not loaded.is_batch_chosen
    if is_free and rows == BATCH_CUDA and needs.rows >= MANY_ROWS:
        return 2 * BATCH_CUDA
    return min(rows, next_power_of_two(needs.rows))


def _needs_fixed_shapes(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a row depends on its batch unless shapes are fixed. Raises SetupError if it always
    does.

    On a CPU, products and attention sum in the same order in any batch, but only in float32.
    """
    if device.type == "cuda":
        return True
    if dtype != torch.float32:
        raise SetupError(
            f"--reproducible: in {str(dtype)[6:]} on a CPU, the audio of a row depends on the "
            "other rows of its batch",
            remedy="use --dtype float32",
        )
    log.info("--reproducible has no effect: in float32 on a CPU, rows are the same in any batch")
    return False


def _say_compiled(found: Compilation) -> None:
    if found.compiled % COMPILED_STEP == 1:
        log.info("compiling kernels that are not in the cache (%d so far)", found.compiled)


def _fit_rows(loaded: Loaded, needs: Needs, max_positions: int) -> None:
    """Choose the rows at a time and the lanes of the vocoder by free memory."""
    if loaded.device.type != "cuda":
        return
    model, batch = loaded.model, loaded.batch
    torch.cuda.empty_cache()  # memory that loading has freed
    free, _ = torch.cuda.mem_get_info(loaded.device)
    slot_bytes = model.slot_bytes(max_positions, needs.max_frames, needs.max_trailing)

    def fit(rows: int) -> Room:
        choices = model.work_choices
        work = partial(model.work_bytes, max_batch=rows, max_positions=max_positions)
        return room_for(rows, free, slot_bytes, choices, work)

    asked, room = batch.rows, fit(batch.rows)
    if not loaded.is_batch_chosen and asked > BATCH_CUDA:
        # Twice the default is not worth fewer frames of the vocoder, or a full device.
        is_ample = room == Room(asked, model.work_choices[0]) and 2 * asked * slot_bytes <= free
        if not is_ample:
            asked, room = BATCH_CUDA, fit(BATCH_CUDA)
    if batch.is_fixed and room.rows < asked:
        raise SetupError(
            f"the longest row needs {shown_size(slot_bytes)} per slot, so {asked} rows do not "
            f"fit into the {shown_size(free)} that are free, and with --reproducible the "
            "audio depends on the number of rows",
            remedy=f"use --max-batch {max(1, room.rows)}, which synthesizes rows made with another "
            "number again, or shorter rows",
        )
    while batch.rows > max(1, room.rows):
        batch.halve()
    model.choose_work(room.choice)
    log.debug(
        "%s free; %s per slot; buffers for up to %d frames at a time take %s",
        shown_size(free),
        shown_size(slot_bytes),
        room.choice,
        shown_size(model.work_bytes(room.choice, batch.rows, max_positions)),
    )
    if batch.rows < asked:
        log.log(
            _level(loaded),
            "the longest row needs %s per slot, so %s synthesized at a time instead of %d; to "
            "allow more, split long texts or lower --max-seconds",
            shown_size(slot_bytes),
            counted(batch.rows, "row is", "rows are"),
            asked,
        )


def _make_slots(loaded: Loaded, needs: Needs, max_positions: int, is_whole: bool) -> bool:
    """Allocate and capture. Return whether memory suffices. Raises StoppedEarly."""
    rows, model = loaded.batch.rows, loaded.model

    def make() -> None:
        model.allocate(rows, max_positions, needs.max_frames, needs.max_trailing)
        _note_memory(loaded, "slots")
        model.capture(rows, needs.max_frames, needs.max_reference_frames, is_whole)

    try:
        # `undo` frees the memory of the first slots for the second.
        with_fallback(make, model, loaded.batch.is_fixed, undo=loaded.drop_slots)
    except torch.OutOfMemoryError:
        return False
    return True


def _halve(loaded: Loaded) -> None:
    what = "the slots and their graphs"
    if loaded.batch.rows == 1:
        raise SetupError(
            f"the device does not have enough memory for {what}, even for one row",
            remedy="lower --max-seconds, free memory on the device, or use a smaller model",
        )
    if loaded.batch.is_fixed:
        raise SetupError(
            f"the device does not have enough memory for {what} of {loaded.batch.rows} rows",
            remedy="use a smaller --max-batch; with --reproducible this changes the audio",
        )
    loaded.batch.halve()
    loaded.step_downs += 1
    rows = counted(loaded.batch.rows, "row")
    log.log(_level(loaded), "not enough memory for %s; trying %s at a time", what, rows)
    torch.cuda.empty_cache()


def _level(loaded: Loaded) -> int:
    """Return the log level of the message about fewer rows at a time."""
    return logging.WARNING if loaded.is_batch_chosen else logging.INFO


def _note_memory(loaded: Loaded, what: str) -> None:
    if loaded.device.type == "cuda":
        loaded.memory[what] = torch.cuda.memory_allocated(loaded.device)


def _recorded(loaded: Loaded) -> tuple[int, float]:
    """Return the number of graphs captured so far, and their capture time in milliseconds."""
    captures = [one for runner in loaded.model.graph_runners() for one in runner.stats.captures]
    return len(captures), sum(one["capture_ms"] for one in captures)
