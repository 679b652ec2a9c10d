"""Configuration of a Fish Speech S2 checkpoint, read from its own `config.json`, without guesses.

Facts: the released `fishaudio/s2-pro` (Fish Audio), whose file speaks of a `text_config` (the
talker) and an `audio_decoder_config` (the code predictor) in Fish Speech's own names. Not in the
file but forced by the official code for this model type: embeddings of frames are scaled, the code
predictor is given the normalised hidden state, and RoPE tables are rounded to bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.checkpoint.section import Section
from models.decoder.config import FamilyConfig, TransformerConfig
from models.sampling import Sampling

SIZES = {  # of a transformer: our name -> theirs
    "width": "dim",
    "mlp_width": "intermediate_size",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "num_kv_heads": "n_local_heads",
    "head_dim": "head_dim",
    "max_positions": "max_seq_len",
}
ROPE = {"rounds_rope": True}  # finer tables than in training end the speech early
# The official command line's. Both codebook kinds share one setting there.
SAMPLING = Sampling(
    temperature=1.0,
    top_k=30,
    top_p=0.9,
    repetition_penalty=1.0,
    subtalker_temperature=1.0,
    subtalker_top_k=30,
    subtalker_top_p=0.9,
)


@dataclass(frozen=True)
class FishSpeechConfig(FamilyConfig):
    """Everything `config.json` says that inference needs."""

    text_vocab_size: int
    codebook_size: int  # of the first codebook; rows of each table and of the predictor's head
    semantic_start: int  # text id of first code 0; the others follow
    end: int  # text id that ends speech

    @property
    def eos(self) -> int:
        """Where end of speech stands among the talker's logits: behind the first codes."""
        return self.codebook_size

    @property
    def max_frames(self) -> int:
        """Frames a row may have where nobody says otherwise; the prompt wants positions too."""
        return self.talker.max_positions // 2

    @property
    def size(self) -> str:
        """Billions (or millions) of weights, the embeddings included, as in 4.6b."""
        tables = (
            self.text_vocab_size + self.num_codebooks * self.codebook_size
        ) * self.talker.width
        tables += 2 * self.codebook_size * self.predictor.width
        total = self.talker.num_weights + self.predictor.num_weights + tables
        return f"{total / 1e9:.1f}b" if total >= 1e8 else f"{total / 1e6:.1f}m"

    @classmethod
    def released(cls, num_layers: int = 36, predictor_layers: int = 4) -> FishSpeechConfig:
        """The configuration of S2 Pro, with fewer layers where a test wants less."""
        layer = 32, 8, 128, 1e6, 1e-6
        return cls(
            talker=TransformerConfig(2560, 9728, num_layers, *layer, 32768, **ROPE),
            text_vocab_size=155776,
            predictor=TransformerConfig(2560, 9728, predictor_layers, *layer, 11, False, **ROPE),
            num_codebooks=10,
            codebook_size=4096,
            semantic_start=151678,
            end=151645,
        )

    @classmethod
    def from_folder(cls, folder: Path) -> FishSpeechConfig:
        """Read a checkpoint folder's file. Raises CheckpointError naming file and key."""
        root = Section.from_file(folder / "config.json")
        talker, predictor = root.section("text_config"), root.section("audio_decoder_config")
        talker.expect(tie_word_embeddings=True)
        predictor.expect(tie_word_embeddings=False)
        vocab_size = talker.count("vocab_size")
        config = cls(
            talker=read_transformer(talker, has_qk_norm=True),
            text_vocab_size=vocab_size,
            predictor=read_transformer(predictor, has_qk_norm=False),
            num_codebooks=predictor.count("num_codebooks", least=2),
            codebook_size=predictor.count("vocab_size"),
            semantic_start=root.token_id("semantic_start_token_id", vocab_size),
            end=root.token_id("eos_token_id", vocab_size),
        )
        last = root.token_id("semantic_end_token_id", vocab_size)
        if last != config.semantic_start + config.codebook_size - 1:
            raise root.wrong(
                f"semantic ids {config.semantic_start}..{last} are not as many as the "
                f"{config.codebook_size} first codes"
            )
        if config.semantic_start <= config.end <= last:
            raise root.wrong(f"eos_token_id {config.end} is a semantic id")
        if config.talker.width != config.predictor.width:
            raise predictor.wrong(
                f"dim {config.predictor.width} differs from text_config's {config.talker.width}; a "
                "projection between them is not supported"
            )
        if predictor.integer("text_dim") != config.talker.width:
            raise predictor.wrong("text_dim is not text_config's dim")
        if config.predictor.max_positions < config.num_codebooks:
            raise predictor.wrong("max_seq_len is below num_codebooks")
        return config


def read_transformer(section: Section, has_qk_norm: bool) -> TransformerConfig:
    """Sizes of one of the two stacks, which have the same keys."""
    section.expect(attention_qk_norm=has_qk_norm, attention_qkv_bias=False)
    section.expect(attention_o_bias=False, use_moe=False)
    others = {"rope_theta": section.number("rope_base", least=1), "has_qk_norm": has_qk_norm}
    return TransformerConfig.read(section, SIZES, "norm_eps", **others, **ROPE)
