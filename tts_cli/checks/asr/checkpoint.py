"""Transcribe and align with checkpoints through transformers: bf16 on a GPU, float32 on a CPU.

Threads read and resample files while the device processes the previous batch. A recognizer's batch
has one language, that of the manifest; if it states none, the checkpoint detects it. Decoding is
greedy, so that a take's words do not depend on other takes. If memory runs out, fewer windows are
processed at a time.

Weights are read from safetensors only, and no code of a checkpoint is run.
"""

from __future__ import annotations

import hashlib
import logging
import os
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from models.checkpoint.files import (
    CheckpointError,
    fetch,
    read_json,
    require_plain_files,
    weight_files,
)
from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.aligner import Passage
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult, Identity
from tts_cli.errors import SetupError
from tts_cli.named import counted

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

FILES = ["*.json", "*.jinja", "*.txt", "*.safetensors"]
BATCH_CUDA, BATCH_CPU = 64, 4  # windows at a time
BATCH_S = 30.0  # of audio per window: longer ones are processed fewer at a time
_MAX_READERS = 8  # threads


class AudioWindow(NamedTuple):
    samples: sound.Array  # (n,) float32 at 16 kHz
    language: str | None  # None: unknown
    passage: Passage | None = None  # for an aligner


class HasPath(Protocol):
    @property
    def path(self) -> Path: ...


T = TypeVar("T", bound=HasPath)  # a request
R = TypeVar("R")  # the result of a window
A = TypeVar("A")  # the answer to a request
X = TypeVar("X")
Y = TypeVar("Y")


@dataclass
class _OpenTake(Generic[T, R]):
    request: T
    audio: sound.Sound
    num_windows: int
    results: dict[int, R] = field(default_factory=dict)  # by number of the window


_Batch = list[tuple[_OpenTake[T, R], int, AudioWindow]]  # take, number of the window, window


class Checkpoint(ABC, Generic[T, R, A]):
    """A checkpoint in memory that answers requests about takes. Raises SetupError: it cannot be
    read.

    Args:
        batch: windows at a time; None: by the device.
        flag: the flag that names the checkpoint.
    """

    kind = ""  # `model_type` of its config.json
    needs = ""  # version of transformers that has its classes
    languages: tuple[str, ...] = ()  # codes, as in `Identity`
    least_score = 0.0  # of an aligner, as in `Identity`
    spellings: tuple[tuple[str, str], ...] = ()
    has_mixed_batches = False  # whether the windows of a batch may differ in language

    def __init__(
        self,
        folder: Path | str,
        device: torch.device,
        batch: int | None = None,
        flag: str = "--asr",
    ) -> None:
        import torch
        import transformers

        folder = Path(folder)
        self.device = device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.batch = batch or (BATCH_CUDA if device.type == "cuda" else BATCH_CPU)
        self._inference = torch.inference_mode
        library: Any = transformers  # some of its names have types only at run time
        library.utils.logging.set_verbosity_error()  # it warns about unusual settings
        library.utils.logging.disable_progress_bar()
        try:
            self._model = self._load(library, folder).to(device).eval()
        except AttributeError as error:
            raise SetupError(
                f"{flag} {folder}: transformers {library.__version__} has no {self.kind}",
                remedy=f"pip install 'transformers>={self.needs}'",
            ) from error
        except Exception as error:  # libraries raise anything for a broken checkpoint
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise SetupError(f"{flag} {folder}: cannot be loaded: {reason}") from error
        # A separate stream: on the default one, it and synthesis would wait for each other.
        cuda: Any = torch.cuda
        self._stream = cuda.Stream(device) if device.type == "cuda" else None
        name = f"{self.kind} {_identity(folder)} {str(self.dtype)[6:]}"
        self.identity = Identity(name, self.languages, self.least_score, self.spellings)
        log.info("transcribing with %s on %s in %s", folder, device, str(self.dtype)[6:])

    @abstractmethod
    def _load(self, library: Any, folder: Path) -> Any:
        """Return the model, and store its processor. Raises errors of `library` (transformers)."""

    @abstractmethod
    def cut(self, request: T, audio: sound.Sound) -> list[AudioWindow]:
        """Return the windows of a take. Raises ValueError: it cannot be processed."""

    @abstractmethod
    def process(self, windows: list[AudioWindow]) -> list[R]:
        """Return the results of windows."""

    @abstractmethod
    def answer(self, request: T, audio: sound.Sound, results: list[R]) -> A:
        """Return the answer to a request by the results of its windows."""

    @abstractmethod
    def failure(self, request: T, problem: str) -> A:
        """Return the answer to a request that failed."""

    def run(self, requests: Iterable[T | None]) -> Iterator[A]:
        """See `Recognizer` and `Aligner`."""
        batches: dict[str | None, list[tuple[_OpenTake[T, R], int, AudioWindow]]] = defaultdict(
            list
        )
        for read in self._read(requests):
            if read is None:
                for batch in batches.values():
                    yield from self._finish(batch)
                continue
            request, audio = read
            try:
                if isinstance(audio, Exception):
                    raise audio
                windows = self.cut(request, audio)
            except (OSError, ValueError) as error:
                yield self.failure(request, str(error))
                continue
            take: _OpenTake[T, R] = _OpenTake(request, audio, len(windows))
            for number, window in enumerate(windows):
                batch = batches[None if self.has_mixed_batches else window.language]
                longest = max(len(one.samples) for one in (window, *(one[2] for one in batch)))
                if (len(batch) + 1) * longest > self.batch * BATCH_S * sound.RATE_HZ:
                    yield from self._finish(batch)
                batch.append((take, number, window))
                if len(batch) >= self.batch:
                    yield from self._finish(batch)
        for batch in batches.values():
            yield from self._finish(batch)

    def _finish(self, batch: _Batch[T, R]) -> Iterator[A]:
        """Process and empty a batch; answer the requests whose last windows are in it."""
        entries = list(batch)
        batch.clear()
        if not entries:
            return
        results = self.halved(self.process, [window for _, _, window in entries])
        for (take, number, _), result in zip(entries, results, strict=True):
            take.results[number] = result
            if len(take.results) == take.num_windows:
                ordered = [take.results[number] for number in range(take.num_windows)]
                yield self.answer(take.request, take.audio, ordered)

    def close(self) -> None:
        self._model = None

    def halved(self, work: Callable[[list[X]], list[Y]], items: list[X]) -> list[Y]:
        """Return the results of some work for items, in halves if there is not enough memory. On
        a GPU it runs concurrently with other work.
        """
        import torch

        try:
            with torch.cuda.stream(self._stream):
                return work(items)
        except torch.OutOfMemoryError:
            if len(items) == 1:
                raise
        # Outside of the handler, because the error has references to tensors.
        half = len(items) // 2
        self.batch = min(self.batch, max(half, 1))
        log.warning(
            "out of device memory; transcribing %s at a time", counted(self.batch, "window")
        )
        torch.cuda.empty_cache()
        return self.halved(work, items[:half]) + self.halved(work, items[half:])

    def _read(
        self, asked: Iterable[T | None]
    ) -> Iterator[tuple[T, sound.Sound | Exception] | None]:
        """Yield every file in order, read ahead by threads; None if no request is ready."""
        waiting: deque[tuple[T, Future[sound.Sound | Exception]]] = deque()
        with ThreadPoolExecutor(min(_MAX_READERS, os.cpu_count() or 1)) as pool:
            try:
                for one in asked:
                    if one is not None:
                        waiting.append((one, pool.submit(_read_one, one.path)))
                    while waiting and (one is None or len(waiting) > 2 * self.batch):
                        first, future = waiting.popleft()
                        yield first, future.result()
                    if one is None:
                        yield None
                for first, future in waiting:
                    yield first, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


class CheckpointRecognizer(Checkpoint[AsrRequest, str, AsrResult]):
    """A `Recognizer`; see `Checkpoint`."""

    codes: frozenset[str] = frozenset()  # of languages that a request may state

    @abstractmethod
    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        """Return the transcripts of windows of up to 30 s.

        Args:
            samples: each (n,) float32 at 16 kHz.
            language: one of `codes`; None: it is detected.
        """

    def cut(self, request: AsrRequest, audio: sound.Sound) -> list[AudioWindow]:
        language = request.language if request.language in self.codes else None
        parts = sound.windows(audio.samples, request.gaps_s)
        return [AudioWindow(samples, language) for samples in parts]

    def process(self, windows: list[AudioWindow]) -> list[str]:
        return self.words([one.samples for one in windows], windows[0].language)

    def answer(self, request: AsrRequest, audio: sound.Sound, results: list[str]) -> AsrResult:
        text = " ".join(filter(None, map(str.strip, results)))
        return AsrResult(request.place, text, audio.sha256)

    def failure(self, request: AsrRequest, problem: str) -> AsrResult:
        return AsrResult(request.place, problem=problem)


def _read_one(path: Path) -> sound.Sound | Exception:
    try:
        return sound.load(path)
    except (OSError, ValueError) as error:
        return error


def folder_of(source: str, flag: str, remedy: str) -> Path:
    """Return the folder of a checkpoint. Raises SetupError.

    Args:
        flag: the flag that names the checkpoint.
        remedy: other values of that flag.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists() or source.startswith((".", "/", "~")) or source.count("/") != 1:
        raise SetupError(f"{flag} {source}: the folder does not exist", remedy)
    try:
        return fetch(source, None, FILES)
    except CheckpointError as error:
        raise SetupError(f"{flag} {error}", remedy) from None


def kind_of(folder: Path, flag: str) -> str:
    """Return the `model_type` of a checkpoint that has weights. Raises SetupError."""
    try:
        require_plain_files(folder)
        config = read_json(folder / "config.json")
        weight_files(folder)
    except CheckpointError as error:
        raise SetupError(f"{flag} {error}") from None
    return str(config.get("model_type") if isinstance(config, dict) else None)


def _identity(folder: Path) -> str:
    """Return the name of a checkpoint with a digest of its configuration and its weights' ends."""
    digest = hashlib.sha256()
    for path in sorted([*weight_files(folder), folder / "config.json"]):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name} {size}\n".encode())
            digest.update(file.read(1 << 20))
            file.seek(max(0, size - (1 << 20)))
            digest.update(file.read(1 << 20))
    return f"{folder.resolve().name}-{digest.hexdigest()[:12]}"
