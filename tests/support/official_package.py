"""The official `qwen_tts` package as the oracle, where it is on the path. No product code uses it.

Its imports ask for audio libraries that only cloning uses; empty modules stand in for those that
are not installed, only while the package is imported. Where it cannot clone the audio encoder is
left out: transformers 5 cannot build it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SAMPLE_RATE_HZ = 24000
STAND_INS: dict[str, tuple[str, ...]] = {  # module: names that are imported from it
    "einops": ("rearrange", "repeat"),
    "librosa": (),
    "librosa.filters": ("mel",),
    "onnxruntime": (),
    "sox": (),
    "torchaudio": (),
    "torchaudio.compliance": (),
    "torchaudio.compliance.kaldi": (),
}


def is_installed() -> bool:
    """Whether the official package can be found; imports nothing."""
    return importlib.util.find_spec("qwen_tts") is not None


def can_clone() -> bool:
    """Whether the package can encode references here: that takes librosa's mel filters and a
    transformers that builds its audio encoder.
    """
    if not is_installed() or importlib.util.find_spec("librosa") is None:
        return False
    import transformers

    return int(transformers.__version__.partition(".")[0]) < 5


def load() -> Any:
    """Import the official package and return its module."""
    from transformers import MimiConfig

    if not hasattr(MimiConfig(), "rope_theta"):
        MimiConfig.rope_theta = 10000.0  # transformers 5 moved it; the package still asks for it
    missing = {name for name in STAND_INS if not _is_there(name.partition(".")[0])}
    added = [name for name in STAND_INS if name in missing]
    for name in added:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        for item in STAND_INS[name]:
            setattr(module, item, _stand_in(f"{name}.{item}"))
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
        sys.modules[name] = module
    try:
        # It prints a note about an attention library that is not there.
        with contextlib.redirect_stdout(io.StringIO()):
            package = importlib.import_module("qwen_tts")
    finally:
        for name in added:
            del sys.modules[name]
    if not can_clone():
        _leave_out_audio_encoder()
    return package


def load_model(folder: Path) -> Any:
    """The official wrapper around a checkpoint: float32, CPU, PyTorch attention."""
    from transformers.utils import logging

    wrapper = load().Qwen3TTSModel
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wrapper.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="sdpa")


@dataclass(frozen=True)
class Reference:
    """A voice to clone."""

    wave: Tensor  # (n,) float32 at 24 kHz: the package does not resample it
    text: str | None = None  # what it says; None clones by the embedding alone
    name: str = ""  # for golden files


@dataclass(frozen=True)
class Line:
    """A text for the official package, and its settings."""

    text: str
    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    reference: Reference | None = None


@dataclass(frozen=True)
class Spoken:
    """What the official package made of a line."""

    codes: Tensor  # (F, K) int64
    samples: Tensor  # (F * samples per frame,) float32
    finish_reason: str  # eos or max_frames
    token_ids: list[int]  # of the text in its template
    prompt: Tensor  # (T, D) float32: what the talker was prefilled with, without padding
    trailing: Tensor  # (N, D) float32: the text added to frame 0, 1, ...
    smallest_gap: float  # between the best and the second logit of any choice in the whole batch


@dataclass(frozen=True)
class Encoded:
    """What the official package made of a reference."""

    embedding: Tensor  # (D,) float32
    codes: Tensor | None  # (R, K) int64; None by the embedding alone
    smallest_gap: float  # between the nearest and the second nearest entry of any codebook


def encode(wrapper: Any, references: Sequence[Reference]) -> list[Encoded]:
    """Let the official package encode references one by one.

    In a batch its codes of a shorter one's last frame would depend on the longest.
    """
    found = []
    cdist = torch.cdist
    for reference in references:
        gaps: list[float] = []

        def watched(x: Tensor, y: Tensor, p: float, gaps: list[float] = gaps) -> Tensor:
            distances = cdist(x, y, p=p)
            nearest = distances.topk(2, dim=-1, largest=False).values
            gaps.append(float((nearest[..., 1] - nearest[..., 0]).min()))
            return distances

        with _replaced(torch, "cdist", watched), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (item,) = wrapper.create_voice_clone_prompt(
                (reference.wave.numpy(), SAMPLE_RATE_HZ),
                reference.text,
                x_vector_only_mode=reference.text is None,
            )
        found.append(Encoded(item.ref_spk_embedding.clone(), item.ref_code, min(gaps)))
    return found


def speak(
    wrapper: Any,
    lines: Sequence[Line],
    *,
    layout: str = "non_streaming",
    repetition_penalty: float = 1.05,
    max_new_tokens: int = 64,
) -> list[Spoken]:
    """Let the official package speak `lines` as one batch, greedily.

    N new tokens make at most N - 1 frames: the last one is drawn but never expanded.
    """
    model = wrapper.model
    settings = {
        "text": [line.text for line in lines],
        "language": [line.language or "Auto" for line in lines],
        "non_streaming_mode": layout == "non_streaming",
        "do_sample": False,
        "subtalker_dosample": False,
        "repetition_penalty": repetition_penalty,
        "max_new_tokens": max_new_tokens,
    }
    if model.tts_model_type == "base":
        generate = wrapper.generate_voice_clone
        settings["voice_clone_prompt"] = _clone_items(wrapper, lines)
    elif model.tts_model_type == "custom_voice":
        generate = wrapper.generate_custom_voice
        settings["speaker"] = [line.voice for line in lines]
    else:
        generate = wrapper.generate_voice_design
    if model.tts_model_type != "base":
        settings["instruct"] = [line.instruct or "" for line in lines]
    calls: list[dict[str, Any]] = []
    heard: list[Tensor] = []
    ids: list[list[int]] = []
    talker, codec = model.talker, model.speech_tokenizer
    with contextlib.ExitStack() as stack:
        gaps = stack.enter_context(_watch_choices())
        for owner, name, value in (
            (talker, "generate", _recorder(talker.generate, calls)),
            (codec, "decode", _listener(codec.decode, heard)),
            (wrapper, "_tokenize_texts", _reader(wrapper._tokenize_texts, ids)),
        ):
            stack.enter_context(_replaced(owner, name, value))
        stack.enter_context(_whole_history_penalised())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        samples, _ = generate(**settings)
    (call,) = calls
    eos = model.config.talker_config.codec_eos_token_id
    lengths = call["attention_mask"].sum(-1).tolist()
    width = codec.model.decode_upsample_rate
    spoken = []
    for i, line in enumerate(lines):
        owed = len(ids[i]) - 8  # the text after its first token, and end of text
        front = 0
        if line.reference is not None and line.reference.text is not None:
            item = settings["voice_clone_prompt"][i]
            front = len(item.ref_code)
            (said,) = wrapper._tokenize_texts([wrapper._build_ref_text(line.reference.text)])
            owed += said.shape[1] - 5 + 1 - (front + 1)
        trailing = 1 if layout == "non_streaming" else max(1, owed)
        spoken.append(
            Spoken(
                codes=heard[i].cpu()[front:],
                # Its cut behind a reference is a rounded quotient, at times one sample early.
                samples=torch.from_numpy(samples[i])[-width * (len(heard[i]) - front) :],
                finish_reason="eos" if eos in call["sequences"][i] else "max_frames",
                token_ids=ids[i],
                prompt=call["inputs_embeds"][i, -lengths[i] :],
                trailing=call["trailing_text_hidden"][i, :trailing],
                smallest_gap=min(gaps),
            )
        )
    return spoken


def _clone_items(wrapper: Any, lines: Sequence[Line]) -> list[Any]:
    """The package's own prompt items; each reference is encoded once."""
    module = importlib.import_module("qwen_tts.inference.qwen3_tts_model")
    references = {id(line.reference): line.reference for line in lines}
    encoded = dict(zip(references, encode(wrapper, list(references.values())), strict=True))
    items = []
    for line in lines:
        voice, said = encoded[id(line.reference)], line.reference.text
        items.append(
            module.VoiceClonePromptItem(
                ref_code=voice.codes,
                ref_spk_embedding=voice.embedding,
                x_vector_only_mode=said is None,
                icl_mode=said is not None,
                ref_text=said,
            )
        )
    return items


@dataclass(frozen=True)
class Draw:
    """One random choice of the official package: what the model said and what it was drawn from."""

    is_talker: bool  # the first codebook; else one of the code predictor's
    logits: Tensor  # (V,) float32 as the head gave them
    seen: list[int]  # the row's earlier first codes
    probabilities: Tensor  # (V,) float32 after every processor


def sampled_draws(wrapper: Any, line: Line, seed: int, **settings: Any) -> list[Draw]:
    """Every draw of one voice-design line, in order, under sampling `settings` of the package."""
    talker = wrapper.model.talker
    heads: list[Tensor] = []
    draws: list[Draw] = []
    seen: list[int] = []
    multinomial = torch.multinomial

    def keep(module: Any, args: Any, output: Tensor) -> None:
        heads.append(output[0, -1].float())

    def watched(probabilities: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        choice = multinomial(probabilities, *args, **kwargs)
        is_talker = probabilities.shape[-1] == talker.config.vocab_size
        draws.append(Draw(is_talker, heads[-1], list(seen), probabilities[0].clone()))
        if is_talker:
            seen.append(int(choice))
        return choice

    torch.manual_seed(seed)
    with contextlib.ExitStack() as stack:
        for head in (talker.codec_head, *talker.code_predictor.lm_head):
            stack.callback(head.register_forward_hook(keep).remove)
        stack.enter_context(_replaced(torch, "multinomial", watched))
        stack.enter_context(_whole_history_penalised())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        wrapper.generate_voice_design(
            line.text, line.instruct, do_sample=True, subtalker_dosample=True, **settings
        )
    return draws


@contextlib.contextmanager
def _whole_history_penalised() -> Iterator[None]:
    """Keep the repetition penalty of transformers 4.57, which the package was released for.

    Newer ones exempt as many ids as a row has padding, taking them for the prompt. Here the prompt
    is embeddings, so the exempted ids are generated ones, and a row would depend on the length of
    its batch mates.
    """
    from transformers.generation import utils

    processor = utils.RepetitionPenaltyLogitsProcessor

    def without_exemption(penalty: float, prompt_ignore_length: Any = None) -> Any:
        return processor(penalty)

    with _replaced(utils, "RepetitionPenaltyLogitsProcessor", without_exemption):
        yield


@contextlib.contextmanager
def _watch_choices() -> Iterator[list[float]]:
    """Collect, for every greedy choice made inside, how far the second best logit was."""
    gaps: list[float] = []
    argmax = torch.argmax

    def watched(scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if scores.is_floating_point():
            best = scores.topk(2, dim=-1).values
            gaps.append(float((best[..., 0] - best[..., 1]).min()))
        return argmax(scores, *args, **kwargs)

    with _replaced(torch, "argmax", watched):
        yield gaps


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _recorder(generate: Any, calls: list[dict[str, Any]]) -> Any:
    def record(**kwargs: Any) -> Any:
        result = generate(**kwargs)
        calls.append({**kwargs, "sequences": result.sequences.tolist()})
        return result

    return record


def _listener(decode: Any, heard: list[Tensor]) -> Any:
    def listen(items: list[dict[str, Tensor]]) -> Any:
        heard.extend(item["audio_codes"] for item in items)
        return decode(items)

    return listen


def _reader(tokenize: Any, ids: list[list[int]]) -> Any:
    """Keeps what the first call reads: the texts; later calls read the instructions."""

    def read(texts: list[str]) -> Any:
        tokens = tokenize(texts)
        if not ids:
            ids.extend(t[0].tolist() for t in tokens)
        return tokens

    return read


def _leave_out_audio_encoder() -> None:
    from torch import nn

    codec = importlib.import_module("qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2")

    class NoAudioEncoder(nn.Module):
        @classmethod
        def _from_config(cls, config: Any) -> NoAudioEncoder:
            return cls()

    codec.Qwen3TTSTokenizerV2Encoder = NoAudioEncoder


def _is_there(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _stand_in(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} is only a stand-in here")

    return call
