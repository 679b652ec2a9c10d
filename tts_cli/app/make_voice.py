"""Make voice files from a recording, or from audio that a VoiceDesign checkpoint generates."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from models.base import ModelInfo, Voice
from tts_cli.app.take_as_reference import load_recording, require_row, take_as_reference
from tts_cli.atomic import write_standalone
from tts_cli.audio.file import encode
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.engine.made_voices import (
    Words,
    encode_voices,
    speak_voices,
    stored_voice,
    voice_of_codes,
)
from tts_cli.engine.session import LocalSession
from tts_cli.errors import RowError, UsageError
from tts_cli.plan.checkpoint import approved_info, model_label
from tts_cli.plan.checks import RowValidator, require_speakable
from tts_cli.plan.free_voices import VoiceDesigner, makes_voices
from tts_cli.text.words import is_wordless
from tts_cli.voices.recording import MAX_SECONDS, MIN_SECONDS, Reference, transcript_problem
from tts_cli.voices.voice_file import SUFFIX, StoredVoice
from tts_cli.voices.voice_store import VoiceStore

log = logging.getLogger(__name__)


def add_voice(
    name: str,
    reference: Mapping[str, str | None],
    config: RunConfig,
    is_overwriting: bool = False,
    spoken: tuple[Path, str] | None = None,
) -> tuple[Path, StoredVoice, bool]:
    """Encode a recording into a voice file, unless that exists. Return path, content, and whether
    it is new.

    Args:
        reference: `ref_audio`, `ref_text` and `clone_mode`, as in a row of a manifest.
        spoken: output folder, and its row or `ID=TAKE`, instead of a recording.
    Raises:
        UsageError: the name, the recording or the checkpoint is wrong; no file was written.
        SetupError: the checkpoint or a package is missing.
    """
    liked = None if spoken is None else take_as_reference(*spoken)
    folder = VoiceStore(config.voice_dir)
    there = None if is_overwriting else folder.path_of(name)
    if there is None:
        folder.target(name, is_overwriting)
    info = require_cloning_model(config)
    found: Reference | Voice
    if liked is None:
        found = load_recording(require_row({"text": name, **reference}), info, config)
    else:
        found = liked.reference(reference["clone_mode"], info, config)
    if there is not None:
        return there, folder.require_same(there, name, found.digest, info), False
    if isinstance(found, Voice):
        stored = stored_voice(found, info)
    else:
        seconds = len(found.samples) / info.sample_rate_hz
        if found.text is not None and (problem := transcript_problem(found.text, seconds)):
            log.warning("%s", problem)
        stored = encode_voice(found, info, config)
    return folder.write(name, stored, is_overwriting), stored, True


def design_voice(
    name: str,
    spoken: Mapping[str, str | None],
    seed: int,
    config: RunConfig,
    design_config: RunConfig | None,
    is_overwriting: bool = False,
) -> tuple[Path, StoredVoice]:
    """Generate the recording of a new voice, `NAME.wav`, and encode it into a voice file.

    Args:
        spoken: `text`, `instruct` and `language`, as in a row of a manifest.
        design_config: settings of a VoiceDesign checkpoint; None: that of `config` generates it.
    Raises:
        UsageError, SetupError: as `add_voice`.
        RowError: the audio did not end, or cannot be a reference.
    """
    folder = VoiceStore(config.voice_dir)
    target = folder.target(name, is_overwriting)
    wav = target.with_name(target.name.removesuffix(SUFFIX) + ".wav")
    if wav.exists() and not is_overwriting:
        raise UsageError(f"{wav} already exists", remedy="add --overwrite to replace it")
    info = require_cloning_model(config)
    maker = VoiceDesigner(config, info)
    if design_config is not None:
        maker = VoiceDesigner(design_config, approved_info(design_config))
    row = require_row({"seed": seed, **spoken})
    _require_maker(maker, row, design_config is not None)
    validator = RowValidator(replace(maker.config, cast=None), maker.info, makes_voices=True)
    if isinstance(found := validator.validated(row), BadRow):
        raise UsageError(found.message)
    if is_wordless(row.text, maker.info.pace):
        raise UsageError("--text has no letter or digit", remedy="give a sentence or two")
    language = row.language or "auto"
    words = Words(name, row.text, language, row.instruct, seed, MIN_SECONDS, MAX_SECONDS)
    with closing(LocalSession(*maker)) as session:
        ((_, said),) = speak_voices(session, [words])
    if said.error is not None or said.samples is None or said.codes is None:
        raise RowError(str(said.error), remedy="try another --seed, or another --text")
    data = encode(said.samples, maker.info.sample_rate_hz, "wav", "PCM_16")
    if design_config is None:
        stored = voice_of_codes(said.codes, row.text, info)
    else:
        with tempfile.TemporaryDirectory(prefix="tts-cli-voice-") as scratch:
            audio = Path(scratch) / wav.name
            audio.write_bytes(data)
            values = {"ref_audio": str(audio), "ref_text": row.text, "clone_mode": "icl"}
            try:
                row = require_row({"text": name, **values})
                reference = load_recording(row, info, replace(config, ref_root=None))
            except UsageError as error:
                raise RowError(
                    f"the generated audio cannot be used as a reference: {error}",
                    "try another --text or --seed",
                ) from None
        stored = encode_voice(reference, info, config)
    path = folder.write(name, stored, is_overwriting)
    write_standalone(wav, data)
    return path, stored


def _require_maker(maker: VoiceDesigner, row: Row, is_design: bool) -> None:
    """Raise UsageError if a checkpoint cannot generate the requested voice."""
    info = maker.info
    if is_design and not info.needs_instruct:
        raise UsageError(
            f"--design-model {maker.config.model} is a {info.type} checkpoint",
            remedy="give a VoiceDesign checkpoint, such as Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        )
    if is_design and row.instruct is None:
        raise UsageError("--instruct is missing", remedy="describe the voice in words")
    if not is_design and not makes_voices(info, maker):
        raise UsageError(
            f"{maker.config.model} is a {info.type} checkpoint, which generates no voices",
            remedy="give a checkpoint that does, with --design-model",
        )
    if not is_design and row.instruct is not None:
        raise UsageError(
            "--instruct: this checkpoint takes no description",
            remedy="leave it out, or give a VoiceDesign checkpoint with --design-model",
        )


def require_cloning_model(config: RunConfig) -> ModelInfo:
    """Return the facts of the checkpoint. Raises UsageError if it cannot clone."""
    info = approved_info(config)
    require_speakable(info)
    if not info.can_clone:
        raise UsageError(
            f"the {model_label(config.model)} cannot clone"
            if config.model is None
            else f"{config.model} is a {info.type} checkpoint, which cannot clone",
            remedy="give a Base checkpoint, such as --model Qwen/Qwen3-TTS-12Hz-0.6B-Base",
        )
    return info


def encode_voice(reference: Reference, info: ModelInfo, config: RunConfig) -> StoredVoice:
    with closing(LocalSession(config, info)) as session:
        return encode_voices(session, [reference])[0]
