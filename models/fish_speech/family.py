"""Fish Speech S2 as a family: contents and features of a checkpoint, without torch.

Facts: the released `fishaudio/s2-pro` (Fish Audio), whose `config.json` has a `text_config` (the
talker) and an `audio_decoder_config` (the code predictor) in Fish Speech's own names. Not in the
file but forced by the official code for this model type: embeddings of frames are scaled, the code
predictor gets the normalised hidden state, and RoPE tables are rounded to bfloat16.

Tags in a text: `<|speaker:N|>` starts a turn; a style is any words in brackets. The family
documents no closing tag, so a style lasts until the next, or the next speaker. Words for a sound or
a pause, `[laughing]` or `[short pause]`, are not styles: they are synthesized once, in their place.
The list of them is our reading of the official lists; the model itself sees no difference.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from models.base import Licence, RequestError
from models.checkpoint.config import ManyCodebooks, Section, Size
from models.decoder.config import TransformerConfig
from models.dual_ar import family as dual_ar
from models.dual_ar.config import CodecConfig, DualARConfig, TensorNames
from models.dual_ar.prompt import SPEAKER, TextRules, check_control
from models.pace import Pace
from models.sampling import Sampling

# RoPE tables finer than in training end the speech early.
KIND: dict[str, Any] = {"rounds_rope": True, "has_qkv_bias": False, "window": 0}
NAMES = TensorNames(
    "text_model.model.", "audio_decoder.", "audio_decoder.codebook_embeddings.weight"
)
# The official command line's. Both codebook kinds share one setting there.
SAMPLING = Sampling(1.0, 30, 0.9, 1.0, False, 1.0, 30, 0.9, False)
LICENCE = Licence(
    name="Fish Audio Research License",
    terms="The weights may be used for research and other non-commercial purposes only; commercial "
    "use needs a separate written licence of Fish Audio. Anyone who passes them or a product with "
    "them on must add the licence, its notice and the words 'Built with Fish Audio'. They may not "
    "be used to make or improve other foundational generative models. The whole text is in the "
    "checkpoint's LICENSE.md.",
)  # source: the LICENSE of fish-speech and of the S2 Pro repository, as of 2026-03-07
SOUNDS = (
    r"laugh|chuckl|giggl|sigh|cough|paus|breath|inhal|exhal|gasp|sniff|yawn|sneez|sob|groan|moan|"
    r"tsk|tongue|throat|swallow|burp|hum|whistl|applau|cheer|silence|break|emphasis|click|noise"
)

SPEAKER_TAG = r"<\|speaker:\d+\|>"
STYLE_TAG = rf"(?i)\[(?![^\[\]]*\b(?:{SOUNDS}))[^\[\]]*\]"
# No released weight was available to measure. Style tags and control tokens are not synthesized.
PACE = Pace.of_people(
    44100 / 2048,
    markup=r"\[[^\[\]]*\]|<\|[^<>]*\|>",
    unbroken=r"<\|phoneme_start\|>[^<]*<\|phoneme_end\|>",
    tags=(SPEAKER_TAG, STYLE_TAG),
)
_ALLOWED = re.compile(r"<\|(speaker:\d+|phoneme_start|phoneme_end)\|>")
_ADVICE = "of these only <|speaker:N|>, <|phoneme_start|> and <|phoneme_end|> may stand in it"


def released_config(num_layers: int = 36, predictor_layers: int = 4) -> DualARConfig:
    """The configuration of S2 Pro, with fewer layers for tests."""
    layer = 32, 8, 128, 1e6, 1e-6
    return DualARConfig(
        talker=TransformerConfig(2560, 9728, num_layers, *layer, 32768, **KIND),
        predictor=TransformerConfig(2560, 9728, predictor_layers, *layer, 11, False, **KIND),
        num_codebooks=10,
        text_vocab_size=155776,
        codebook_size=4096,
        semantic_start=151678,
        end=151645,
        names=NAMES,
        sampling=SAMPLING,
        divides_sum=True,
    )


def read_config(folder: Path) -> DualARConfig:
    """Read a checkpoint's `config.json`. Raises CheckpointError."""
    root = Section.from_file(folder / "config.json")
    talker, predictor = root.section("text_config"), root.section("audio_decoder_config")
    talker.expect(tie_word_embeddings=True)
    predictor.expect(tie_word_embeddings=False)
    vocab_size = talker.get("vocab_size", Size)
    config = root.fill(
        DualARConfig,
        talker=_read_stack(talker, has_qk_norm=True),
        predictor=_read_stack(predictor, has_qk_norm=False),
        num_codebooks=predictor.get("num_codebooks", ManyCodebooks),
        text_vocab_size=vocab_size,
        codebook_size=predictor.get("vocab_size", Size),
        semantic_start=root.token_id("semantic_start_token_id", vocab_size),
        end=root.token_id("eos_token_id", vocab_size),
        names=NAMES,
        sampling=SAMPLING,
        divides_sum=True,
    )
    dual_ar.check_last(root, "semantic_end_token_id", config)
    if predictor.get("text_dim", int) != config.talker.width:
        raise predictor.wrong("text_dim is not text_config's dim")
    return config


def _read_stack(section: Section, has_qk_norm: bool) -> TransformerConfig:
    """Read the sizes of one of the two stacks, which have the same keys."""
    section.expect(attention_qk_norm=has_qk_norm, attention_qkv_bias=False)
    section.expect(attention_o_bias=False, use_moe=False)
    return section.fill(TransformerConfig, dual_ar.STACK, has_qk_norm=has_qk_norm, **KIND)


def checked_text(text: str, what: str) -> str:
    """Return text without control tokens that the family does not document. Raises RequestError."""
    return check_control(text, what, _ALLOWED, _ADVICE)


def join_turns(text: str) -> str:
    """Return speaker turns trimmed, one per line; text without speaker tags unchanged. Raises
    RequestError for text before the first tag, which the official code drops silently.
    """
    first, *turns = SPEAKER.split(text)
    if not turns:
        return text
    if first.strip():
        raise RequestError(
            f"{first.strip()[:40]!r} is before the first speaker tag; put <|speaker:0|> first"
        )
    return "\n".join(turn.strip() for turn in turns)


RULES = TextRules(
    text=lambda text: join_turns(checked_text(text, "the text")),
    transcript=lambda text: checked_text(text, "the reference's transcript"),
)


FAMILY = dual_ar.family_of(
    "fish_speech",
    read_config,
    lambda: (released_config(), CodecConfig.released()),
    RULES,
    PACE,
    licence=LICENCE,
    convert=(dual_ar.CONVERT, lambda folder: CodecConfig.released()),
)
