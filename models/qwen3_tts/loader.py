"""From a checkpoint folder to a `Qwen3TTS`, and to what it offers without reading weights."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from models.base import ModelInfo
from models.checkpoint.files import (
    META,
    CheckpointError,
    identity,
    load_strictly,
    read_tensors,
    weight_files,
)
from models.checkpoint.section import Section
from models.decoder.decoder import rename_layers
from models.device.graphs import EAGER, cuda_capturers
from models.qwen3_tts.code_predictor import CodePredictor
from models.qwen3_tts.codec.speech_encoder import SpeechEncoder
from models.qwen3_tts.codec.speech_encoder_config import SpeechEncoderConfig
from models.qwen3_tts.codec.vocoder import Vocoder
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.qwen3_tts.codec.vocoder_weights import check_tensors
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.model import SUPPRESSED_TAIL, Qwen3TTS
from models.qwen3_tts.prompt import (
    ROLE_TOKENS,
    TAIL_TOKENS,
    TEMPLATE_HEAD,
    TEMPLATE_TAIL,
    Tokenizer,
)
from models.qwen3_tts.speaker import SpeakerEncoder
from models.qwen3_tts.speaker_config import SAMPLE_RATE_HZ, SpeakerConfig
from models.qwen3_tts.talker import Talker
from models.qwen3_tts.voice_encoder import VoiceEncoder

TOKENIZER_FOLDER = "speech_tokenizer"
RENAMES = {
    "talker.model.text_embedding.weight": "talker.text_embedding.weight",
    "talker.text_projection.linear_fc1.weight": "talker.text_fc1.weight",
    "talker.text_projection.linear_fc1.bias": "talker.text_fc1.bias",
    "talker.text_projection.linear_fc2.weight": "talker.text_fc2.weight",
    "talker.text_projection.linear_fc2.bias": "talker.text_fc2.bias",
    "talker.model.codec_embedding.weight": "talker.codec_embedding.weight",
    "talker.model.norm.weight": "talker.decoder.norm.weight",
    "talker.code_predictor.model.norm.weight": "predictor.decoder.norm.weight",
    "talker.code_predictor.small_to_mtp_projection.weight": "predictor.projection.weight",
    "talker.code_predictor.small_to_mtp_projection.bias": "predictor.projection.bias",
}
STACKED = {
    "talker.code_predictor.model.codec_embedding": "predictor.embeddings.weight",
    "talker.code_predictor.lm_head": "predictor.heads.weight",
}


def describe(folder: Path) -> ModelInfo:
    """What the checkpoint in a folder offers.

    Raises:
        CheckpointError: a configuration is wrong, a weight file is not whole, or the vocoder's
            names or shapes do not fit. Whether the others' do is seen when they are loaded.
    """
    config = Qwen3TTSConfig.from_folder(folder)
    vocoder = VocoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    parts = [*weight_files(folder), *weight_files(folder / TOKENIZER_FOLDER)]
    read_tensors(folder, META)  # a download cut short ends here
    speech = read_tensors(folder / TOKENIZER_FOLDER, META)
    can_clone = read_encoder_configs(folder, config, vocoder) is not None
    _split(speech, "encoder.")
    check_tensors(vocoder, speech)
    return model_info(config, vocoder, identity(folder, parts), can_clone)


def model_info(
    config: Qwen3TTSConfig, vocoder: VocoderConfig, identity: str, can_clone: bool = False
) -> ModelInfo:
    """The family-independent description of a configuration."""
    if vocoder.num_codebooks != config.num_codebooks:
        raise CheckpointError(
            f"the talker makes {config.num_codebooks} codebooks, the vocoder takes "
            f"{vocoder.num_codebooks}"
        )
    num_first = config.vocab_size - SUPPRESSED_TAIL
    largest = max(num_first, config.predictor_vocab_size)
    if num_first < 1 or largest > vocoder.codebook_size:
        raise CheckpointError(
            f"the talker draws from {num_first} and {config.predictor_vocab_size} codes, "
            f"the vocoder's codebooks have {vocoder.codebook_size}"
        )
    is_base = config.model_type == "base"
    return ModelInfo(
        family="qwen3_tts",
        type=config.model_type,
        size=config.model_size,
        voices=tuple(config.speakers) if config.model_type == "custom_voice" else (),
        languages=config.language_names,
        takes_instruct=config.takes_instruct,
        can_clone=can_clone,
        num_codebooks=config.num_codebooks,
        sample_rate_hz=vocoder.sample_rate_hz,
        samples_per_frame=vocoder.samples_per_frame,
        max_frames=config.max_frames,
        max_positions=config.talker.max_positions,
        sampling=config.sampling,
        identity=identity,
        default_layout=config.default_layout,
        needs="its speech tokenizer has no encoder" if is_base and not can_clone else None,
    )


def read_encoder_configs(
    folder: Path, config: Qwen3TTSConfig, vocoder: VocoderConfig
) -> tuple[SpeakerConfig, SpeechEncoderConfig] | None:
    """Configurations of a Base checkpoint's two encoders.

    None where it is no Base checkpoint, or its speech tokenizer came without encoder weights.

    Raises:
        CheckpointError: a key is missing or wrong, or the parts do not fit together.
    """
    if config.model_type != "base":
        return None
    names = read_tensors(folder / TOKENIZER_FOLDER, META)
    if not any(name.startswith("encoder.") for name in names):
        return None
    speaker = SpeakerConfig.from_folder(folder)
    speech = SpeechEncoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    check_encoders(config, vocoder, speaker, speech)
    return speaker, speech


def check_encoders(
    config: Qwen3TTSConfig,
    vocoder: VocoderConfig,
    speaker: SpeakerConfig,
    speech: SpeechEncoderConfig,
) -> None:
    """Raise CheckpointError where the encoders' results do not fit the talker's prompt."""
    rates = {SAMPLE_RATE_HZ, speech.sample_rate_hz, vocoder.sample_rate_hz}
    for what, encoder, other in (
        ("embedding width", speaker.width, config.talker.width),
        ("number of codebooks", speech.num_codebooks, config.num_codebooks),
        ("codebook size", speech.codebook_size, vocoder.codebook_size),
        ("samples per frame", speech.samples_per_frame, vocoder.samples_per_frame),
        ("number of sample rates", len(rates), 1),
    ):
        if encoder != other:
            raise CheckpointError(f"the encoders' {what} is {encoder}, cloning needs {other}")


def load(folder: Path, device: torch.device, dtype: torch.dtype, use_graphs: bool) -> Qwen3TTS:
    """Load the weights of a folder onto a device. Raises CheckpointError."""
    info = describe(folder)
    config = Qwen3TTSConfig.from_folder(folder)
    vocoder_config = VocoderConfig.from_folder(folder / TOKENIZER_FOLDER)
    tokenize = load_tokenizer(folder, config.text_vocab_size)
    tensors = read_tensors(folder, device)
    speaker = _split(tensors, "speaker_encoder.") if config.model_type == "base" else {}
    talker, predictor = load_networks(config, tensors, dtype, f"{folder}: model")
    speech = read_tensors(folder / TOKENIZER_FOLDER, device)
    encoder = _split(speech, "encoder.")
    vocoder = Vocoder.from_state(vocoder_config, speech, device, dtype)
    voices = None
    if (configs := read_encoder_configs(folder, config, vocoder_config)) is not None:
        voices = VoiceEncoder(
            SpeakerEncoder.from_state(configs[0], speaker, dtype),
            SpeechEncoder.from_state(configs[1], encoder),
        )
    capturers = cuda_capturers(device) if use_graphs else EAGER
    return Qwen3TTS(config, info, tokenize, talker, predictor, vocoder, capturers, voices)


def _split(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Take the tensors of one part out."""
    return {name: tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}


def load_tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    """The checkpoint's byte-level BPE with the plain Qwen2 pre-tokenizer; special tokens are
    recognised.

    Raises:
        CheckpointError: it cannot be read, does not know the template's tokens, or has ids beyond
            vocab_size.
    """
    from transformers import Qwen2TokenizerFast

    is_pair = all((folder / name).is_file() for name in ("vocab.json", "merges.txt"))
    if not is_pair and not (folder / "tokenizer.json").is_file():
        # transformers would make do with an empty vocabulary.
        raise CheckpointError(f"{folder}: its tokenizer is missing (vocab.json and merges.txt)")
    try:
        tokenizer = Qwen2TokenizerFast.from_pretrained(
            str(folder), local_files_only=True, fix_mistral_regex=False
        )
        ids = tokenizer.get_vocab()
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise CheckpointError(f"{folder}: its tokenizer cannot be read: {error}") from None

    _check_added_tokens(folder, ids)
    largest = max(ids.values())

    def tokenize(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    role, tail = tokenize(TEMPLATE_HEAD), tokenize(TEMPLATE_TAIL)
    if len(role) != ROLE_TOKENS or len(tail) != TAIL_TOKENS or largest >= vocab_size:
        raise CheckpointError(
            f"{folder}: its tokenizer does not fit: the chat template takes {len(role)} and "
            f"{len(tail)} "
            f"tokens instead of {ROLE_TOKENS} and {TAIL_TOKENS}, or an id ({largest}) is "
            f"not below {vocab_size}"
        )
    return tokenize


def _check_added_tokens(folder: Path, ids: dict[str, int]) -> None:
    """Refuse added tokens under other ids than `tokenizer_config.json` gives them.

    transformers numbers them on from the size of `vocab.json`, whatever ids they are given.
    """
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return
    section = Section.from_file(path)
    if not section.holds("added_tokens_decoder"):
        return
    added = section.section("added_tokens_decoder")
    for key in added.values:
        token = added.section(key).read("content", str)
        if str(ids.get(token)) != key:
            raise CheckpointError(
                f"{added.where}: {token!r} has the id {key}, but behind {folder / 'vocab.json'} "
                f"it gets {ids.get(token)}; is the vocabulary complete?"
            )


def load_networks(
    config: Qwen3TTSConfig, tensors: dict[str, Tensor], dtype: torch.dtype, what: str
) -> tuple[Talker, CodePredictor]:
    """Talker and code predictor from the released tensors, which are used up.

    Raises:
        CheckpointError: keys missing, unexpected or of the wrong shape.
    """
    layers = "talker.decoder.layers."
    rename_layers(tensors, "talker.model.layers.", layers, config.talker.num_layers)
    source, layers = "talker.code_predictor.model.layers.", "predictor.decoder.layers."
    rename_layers(tensors, source, layers, config.predictor.num_layers)
    for theirs, ours in RENAMES.items():
        if theirs in tensors:
            tensors[ours] = tensors.pop(theirs)
    for theirs, ours in STACKED.items():
        names = [f"{theirs}.{index}.weight" for index in range(config.num_codebooks - 1)]
        found = [tensors[name] for name in names if name in tensors]
        if len(found) == len(names) and len({tensor.shape for tensor in found}) == 1:
            tensors[ours] = torch.stack([tensors.pop(name) for name in names])
    with torch.device("meta"):
        talker, predictor = Talker(config), CodePredictor(config)
    networks = torch.nn.ModuleDict({"talker": talker, "predictor": predictor})
    load_strictly(networks, tensors, dtype, what)
    return talker, predictor
