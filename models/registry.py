"""The families, and which of them reads a checkpoint: the one its config.json names. A family is
imported when it is asked for, and torch only to load weights.

A family is an entry here and its folder in models/, in which `info` has describe(folder), and
imports no torch; `loader` has load(folder, device, dtype, use_graphs) and read(folder), which gives
a `Reader`. Each has a twin for random weights, with `_synthetic` behind its name, which takes the
name of a released size instead of a folder.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.base import Voice
from models.checkpoint.files import (
    CheckpointError,
    NoSuchCheckpoint,
    cached_repositories,
    require_plain_files,
    resolve,
)
from models.checkpoint.section import Section

if TYPE_CHECKING:
    import torch

    from models.base import Licence, ModelInfo, PromptBuilder, Reader, SpeechRequest
    from models.checkpoint.files import Conversion
    from models.pace import Pace
    from models.slots.model import SpeechModel

log = logging.getLogger(__name__)

SYNTHETIC_PREFIX = "synthetic:"


@dataclass(frozen=True)
class Family:
    """Where a family is, and what of it can be asked for."""

    folder: str  # in models/
    model_type: str  # what its checkpoints' config.json says
    synthetic: tuple[str, ...]  # names of the released sizes that random weights come in
    repositories: tuple[str, ...]  # of the hub, that its makers released
    # Modules that not every family has; None: it has none.
    converter: str | None = None  # with convert(folder), for what is released as no safetensors
    licence: str | None = None  # with LICENCE, whose terms must be accepted first
    shared_codec: tuple[str, ...] = ()  # sizes whose checkpoints all have one codec

    def module(self, name: str) -> Any:
        """One of its modules, imported now."""
        return importlib.import_module(f"models.{self.folder}.{name}")


FAMILIES = (
    Family(
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
        shared_codec=("0b6", "1b7"),  # as released; the sample voice has one of its own
    ),
    Family(
        "fish_speech",
        "fish_qwen3_omni",
        ("fish-s2-pro",),
        ("fishaudio/s2-pro",),
        converter="codec.convert",
        licence="licence",
    ),
)


def find(source: str, revision: str | None = None) -> Path:
    """The folder of a checkpoint. Raises CheckpointError, and says which one was meant, perhaps."""
    try:
        return resolve(source, revision)
    except NoSuchCheckpoint as error:
        raise NoSuchCheckpoint(f"{error}{did_you_mean(source)}") from None


_MOST_MEANT = 3  # names that a question has


def did_you_mean(source: str) -> str:
    """What is said behind the name of a checkpoint that is not there: one that is called almost so,
    among those released, those in the hub's cache, and folders beside it; nothing if there is none.
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
    found = sorted({by_folded[name] for name in close} - {source})[:_MOST_MEANT]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def describe(source: str, revision: str | None = None) -> ModelInfo:
    """What a checkpoint offers, from its small files; no weight is read and torch not imported.

    Args:
        source: a folder, a hub repository id, or `synthetic:NAME`.
    Raises:
        CheckpointError: it cannot be found or read.
    """
    return _ask(source, revision, "info", "describe")


def load_model(
    source: str,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    revision: str | None = None,
    use_graphs: bool = False,
) -> SpeechModel:
    """Load a checkpoint's weights.

    Args:
        source: a folder, a hub repository id, or `synthetic:NAME`.
        device: the meta device shows whether names and shapes fit, and reads no weight.
        dtype: None for float32 on a CPU and bfloat16 on a GPU.
        use_graphs: prepare CUDA graph capture; ignored on a CPU.
    Raises:
        CheckpointError: it cannot be found, or its tensors do not fit.
    """
    import torch

    device = torch.device(device)
    if dtype is None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    use_graphs = use_graphs and device.type == "cuda"
    return _ask(source, revision, "loader", "load", device, dtype, use_graphs)


def load_prompts(source: str, revision: str | None = None) -> tuple[PromptBuilder, int, int]:
    """What lays requests out, without a weight; width of a voice's embedding; K. Raises
    CheckpointError.
    """
    reader: Reader = _ask(source, revision, "loader", "read")
    return reader.prompt, reader.config.talker.width, reader.config.num_codebooks


def load_prompt_counter(
    source: str, revision: str | None = None
) -> Callable[[SpeechRequest, int | None], int]:
    """What counts the tokens of a request's prompt, without a weight. Its second argument is how
    many frames of a reference stand in it, None where no voice is cloned; a transcript that is not
    known counts as one token. It raises RequestError like `SpeechModel.prompt`.

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
    """Turn what a checkpoint keeps in other formats into safetensors, in its own folder.

    Returns:
        None where all of it is safetensors already.
    Raises:
        CheckpointError: it cannot be found or written, or is not what it should be.
    """
    folder = find(source, revision)
    family = _family(folder)
    if family.converter is None:
        return None
    return family.module(family.converter).convert(folder)


def family_of(folder: Path) -> tuple[str, Licence | None]:
    """Name and licence of the family whose checkpoint a folder holds, by its config.json alone.

    Raises:
        CheckpointError: it is of none.
    """
    family = _family(folder)
    licence = family.module(family.licence).LICENCE if family.licence else None
    return family.folder, licence


def shares_codec(info: ModelInfo, family: str | None, size: str | None) -> bool:
    """Whether codes that a checkpoint of this family and size made are a checkpoint's own too."""
    return any(
        info.family == family == one.folder and {info.size, size} <= set(one.shared_codec)
        for one in FAMILIES
    )


def pace_of(family: str | None) -> Pace | None:
    """What holds for the speech of all checkpoints of a family; None: nothing, or no such one."""
    modules = [one.module("info") for one in FAMILIES if one.folder == family]
    return getattr(modules[0], "PACE", None) if modules else None


def licences() -> list[Licence]:
    """The licences that some family's weights ask to be accepted."""
    return [family.module(family.licence).LICENCE for family in FAMILIES if family.licence]


def synthetic_names() -> list[str]:
    """What may stand behind `synthetic:`."""
    return [name for family in FAMILIES for name in family.synthetic]


def is_synthetic(source: str) -> bool:
    """Whether a source stands for random weights."""
    return source.startswith(SYNTHETIC_PREFIX)


def _ask(source: str, revision: str | None, module: str, question: str, *arguments: object) -> Any:
    """What a family's function answers about a folder; or its twin for random weights of a name."""
    if is_synthetic(source):
        family, name = _synthetic(source)
        return getattr(family.module(module), f"{question}_synthetic")(name, *arguments)
    folder = find(source, revision)
    if question == "load":
        log.debug("reading weights in %s", folder)
    return getattr(_family(folder).module(module), question)(folder, *arguments)


def _synthetic(source: str) -> tuple[Family, str]:
    name = source.removeprefix(SYNTHETIC_PREFIX)
    for family in FAMILIES:
        if name in family.synthetic:
            return family, name
    raise CheckpointError(f"no synthetic model {name!r}; there are {', '.join(synthetic_names())}")


def _family(folder: Path) -> Family:
    """The family that a folder's config.json names."""
    path = folder / "config.json"
    if not os.path.exists(path):
        raise CheckpointError(f"{folder}: has no config.json, so it is not a checkpoint")
    require_plain_files(folder)
    kind = Section.from_file(path).values.get("model_type")
    for family in FAMILIES:
        if kind == family.model_type:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise CheckpointError(f"{path}: model_type {kind!r:.60} is not one of {known}")
