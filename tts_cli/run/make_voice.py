"""Make voice files: of a recording, or of speech that a VoiceDesign checkpoint makes up."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from models.base import ModelInfo, RequestError, SpeechRequest, Voice
from tts_cli.config import RunConfig
from tts_cli.engine.kernels import with_fallback
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.manifest.request import build_request
from tts_cli.manifest.row import BadRow, Row, build_row
from tts_cli.manifest.words import is_wordless
from tts_cli.output.atomic import write_alone
from tts_cli.output.audio_file import encode
from tts_cli.output.run_file import versions
from tts_cli.run.check.row_checks import check_settings, require_speakable, row_problem
from tts_cli.run.consent import approved_info
from tts_cli.run.model_source import model_label
from tts_cli.run.needs import Needs
from tts_cli.run.warm_model import WarmModel
from tts_cli.voices.encode_queue import encode_references, make_voice
from tts_cli.voices.folder import SUFFIX, VoiceFolder
from tts_cli.voices.recording import MAX_SECONDS, Reference, load_reference, transcript_problem
from tts_cli.voices.resolve import reference_silence_s
from tts_cli.voices.speech_row import SpeechRow
from tts_cli.voices.voice_file import StoredVoice, checkpoint_name

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)


def add_voice(
    name: str, reference: Mapping[str, str | None], config: RunConfig, is_overwriting: bool = False
) -> tuple[Path, StoredVoice, bool]:
    """Encode a recording into a voice file, unless that is there already.

    Args:
        reference: `ref_audio`, `ref_text` and `clone_mode`, as in a row of a manifest.
        config: model, device, voices and ref_silence count.
    Returns:
        The file, what it holds, and whether it is new.
    Raises:
        UsageError: the name, the recording or the checkpoint is wrong; nothing was written.
        SetupError: the checkpoint or a package is missing.
    """
    folder = VoiceFolder(config.voices)
    is_there = not is_overwriting and folder.find(name) is not None
    if not is_there:
        folder.target(name, is_overwriting)
    row = require_row({"text": name, **reference})
    info = require_base(config)
    recording = load(row, info, config)
    if is_there:
        path, stored = folder.require_same(name, recording.digest, info)
        return path, stored, False
    seconds = len(recording.samples) / info.sample_rate_hz
    if row.ref_text is not None and (problem := transcript_problem(row.ref_text, seconds)):
        log.warning("%s", problem)
    stored = encode_voice(recording, info, config)
    return folder.write(name, stored, is_overwriting), stored, True


def design_voice(
    name: str,
    spoken: Mapping[str, str | None],
    seed: int,
    config: RunConfig,
    design_config: RunConfig,
    is_overwriting: bool = False,
) -> tuple[Path, StoredVoice]:
    """Let a VoiceDesign checkpoint speak once, and encode that for a Base checkpoint.

    The speech is kept beside the voice file, as `NAME.wav`.

    Args:
        spoken: `text`, `instruct` and `language`, as in a row of a manifest.
        config: of the Base checkpoint.
        design_config: of the VoiceDesign checkpoint.
    Raises:
        UsageError, SetupError: as `add_voice`.
        RowError: the speech did not end or is no reference.
    """
    folder = VoiceFolder(config.voices)
    target = folder.target(name, is_overwriting)
    wav = target.with_name(target.name.removesuffix(SUFFIX) + ".wav")
    if wav.exists() and not is_overwriting:
        raise UsageError(f"{wav} is there already", remedy="add --overwrite to replace it")
    info = require_base(config)
    design_info = approved_info(design_config)
    if not design_info.needs_instruct:
        raise UsageError(
            f"--design-model {design_config.model} is a {design_info.type} checkpoint",
            remedy="name a VoiceDesign one, such as Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        )
    row = require_row({"seed": seed, **spoken})
    check_settings(design_config, design_info, folder)
    if problem := row_problem(row, design_config, design_info, folder):
        raise UsageError(problem)
    if is_wordless(row.text, design_info.pace):
        raise UsageError("--text has no letter or digit", remedy="give a sentence or two to speak")
    request = build_request(row, design_config, design_info)
    samples = speak_once(request, design_config, design_info)
    data = encode(samples, design_info.sample_rate_hz, "wav", "PCM_16")
    with tempfile.TemporaryDirectory(prefix="tts-cli-voice-") as scratch:
        audio = Path(scratch) / wav.name
        audio.write_bytes(data)
        values = {"text": name, "ref_audio": str(audio), "ref_text": row.text, "clone_mode": "icl"}
        try:
            reference = load(require_row(values), info, config)
        except UsageError as error:
            raise RowError(
                f"what was spoken is no reference: {error}", "try another --text or --seed"
            ) from None
    stored = encode_voice(reference, info, config)
    path = folder.write(name, stored, is_overwriting)
    write_alone(wav, data)
    return path, stored


def require_base(config: RunConfig) -> ModelInfo:
    """What the checkpoint to clone with offers. Raises UsageError where it cannot clone."""
    info = approved_info(config)
    require_speakable(info)
    if not info.can_clone:
        raise UsageError(
            f"the {model_label(config.model)} cannot clone"
            if config.model is None
            else f"{config.model} is a {info.type} checkpoint, which cannot clone",
            remedy="name a Base checkpoint, such as --model Qwen/Qwen3-TTS-12Hz-0.6B-Base",
        )
    return info


def require_row(values: Mapping[str, Any]) -> Row:
    """Values checked as those of a manifest's row. Raises UsageError."""
    row = build_row({"id": "voice", **values}, line=1, number=1, folder="")
    if isinstance(row, BadRow):
        raise UsageError(row.message)
    return row


def load(row: Row, info: ModelInfo, config: RunConfig) -> Reference:
    """The recording a row names. Raises UsageError where it cannot be used."""
    assert row.ref_audio is not None
    try:
        return load_reference(
            row.ref_audio,
            config.ref_root,
            mode=row.clone_mode or "xvec",
            text=row.ref_text,
            rate_hz=info.sample_rate_hz,
            silence_s=reference_silence_s(config, info),
        )
    except RowError as error:
        raise UsageError(str(error)) from None


def encode_voice(reference: Reference, info: ModelInfo, config: RunConfig) -> StoredVoice:
    """Load the checkpoint and encode one recording. Raises SetupError, RowError."""
    with WarmModel(config, info) as warm:
        model = warm.session.model
        try:
            encoded = with_fallback(partial(encode_references, model, [reference]), model)
        except torch.OutOfMemoryError:
            raise SetupError(
                "the device has no memory to encode the reference", "free it, or use --device cpu"
            ) from None
        voice = make_voice(reference, *encoded[0], info.identity)
        try:
            model.prompt(SpeechRequest(text="a", sampling=info.sampling, clone=voice))
        except RequestError as error:  # it could not be spoken with
            raise RowError(str(error)) from None
        finally:
            del model  # which is to go with the speaker
    return stored_voice(voice, info)


def stored_voice(voice: Voice, info: ModelInfo) -> StoredVoice:
    """A voice as its file holds it."""
    return StoredVoice(
        embedding=voice.embedding.numpy(),
        codes=None if voice.codes is None else voice.codes.numpy().astype("int16"),
        text=voice.text,
        mode=voice.mode,
        identity=voice.identity,
        model=checkpoint_name(info),
        sample_rate_hz=info.sample_rate_hz,
        reference=voice.digest,
        created_by=f"tts-cli {versions()['tts-cli'] or '(source)'}",
    )


def speak_once(request: SpeechRequest, config: RunConfig, info: ModelInfo) -> np.ndarray[Any, Any]:
    """(n,) float32 samples of one request; the model is gone afterwards, because two checkpoints
    need not fit the device together.

    Raises:
        RowError: the speech did not end, even with other seeds, or is not finite.
    """
    frames = min(request.max_frames, int(MAX_SECONDS / info.frame_s))
    row = SpeechRow("voice", replace(request, max_frames=frames))
    needs = Needs()
    needs.add(row.request, info)
    with WarmModel(config, info) as warm:
        warm.make_room(needs)
        warm.new_run(lambda _: None).run([row])
    if row.samples is None:
        raise RowError(str(row.error))
    if row.error is not None:
        raise RowError(
            f"the design model did not end its speech within {frames} frames",
            remedy="try another --seed, or a shorter --text",
        )
    return row.samples
