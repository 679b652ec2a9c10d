"""A model that is loaded once and speaks whatever it is given: the library, and what the commands
stand on.

    with Speaker() as speaker:
        speaker.say("Good morning.", voice="clara").save("morning.wav")
        for speech in speaker.batch(rows):
            ...

A row that a `Speaker` is given is checked, read, split and spoken as a manifest's; with the same
seed, or the same id and run seed, it gives the samples that `synth` gives.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.app.align import TakeAligner, aligner_of
from tts_cli.app.verify import HeardSession
from tts_cli.checks.verdicts import TakeVerdict
from tts_cli.core import BadRow, Spoken, Task
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
from tts_cli.library.speech import Speech, speech_of
from tts_cli.library.stream import SpeechStream, is_ready, made_ready
from tts_cli.plan.checkpoint import approved_info
from tts_cli.plan.resolve import Resolver, silence_of
from tts_cli.plan.room import usual_needs
from tts_cli.voices.made import MadeVoices
from tts_cli.voices.voice_folder import VoiceFolder

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

LEAST_AHEAD = 32  # rows that `batch` pulls ahead, at least


class Speaker:
    """A checkpoint in memory, with its slots and its graphs, until it is closed.

    It does one thing at a time: a call in the middle of another one, from whatever thread, raises
    `SpeakerBusy`. `cancel` and `close` may come from any thread.

    Args:
        model: a folder, a repository on the Hugging Face hub, or synthetic:NAME; None: the sample
            voice that ships with the tool.
        device: auto, cpu, cuda or cuda:N.
        dtype: auto (bfloat16 on cuda, float32 on cpu), float32 or bfloat16.
        max_batch: rows spoken at once, a power of two; None: 256 on cuda, 16 on cpu, fewer where
            memory is short. Where only `say` is used, 1 starts faster.
        revision: of a hub repository.
        voice_dir: folder of voice files; None: the user's own.
        seed: run seed; a row without a seed has one made of it and its id.
        longest: UTF-8 bytes of the longest text spoken in one that room is made for at once; None:
            400, or what the checkpoint speaks well, if that is less. A longer one makes the room
            grow when it comes: graphs are captured again, and rows of a batch wait for that.
        settings: what `tts-cli synth` has as flags, see `Settings`. Files of settings and
            variables of the environment count for commands only. With `verify`, all that is spoken
            is heard, and what is suspect is spoken again, before it is handed over. With `words`,
            the times of its words are looked for when it is handed over.
    Raises:
        UsageError: a setting is unknown, has no such value, or does not fit the checkpoint.
        SetupError: there is no such model, recognizer, aligner or device, or no memory for it.
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
        self.maker = Resolver(config, info)  # before a weight is read
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of voices that it makes
        self._busy = threading.Lock()  # somebody is in the middle of a call
        self._stream: SpeechStream | None = None  # of the call that goes on
        self._is_lost = False  # its device has failed
        self._heard: HeardSession | None = None  # with `verify`
        self._words: TakeAligner | None = None  # with `words`
        opened = None if config.words is None else aligner_of(config.words, config, "words")
        self.session = LocalSession(config, info)
        with on_device(choose_device(config)):
            _open.add(self)
            if self.maker.voices.is_one and config.made_voices is None:
                self._folder = tempfile.TemporaryDirectory(prefix="tts-cli-")
                self.maker.voices.made = MadeVoices(Path(self._folder.name))
            try:
                if config.verify is not None:
                    self._heard = HeardSession(config, self.maker, nullcontext)
                if opened is not None:
                    text = self.maker.care.facts()
                    self._words = TakeAligner(opened, text, nullcontext)
                slots = self.session.loaded.batch.rows
                self.session.make_room(usual_needs(config, info, longest, slots))
            except BaseException:
                self.close()
                raise

    @property
    def is_closed(self) -> bool:
        """Whether it speaks no more."""
        return self.session.is_closed

    @property
    def voices(self) -> tuple[str, ...]:
        """Names that a row's `voice` can have: speakers, or voice files where it clones."""
        if self.maker.info.takes_voice_files:
            return tuple(VoiceFolder(self.maker.config.voice_dir).names())
        return self.maker.info.voices

    @property
    def languages(self) -> tuple[str, ...]:
        """Names that a row's `language` can have."""
        return self.maker.info.languages

    @property
    def sample_rate_hz(self) -> int:
        """Of all its samples."""
        return self.maker.info.sample_rate_hz

    def say(self, text: str, **fields: Unpack[RowFields]) -> Speech:
        """Speak one text, as the only row of a manifest would be.

        Args:
            fields: of the row beside its text.
        Raises:
            RowError: it cannot be spoken, or was not spoken well.
            SpeakerBusy: it is in the middle of another call.
            Cancelled: another thread called `cancel` or `close`.
            StoppedEarly: the device failed.
        """
        with self._call():
            task = self.maker.make({**fields, "text": text}, 1)
            if isinstance(task, BadRow):
                raise RowError(task.message)
            info = self.maker.info
            if task.is_silent:
                speech = speech_of(task, silence_of(task, info), info)
            else:
                speech = self._timed(self._say(task))
        if speech.error is not None:
            raise RowError(speech.error)
        return speech

    def _say(self, task: Task) -> Speech:
        made: list[Speech] = []

        def keep(task: Task, spoken: Spoken, check: TakeVerdict | None = None) -> None:
            made.append(speech_of(task, spoken, self.maker.info, check))

        with self.session.in_use:
            if not is_ready(task, self.session):
                task = made_ready(task, self.session, self.maker)
            if self._heard is None:
                self.session.speak([task], keep)
            else:
                self._heard.renew()
                self._heard.speak(self.session, [task], keep)
        if not made:
            raise Cancelled("the synthesis of the text was interrupted")
        return made[0]

    def batch(
        self, rows: Iterable[GivenRow], *, ordered: bool = True, look_ahead: int | None = None
    ) -> Generator[Speech, None, None]:
        """Speak rows as they come, many at once, and give each one's speech.

        A row that cannot be spoken gives a `Speech` with an `error`. Leaving the loop early, by
        `break`, an exception or the generator's `close`, ends what is being spoken; then the
        speaker is ready for the next call.

        Args:
            rows: texts, rows of a manifest as mappings, or `Row`s; may never end. They are pulled
                in a thread of their own, no further ahead than need be.
            ordered: results come in the order of the rows; else each as soon as it is there.
            look_ahead: rows pulled whose results were not handed over, at most; None: twice as
                many as are spoken at once, and 32 at least.
        Raises:
            UsageError: `rows` is one text, or `look_ahead` is no number of rows.
            SpeakerBusy: when the first result is asked for, as `say`; so the next.
            Cancelled, StoppedEarly: as `say`.
            BaseException: what the iterator of rows raised, behind the results of rows before.
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
                look_ahead = max(LEAST_AHEAD, 2 * self.session.loaded.batch.rows)
            self._stream = SpeechStream(
                self.session,
                self.maker,
                rows,
                look_ahead,
                is_ordered=is_ordered,
                heard=self._heard,
            )
            with closing(self._stream.results()) as results:
                for speech in results:
                    yield self._timed(speech)

    def _timed(self, speech: Speech) -> Speech:
        """Speech with the times of its words, where they are wanted; why there are none is told in
        its warnings.
        """
        if self._words is None or not speech.is_ok:
            return speech
        suspect = () if speech.verdict is None else speech.suspect
        try:
            return replace(speech, words=self._words.of(speech.as_take, speech.save, suspect))
        except RowError as error:
            told = f"no word times: {error}"
            return replace(speech, warnings=(*speech.warnings, told))

    def cancel(self) -> None:
        """End the call that another thread is in the middle of, which raises `Cancelled` there."""
        if (stream := self._stream) is not None:
            stream.stop()
        self.session.stop()  # until the next call

    def close(self) -> None:
        """Cancel what is going on, drop the model and free the device's memory. A closed speaker
        speaks no more.
        """
        if (stream := self._stream) is not None:
            stream.close()
        self.cancel()
        self.session.close()
        if self._heard is not None:
            self._heard.close()
        if self._words is not None:
            self._words.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """One call at a time; and none once the speaker is of no use any more."""
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
    """At the end of the process: threads amid the work of C++ would abort it."""
    for speaker in list(_open):
        speaker.close()
