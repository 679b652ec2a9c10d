"""The checkpoint that keeps the voices which another one makes up: `--clone-model`.

A VoiceDesign checkpoint speaks a voice that is described in words, and every time another person.
It cannot clone; a Base checkpoint of its family can.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tts_cli.errors import SetupError, UsageError
from tts_cli.run.model_source import model_label, read_info

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.config import RunConfig

_REMEDY = "name a Base checkpoint, such as --clone-model Qwen/Qwen3-TTS-12Hz-1.7B-Base"


def clone_config(config: RunConfig) -> RunConfig:
    """The settings of a run as the second checkpoint has them."""
    assert config.clone_model is not None
    return replace(config, model=config.clone_model, revision=None, clone_model=None)


def clone_info(config: RunConfig, info: ModelInfo) -> ModelInfo | None:
    """What the second checkpoint offers, from its small files; None where none is named.

    Args:
        info: of the first one.
    Raises:
        UsageError: the two do not go together.
        SetupError: it cannot be read.
    """
    if config.clone_model is None:
        return None
    flag = f"--clone-model {config.clone_model}"
    if config.has_workers:
        raise UsageError(
            f"{flag}: with --workers only one checkpoint speaks",
            remedy="leave one out, or share the rows out by --shard",
        )
    if info.can_clone or info.voices or info.needs_reference:
        raise UsageError(
            f"{flag}: the {model_label(config.model)} ({info.type}) makes up no voice that another "
            "checkpoint would have to keep",
            remedy="leave it out; it is for VoiceDesign checkpoints",
        )
    try:
        found = read_info(clone_config(config))
    except SetupError as error:
        raise SetupError(f"{flag}: {error.message}", remedy=_REMEDY) from None
    if not found.can_clone or "icl" not in found.clone_modes:
        reason = found.needs or f"a {found.type} checkpoint cannot clone"
        raise UsageError(f"{flag}: {reason}", remedy=_REMEDY)
    for what, first, second in (
        ("family", info.family, found.family),
        ("sample rate", info.sample_rate_hz, found.sample_rate_hz),
        ("samples of a frame", info.samples_per_frame, found.samples_per_frame),
        ("number of codebooks", info.num_codebooks, found.num_codebooks),
    ):
        if first != second:
            raise UsageError(
                f"{flag}: its {what} is {second}, that of {model_label(config.model)} is {first}: "
                "they cannot speak one row",
                remedy=_REMEDY,
            )
    return found
