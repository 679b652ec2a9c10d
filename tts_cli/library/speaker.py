"""The library: a model that is loaded once and synthesizes rows of a program.

    with Speaker() as speaker:
        speaker.say("Good morning.", voice="clara").save("morning.wav")
        for speech in speaker.batch(rows):
            ...

A row of a `Speaker` is checked, normalized, split and synthesized like a row of a manifest. With
the same seed, or the same id and run seed, its samples are those of `synth`.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.app.align import TakeAligner, aligner_of
from tts_cli.app.verify import TranscriberThread
from tts_cli.engine.load import choose_device, on_device
from tts_cli.engine.session import LocalSession
from tts_cli.errors import (
    Cancelled,
    RowError,
    SpeakerBusy,
    StoppedEarly,
    UsageError,
    is_device_lost,
)
from tts_cli.library.settings import GivenRow, RowFields, Settings, StrPath, config_of
from tts_cli.library.speech import Speech
from tts_cli.library.stream import SpeechStream
from tts_cli.plan.checkpoint import approved_info
from tts_cli.plan.resolve import Resolver
from tts_cli.plan.room import usual_needs
from tts_cli.voices.voice_store import VoiceStore

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

MIN_AHEAD = 32  # rows that `batch` pulls ahead, at least


class Speaker:
    """A checkpoint in memory, with its slots and graphs, until it is closed.

    It does one thing at a time: a call during another one, from any thread, raises `SpeakerBusy`.
    Any thread may call `cancel` and `close`.

    Args:
        model: a folder, a repository on the Hugging Face hub, or synthetic:NAME; None: the sample
            voice of the tool.
        device: auto, cpu, cuda or cuda:N.
        dtype: auto (bfloat16 on cuda, float32 on cpu), float32 or bfloat16.
        max_batch: rows at a time, a power of two; None: 256 on cuda, 16 on cpu, fewer if memory is
            short. For `say` alone, 1 starts faster.
        revision: of a hub repository.
        voice_dir: folder of voice files; None: the user's.
        seed: run seed; the seed of a row without one is derived from it and the row's id.
        longest: UTF-8 bytes of the longest unsplit text that the first slots are made for; None:
            400, or less if the checkpoint synthesizes less well. A longer text makes the slots
            grow: graphs are captured again, and the rows of a batch wait for that.
        settings: flags of `tts-cli synth`, see `Settings`. Settings files and environment variables
            apply to commands only. With `verify`, rows are transcribed, and suspect ones are
            retried, before they are returned. With `words`, their words are aligned.
    Raises:
        UsageError: a setting is unknown, has no such value, or does not fit the checkpoint.
        SetupError: the model, recognizer, aligner or device is missing, or has too little memory.
    """

    def __init__(
        self,
        model: StrPath | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_batch: int | None = None,
        revision: str | None = None,
        voice_dir: StrPath | None = None,
        seed: int = 0,
        longest: int | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        own = {"model": model, "device": device, "dtype": dtype, "max_batch": max_batch}
        own |= {"revision": revision, "voice_dir": voice_dir, "seed": seed}
        config = config_of({**own, **settings})
        if longest is not None and longest < 1:
            raise UsageError(f"longest: must be at least 1, not {longest}")
        info = approved_info(config)
        self._busy = threading.Lock()  # held by the current call
        self._stream: SpeechStream | None = None  # of the current call
        self._is_lost = False  # its device has failed
        self._transcriber: TranscriberThread | None = None  # with `verify`
        self._words: TakeAligner | None = None  # with `words`
        self.session = LocalSession(config, info)
        with ExitStack() as stack, on_device(choose_device(config)):
            folder = config.made_voices
            if folder is None:  # for voices that it generates
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tts-cli-")))
            voices = VoiceStore(config.voice_dir, out=folder)
            self.maker = Resolver(config, info, voices=voices)  # before a weight is read
            if config.words is not None:
                opened = aligner_of(config.words, config, "words")
                self._words = TakeAligner(opened, self.maker.care.facts())
                stack.callback(self._words.close)
            if config.verify is not None:
                text = self.maker.care.facts()
                self._transcriber = TranscriberThread(config, text, nullcontext)
                stack.callback(self._transcriber.close)
                self._transcriber.begin()
            stack.callback(self.session.close)
            slots = self.session.loaded.batch.rows
            self.session.make_room(usual_needs(config, info, longest, slots))
            self._stack = stack.pop_all()
        _open.add(self)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self.session.is_closed

    @property
    def voices(self) -> tuple[str, ...]:
        """Names for a row's `voice`: speakers, or voice files if the checkpoint clones."""
        if self.maker.info.takes_voice_files:
            return tuple(self.maker.voices.made.names())
        return self.maker.info.voices

    @property
    def languages(self) -> tuple[str, ...]:
        """Names for a row's `language`."""
        return self.maker.info.languages

    @property
    def sample_rate_hz(self) -> int:
        """Sample rate of all audio."""
        return self.maker.info.sample_rate_hz

    def say(self, text: str, **fields: Unpack[RowFields]) -> Speech:
        """Synthesize one text, like the only row of a manifest.

        Args:
            fields: other fields of the row.
        Raises:
            RowError: it cannot be synthesized, or its audio is not all of its text.
            SpeakerBusy: another call is in progress.
            Cancelled: another thread called `cancel` or `close`.
            StoppedEarly: the device failed.
        """
        try:
            (speech,) = self._batch([{**fields, "text": text}], is_ordered=True, look_ahead=2)
        except Cancelled:
            raise Cancelled("the synthesis of the text was interrupted") from None
        if speech.error is not None:
            raise RowError(speech.error)
        return speech

    def batch(
        self, rows: Iterable[GivenRow], *, ordered: bool = True, look_ahead: int | None = None
    ) -> Generator[Speech, None, None]:
        """Synthesize rows as they come, many at a time, and yield the speech of each.

        A row that cannot be synthesized yields a `Speech` with an `error`. Leaving the loop early,
        by `break`, an exception or the generator's `close`, ends the synthesis; then the speaker is
        ready for the next call.

        Args:
            rows: texts, rows of a manifest as mappings, or `Row`s; may never end. A separate thread
                pulls them, no further ahead than necessary.
            ordered: results come in the order of the rows; else each when it is finished.
            look_ahead: maximum of rows pulled before their results are yielded; None: twice the
                rows at a time, and at least 32.
        Raises:
            UsageError: `rows` is one text, or `look_ahead` is below 1.
            SpeakerBusy, Cancelled, StoppedEarly: as `say`, when the first result is requested.
            BaseException: raised by the iterator of rows, after the results of earlier rows.
        """
        if isinstance(rows, (str, Mapping)):
            raise UsageError("rows: is one row", remedy="put it in a list, or use say()")
        if look_ahead is not None and look_ahead < 1:
            raise UsageError(f"look_ahead: must be at least 1, not {look_ahead}")
        return self._batch(rows, ordered, look_ahead)

    def _batch(
        self, rows: Iterable[GivenRow], is_ordered: bool, look_ahead: int | None
    ) -> Generator[Speech, None, None]:
        with self._call():
            if look_ahead is None:
                look_ahead = max(MIN_AHEAD, 2 * self.session.loaded.batch.rows)
            self._stream = SpeechStream(
                self.session,
                self.maker,
                rows,
                look_ahead,
                is_ordered=is_ordered,
                transcriber=self._transcriber,
            )
            with closing(self._stream.results()) as results:
                for speech in results:
                    yield self._timed(speech)

    def _timed(self, speech: Speech) -> Speech:
        """Add the times of words if requested. If they are unknown, a warning has the reason."""
        if self._words is None or not speech.is_ok:
            return speech
        suspect = () if speech.verdict is None else speech.suspect
        try:
            return replace(speech, words=self._words.of(speech.as_take, speech.save, suspect))
        except RowError as error:
            told = f"no word times: {error}"
            return replace(speech, warnings=(*speech.warnings, told))

    def cancel(self) -> None:
        """End the current call of another thread, which raises `Cancelled` there."""
        if (stream := self._stream) is not None:
            stream.stop()
        self.session.stop()  # until the next call

    def close(self) -> None:
        """Cancel the current call, drop the model and free the device's memory."""
        if (stream := self._stream) is not None:
            stream.close()
        self.cancel()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Reserve the speaker for one call. Raises if it is closed, lost or busy."""
        if self.is_closed:
            raise UsageError("the speaker is closed", remedy="create another one")
        if self._is_lost:
            raise StoppedEarly("the speaker's device has failed", remedy="create another speaker")
        if not self._busy.acquire(blocking=False):
            raise SpeakerBusy(
                "the speaker is busy with another call",
                remedy="finish or close that batch, wait for the other thread, or create another "
                "speaker",
            )
        self.session.resume()
        self.session.cloning = self.maker.forget_files()
        try:
            yield
        except StoppedEarly as error:
            self._is_lost = is_device_lost(error.__cause__ or error)
            raise
        finally:
            self._stream = None
            self._busy.release()


_open: weakref.WeakSet[Speaker] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all speakers, because threads in C++ code would abort the process at its end."""
    for speaker in list(_open):
        speaker.close()
