"""Recognise with Whisper checkpoints through transformers: bf16 on a GPU, float32 on a CPU.

Files are read and resampled by threads while the device hears the batch before. Whisper hears 30 s
at once, so every window costs the same and shorter ones are padded; the spectrogram is made on the
device too. A batch has one language, as the manifest tells it; where it tells none, the checkpoint
finds out. Greedy, without timestamps: a take's words do not depend on what came before.

Weights are read from safetensors alone, and no code of a checkpoint's is run.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from models.checkpoint.files import CheckpointError, fetch, read_json, weight_files
from tts_cli.errors import SetupError
from tts_cli.listen.hearing import recogniser as sound
from tts_cli.listen.hearing.recogniser import Answer, Asked, Identity

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

FILES = ["*.json", "*.txt", "*.safetensors"]
BATCH_CUDA, BATCH_CPU = 64, 4  # windows heard at once
MAX_TOKENS = 220  # of a window; people say up to 130 in 30 s
MAX_SPELLINGS = 10_000
_READERS = 8  # threads at most


class _Window(NamedTuple):
    place: int  # of its take
    number: int  # in it
    samples: sound.Array
    language: str | None


class Whisper:
    """Args:
        source: a folder, or a repository on the hub.
        device: torch's.
        batch: windows heard at once; None: by the device.
    Raises:
        SetupError: it cannot be had or read.
    """

    def __init__(self, source: str, device: torch.device, batch: int | None = None) -> None:
        import torch

        folder = _folder(source)
        self.device = device
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.batch = batch or (BATCH_CUDA if device.type == "cuda" else BATCH_CPU)
        self._model, self._features, self._tokenizer = _load(folder, device, self.dtype)
        self._settings = self._model.generation_config
        self._settings.max_length = None  # `MAX_TOKENS` counts
        codes = getattr(self._settings, "lang_to_id", None) or {}
        self._codes = {str(token).strip("<|>") for token in codes}
        spellings = _spellings(folder)
        name = f"whisper {_identity(folder)} {str(self.dtype)[6:]}"
        is_english = not getattr(self._settings, "is_multilingual", True)
        self.identity = Identity(name, ("en",) if is_english else (), spellings)
        log.info("listening with %s on %s in %s", source, device, str(self.dtype)[6:])

    def hear(self, asked: Iterable[Asked]) -> Iterator[Answer]:
        """See `Recogniser`."""
        full: dict[str | None, list[_Window]] = defaultdict(list)  # by language
        sums: dict[int, str] = {}
        texts: dict[int, dict[int, str]] = defaultdict(dict)
        sizes: dict[int, int] = {}
        for one, found in self._read(asked):
            if isinstance(found, Exception):
                yield Answer(one.place, problem=str(found))
                continue
            sums[one.place] = found.sha256
            cut = list(sound.windows(found.samples, one.gaps_s))
            sizes[one.place] = len(cut)
            language = one.language if one.language in self._codes else None
            for number, samples in enumerate(cut):
                waiting = full[language]
                waiting.append(_Window(one.place, number, samples, language))
                if len(waiting) == self.batch:
                    yield from self._hear_batch(full.pop(language), texts, sizes, sums)
        for waiting in full.values():
            yield from self._hear_batch(waiting, texts, sizes, sums)

    def close(self) -> None:
        """See `Recogniser`."""

    def _read(self, asked: Iterable[Asked]) -> Iterator[tuple[Asked, sound.Sound | Exception]]:
        """Every file in order, read ahead by threads."""
        waiting: deque[tuple[Asked, Future[sound.Sound | Exception]]] = deque()
        with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as pool:
            try:
                for one in asked:
                    waiting.append((one, pool.submit(_read_one, one.path)))
                    if len(waiting) > 2 * self.batch:
                        first, future = waiting.popleft()
                        yield first, future.result()
                for first, future in waiting:
                    yield first, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _hear_batch(
        self,
        batch: list[_Window],
        texts: dict[int, dict[int, str]],
        sizes: dict[int, int],
        sums: dict[int, str],
    ) -> Iterator[Answer]:
        """Hear some windows; the takes whose last ones are among them are answered."""
        heard = self.words([window.samples for window in batch], batch[0].language)
        for window, text in zip(batch, heard, strict=True):
            found = texts[window.place]
            found[window.number] = text.strip()
            if len(found) == sizes[window.place]:
                whole = " ".join(found[number] for number in sorted(found) if found[number])
                yield Answer(window.place, whole, sums.pop(window.place))
                del texts[window.place], sizes[window.place]

    def words(self, samples: list[sound.Array], language: str | None) -> list[str]:
        """What is said in windows of up to 30 s.

        Args:
            samples: each (n,) float32 at 16 kHz.
            language: a code that the checkpoint has; None: it finds out.
        """
        import torch

        features = self._features(
            samples,
            sampling_rate=sound.RATE_HZ,
            return_tensors="pt",
            device=str(self.device),
        ).input_features
        told: dict[str, Any] = {}
        if getattr(self._settings, "is_multilingual", False):
            told["task"] = "transcribe"
            if language is not None:
                told["language"] = language
        with torch.inference_mode():
            tokens = self._model.generate(
                features.to(self.device, self.dtype),
                do_sample=False,
                num_beams=1,
                return_timestamps=False,
                max_new_tokens=self._most_tokens(),
                **told,
            )
        return [
            str(text) for text in self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        ]

    def _most_tokens(self) -> int:
        """Room for a window's words behind the prompt."""
        return min(MAX_TOKENS, int(self._model.config.max_target_positions) - 8)


def _read_one(path: Path) -> sound.Sound | Exception:
    try:
        return sound.load(path)
    except (OSError, ValueError) as error:
        return error


def _folder(source: str) -> Path:
    """Where a checkpoint lies. Raises SetupError."""
    path = Path(source).expanduser()
    remedy = "give --asr pocketsphinx, the folder of a Whisper checkpoint or its hub repository"
    if path.is_dir():
        return path
    if path.exists() or source.startswith((".", "/", "~")) or source.count("/") != 1:
        raise SetupError(f"--asr {source}: no such folder", remedy)
    try:
        return fetch(source, None, FILES)
    except CheckpointError as error:
        raise SetupError(f"--asr {error}", remedy) from None


def _load(folder: Path, device: torch.device, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Model, feature extractor and tokenizer. Raises SetupError."""
    try:
        config = read_json(folder / "config.json")
        kind = config.get("model_type") if isinstance(config, dict) else None
        if kind != "whisper":
            raise CheckpointError(f"{folder}: is of type {kind!r}, not a Whisper checkpoint")
        weight_files(folder)
    except CheckpointError as error:
        raise SetupError(f"--asr {error}") from None
    import transformers

    library: Any = transformers  # types of some of its names are made when they are asked for
    library.utils.logging.set_verbosity_error()  # of settings that it thinks unusual
    library.utils.logging.disable_progress_bar()
    only_these: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = library.WhisperForConditionalGeneration.from_pretrained(
            folder, use_safetensors=True, dtype=dtype, **only_these
        )
        features = library.WhisperFeatureExtractor.from_pretrained(folder, **only_these)
        tokenizer = library.WhisperTokenizerFast.from_pretrained(folder, **only_these)
        return model.to(device).eval(), features, tokenizer
    except Exception as error:  # libraries raise what they like over a broken checkpoint
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SetupError(f"--asr {folder}: cannot be loaded: {reason}") from error


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


def _spellings(folder: Path) -> tuple[tuple[str, str], ...]:
    """British spellings and the American ones, where the checkpoint brings them."""
    path = folder / "normalizer.json"
    if not path.is_file():
        return ()
    try:
        values = read_json(path)
    except CheckpointError as error:
        log.warning("%s: is passed over: %s", path, error)
        return ()
    if not isinstance(values, dict) or len(values) > MAX_SPELLINGS:
        log.warning("%s: is no table of spellings, passed over", path)
        return ()
    return tuple((ours, theirs) for ours, theirs in values.items() if isinstance(theirs, str))
