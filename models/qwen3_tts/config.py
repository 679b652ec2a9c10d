"""Configuration of a Qwen3-TTS checkpoint, read from its own JSON files; nothing is guessed.

`config.json` and `generation_config.json` describe talker, code predictor and the speaker encoder
of Base checkpoints; `speech_tokenizer/config.json` describes vocoder and speech encoder. The
configuration classes of the official package have defaults that differ from every released
checkpoint, so a missing key is an error here.

Facts: the released files (Qwen team, Apache-2.0), and how transformers 5 saves them again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from models.checkpoint.config import (
    MAX_KERNEL,
    MAX_POSITIONS,
    MAX_SIZE,
    Codebooks,
    Factors,
    Kernel,
    ManyCodebooks,
    Number,
    RateHz,
    Section,
    Size,
    Sizes,
    Theta,
    check_frame,
)
from models.decoder.config import FamilyConfig, TransformerConfig
from models.pace import LONGEST_CHARS, Pace
from models.sampling import SETTINGS, Sampling
from models.vocoder.sizes import DecoderSizes

PACE = Pace.of_people(12.5)  # no released weight was available to measure
SIZE_WITHOUT_INSTRUCT = "0b6"  # the official wrapper drops instructions for this size
SUPPRESSED_TAIL = 1024  # the codec vocabulary's last ids are control ids, speakers and languages
# CustomVoice checkpoints, and Base ones with a suffix: size, width, MLP width
RELEASED = {"qwen3-tts-0.6b": ("0b6", 1024, 3072), "qwen3-tts-1.7b": ("1b7", 2048, 6144)}
BASE_SUFFIX = "-base"
CODEC_FOLDER = "speech_tokenizer"
STACK = {  # Hugging Face's names of a transformer's sizes
    "width": "hidden_size",
    "mlp_width": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "max_positions": "max_position_embeddings",
    "norm_eps": "rms_norm_eps",
}
# Of the ids in `CodecIds` and `TextIds`, in their order.
CODEC_KEYS = (
    *("codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_think_id", "codec_nothink_id"),
    *("codec_think_bos_id", "codec_think_eos_id"),
)
TEXT_KEYS = "tts_pad_token_id", "tts_bos_token_id", "tts_eos_token_id"
HALVING = 2  # stride of the speech encoder's last convolution, fixed in the Mimi code
# The speaker encoder's spectrogram, fixed in the official code; its config only repeats the rate.
SAMPLE_RATE_HZ = 24000
FFT, HOP = 1024, 256  # samples; the window is as long as the transform


class CodecIds(NamedTuple):
    """Ids of the talker's codec vocabulary that control generation."""

    pad: int
    bos: int
    eos: int
    think: int
    no_think: int
    think_bos: int
    think_eos: int


class TextIds(NamedTuple):
    """Text embeddings that replace control tokens."""

    pad: int
    bos: int
    eos: int


@dataclass(frozen=True)
class Qwen3TTSConfig(FamilyConfig):
    """Everything in `config.json` and `generation_config.json` that inference needs."""

    model_type: str  # custom_voice, voice_design or base
    model_size: str  # 0b6, 1b7, or another name
    vocab_size: Size  # codec vocabulary of the talker: codes, then control ids and speakers
    text_vocab_size: Size
    text_width: Size
    predictor_vocab_size: Size
    codec: CodecIds
    text: TextIds
    languages: dict[str, int]  # lower-case name -> codec id, dialects included
    speakers: dict[str, int]  # lower-case name -> codec id
    dialects: dict[str, str]  # speaker -> language entry that replaces chinese and auto
    sampling: Sampling
    max_new_tokens: int
    learnt_instruct: bool | None = None  # `takes_instruct` of config.json; None: not there
    normalizes: bool = False  # a key of this project's
    pace: Pace = PACE

    @property
    def eos(self) -> int:
        """The id of end of speech among the talker's logits."""
        return self.codec.eos

    @property
    def max_frames(self) -> int:
        """The checkpoint's limit of frames: the last sampled first code is never expanded."""
        return self.max_new_tokens - 1

    @property
    def takes_instruct(self) -> bool:
        """Whether an instruction has any effect: by the checkpoint's key, else by the rule of
        the released ones.
        """
        if self.learnt_instruct is not None:
            return self.learnt_instruct
        if self.model_type == "voice_design":
            return True
        return self.model_type == "custom_voice" and self.model_size != SIZE_WITHOUT_INSTRUCT

    @property
    def default_layout(self) -> str:
        """The text layout of the official package's default for this model type."""
        return "streaming" if self.model_type == "base" else "non_streaming"

    @property
    def language_names(self) -> tuple[str, ...]:
        """Languages of requests: `auto` first, without dialects, as in the official package."""
        return ("auto", *(name for name in self.languages if "dialect" not in name))

    @classmethod
    def released(cls, name: str) -> Qwen3TTSConfig:
        """A released size; the CustomVoice ones have one made-up speaker."""
        is_base = name.endswith(BASE_SUFFIX)
        size, width, mlp_width = RELEASED[name.removesuffix(BASE_SUFFIX)]
        return cls(
            model_type="base" if is_base else "custom_voice",
            model_size=size,
            talker=TransformerConfig(width, mlp_width, 28, 16, 8, 128, 1e6, 1e-6, 32768),
            vocab_size=3072,
            text_vocab_size=151936,
            text_width=2048,
            num_codebooks=16,
            predictor=TransformerConfig(1024, 3072, 5, 16, 8, 128, 1e6, 1e-6, 32768),
            predictor_vocab_size=2048,
            codec=CodecIds(2148, 2149, 2150, 2154, 2155, 2156, 2157),
            text=TextIds(151671, 151672, 151673),
            languages={"english": 2050, "chinese": 2055},
            speakers={} if is_base else {"synthetic": 3066},
            dialects={},
            sampling=Sampling(),
            max_new_tokens=8192,
        )

    @classmethod
    def from_folder(cls, folder: Path) -> Qwen3TTSConfig:
        """Read both files of a checkpoint folder. Raises CheckpointError."""
        root = Section.from_file(folder / "config.json")
        talker = root.section("talker_config")
        predictor = talker.section("code_predictor_config")
        if predictor.get("num_code_groups", int) != talker.get("num_code_groups", int):
            raise predictor.wrong("num_code_groups differs from the talker's")
        vocab_size, text_vocab_size = (
            int(talker.get(key, Size)) for key in ("vocab_size", "text_vocab_size")
        )
        languages = _id_map(talker, "codec_language_id", vocab_size)
        sampling, max_new_tokens = read_generation(folder / "generation_config.json")
        return talker.fill(
            cls,
            {"text_width": "text_hidden_size", "num_codebooks": "num_code_groups"},
            model_type=root.get("tts_model_type", Literal["custom_voice", "voice_design", "base"]),
            model_size=root.shown(root.get("tts_model_size", str), "tts_model_size"),
            talker=read_transformer(talker),
            predictor=read_transformer(predictor),
            predictor_vocab_size=predictor.get("vocab_size", Size),
            codec=CodecIds(*(talker.token_id(key, vocab_size) for key in CODEC_KEYS)),
            text=TextIds(*(root.token_id(key, text_vocab_size) for key in TEXT_KEYS)),
            languages=languages,
            speakers=_id_map(talker, "spk_id", vocab_size),
            dialects=_dialects(talker, languages),
            sampling=sampling,
            max_new_tokens=max_new_tokens,
            normalizes="normalizes" in root.values and root.get("normalizes", bool),
            learnt_instruct=(
                root.get("takes_instruct", bool) if "takes_instruct" in root.values else None
            ),
            pace=_pace(root),
        )


def _pace(root: Section) -> Pace:
    """Return the checkpoint's own figures (`least_frames_per_letter`, `longest_chars`: keys of
    this project), else the family's.
    """
    pace = PACE
    if "least_frames_per_letter" in root.values:  # measured, and of no other script
        floor = root.get("least_frames_per_letter", Number)
        pace = Pace(letter=floor, longest_chars=LONGEST_CHARS)
    if "longest_chars" in root.values:
        pace = replace(pace, longest_chars=root.get("longest_chars", Size))
    return pace


def read_transformer(section: Section) -> TransformerConfig:
    """Read the keys that talker and code predictor both have. With three equal position rows the
    talker's interleaved multimodal RoPE is plain one-dimensional RoPE.
    """
    section.expect(hidden_act="silu", attention_bias=False)
    section.expect(use_sliding_window=False, tie_word_embeddings=False)
    return read_stack(section, STACK, window=0, has_qk_norm=True)


def read_stack(section: Section, names: dict[str, str], **others: Any) -> TransformerConfig:
    """Read a transformer in Hugging Face's names, without biases."""
    section.expect(attention_bias=False)
    theta = read_rope_theta(section)
    others |= {"rounds_rope": False, "has_qkv_bias": False}
    return section.fill(TransformerConfig, names, rope_theta=theta, **others)


def read_rope_theta(section: Section) -> float:
    """Return the base of RoPE: `rope_theta`, which transformers 5 moves into `rope_parameters`.
    Raises CheckpointError: the key is missing or wrong, two keys disagree, or RoPE is scaled.
    """
    for key in ("rope_scaling", "rope_parameters"):
        settings = section.section_or_empty(key).values
        kind = settings.get("rope_type", settings.get("type", "default"))
        if kind != "default":
            raise section.wrong(f"{key} {kind!r:.60} is not supported")
    moved = section.section_or_empty("rope_parameters")
    if not moved.has("rope_theta"):
        return float(section.get("rope_theta", Theta))
    theta = float(moved.get("rope_theta", Theta))
    if section.has("rope_theta") and (own := section.get("rope_theta", Theta)) != theta:
        raise section.wrong(f"'rope_theta' is {own:g}, but rope_parameters has {theta:g}")
    return theta


def read_generation(path: Path) -> tuple[Sampling, int]:
    """Return the checkpoint's sampling defaults and `max_new_tokens`. Absent keys get the
    official package's own last defaults (those of `Sampling`; 2,048 tokens).
    """
    section = Section.from_file(path) if path.exists() else Section({}, str(path))
    given: dict[str, Any] = {
        name: section.setting(name, setting)
        for name, setting in SETTINGS.items()
        if setting.limits is not None and name in section.values
    }
    for name, key in (("greedy", "do_sample"), ("subtalker_greedy", "subtalker_dosample")):
        if key in section.values:
            given[name] = not section.get(key, bool)
    tokens = Annotated[int, Meta(ge=2, le=MAX_POSITIONS)]
    most = section.get("max_new_tokens", tokens) if "max_new_tokens" in section.values else 2048
    return Sampling(**given), most


def _id_map(section: Section, key: str, vocab_size: int) -> dict[str, int]:
    """Return lower-case name -> codec id; an absent or null map is empty."""
    entries = section.section_or_empty(key)
    return {
        entries.shown(name, "a name").lower(): entries.token_id(name, vocab_size)
        for name in entries.values
    }


def _dialects(section: Section, languages: dict[str, int]) -> dict[str, str]:
    """Return speaker -> language entry; speakers without a dialect have false."""
    entries = section.section_or_empty("spk_is_dialect")
    dialects = {}
    for name in entries.values:
        dialect = entries.get(name, str | bool)
        if dialect and dialect not in languages:
            raise entries.wrong(f"{name!r:.60} speaks {dialect!r:.60}, not a language here")
        if dialect:
            dialects[name.lower()] = dialect
    return dialects


@dataclass(frozen=True)
class VocoderConfig(DecoderSizes):
    codebook_dim: Size  # width after a split's output projection; code vectors have half of it

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codebook_dim % 2:
            raise ValueError(f"codebook_dim = {self.codebook_dim} cannot be divided by 2")

    @classmethod
    def released(cls) -> VocoderConfig:
        frames = TransformerConfig(512, 1024, 8, 16, 16, 64, 1e4, 1e-5, 8000, False, 72)
        return cls(24000, 16, 2048, 2048, 1024, frames, (2, 2), 1536, (8, 5, 4, 3), 512)

    @classmethod
    def from_folder(cls, folder: Path) -> VocoderConfig:
        """Read `config.json` of a speech-tokenizer folder. Raises CheckpointError."""
        root = Section.from_file(folder / "config.json")
        section = root.section("decoder_config")
        section.expect(hidden_act="silu")
        config = section.fill(
            cls,
            {
                "num_codebooks": "num_quantizers",
                "semantic_codes": "codebook_size",
                "residual_codes": "codebook_size",
            },
            sample_rate_hz=root.get("output_sample_rate", RateHz),
            frames=read_stack(
                section, STACK, has_qk_norm=False, window=section.get("sliding_window", Size)
            ),
        )
        stated = root.get("decode_upsample_rate", int)
        if stated != config.samples_per_frame:
            raise root.wrong(
                f"decode_upsample_rate is {stated!r:.60}, but upsample_rates and upsampling_ratios "
                f"multiply to {config.samples_per_frame}"
            )
        return config


@dataclass(frozen=True)
class SpeechEncoderConfig:
    """Sizes of the speech tokenizer's encoder, a Mimi encoder."""

    num_codebooks: ManyCodebooks  # in use; the first is semantic, the others acoustic
    num_stored_codebooks: Codebooks  # in the checkpoint
    codebook_size: Size
    codebook_dim: Size
    steps: TransformerConfig  # two steps per frame
    num_filters: Size  # channels of the first convolution; every stage doubles them
    kernel: Kernel
    residual_kernel: Kernel
    last_kernel: Kernel
    compress: Size  # a residual block's inner channels are this many times fewer
    strides: Factors  # of the stages, in order
    halving_kernel: Kernel
    sample_rate_hz: RateHz

    def __post_init__(self) -> None:
        check_frame(self.samples_per_frame)
        if self.num_filters << len(self.strides) > MAX_SIZE:
            raise ValueError(
                f"num_filters = {self.num_filters} cannot be doubled {len(self.strides)} times"
            )
        if self.num_filters % self.compress:
            raise ValueError(
                f"num_filters = {self.num_filters} is not a multiple of compress = {self.compress}"
            )
        if self.num_codebooks > self.num_stored_codebooks:
            raise ValueError(
                f"encoder_valid_num_quantizers is {self.num_codebooks}, the encoder has "
                f"{self.num_stored_codebooks}"
            )

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.strides) * HALVING

    def num_frames(self, num_samples: int) -> int:
        """Frames of a clip; the last one may be padded with silence."""
        return -(-num_samples // self.samples_per_frame)

    @classmethod
    def released(cls) -> SpeechEncoderConfig:
        steps = TransformerConfig(512, 2048, 8, 8, 8, 64, 1e4, 1e-5, 0, has_qk_norm=False)
        return cls(16, 32, 2048, 256, steps, 64, 7, 3, 3, 2, (4, 5, 6, 8), 4, 24000)

    @classmethod
    def from_folder(cls, folder: Path) -> SpeechEncoderConfig:
        """Read `config.json` of a speech-tokenizer folder. Raises CheckpointError."""
        root = Section.from_file(folder / "config.json")
        section = root.section("encoder_config")
        section.expect(audio_channels=1, use_causal_conv=True, pad_mode="constant")
        section.expect(use_conv_shortcut=False, num_residual_layers=1, num_semantic_quantizers=1)
        section.expect(hidden_act="gelu")
        ratios = section.get("upsampling_ratios", Factors)
        rate = section.get("sampling_rate", RateHz)
        tables = {"max_positions": 0, "window": 0}  # RoPE tables are made for each pass
        config = section.fill(
            cls,
            {
                "num_stored_codebooks": "num_quantizers",
                "kernel": "kernel_size",
                "residual_kernel": "residual_kernel_size",
                "last_kernel": "last_kernel_size",
            },
            num_codebooks=root.get("encoder_valid_num_quantizers", ManyCodebooks),
            steps=read_stack(
                section, STACK | {"norm_eps": "norm_eps"}, has_qk_norm=False, **tables
            ),
            strides=ratios[::-1],  # the config names them in the decoder's order
            halving_kernel=_halving_kernel(section, rate, math.prod(ratios)),
            sample_rate_hz=rate,
        )
        for where, key, expected in (
            (section, "vector_quantization_hidden_dimension", config.codebook_dim),
            (root, "encode_downsample_rate", config.samples_per_frame),
            (root, "input_sample_rate", config.sample_rate_hz),
        ):
            if (found := where.get(key, int)) != expected:
                raise where.wrong(f"{key} is {found!r:.60}, but the encoder's is {expected}")
        return config


def _halving_kernel(section: Section, rate_hz: int, convolved: int) -> int:
    """Return the kernel of the last convolution, after `convolved` samples became one step. It
    follows from the frame rate, which transformers' MimiConfig saves as `_frame_rate`, and as
    null or not at all if the strides imply it.
    """
    frames_hz, said = rate_hz / (convolved * HALVING), "the strides"
    for key in ("frame_rate", "_frame_rate"):
        if section.has(key):
            frames_hz, said = section.get(key, Number), key
    kernel = 2 * int(math.ceil(rate_hz / convolved) / frames_hz)
    if not HALVING <= kernel <= MAX_KERNEL:
        raise section.wrong(f"by {said} the downsampling convolution has {kernel:.3g} taps")
    return kernel


@dataclass(frozen=True)
class SpeakerConfig:
    """Sizes of the speaker encoder. Absent keys of a released config have official defaults."""

    width: Size  # of the embedding
    num_mels: Size = 128
    # The first convolution, one per block, and their concatenation.
    channels: Sizes = (512, 512, 512, 512, 1536)
    kernels: Factors = (5, 3, 3, 3, 1)
    dilations: Factors = (1, 2, 3, 4, 1)
    attention_width: Size = 128
    scale: ManyCodebooks = 8  # parts a block's channels are split into
    squeeze_width: Size = 128

    def __post_init__(self) -> None:
        channels, blocks = self.channels, self.channels[1:-1]
        if {len(self.kernels), len(self.dilations)} != {len(channels)} or len(channels) < 3:
            raise ValueError(
                "enc_channels, enc_kernel_sizes and enc_dilations must be equally long lists of "
                "at least 3"
            )
        if any(width != channels[0] for width in blocks) or sum(blocks) != channels[-1]:
            raise ValueError(
                f"enc_channels {list(channels)}: blocks must be as wide as their input, and the "
                "last number their sum"
            )
        if channels[0] % self.scale:
            raise ValueError(f"{channels[0]} channels cannot be split into {self.scale} parts")
        if any(kernel % 2 == 0 for kernel in self.kernels):
            raise ValueError("enc_kernel_sizes must be odd")

    @property
    def shortest_samples(self) -> int:
        """The shortest clip that can be mirrored at its ends as far as every layer needs."""
        reach = max(d * (k - 1) // 2 for k, d in zip(self.kernels, self.dilations, strict=True))
        return max((FFT - HOP) // 2 + 1, (reach + 1) * HOP)

    @classmethod
    def from_folder(cls, folder: Path) -> SpeakerConfig:
        """Read `speaker_encoder_config` of config.json. Raises CheckpointError."""
        section = Section.from_file(folder / "config.json").section("speaker_encoder_config")
        if (rate := section.get("sample_rate", int)) != SAMPLE_RATE_HZ:
            raise section.wrong(
                f"sample_rate is {rate!r:.60}; the speaker encoder needs {SAMPLE_RATE_HZ} Hz"
            )
        names = {
            "width": "enc_dim",
            "num_mels": "mel_dim",
            "channels": "enc_channels",
            "kernels": "enc_kernel_sizes",
            "dilations": "enc_dilations",
            "attention_width": "enc_attention_channels",
            "scale": "enc_res2net_scale",
            "squeeze_width": "enc_se_channels",
        }
        return section.fill(cls, names)
