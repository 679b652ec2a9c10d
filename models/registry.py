"""The families, and the choice of the one that reads a checkpoint, by its config.json. A family is
imported when it is needed, and torch only to load weights.

A family is an entry here and its folder in models/, whose `family.py` has a `FAMILY`
(`models.family`).
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from models import family as families
from models.base import Voice
from models.checkpoint.config import Section
from models.checkpoint.files import (
    CheckpointError,
    NoSuchCheckpoint,
    cached_repositories,
    require_plain_files,
    resolve,
)
from models.family import Family, named

if TYPE_CHECKING:
    import torch

    from kernels.launch.dispatch import Kernels
    from models.base import Licence, ModelInfo, PromptBuilder, SpeechRequest
    from models.checkpoint.files import Conversion
    from models.pace import Pace
    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

SYNTHETIC_PREFIX = "synthetic:"


@dataclass(frozen=True)
class FamilyEntry:
    """A family before it is imported."""

    folder: str  # in models/
    model_type: str  # in the config.json of its checkpoints
    synthetic: tuple[str, ...]  # names of the released sizes that random weights come in
    repositories: tuple[str, ...]  # on the hub, released by its makers

    @property
    def family(self) -> Family:
        return named(f"models.{self.folder}.family:FAMILY")


FAMILIES = (
    FamilyEntry(
        "qwen3_tts",
        "qwen3_tts",
        ("qwen3-tts-0.6b", "qwen3-tts-1.7b", "qwen3-tts-0.6b-base", "qwen3-tts-1.7b-base"),
        (
            "Qwen/Qwen3-TTS-12Hz-0.6B-Base",
            "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice",
            "Qwen/Qwen3-TTS-12Hz-1.7B-Base",
            "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
            "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        ),
    ),
    FamilyEntry("fish_speech", "fish_qwen3_omni", ("fish-s2-pro",), ("fishaudio/s2-pro",)),
    FamilyEntry(
        "audio8_tts",
        "arktts",
        ("audio8-tts-0.6b",),
        ("Audio8/Audio8-TTS-Preview-0.6b", "Edge0/Audio8-TTS-Realistic-Air"),
    ),
)


def find(source: str, revision: str | None = None) -> Path:
    """Return the folder of a checkpoint. Raises CheckpointError, perhaps with a suggestion."""
    try:
        return resolve(source, revision)
    except NoSuchCheckpoint as error:
        raise NoSuchCheckpoint(f"{error}{did_you_mean(source)}") from None


def did_you_mean(source: str) -> str:
    """Return the end of a message about a missing checkpoint: similar names among the released
    ones, the hub's cache, and folders next to it; or an empty text.
    """
    names = [name for family in FAMILIES for name in family.repositories]
    names += cached_repositories()
    known = {name.rpartition("/")[2]: name for name in names} | {name: name for name in names}
    parent = Path(source).expanduser().parent
    with contextlib.suppress(OSError):
        known |= {
            str(path): str(path) for path in parent.iterdir() if (path / "config.json").is_file()
        }
    by_folded = {name.casefold(): found for name, found in known.items()}
    close = difflib.get_close_matches(source.casefold(), list(by_folded), n=1, cutoff=0.75)
    # Or one whose name is given in short, as "Qwen3-TTS-0.6B" is.
    words = set(source.casefold().split("-"))
    close = close or [name for name in by_folded if words <= set(name.split("-"))]
    found = sorted({by_folded[name] for name in close} - {source})[:3]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def describe(source: str, revision: str | None = None) -> ModelInfo:
    """Describe a checkpoint by its small files; no weight is read and torch not imported. Raises
    CheckpointError.

    Args:
        source: a folder, a hub repository id, or `synthetic:NAME`.
    """
    return families.describe(_source(source, revision))


def load_model(
    source: str,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    revision: str | None = None,
    use_graphs: bool = False,
    kernels: Kernels | None = None,
) -> SpeechModel:
    """Load a checkpoint's weights.

    Args:
        source: a folder, a hub repository id, or `synthetic:NAME`.
        device: the meta device shows whether names and shapes fit, and reads no weight.
        dtype: None for float32 on a CPU and bfloat16 on a GPU.
        use_graphs: prepare CUDA graph capture; ignored on a CPU.
        kernels: kernels of the model's operations; None: Triton's on a GPU.
    Raises:
        CheckpointError: it cannot be found, or its tensors do not fit.
    """
    found = _source(source, revision)
    log.debug("reading weights in %s", found.place)
    use_graphs = use_graphs and str(device).startswith("cuda")
    return named("models.load:load")(found, device, dtype, use_graphs, kernels)


def load_prompts(source: str, revision: str | None = None) -> tuple[PromptBuilder, int, int]:
    """Return the prompt builder, the width of a voice's embedding, and K, without weights.
    Raises CheckpointError.
    """
    reader = families.read(_source(source, revision))
    return reader.prompt, reader.config.talker.width, reader.config.num_codebooks


def load_prompt_counter(
    source: str, revision: str | None = None
) -> Callable[[SpeechRequest, int | None], int]:
    """Return a function that counts the tokens of a request's prompt, without weights. Its second
    argument is the number of reference frames, None without a cloned voice; an unknown
    transcript counts as one token. It raises RequestError like `SpeechModel.prompt`.

    Raises:
        CheckpointError: the checkpoint cannot be found, or its tokenizer not read.
    """
    import torch

    prompt, width, num_codebooks = load_prompts(source, revision)

    def count(request: SpeechRequest, num_frames: int | None) -> int:
        if num_frames is not None:
            codes = torch.zeros(num_frames, num_codebooks, dtype=torch.int64)
            mode = "icl" if num_frames else "xvec"
            voice = Voice(torch.zeros(width), codes, request.ref_text or ".", mode, "", "")
            request = replace(request, clone=voice)
        return prompt(request).num_tokens

    return count


def convert(source: str, revision: str | None = None) -> Conversion | None:
    """Convert a checkpoint's files in other formats to safetensors, in its folder. None: all files
    are safetensors already. Raises CheckpointError: it cannot be found or written, or is invalid.
    """
    folder = find(source, revision)
    family = _entry(folder).family
    if family.convert is None:
        return None
    function, argument = family.convert
    return named(function)(folder, argument(folder))


def family_of(folder: Path) -> tuple[str, Licence | None]:
    """Return name and licence of the family of a checkpoint, by its config.json alone. Raises
    CheckpointError.
    """
    entry = _entry(folder)
    return entry.folder, entry.family.licence


def shares_codec(info: ModelInfo, family: str | None, size: str | None) -> bool:
    """Whether a checkpoint can decode codes of a checkpoint of this family and size."""
    return any(
        info.family == family == entry.folder
        and {info.size, size} <= set(entry.family.shared_codec)
        for entry in FAMILIES
    )


def pace_of(family: str | None) -> Pace | None:
    """Return the pace of all checkpoints of a family; None for an unknown family."""
    return next((entry.family.pace for entry in FAMILIES if entry.folder == family), None)


def licences() -> list[Licence]:
    found = (entry.family.licence for entry in FAMILIES)
    return [licence for licence in found if licence is not None]


def synthetic_names() -> list[str]:
    """Return the names that may follow `synthetic:`."""
    return [name for family in FAMILIES for name in family.synthetic]


def is_synthetic(source: str) -> bool:
    return source.startswith(SYNTHETIC_PREFIX)


def _source(source: str, revision: str | None) -> families.Source:
    """Return the checkpoint of a name, read as far as its configurations."""
    if not is_synthetic(source):
        folder = find(source, revision)
        return families.Folder(_entry(folder).family, folder)
    name = source.removeprefix(SYNTHETIC_PREFIX)
    for entry in FAMILIES:
        if name in entry.synthetic:
            return families.MadeUp(entry.family, name)
    raise CheckpointError(f"no synthetic model {name!r}; there are {', '.join(synthetic_names())}")


def _entry(folder: Path) -> FamilyEntry:
    path = folder / "config.json"
    if not os.path.exists(path):
        raise CheckpointError(f"{folder}: has no config.json, so it is not a checkpoint")
    require_plain_files(folder)
    kind = Section.from_file(path).values.get("model_type")
    for entry in FAMILIES:
        if kind == entry.model_type:
            return entry
    known = ", ".join(entry.model_type for entry in FAMILIES)
    raise CheckpointError(f"{path}: model_type {kind!r:.60} is not one of {known}")
