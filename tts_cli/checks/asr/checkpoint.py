"""Recognise and align with checkpoints through transformers: bf16 on a GPU, float32 on a CPU.

Files are read and resampled by threads while the device hears the batch before. A batch has one
language, as the manifest tells it; where it tells none, the checkpoint finds out. Greedy: a take's
words do not depend on what came before. Where memory falls short, fewer windows are heard at once.

Weights are read from safetensors alone, and no code of a checkpoint's is run.
"""

from __future__ import annotations

import hashlib
import logging
import os
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from models.checkpoint.files import (
    CheckpointError,
    fetch,
    read_json,
    require_plain_files,
    weight_files,
)
from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.recognizer import AsrRequest, AsrResult, Identity
from tts_cli.errors import SetupError
from tts_cli.named import counted

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

FILES = ["*.json", "*.jinja", "*.txt", "*.safetensors"]
BATCH_CUDA, BATCH_CPU = 64, 4  # windows heard at once
_READERS = 8  # threads at most


class _Window(NamedTuple):
    place: int  # of its take
    number: int  # in it
    samples: sound.Array
    language: str | None


class HasPath(Protocol):
    """What is asked of a take."""

    @property
    def path(self) -> Path:
        """Its audio."""
        ...


T = TypeVar("T", bound=HasPath)
A = TypeVar("A")
B = TypeVar("B")


class Checkpoint(ABC):
    """A checkpoint in memory, that takes are read for.

    Args:
        folder: of the checkpoint.
        device: torch's.
        batch: windows heard at once; None: by the device.
        flag: that names it.
    Raises:
        SetupError: it cannot be read.
    """

    kind = ""  # as its config.json calls it
    needs = ""  # of transformers, to have its classes
    languages: tuple[str, ...] = ()  # as `Identity` has them
    least_score = 0.0  # likewise
    spellings: tuple[tuple[str, str], ...] = ()

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
        library: Any = transformers  # types of some of its names are made when they are asked for
        library.utils.logging.set_verbosity_error()  # of settings that it thinks unusual
        library.utils.logging.disable_progress_bar()
        try:
            self._model = self._load(library, folder).to(device).eval()
        except AttributeError as error:
            raise SetupError(
                f"{flag} {folder}: transformers {library.__version__} has no {self.kind}",
                remedy=f"pip install 'transformers>={self.needs}'",
            ) from error
        except Exception as error:  # libraries raise what they like over a broken checkpoint
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise SetupError(f"{flag} {folder}: cannot be loaded: {reason}") from error
        # A stream of its own: on the usual one, it and whoever speaks would wait for each other.
        cuda: Any = torch.cuda
        self._stream = cuda.Stream(device) if device.type == "cuda" else None
        name = f"{self.kind} {_identity(folder)} {str(self.dtype)[6:]}"
        self.identity = Identity(name, self.languages, self.least_score, self.spellings)
        log.info("transcribing with %s on %s in %s", folder, device, str(self.dtype)[6:])

    @abstractmethod
    def _load(self, library: Any, folder: Path) -> Any:
        """The model; its processor is kept. Raises whatever `library`, transformers, does."""

    def close(self) -> None:
        """See `Recognizer`."""
        self._model = None

    def halved(self, work: Callable[[list[A]], list[B]], items: list[A]) -> list[B]:
        """What some work makes of items: of all at once, in halves where there is no memory for
        all. On a GPU beside other work.
        """
        import torch

        try:
            with torch.cuda.stream(self._stream):
                return work(items)
        except torch.OutOfMemoryError:
            if len(items) == 1:
                raise
        half = len(items) // 2  # outside of the handler, because the error holds what there was
        self.batch = min(self.batch, max(half, 1))
        log.warning(
            "out of device memory; transcribing %s at a time", counted(self.batch, "window")
        )
        torch.cuda.empty_cache()
        return self.halved(work, items[:half]) + self.halved(work, items[half:])

    def _read(
        self, asked: Iterable[T | None]
    ) -> Iterator[tuple[T, sound.Sound | Exception] | None]:
        """Every file in order, read ahead by threads; None where none has come for a while."""
        waiting: deque[tuple[T, Future[sound.Sound | Exception]]] = deque()
        with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as pool:
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


class CheckpointRecognizer(Checkpoint):
    """See `Checkpoint`."""

    codes: frozenset[str] = frozenset()  # of languages that it can be told

    @abstractmethod
    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        """What is said in windows of up to 30 s.

        Args:
            samples: each (n,) float32 at 16 kHz.
            language: a code that the checkpoint has; None: it finds out.
        """

    def run(self, asked: Iterable[AsrRequest | None]) -> Iterator[AsrResult]:
        """See `Recognizer`."""
        full: dict[str | None, list[_Window]] = defaultdict(list)  # by language
        sums: dict[int, str] = {}
        texts: dict[int, dict[int, str]] = defaultdict(dict)
        sizes: dict[int, int] = {}
        for read in self._read(asked):
            if read is None:
                for language in list(full):
                    yield from self._hear_batch(full.pop(language), texts, sizes, sums)
                continue
            one, found = read
            if isinstance(found, Exception):
                yield AsrResult(one.place, problem=str(found))
                continue
            sums[one.place] = found.sha256
            cut = list(sound.windows(found.samples, one.gaps_s))
            sizes[one.place] = len(cut)
            language = one.language if one.language in self.codes else None
            for number, samples in enumerate(cut):
                waiting = full[language]
                waiting.append(_Window(one.place, number, samples, language))
                if len(waiting) >= self.batch:
                    yield from self._hear_batch(full.pop(language), texts, sizes, sums)
        for waiting in full.values():
            yield from self._hear_batch(waiting, texts, sizes, sums)

    def _hear_batch(
        self,
        batch: list[_Window],
        texts: dict[int, dict[int, str]],
        sizes: dict[int, int],
        sums: dict[int, str],
    ) -> Iterator[AsrResult]:
        """Hear some windows; the takes whose last ones are among them are answered."""
        words = partial(self.words, language=batch[0].language)
        heard = self.halved(words, [window.samples for window in batch])
        for window, text in zip(batch, heard, strict=True):
            found = texts[window.place]
            found[window.number] = text.strip()
            if len(found) == sizes[window.place]:
                whole = " ".join(found[number] for number in sorted(found) if found[number])
                yield AsrResult(window.place, whole, sums.pop(window.place))
                del texts[window.place], sizes[window.place]


def _read_one(path: Path) -> sound.Sound | Exception:
    try:
        return sound.load(path)
    except (OSError, ValueError) as error:
        return error


def folder_of(source: str, flag: str, remedy: str) -> Path:
    """Where a checkpoint lies. Raises SetupError.

    Args:
        flag: that names it.
        remedy: what else it may name.
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
    """What a checkpoint is, by its configuration; its weights are there. Raises SetupError."""
    try:
        require_plain_files(folder)
        config = read_json(folder / "config.json")
        weight_files(folder)
    except CheckpointError as error:
        raise SetupError(f"{flag} {error}") from None
    return str(config.get("model_type") if isinstance(config, dict) else None)


def _identity(folder: Path) -> str:
    """A name of the checkpoint, and a sum of its configuration and of its weights' ends."""
    digest = hashlib.sha256()
    for path in sorted([*weight_files(folder), folder / "config.json"]):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name} {size}\n".encode())
            digest.update(file.read(1 << 20))
            file.seek(max(0, size - (1 << 20)))
            digest.update(file.read(1 << 20))
    return f"{folder.resolve().name}-{digest.hexdigest()[:12]}"
