"""Audio8-TTS 0.6B as a family: contents and features of a checkpoint, without torch.

Facts: the official `modeling_arktts.py`, `modeling_arktts_codec.py` and `processing_arktts.py` at
14468db (2026-07-27, Apache-2.0), and what others recorded of the released files. One architecture
serves Preview-0.6b and Realistic-Air. Preview-0.1b has the same model_type but another slow network
(Falcon-H1), and is refused by its config.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.checkpoint.config import Count, ManyCodebooks, Section, Size
from models.decoder.config import TransformerConfig
from models.dual_ar import family as dual_ar
from models.dual_ar.config import CodecConfig, DualARConfig, RecentCodes, TensorNames
from models.dual_ar.prompt import TextRules, check_control
from models.pace import Pace
from models.sampling import SETTINGS, SUBTALKER, Sampling

KIND: dict[str, Any] = {"has_qk_norm": False, "rounds_rope": True, "window": 0}
NAMES = TensorNames("", "fast_", "codebook_embeddings.weight")
# Both codebook kinds share one setting in the official code.
SAMPLING = Sampling(0.7, 50, 0.9, 1.0, False, 0.7, 50, 0.9, False)
SPEAKER_TAG = r"<\|speaker:\d+\|>"
# No released weight was available to measure. About 40 s is the limit: the model was trained on
# 2,048 positions, prompt and speech together.
PACE = replace(
    Pace.of_people(44100 / 2048, markup=r"<\|[^<>]*\|>", tags=(SPEAKER_TAG,)), longest_chars=600
)
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_IDEOGRAPH = (  # or kana, or hangul
    r"[\u1100-\u11ff\u2e80-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
)
_BREAK = re.compile(rf"(?<={_IDEOGRAPH})\s*[\n\r\u2028\u2029]\s*(?={_IDEOGRAPH})")


def released_config(num_layers: int = 24, predictor_layers: int = 4) -> DualARConfig:
    """The configuration of the released model, with fewer layers for tests."""
    layer = 14, 2, 64, 1e6, 1e-6
    return DualARConfig(
        talker=TransformerConfig(896, 4864, num_layers, *layer, 2048, has_qkv_bias=True, **KIND),
        predictor=TransformerConfig(896, 4864, predictor_layers, *layer, 10, **KIND),
        num_codebooks=10,
        text_vocab_size=155776,
        codebook_size=4096,
        semantic_start=151678,
        end=151645,
        names=NAMES,
        sampling=SAMPLING,
        num_rest_codes=4096,
    )


def released_codec() -> CodecConfig:
    """Fish S2 Pro's codec with a smaller transformer before the decoder."""
    fish = CodecConfig.released()
    small = replace(fish.frames, num_kv_heads=8, mlp_width=1216)
    return replace(fish, frames=small, encoder_frames=fish.frames)


def read_config(folder: Path) -> DualARConfig:
    """Read a checkpoint's `config.json`. Raises CheckpointError."""
    root = Section.from_file(folder / "config.json")
    if (backbone := root.values.get("slow_backbone", "arktts")) != "arktts":
        raise root.wrong(
            f"slow_backbone = {backbone!r:.60}: this is Audio8-TTS-Preview-0.1b or one like it, "
            "whose slow network is of another architecture; use a 0.6B checkpoint"
        )
    root.expect(tie_word_embeddings=True, norm_fastlayer_input=True, attention_qkv_bias=True)
    for prefix in ("", "fast_"):
        root.expect(**{f"{prefix}attention_{name}": False for name in ("qk_norm", "o_bias")})
    root.expect(fast_attention_qkv_bias=False)
    vocab_size, codebook_size = root.get("vocab_size", Size), root.get("codebook_size", Size)
    num_codebooks = root.get("num_codebooks", ManyCodebooks)
    again = (root.setting(f"ras_{name}", SETTINGS[name]) for name in ("temperature", "top_p"))
    recent = RecentCodes(root.get("ras_window_size", Count), *again)
    fast = {name: f"fast_{key}" for name, key in dual_ar.STACK.items()}
    fast |= {"num_layers": "n_fast_layer", "head_dim": "fast_head_dim", "norm_eps": "fast_norm_eps"}
    config = root.fill(
        DualARConfig,
        talker=root.fill(TransformerConfig, dual_ar.STACK, has_qkv_bias=True, **KIND),
        predictor=root.fill(
            TransformerConfig, fast, max_positions=num_codebooks, has_qkv_bias=False, **KIND
        ),
        num_codebooks=num_codebooks,
        text_vocab_size=vocab_size,
        codebook_size=codebook_size,
        semantic_start=root.token_id("semantic_begin_id", vocab_size),
        end=root.token_id("eos_token_id", vocab_size),
        names=NAMES,
        sampling=read_sampling(folder),
        recent=recent,
        divides_sum=False,
        num_rest_codes=codebook_size,  # drawn as the official code does; the codec clamps
    )
    dual_ar.check_last(root, "semantic_end_id", config)
    return config


def codec_of(folder: Path) -> CodecConfig:
    """Return the sizes of a folder's pickled codec; later revisions of `config.json` have them."""
    codec = released_codec()
    Section.from_file(folder / "config.json").expect(
        codec_sample_rate=codec.sample_rate_hz,
        codec_frame_size=codec.samples_per_frame,
        codec_post_n_layer=codec.frames.num_layers,
        codec_post_n_head=codec.frames.num_heads,
        codec_post_n_local_heads=codec.frames.num_kv_heads,
        codec_post_intermediate_size=codec.frames.mlp_width,
    )
    return codec


def read_sampling(folder: Path) -> Sampling:
    """Return the defaults in `generation_config.json` of all codebooks, or the released ones."""
    path = folder / "generation_config.json"
    section = Section.from_file(path) if path.exists() else Section({}, str(path))
    given: dict[str, Any] = {
        name: section.setting(name, SETTINGS[name])
        for name in ("temperature", "top_k", "top_p")
        if name in section.values
    }
    if "do_sample" in section.values:
        given["greedy"] = not section.get("do_sample", bool)
    return replace(SAMPLING, **given, **{f"{SUBTALKER}{n}": value for n, value in given.items()})


def clean(text: str, what: str) -> str:
    """Clean a text as the official code does, because the model's speech breaks down at line
    breaks: control characters are removed, and so are line breaks between two ideographs or
    syllables; other white space becomes one space. Raises RequestError for control tokens but
    `<|speaker:N|>`.
    """
    advice = "of these only <|speaker:N|> may be in it"
    checked = check_control(text, what, re.compile(SPEAKER_TAG), advice)
    joined = _BREAK.sub("", _CONTROL_CHARS.sub("", checked).strip())
    return " ".join(joined.split())


RULES = TextRules(
    text=lambda text: clean(text, "the text"),
    transcript=lambda text: clean(text, "the reference's transcript"),
)


FAMILY = dual_ar.family_of(
    "audio8_tts",
    read_config,
    lambda: (released_config(), released_codec()),
    RULES,
    PACE,
    convert=(dual_ar.CONVERT, codec_of),
)
