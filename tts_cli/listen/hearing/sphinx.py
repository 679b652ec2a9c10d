"""Recognise with pocketsphinx and its stock English models, in one process a core.

Each take is heard with the recogniser as it starts, so that its answer depends on nothing but its
audio: neither on what came before nor on how many processes there are.

Its models are CMU's en-us: near dictation, 130,000 words. On the sample voice it gets 10 to 12 % of
words wrong and takes 0.3 s of one core for a second of audio.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tts_cli.errors import SetupError
from tts_cli.listen.hearing import recogniser as sound
from tts_cli.listen.hearing.processes import Processes
from tts_cli.listen.hearing.recogniser import POCKETSPHINX, Answer, Asked, Identity

PEAK = 0.7
EDGE_S = 0.3  # of silence at both ends, which its estimate of noise needs
NOISE = 2e-4  # digital silence upsets it
# Fewer states at once than the stock 30,000: a quarter less time, the same words wrong.
MOST_STATES = 10_000
_decoder: Any = None  # of this process


class Sphinx:
    """Args:
        processes: at once; None: one a core.
    Raises:
        SetupError: the package is not there.
    """

    def __init__(self, processes: int | None = None) -> None:
        self.identity = identity_of("--asr")
        self._processes = Processes(hear_one, processes)

    def hear(self, asked: Iterable[Asked | None]) -> Iterator[Answer]:
        """See `Recogniser`. Raises StoppedEarly where a process dies."""
        return self._processes.answers(asked)

    def close(self) -> None:
        """See `Recogniser`."""
        self._processes.close()


def identity_of(flag: str) -> Identity:
    """Which version is there. Raises SetupError if none is.

    Args:
        flag: that asks for it.
    """
    try:
        import pocketsphinx  # noqa: F401  # its processes use it
    except ImportError:
        raise SetupError(
            f"{flag} pocketsphinx needs the package pocketsphinx, which is not installed",
            remedy="install the extra: pip install 'tts-cli[asr]'",
        ) from None
    return Identity(f"{POCKETSPHINX} {version('pocketsphinx')} en-us", languages=("en",))


def hear_one(asked: Asked) -> Answer:
    """Hear a take in this process."""
    try:
        found = sound.load(asked.path)
    except (OSError, ValueError) as error:
        return Answer(asked.place, problem=str(error))
    words = [
        heard for part in sound.windows(found.samples, asked.gaps_s) if (heard := _words(part))
    ]
    return Answer(asked.place, " ".join(words), found.sha256)


def _words(samples: sound.Array) -> str:
    """The words of (n,) float32 samples at 16 kHz."""
    decoder = _decoder_of_process()
    if not search(decoder, samples):
        return ""
    found = decoder.hyp()
    return "" if found is None else str(found.hypstr)


def search(decoder: Any, samples: sound.Array) -> bool:
    """Have a decoder go through (n,) float32 samples at 16 kHz, `EDGE_S` of silence put on both
    ends. False where they are silent, and it did not.
    """
    peak = float(np.abs(samples).max(initial=0.0))
    if peak == 0.0:
        return False
    padded = np.pad(samples * (PEAK / peak), round(EDGE_S * sound.RATE_HZ))
    padded = padded + np.random.default_rng(0).normal(0, NOISE, len(padded))
    data = (np.clip(padded, -1, 1) * 32767).astype("<i2").tobytes()
    decoder.reinit_feat()  # forget what the take before sounded like
    decoder.start_utt()
    decoder.process_raw(data, no_search=False, full_utt=True)
    decoder.end_utt()
    return True


def new_decoder(has_words: bool, **settings: Any) -> Any:
    """A decoder of the stock models, that knows which words follow which or not."""
    import pocketsphinx

    folder = Path(pocketsphinx.get_model_path()) / "en-us"
    return pocketsphinx.Decoder(
        hmm=str(folder / "en-us"),
        lm=str(folder / "en-us.lm.bin") if has_words else None,
        dict=str(folder / "cmudict-en-us.dict"),
        samprate=sound.RATE_HZ,
        loglevel="FATAL",
        **settings,
    )


def _decoder_of_process() -> Any:
    global _decoder
    if _decoder is None:
        _decoder = new_decoder(has_words=True, maxhmmpf=MOST_STATES)
    return _decoder
