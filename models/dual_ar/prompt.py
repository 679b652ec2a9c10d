"""Prompt layout of dual-AR models: a chat of a system, a user and an assistant turn.

The system turn has the task and may have a reference: its transcript, then one position per
reference frame. The user turn is the text; the assistant's turn is opened, and speech continues
from there. Every part is tokenised separately: the tokenizer would merge across their joints and
give other ids. So everything before the text has the same ids in every prompt of a voice. A family
has its own rules for texts (`TextRules`).

Source: the official `fish-speech` at 3dd1f85 (2026-04-06), whose layout this reproduces id by id
for texts of one batch: up to five speaker turns, or any length without speaker tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from models.base import NO_ID, REFERENCE, Prompt, RequestError, SpeechRequest, Tokenizer, Voice
from models.dual_ar.config import DualARConfig

SYSTEM_HEAD = "<|im_start|>system\n"
PLAIN_TASK = "convert the provided text to speech"
CLONE_TASK = "convert the provided text to speech reference to the following:\n\nText:\n"
SPEECH_HEAD = "\n\nSpeech:\n"
TURN_TAIL = "<|im_end|>\n"
USER_HEAD = "<|im_start|>user\n"
ASSISTANT_HEAD = "<|im_start|>assistant\n<|voice|>"
# Bound of a prompt's tokens, without text, transcript and reference frames: its bytes.
OVERHEAD = sum(
    len(part)
    for part in (
        *(SYSTEM_HEAD, CLONE_TASK, SPEECH_HEAD, TURN_TAIL, USER_HEAD, TURN_TAIL, ASSISTANT_HEAD),
        "<|speaker:0|>",
    )
)

CONTROL = re.compile(r"<\|[^<>]*\|>")
SPEAKER = re.compile(r"(?=<\|speaker:\d+\|>)")


class TextRules(NamedTuple):
    """A family's rules for texts; each function raises RequestError for a text that it refuses."""

    text: Callable[[str], str]  # the text to tokenise
    transcript: Callable[[str], str]  # a reference's text, without the speaker tag added here


class Chat:
    """Lays out requests for one tokenizer.

    Args:
        tokenize: text to ids with special tokens recognised and nothing added.
    """

    def __init__(self, config: DualARConfig, tokenize: Tokenizer, rules: TextRules) -> None:
        self.config = config
        self.tokenize = tokenize
        self.rules = rules
        tail = [*tokenize(TURN_TAIL), *tokenize(USER_HEAD)]
        self.plain_head = [*tokenize(SYSTEM_HEAD), *tokenize(PLAIN_TASK), *tail]
        self.clone_head = [*tokenize(SYSTEM_HEAD), *tokenize(CLONE_TASK)]
        self.speech_head = tokenize(SPEECH_HEAD)
        self.clone_tail = tail
        self.tail = [*tokenize(TURN_TAIL), *tokenize(ASSISTANT_HEAD)]

    def build(self, request: SpeechRequest) -> Prompt:
        """Lay out the prompt of one request. Raises RequestError: it is not supported."""
        check_request(request)
        text = self.tokenize(self.rules.text(request.text))
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
        """Return ids of the reference's transcript, with a speaker tag before it if it has none."""
        text = self.rules.transcript(clone.text or "")
        if not text.strip():
            raise RequestError("the reference's transcript is empty")
        tag = "" if SPEAKER.search(text) else "<|speaker:0|>"
        return self.tokenize(tag + text)

    def _codes(self, clone: Voice) -> list[int]:
        """Return the first codes of a voice. Raises RequestError: it is of another checkpoint."""
        if clone.mode != "icl":
            raise RequestError(
                "this checkpoint clones a recording with its transcript only (icl); give ref_text"
            )
        codes = clone.check_codes(self.config.num_codebooks, self.config.codebook_size)
        return [int(code) for code in codes[:, 0].tolist()]


def check_request(request: SpeechRequest) -> None:
    """Raise RequestError for settings that this family would ignore."""
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


def check_control(text: str, what: str, allowed: re.Pattern[str], advice: str) -> str:
    """Return the text. Raises RequestError for control tokens but `allowed`, which fake turns."""
    for token in CONTROL.findall(text):
        if not allowed.fullmatch(token):
            raise RequestError(f"{what} holds the control token {token}; {advice}")
    return text
