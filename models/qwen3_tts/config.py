"""Configuration of a Qwen3-TTS checkpoint, read from its own JSON files; nothing is guessed.

Facts: the released `config.json` and `generation_config.json` (Qwen team, Apache-2.0). The
configuration classes of the official package carry defaults that differ from every released
checkpoint, so a missing key is an error here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.checkpoint.section import MAX_POSITIONS, Section
from models.decoder.config import FamilyConfig, TransformerConfig
from models.pace import LONGEST_CHARS, Pace
from models.qwen3_tts.transformer_config import POSITIONS, SIZES, read_rope_theta
from models.sampling import SETTINGS, Sampling

PACE = Pace.of_people(12.5)  # no released weight was at hand to measure
MODEL_TYPES = ("custom_voice", "voice_design", "base")
SIZE_WITHOUT_INSTRUCT = "0b6"  # the official wrapper drops instructions for this size
SUPPRESSED_TAIL = 1024  # the codec vocabulary's last ids are control ids, speakers and languages
# CustomVoice checkpoints, and Base ones with a suffix: size, width, MLP width
RELEASED = {"qwen3-tts-0.6b": ("0b6", 1024, 3072), "qwen3-tts-1.7b": ("1b7", 2048, 6144)}
BASE_SUFFIX = "-base"
# Of the ids in `CodecIds` and `TextIds`, in their order.
CODEC_KEYS = (
    *("codec_pad_id", "codec_bos_id", "codec_eos_token_id", "codec_think_id", "codec_nothink_id"),
    *("codec_think_bos_id", "codec_think_eos_id"),
)
TEXT_KEYS = "tts_pad_token_id", "tts_bos_token_id", "tts_eos_token_id"


@dataclass(frozen=True)
class CodecIds:
    """Ids of the talker's codec vocabulary that steer generation."""

    pad: int
    bos: int
    eos: int
    think: int
    no_think: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True)
class TextIds:
    """Text embeddings that stand in for control tokens."""

    pad: int
    bos: int
    eos: int


@dataclass(frozen=True)
class Qwen3TTSConfig(FamilyConfig):
    """Everything `config.json` and `generation_config.json` say that inference needs."""

    model_type: str  # custom_voice, voice_design, base
    model_size: str  # 0b6, 1b7, or another name
    vocab_size: int  # codec vocabulary of the talker: codes, then control ids and speakers
    text_vocab_size: int
    text_width: int
    predictor_vocab_size: int
    codec: CodecIds
    text: TextIds
    languages: dict[str, int]  # lower-case name -> codec id, dialects included
    speakers: dict[str, int]  # lower-case name -> codec id
    dialects: dict[str, str]  # speaker -> language entry that replaces chinese and auto
    sampling: Sampling
    max_new_tokens: int
    learnt_instruct: bool | None = None  # what `takes_instruct` of config.json says, where it does
    normalizes: bool = False  # what a key of that name in config.json says, one of ours as well
    pace: Pace = PACE

    @property
    def max_frames(self) -> int:
        """Frames the checkpoint's cap allows: the last sampled first code is never expanded."""
        return self.max_new_tokens - 1

    @property
    def takes_instruct(self) -> bool:
        """Whether an instruction has any effect: what the checkpoint says of itself, else the
        rule of the released ones.
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
        """Languages a request may name: `auto` first, dialects left out as the official package
        does.
        """
        return ("auto", *(name for name in self.languages if "dialect" not in name))

    @classmethod
    def released(cls, name: str) -> Qwen3TTSConfig:
        """A released size, the CustomVoice ones with one made-up speaker."""
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
        """Read both files of a checkpoint folder. Raises CheckpointError naming file and key."""
        root = Section.from_file(folder / "config.json")
        model_type = root.read("tts_model_type", str)
        if model_type not in MODEL_TYPES:
            raise root.wrong(
                f"tts_model_type {model_type!r:.60} is not one of {', '.join(MODEL_TYPES)}"
            )
        talker = root.section("talker_config")
        predictor = talker.section("code_predictor_config")
        num_codebooks = talker.count("num_codebooks", "num_code_groups", least=2)
        if predictor.integer("num_code_groups") != num_codebooks:
            raise predictor.wrong("num_code_groups differs from the talker's")
        vocab_size, text_vocab_size = talker.count("vocab_size"), talker.count("text_vocab_size")
        languages = _id_map(talker, "codec_language_id", vocab_size)
        sampling, max_new_tokens = read_generation(folder / "generation_config.json")
        return cls(
            model_type=model_type,
            model_size=root.name("tts_model_size"),
            talker=read_transformer(talker),
            vocab_size=vocab_size,
            text_vocab_size=text_vocab_size,
            text_width=talker.count("text_width", "text_hidden_size"),
            num_codebooks=num_codebooks,
            predictor=read_transformer(predictor),
            predictor_vocab_size=predictor.count("vocab_size"),
            codec=CodecIds(*(talker.token_id(key, vocab_size) for key in CODEC_KEYS)),
            text=TextIds(*(root.token_id(key, text_vocab_size) for key in TEXT_KEYS)),
            languages=languages,
            speakers=_id_map(talker, "spk_id", vocab_size),
            dialects=_dialects(talker, languages),
            sampling=sampling,
            max_new_tokens=max_new_tokens,
            learnt_instruct=(
                root.read("takes_instruct", bool) if "takes_instruct" in root.values else None
            ),
            normalizes="normalizes" in root.values and root.read("normalizes", bool),
            pace=_pace(root),
        )


def _pace(root: Section) -> Pace:
    """What the checkpoint says of its own speech (`least_frames_per_letter`, `longest_chars`: keys
    of this project's), else the family's figures.
    """
    pace = PACE
    if "least_frames_per_letter" in root.values:  # measured, and of no other script
        pace = Pace(letter=root.number("least_frames_per_letter"), longest_chars=LONGEST_CHARS)
    if "longest_chars" in root.values:
        pace = replace(pace, longest_chars=root.integer("longest_chars", least=1))
    return pace


def read_transformer(section: Section) -> TransformerConfig:
    """Read the keys both the talker and the code predictor use."""
    section.expect(hidden_act="silu", attention_bias=False)
    section.expect(use_sliding_window=False, tie_word_embeddings=False)
    # Three equal position rows make the talker's interleaved multimodal RoPE plain one-dimensional
    # RoPE.
    theta = read_rope_theta(section)
    return TransformerConfig.read(section, SIZES | POSITIONS, "rms_norm_eps", rope_theta=theta)


def read_generation(path: Path) -> tuple[Sampling, int]:
    """The checkpoint's sampling defaults and `max_new_tokens`.

    Keys that are left out take the official package's own last defaults (those of `Sampling`; 2,048
    tokens).
    """
    if not path.exists():
        return Sampling(), 2048
    section = Section.from_file(path)
    given: dict[str, Any] = {
        name: section.setting(name, setting)
        for name, setting in SETTINGS.items()
        if setting.limits is not None and name in section.values
    }
    for name, key in (("greedy", "do_sample"), ("subtalker_greedy", "subtalker_dosample")):
        if key in section.values:
            given[name] = not section.read(key, bool)
    most = 2048
    if "max_new_tokens" in section.values:
        most = section.integer("max_new_tokens", least=2, most=MAX_POSITIONS)
    return Sampling(**given), most


def _id_map(section: Section, key: str, vocab_size: int) -> dict[str, int]:
    """Lower-case name -> codec id; an absent or null map is empty."""
    entries = section.section_or_empty(key)
    return {name.lower(): entries.token_id(name, vocab_size) for name in entries.names()}


def _dialects(section: Section, languages: dict[str, int]) -> dict[str, str]:
    """Speaker -> language entry; speakers without a dialect say false."""
    entries = section.section_or_empty("spk_is_dialect")
    dialects = {}
    for name in entries.values:
        dialect = entries.read(name, (str, bool))
        if dialect and dialect not in languages:
            raise entries.wrong(f"{name!r:.60} speaks {dialect!r:.60}, not a language here")
        if dialect:
            dialects[name.lower()] = dialect
    return dialects
