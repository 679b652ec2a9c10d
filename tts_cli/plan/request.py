"""From a manifest row to the request a model speaks: every setting resolved, none left to chance.

Precedence: the row, its character's table in the cast (`manifest.cast`), then the flag, then the
    checkpoint's generation_config.json, then the built-in default.
"""

from __future__ import annotations

from dataclasses import replace

from models.base import ModelInfo, SpeechRequest
from models.sampling import Sampling
from tts_cli.config import RunConfig
from tts_cli.core import Row
from tts_cli.manifest.row import for_all
from tts_cli.manifest.seeds import row_seed
from tts_cli.text.care import TextCare
from tts_cli.text.languages import named_language
from tts_cli.text.reading import Reading

# A row's cap when neither row nor flag gives one: three times that is a runaway.
CAP_S = 5.12
CAP_S_PER_BYTE = 0.24


class Requests:
    """Makes the requests of a run's rows; what they share is resolved once.

    Raises:
        UsageError: the settings say of texts what cannot be done, see `TextCare.of`.
    """

    def __init__(self, config: RunConfig, info: ModelInfo) -> None:
        self.config = config
        self.info = info
        self.care = TextCare.of(config, info)
        self._language = named_language(config.language, info.languages)
        self._flags = for_all(config.sampling)
        self._sampling = replace(info.sampling, **self._flags)
        self._voice = info.voices[0] if info.voices else None

    def build(self, row: Row) -> SpeechRequest:
        """Resolve one row. Raises SetupError: a library for its language is missing."""
        return self.read(row)[0]

    def read(self, row: Row) -> tuple[SpeechRequest, Reading | None]:
        """The same, and how its text was read; None: it is spoken as it is written."""
        config = self.config
        language = self._language
        if row.language:
            language = named_language(row.language, self.info.languages)
        spaced = reading = None
        if not self.care.leaves(row.text):
            reading = self.care.read(row.text, language)
            spoken = reading.spoken
            if reading.spaced != spoken:
                spaced = reading.spaced
            if spoken == row.text:
                reading = None
            else:
                row = replace(row, text=spoken)
        voice = row.voice
        if voice is None and row.ref_audio is None:
            voice = config.voice
        request = SpeechRequest(
            text=row.text,
            voice=self._voice if voice is None else voice,
            language=language,
            instruct=row.instruct,
            layout=config.layout,
            sampling=self._sampling_of(row),
            seed=row.seed if row.seed is not None else row_seed(config.seed, row.id),
            max_frames=frame_cap(row, config, self.info),
            ref_audio=row.ref_audio,
            ref_text=row.ref_text,
            clone_mode=row.clone_mode,
            shapes=config.shapes,
            spaced=spaced,
        )
        return request, reading

    def _sampling_of(self, row: Row) -> Sampling:
        if not row.sampling:
            return self._sampling
        return replace(self.info.sampling, **{**self._flags, **for_all(row.sampling)})


def build_request(row: Row, config: RunConfig, info: ModelInfo) -> SpeechRequest:
    """Resolve a row that is the only one."""
    return Requests(config, info).build(row)


def frame_cap(row: Row, config: RunConfig, info: ModelInfo) -> int:
    """Frames the row may keep."""
    if row.max_frames is not None:
        return row.max_frames
    seconds = row.max_seconds if row.max_seconds is not None else config.max_seconds
    if seconds is not None:
        return max(1, int(seconds / info.frame_s + 1e-6))
    return text_cap(row.text, info)


def text_cap(text: str, info: ModelInfo) -> int:
    """Frames that a text may keep where nobody gives a cap."""
    cap_s = CAP_S + CAP_S_PER_BYTE * len(text.encode())
    return min(info.max_frames, round(cap_s / info.frame_s))
