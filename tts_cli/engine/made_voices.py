"""Generate voices: synthesize a text for each, and encode it for the checkpoint that clones it."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from models.base import ModelInfo, Prompt, RequestError, SpeechRequest, Voice
from tts_cli import signals
from tts_cli.audio.file import encode, encode_codes
from tts_cli.audio.tags import Tags, comment_of
from tts_cli.config import RunConfig
from tts_cli.core import Result, Row, Task
from tts_cli.engine.kernels import with_fallback
from tts_cli.engine.pieces import RetryPolicy
from tts_cli.engine.session import LocalSession
from tts_cli.errors import Cancelled, RowError, SetupError, StoppedEarly
from tts_cli.plan.checkpoint import never_ends
from tts_cli.plan.free_voices import Ask, FreeVoices, VoiceDesigner
from tts_cli.plan.resolve import build_request
from tts_cli.plan.room import Needs
from tts_cli.plan.split_rule import SplitRule
from tts_cli.seeds import row_seed
from tts_cli.text.words import text_cap, usual_s
from tts_cli.versions import versions
from tts_cli.voices.encoding import encode_references, make_voice
from tts_cli.voices.needs import MAX_MADE_S, Cloning
from tts_cli.voices.recording import Reference, load_reference
from tts_cli.voices.voice_file import StoredVoice, checkpoint_name

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

MIN_MADE_S = 3.0  # of a voice's audio, at most MAX_MADE_S


class Words(NamedTuple):
    """The text of a voice, and the owner of the voice."""

    name: str
    text: str
    language: str
    description: str | None
    seed: int
    least_s: float = MIN_MADE_S  # of audio
    most_s: float = MAX_MADE_S


def voice_task(words: Words, maker: VoiceDesigner) -> Task:
    """Return the task that generates a voice: its text unchanged, with limits for its length."""
    config, info = maker
    can_end = not never_ends(config.model)
    plain = replace(config, normalize="off", lexicon=None, max_seconds=None, voice=None)
    language = words.language if words.language in info.languages else "auto"
    row = Row(1, 1, words.name, words.text, language=language, instruct=words.description)
    request = build_request(replace(row, seed=words.seed), plain, info)
    cap_s = words.most_s if can_end else usual_s(words.text)
    frames = min(text_cap(words.text, info), max(1, int(cap_s / info.frame_s)))
    piece = SplitRule.of(replace(plain, split="off"), info).whole(
        replace(request, max_frames=frames)
    )
    if can_end:
        least = max(piece.least_frames, math.ceil(words.least_s / info.frame_s))
        piece = replace(piece, least_frames=least)
    return Task(row, piece.request, (piece,))


def speak_voices(session: LocalSession, asked: Sequence[Words]) -> list[tuple[Task, Result]]:
    """Synthesize texts with the checkpoint that generates voices. Failed results have an error.

    Raises SetupError or RowError if a text needs more capacity than is possible, and Cancelled.
    """
    config, info = session.config, session.info
    tasks = [voice_task(words, VoiceDesigner(config, info)) for words in asked]
    policy = RetryPolicy.of(replace(config, accept_truncated=False))
    spoken: dict[Task, Result] = {}
    with session.capacity_for(Needs.of(tasks, info)), signals.stopping(session.stop):
        session.speak(tasks, spoken.update, policy, is_int16=False)
    if len(spoken) < len(tasks):
        raise Cancelled("the generation of a voice was interrupted")
    return [(task, spoken[task]) for task in tasks]


def encode_voices(session: LocalSession, references: Sequence[Reference]) -> list[StoredVoice]:
    """Encode recordings for a checkpoint that clones. Raises SetupError, RowError."""
    speech, info = session.loaded.model, session.info
    try:
        encoded = with_fallback(partial(encode_references, speech, list(references)), speech)
    except torch.OutOfMemoryError:
        raise SetupError(
            "the device does not have enough memory to encode the reference",
            "free memory on it, or use --device cpu",
        ) from None
    stored = []
    for reference, found in zip(references, encoded, strict=True):
        voice = make_voice(reference, *found, info.identity)
        require_usable(voice, info, speech.prompt)
        stored.append(stored_voice(voice, info))
    return stored


def require_usable(
    voice: Voice, info: ModelInfo, prompt: Callable[[SpeechRequest], Prompt]
) -> None:
    """Raise RowError for a voice that the checkpoint cannot clone."""
    try:
        prompt(SpeechRequest(text="a", sampling=info.sampling, clone=voice))
    except RequestError as error:
        raise RowError(str(error)) from None


def stored_voice(voice: Voice, info: ModelInfo) -> StoredVoice:
    return StoredVoice(
        embedding=voice.embedding.numpy(),
        codes=None if voice.codes is None else voice.codes.numpy().astype("int16"),
        text=voice.text,
        mode=voice.mode,
        identity=voice.identity,
        model=checkpoint_name(info),
        sample_rate_hz=info.sample_rate_hz,
        reference=voice.digest,
        created_by=created_by(),
    )


def created_by() -> str:
    return f"tts-cli {versions()['tts-cli'] or '(source)'}"


def coded_voice(
    codes: np.ndarray[Any, Any], text: str | None, info: ModelInfo, digest: str
) -> Voice:
    """Return a voice of codes (F, K) from the same checkpoint, which clones them unchanged."""
    found = torch.from_numpy(codes.astype("int64"))
    return Voice(torch.zeros(1), found, text, "icl", info.identity, digest)


def voice_of_codes(codes: np.ndarray[Any, Any], text: str, info: ModelInfo) -> StoredVoice:
    """Return the same voice for its file, identified by codes and text."""
    digest = hashlib.sha256(codes.astype("<i8").tobytes() + text.encode()).hexdigest()
    return stored_voice(coded_voice(codes, text, info, digest), info)


# `Work` is `speak_voices` or `encode_voices`; `RunWork` runs it, perhaps in another process.
Work = Callable[[LocalSession, list[Any]], list[Any]]
RunWork = Callable[[Work, RunConfig, ModelInfo, list[Any]], list[Any]]


def run_in(session: LocalSession) -> RunWork:
    """Return a function that runs work in this session, or in a temporary one if models differ."""

    def done(work: Work, config: RunConfig, info: ModelInfo, asked: list[Any]) -> list[Any]:
        if config is session.config:
            return work(session, asked)
        with closing(LocalSession(config, info)) as other:
            return work(other, asked)

    return done


def make_voices(
    voices: FreeVoices, asks: Sequence[Ask], cloning: Cloning, run_work: RunWork
) -> None:
    """Generate missing voices. Raises Cancelled, and StoppedEarly if all attempts at a voice
    failed; the other voices are then stored.
    """
    unspoken = [ask for ask in asks if ask.is_gone]
    config, info = voices.config, voices.info
    if unspoken:
        words = []
        for ask in unspoken:
            text, language = ask.sentence(config.voice_text)
            seed = row_seed(config.seed, ask.voice)
            words.append(Words(ask.voice, text, language, ask.description, seed))
        made = run_work(speak_voices, *voices.maker, words)
        for ask, (task, spoken) in zip(unspoken, made, strict=True):
            if spoken.error is None:
                _keep(ask, task, spoken, voices)
        for ask, (_, spoken) in zip(unspoken, made, strict=True):
            if spoken.error is not None:
                raise _failed(ask, spoken.error)
    found = [(ask, voices.made.require_made(ask.voice)) for ask in asks]
    if voices.is_two:
        load = partial(load_reference, rate_hz=info.sample_rate_hz, silence_s=cloning.silence_s)
        references = [load(str(one.path), None, mode="icl", text=one.text) for _, one in found]
        stored = run_work(encode_voices, config, info, references)
    else:  # a checkpoint clones its own codes unchanged
        stored = [voice_of_codes(made.codes(), made.text, info) for _, made in found]
    for ask, voice in zip(asks, stored, strict=True):
        voices.made.keep_for(info, ask.voice, voice)
        ask.is_there = True


def _keep(ask: Ask, task: Task, spoken: Result, voices: FreeVoices) -> None:
    info, samples, codes = voices.maker.info, spoken.samples, spoken.codes
    if samples is None or codes is None:
        raise _failed(ask, "it has no audio")
    facts = {
        # [object] owner of the voice: `character` and `description`
        "of": {"character": ask.character, "description": ask.description},
        "text": task.row.text,  # [text] text of the WAV file
        "language": task.request.language,  # [text] language of that text
        "model": info.identity,  # [hex] identity of the checkpoint that generated the voice
        "checkpoint": checkpoint_name(info),  # [text] name of that checkpoint
        "run_seed": voices.config.seed,  # [number] seed of the run
        "seed": spoken.seed,  # [number] seed of the attempt in the WAV file
        "attempts": spoken.attempts,  # [number] number of attempts
        "audio_s": round(len(samples) / info.sample_rate_hz, 6),  # length of the WAV file
        # [list of text] things to listen for
        "suspect": [remark.text for remark in spoken.remarks],
        "created_by": created_by(),  # [text] name and version of the tool
    }
    tags = Tags(ask.shown, comment=comment_of(info))
    wav = encode(samples, info.sample_rate_hz, "wav", "PCM_16", tags)
    voices.made.keep(ask.voice, facts, wav, encode_codes(codes))
    ask.is_gone = False
    path = voices.made.wav(ask.voice)
    if voices.config.out is not None or voices.config.made_voices is not None:
        log.info("voice of %s: %.1f s, %s", ask.shown.rstrip("."), facts["audio_s"], path)
        for remark in spoken.remarks:
            log.warning("suspect, listen to %s: %s", path, remark.text)


def _failed(ask: Ask, error: str) -> StoppedEarly:
    return StoppedEarly(
        f"the voice of {ask.shown} cannot be generated: {error}",
        remedy="try another --voice-text or --seed, more --retries, or give its rows a voice or a "
        "ref_audio",
    )
