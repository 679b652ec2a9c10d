"""Prompt layout of Fish Speech S2: a chat of a system, a user and an assistant turn.

The system turn says what to do and may hold a reference: its transcript, then one position a
reference frame. The user turn is the text, style tags in brackets and speaker tags left in it; the
assistant's turn is opened, and speech goes on from there. Every part is tokenised by itself: the
tokenizer would merge across their joints and give other ids. So all that stands in front of the
text is the same ids in every prompt of a voice.

Source: the official `fish-speech` at 3dd1f85 (2026-04-06), whose layout this reproduces id by id
for texts of one batch: up to five speaker turns, or any length without speaker tags.
"""

from __future__ import annotations

import re

from models.base import (
    NO_ID,
    REFERENCE,
    Prompt,
    Reader,
    RequestError,
    SpeechRequest,
    Tokenizer,
    Voice,
)
from models.fish_speech.config import FishSpeechConfig

SYSTEM_HEAD = "<|im_start|>system\n"
PLAIN_TASK = "convert the provided text to speech"
CLONE_TASK = "convert the provided text to speech reference to the following:\n\nText:\n"
SPEECH_HEAD = "\n\nSpeech:\n"
TURN_TAIL = "<|im_end|>\n"
USER_HEAD = "<|im_start|>user\n"
ASSISTANT_HEAD = "<|im_start|>assistant\n<|voice|>"
# A byte is at most one token: what a prompt holds besides text, transcript and reference frames.
OVERHEAD = sum(
    len(part)
    for part in (
        *(SYSTEM_HEAD, CLONE_TASK, SPEECH_HEAD, TURN_TAIL, USER_HEAD, TURN_TAIL, ASSISTANT_HEAD),
        "<|speaker:0|>",
    )
)

_CONTROL = re.compile(r"<\|[^<>]*\|>")
_ALLOWED = re.compile(r"<\|(speaker:\d+|phoneme_start|phoneme_end)\|>")
_SPEAKER = re.compile(r"(?=<\|speaker:\d+\|>)")


class Chat:
    """Lays out requests for one tokenizer.

    Args:
        tokenize: text to ids with special tokens recognised and nothing added.
    """

    def __init__(self, config: FishSpeechConfig, tokenize: Tokenizer) -> None:
        self.config = config
        self.tokenize = tokenize
        tail = [*tokenize(TURN_TAIL), *tokenize(USER_HEAD)]
        self.plain_head = [*tokenize(SYSTEM_HEAD), *tokenize(PLAIN_TASK), *tail]
        self.clone_head = [*tokenize(SYSTEM_HEAD), *tokenize(CLONE_TASK)]
        self.speech_head = tokenize(SPEECH_HEAD)
        self.clone_tail = tail
        self.tail = [*tokenize(TURN_TAIL), *tokenize(ASSISTANT_HEAD)]

    def build(self, request: SpeechRequest) -> Prompt:
        """Lay out one request. Raises RequestError where the family cannot speak it as asked."""
        check_request(request)
        text = self.tokenize(join_turns(checked_text(request.text, "the text")))
        if not text:
            raise RequestError("the text has no tokens")
        clone = request.clone
        if clone is None:
            ids = [*self.plain_head, *text, *self.tail]
            return Prompt(ids, [NO_ID] * len(ids), [], request)
        codes = self._codes(clone)
        head = [*self.clone_head, *self._transcript(clone), *self.speech_head]
        frames = [self.config.semantic_start + code for code in codes]
        rest = [*self.clone_tail, *text, *self.tail]
        places = [REFERENCE - frame for frame in range(len(frames))]
        return Prompt(
            [*head, *frames, *rest],
            [*[NO_ID] * len(head), *places, *[NO_ID] * len(rest)],
            [],
            request,
            num_shared=len(head) + len(frames) + len(self.clone_tail),
        )

    def _transcript(self, clone: Voice) -> list[int]:
        """Ids of the reference's transcript; a speaker tag is put before one that has none."""
        text = checked_text(clone.text or "", "the reference's transcript")
        if not text.strip():
            raise RequestError("the reference's transcript is empty")
        tag = "" if _SPEAKER.search(text) else "<|speaker:0|>"
        return self.tokenize(tag + text)

    def _codes(self, clone: Voice) -> list[int]:
        """First codes of a voice, after checking that it is one of this checkpoint's."""
        if clone.mode != "icl":
            raise RequestError(
                "this checkpoint clones a recording with its transcript only (icl); give ref_text"
            )
        codes = clone.check_codes(self.config.num_codebooks, self.config.codebook_size)
        return [int(code) for code in codes[:, 0].tolist()]


def reader_of(config: FishSpeechConfig, tokenize: Tokenizer) -> Reader:
    """What lays out requests for one tokenizer."""
    return Reader(Chat(config, tokenize).build, tokenize, config)


def check_request(request: SpeechRequest) -> None:
    """Raise RequestError for what this family cannot do, rather than leave it out in silence."""
    if request.layout not in ("auto", "non_streaming"):
        raise RequestError(f"layout {request.layout!r}: this family reads the whole text first")
    if request.language.lower() != "auto":
        raise RequestError(f"language {request.language!r}: this family tells it from the text")
    if request.voice is not None and request.clone is None:
        raise RequestError(f"unknown voice {request.voice!r}; this checkpoint has none by name")
    if request.ref_audio is not None and request.clone is None:
        raise RequestError("its reference was not encoded")
    if request.sampling.repetition_penalty != 1:
        raise RequestError(
            "repetition_penalty: this family draws repeated codes anew instead; leave it out"
        )


def checked_text(text: str, what: str) -> str:
    """Text without control tokens: they would end or fake a turn. Raises RequestError."""
    for token in _CONTROL.findall(text):
        if not _ALLOWED.fullmatch(token):
            raise RequestError(
                f"{what} holds the control token {token}; of these only <|speaker:N|>, "
                "<|phoneme_start|> and <|phoneme_end|> may stand in it"
            )
    return text


def join_turns(text: str) -> str:
    """Speaker turns trimmed and on lines of their own; text without speaker tags as it is.

    Raises:
        RequestError: text stands before the first tag. The official code drops it in silence.
    """
    first, *turns = _SPEAKER.split(text)
    if not turns:
        return text
    if first.strip():
        raise RequestError(
            f"{first.strip()[:40]!r} is before the first speaker tag; put <|speaker:0|> first"
        )
    return "\n".join(turn.strip() for turn in turns)
