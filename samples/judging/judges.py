"""What judges a take: a recognizer, DNSMOS, a speaker encoder. Each hears files, not systems."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tts_cli.app.check import REMEDY, open_recognizer, require_packages
from tts_cli.checks import similarity
from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.checkpoint import folder_of, kind_of
from tts_cli.checks.asr.compare import compare
from tts_cli.checks.asr.recognizer import AsrRequest
from tts_cli.checks.asr.sphinx import identity_of
from tts_cli.checks.mos import Dnsmos
from tts_cli.config import RunConfig
from tts_cli.errors import SetupError
from tts_cli.text.languages import code_of

OWN = "own"  # the speaker encoder of the checkpoint that speaks
Row = dict[str, Any]
Values = dict[str, float]


class Spoken(NamedTuple):
    """A file, and what it should be."""

    path: Path
    sha256: str
    row: Row


class Judge(Protocol):
    """One that is ready to hear."""

    name: str  # with version or weights

    def beside(self, row: Row) -> str | None:
        """What its answer depends on but the file; None: it does not judge such a row."""
        ...

    def judge(self, takes: Sequence[Spoken]) -> Iterator[tuple[int, Values]]:
        """Place and values of each take that it could hear."""
        ...


def require_recogniser(asr: str) -> None:
    """Raise SetupError where what `--asr` means, or what it needs, is not there."""
    require_packages()
    if asr.casefold() == sound.POCKETSPHINX:
        identity_of("--asr")
    else:
        kind_of(folder_of(asr, "--asr", REMEDY), "--asr")


class Words:
    """How many words, or characters, a recognizer hears otherwise than they are written."""

    def __init__(self, config: RunConfig) -> None:
        require_packages()
        self._ear = open_recognizer(config)
        self.name = self._ear.identity.name

    def beside(self, row: Row) -> str | None:
        """See `Judge`."""
        code, languages = code_of(row.get("language") or ""), self._ear.identity.languages
        is_heard = code in languages if code else row["text"].isascii()
        return row["text"] if is_heard or not languages else None

    def judge(self, takes: Sequence[Spoken]) -> Iterator[tuple[int, Values]]:
        """See `Judge`."""
        identity = self._ear.identity
        languages = [one.row.get("language") for one in takes]
        asked = (
            AsrRequest(place, one.path, code_of(language or ""))
            for place, (one, language) in enumerate(zip(takes, languages, strict=True))
        )
        for answer in self._ear.run(asked):
            if answer.problem is not None:
                continue
            text, language = takes[answer.place].row["text"], languages[answer.place]
            found = compare([text], answer.text, language, identity.name, identity.spellings)
            if found is not None:
                wrong = float(round(found.wer * found.wanted))
                yield answer.place, {"wrong": wrong, "words": float(found.wanted)}
        self._ear.close()


class Opinions:
    """DNSMOS, as `check --mos` asks it."""

    def __init__(self) -> None:
        self._rater = Dnsmos()
        self.name = self._rater.identity.name

    def beside(self, row: Row) -> str | None:
        """See `Judge`."""
        return ""

    def judge(self, takes: Sequence[Spoken]) -> Iterator[tuple[int, Values]]:
        """See `Judge`."""
        asked = (AsrRequest(place, one.path, None) for place, one in enumerate(takes))
        for answer in self._rater.run(asked):
            if (opinion := answer.mos) is not None:
                yield answer.place, {"mos": opinion.mos, "mos_p808": opinion.mos_p808}
        self._rater.close()


class Likeness:
    """The cosine between a take and the recording that it is cloned from.

    Args:
        encoder: `OWN`, or a WavLM checkpoint for speaker verification, as a folder or a name.
        config: of the run, with the model and the device.
    """

    def __init__(self, encoder: str, config: RunConfig) -> None:
        self._known: dict[str, tuple[str, Any]] = {}  # of recordings: their sums and directions
        if encoder == OWN:
            from tts_cli.engine.load import open_checkpoint

            model = open_checkpoint(config).model
            self.name = f"speaker encoder of {model.info.identity}"
            self._rate_hz = model.info.sample_rate_hz
            self._direction = lambda wave: similarity.directions(model, [wave])[0]
        else:
            self._open_wavlm(encoder, config)

    def _open_wavlm(self, encoder: str, config: RunConfig) -> None:
        import torch
        from transformers import AutoFeatureExtractor, WavLMForXVector

        from tts_cli.engine.load import choose_device

        device = choose_device(config)
        try:
            features = AutoFeatureExtractor.from_pretrained(encoder)
            model = WavLMForXVector.from_pretrained(encoder).to(device).eval()
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise SetupError(
                f"--similarity {encoder}: {reason}",
                "give own, or the folder or name of a WavLM checkpoint for speaker verification",
            ) from error
        self.name = f"{model.config.model_type} {encoder}"
        self._rate_hz = sound.RATE_HZ

        def direction(wave: Any) -> Any:
            given = features(wave, sampling_rate=sound.RATE_HZ, return_tensors="pt")
            with torch.inference_mode():
                found = model(given.input_values.to(device)).embeddings[0]
            return torch.nn.functional.normalize(found.float(), dim=0).cpu().numpy()

        self._direction = direction

    def beside(self, row: Row) -> str | None:
        """See `Judge`."""
        return self._reference(row["ref_audio"])[0] if "ref_audio" in row else None

    def judge(self, takes: Sequence[Spoken]) -> Iterator[tuple[int, Values]]:
        """See `Judge`."""
        for place, one in enumerate(takes):
            reference = self._reference(one.row["ref_audio"])[1]
            samples = sound.load(one.path, self._rate_hz).samples
            if len(samples) < similarity.MIN_ROW_S * self._rate_hz:
                continue  # too little to tell a voice by
            found = self._direction(samples)
            yield place, {"similarity": float(np.dot(found.astype(np.float32), reference))}

    def _reference(self, path: str) -> tuple[str, Any]:
        if path not in self._known:
            found = sound.load(Path(path), self._rate_hz)
            direction = self._direction(found.samples).astype(np.float32)
            self._known[path] = found.sha256, direction
        return self._known[path]


def sum_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
