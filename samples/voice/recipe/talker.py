"""Talker and code predictor: cross-entropy on (text, speaker, codes), with the official modules."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import official
import torch
import torch.nn.functional as F
from alignment import Guide
from config import PREDICTOR, SPECIAL_TOKENS, TALKER, speaker_ids
from safetensors.torch import load_file
from talker_data import NO_LABEL, Batch, Store, add_noise
from team import Team
from torch import Tensor, nn

LOG_EVERY_STEPS = 200
SAVE_EVERY_S = 60
AGREE_EVERY_STEPS = 10  # on the time that has passed
RAMP_STEPS = 400
MAX_PREDICTOR_FRAMES = 12_000  # frames of a batch the code predictor sees, drawn at random
NOISE_RATE = 0.04  # share of wrong codes fed back
Log = Callable[[str], None]


@dataclass(frozen=True)
class TalkerTraining:
    """Settings of one training run."""

    seconds: float  # of training; the learning rate ends with them
    device: str = "cuda"
    max_positions: int = 40_000  # of one batch, padding included
    learning_rate: float = 1.2e-3
    final_rate: float = 0.0  # share of the peak learning rate left at the end
    init: Path | None = None  # checkpoint folder, or weights saved by a run, to go on from
    guided: tuple[tuple[int, int], ...] = ()  # (layer, head) taught to look at the text spoken
    guide_weight: float = 0.2


class Losses(NamedTuple):
    """Losses of one batch; the plain one and the accuracies are for the log."""

    talker: Tensor  # scalar: first code or end
    predictor: Tensor  # scalar: the other codes, the first of them weighing three times the last
    predictor_plain: Tensor  # scalar, unweighted
    guide: Tensor  # scalar: where the guided heads look, 0 without a guide
    talker_accuracy: Tensor  # scalar
    predictor_accuracy: Tensor  # (K - 1,)


def build(talker: dict[str, Any] = TALKER, predictor: dict[str, Any] = PREDICTOR) -> Any:
    """The official model with random weights; `build().talker` holds talker and code predictor."""
    official.load()
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration

    speakers = speaker_ids()
    parts = {
        **talker,
        "code_predictor_config": dict(predictor),
        "spk_id": speakers,
        "spk_is_dialect": dict.fromkeys(speakers, False),
    }
    config = Qwen3TTSConfig(
        talker_config=parts,
        tts_model_type="custom_voice",
        tts_model_size="tiny",
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        im_start_token_id=SPECIAL_TOKENS["<|im_start|>"],
        im_end_token_id=SPECIAL_TOKENS["<|im_end|>"],
        tts_pad_token_id=SPECIAL_TOKENS["<tts_pad>"],
        tts_bos_token_id=SPECIAL_TOKENS["<tts_text_bos>"],
        tts_eos_token_id=SPECIAL_TOKENS["<tts_text_eod>"],
    )
    config._attn_implementation = "sdpa"
    return Qwen3TTSForConditionalGeneration(config)


def init_weights(model: nn.Module) -> None:
    """Normal draws for all matrices.

    Spread: 0.05 in embeddings, 0.01 where a residual branch ends, 0.02 elsewhere.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() <= 1:
                continue
            if "embedding" in name:
                parameter.normal_(0, 0.05)
            elif "o_proj" in name or "down_proj" in name:
                parameter.normal_(0, 0.01)
            else:
                parameter.normal_(0, 0.02)


def embed(talker: Any, text: Tensor, codec: Tensor, codes: Tensor) -> Tensor:
    """(B, L, D) inputs: text stream, codec stream and the sum of a frame's code embeddings."""
    codec_table, predictor_tables = (
        talker.get_input_embeddings(),
        talker.code_predictor.get_input_embeddings(),
    )
    hidden = talker.text_projection(talker.get_text_embeddings()(text))
    hidden = hidden + codec_table(codec.clamp(min=0)) * (codec >= 0).unsqueeze(-1)
    known = codes.clamp(min=0)
    frame = codec_table(known[..., 0])
    for index in range(1, codes.shape[-1]):
        frame = frame + predictor_tables[index - 1](known[..., index])
    return hidden + frame * (codes[..., :1] >= 0)


def predictor_logits(talker: Any, hidden: Tensor, codes: Tensor) -> Tensor:
    """Logits of codes 1..K-1, each given the codes before it.

    Args:
        hidden: (N, D) state of the talker.
        codes: (N, K) of the frame it predicts.
    Returns:
        (N, K - 1, codebook size).
    """
    predictor = talker.code_predictor
    num_codes = codes.shape[1]
    inputs = [hidden, talker.get_input_embeddings()(codes[:, 0])]
    for index in range(1, num_codes - 1):
        inputs.append(predictor.get_input_embeddings()[index - 1](codes[:, index]))
    states = predictor.model(
        inputs_embeds=predictor.small_to_mtp_projection(torch.stack(inputs, 1)),
        attention_mask=None,
        use_cache=False,
    ).last_hidden_state
    heads = [predictor.lm_head[index](states[:, index + 1]) for index in range(num_codes - 1)]
    return torch.stack(heads, 1)


def losses(
    model: Any,
    batch: Batch,
    codebook_size: int,
    noise_rate: float = 0.0,
    guide: Guide | None = None,
) -> Losses:
    """Teacher-forced losses of one batch."""
    text, codec, codes, labels, spoken, num_frames = batch
    talker = model.talker
    fed_back = add_noise(codes, noise_rate, codebook_size) if noise_rate else codes
    positions = torch.arange(text.shape[1], device=text.device)[None, None]
    hidden = talker.model(
        inputs_embeds=embed(talker, text, codec, fed_back),
        attention_mask=None,
        position_ids=positions.expand(3, text.shape[0], -1),
        use_cache=False,
    ).last_hidden_state
    # The counts are known on the host, so topk gathers without waiting for the device as a mask
    # would.
    flat_labels = labels.flatten()
    labelled = torch.topk(
        (flat_labels != NO_LABEL).float(), num_frames + len(labels), sorted=False
    ).indices
    logits, wanted = (
        talker.codec_head(hidden.flatten(0, 1)[labelled]).float(),
        flat_labels[labelled],
    )
    is_frame = codes[:, 1:, 0].flatten() >= 0  # the state at t predicts the frame at t + 1
    draws = torch.rand(is_frame.shape, device=is_frame.device) + is_frame
    chosen = torch.topk(draws, min(num_frames, MAX_PREDICTOR_FRAMES), sorted=False).indices
    states = hidden[:, :-1].flatten(0, 1)[chosen]
    frames = codes[:, 1:].flatten(0, 1)[chosen]
    later = predictor_logits(talker, states, frames)
    num_later = later.shape[1]
    errors = F.cross_entropy(
        later.float().flatten(0, 1), frames[:, 1:].flatten(), reduction="none"
    ).view(-1, num_later)
    weights = torch.linspace(1.5, 0.5, num_later, device=errors.device)
    with torch.no_grad():
        predictor_accuracy = (later.argmax(-1) == frames[:, 1:]).float().mean(0)
        talker_accuracy = (logits.argmax(-1) == wanted).float().mean()
    return Losses(
        F.cross_entropy(logits, wanted),
        (errors * weights).mean(),
        errors.detach().mean(),
        guide.loss(spoken) if guide else torch.zeros((), device=spoken.device),
        talker_accuracy,
        predictor_accuracy,
    )


def save_bfloat16(model: nn.Module, out: Path) -> None:
    """Write the state in bfloat16 under a temporary name, then rename it."""
    part = out.with_name(out.name + ".part")
    torch.save({name: value.bfloat16() for name, value in model.state_dict().items()}, part)
    os.replace(part, out)


def use_fused_norm() -> None:
    """Let the official RMSNorm run as PyTorch's own kernel."""
    official.load()
    from qwen_tts.core.models import modeling_qwen3_tts as modeling

    def forward(self: Any, hidden: Tensor) -> Tensor:
        weight = self.weight.to(hidden.dtype)
        return F.rms_norm(hidden, (hidden.shape[-1],), weight, self.variance_epsilon)

    modeling.Qwen3TTSRMSNorm.forward = forward


def load_or_init(init: Path | None) -> Any:
    """The model in float32: the weights of a checkpoint folder or of a run's talker.pt, or fresh
    ones for None.
    """
    model = build()
    if init is None:
        init_weights(model)
    else:
        is_folder = init.is_dir()
        file = init / "model.safetensors" if is_folder else init
        weights = (
            load_file(file)
            if is_folder
            else torch.load(file, weights_only=True, map_location="cpu")
        )
        state = {name: value.float() for name, value in weights.items()}
        model.load_state_dict(state)
    return model


def make_optimizer(talker: nn.Module, settings: TalkerTraining) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only."""
    parameters = list(talker.parameters())
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, settings.learning_rate, (0.9, 0.98), fused=settings.device == "cuda"
    )


def train(
    store: Store,
    validation: Store,
    out: Path,
    settings: TalkerTraining,
    log: Log = print,
    refresh: Callable[[], bool] = lambda: False,
    team: Team | None = None,
) -> None:
    """Train talker and code predictor and write them (bfloat16) to `out` every minute and at the
    end.

    Args:
        store, validation: frozen; `refresh` enlarges and freezes `store` and says whether it did.
            Each process of a team has its own share of the speech in `store`.
    """
    device = settings.device
    team = team or Team(device)
    use_fused_norm()
    torch.manual_seed(0)
    model = load_or_init(settings.init).to(device).train()
    talker = model.talker
    team.share(talker.parameters())
    torch.manual_seed(team.rank)  # of the noise
    guide = Guide(talker, list(settings.guided)) if settings.guided else None
    sizes = [sum(p.numel() for p in part.parameters()) for part in (talker, talker.code_predictor)]
    log(f"talker {sizes[0]} parameters, {sizes[1]} of them code predictor")
    optimizer = make_optimizer(talker, settings)
    parameters = list(talker.parameters())
    codebook_size = PREDICTOR["vocab_size"]

    def autocast() -> AbstractContextManager[Any]:
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

    def validate() -> str:
        model.eval()
        with torch.no_grad(), autocast():
            rows = list(range(min(256, len(validation.texts))))
            result = losses(model, validation.batch(rows), codebook_size, guide=guide)
        model.train()
        return (
            f" validation: talker {result.talker:.3f} predictor {result.predictor_plain:.3f} "
            f"accuracy {result.talker_accuracy:.3f} guide {result.guide:.3f}"
        )

    generator = torch.Generator().manual_seed(team.rank)
    start_s, saved_s, step, epoch, elapsed = time.time(), 0.0, 0, 0, 0.0
    todo: list[list[int]] = []
    while True:
        if step % AGREE_EVERY_STEPS == 0:
            elapsed = team.agree((time.time() - start_s) / settings.seconds)
            if elapsed >= 1:
                break
        if (not todo or step % 500 == 499) and refresh():
            todo = []
        if not todo:
            todo = store.batches(settings.max_positions, generator)
            epoch += 1
            log(f"epoch {epoch}, {len(store.texts)} sequences, {len(todo)} batches")
        fall = (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * elapsed))
        factor = min(1, step / RAMP_STEPS) * (settings.final_rate + fall)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * factor
        batch = store.batch(todo.pop(), has_language=step % 7 != 0)
        with autocast():
            result = losses(model, batch, codebook_size, NOISE_RATE, guide)
        optimizer.zero_grad(set_to_none=True)
        (result.talker + result.predictor + settings.guide_weight * result.guide).backward()
        team.average_gradients(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if step % LOG_EVERY_STEPS == 0 and team.is_first:
            now_s = time.time() - start_s
            first = [round(share, 2) for share in result.predictor_accuracy.tolist()[:6]]
            log(
                f"talker {step} {now_s:.0f} s talker {result.talker:.3f} "
                f"predictor {result.predictor_plain:.3f} accuracy {result.talker_accuracy:.3f} "
                f"guide {result.guide:.3f} norm {norm:.2f} predictor accuracy {first}"
                + (validate() if step % (LOG_EVERY_STEPS * 5) == 0 else "")
            )
            if now_s - saved_s > SAVE_EVERY_S:
                saved_s = now_s
                save_bfloat16(model, out)
        step += 1
    if team.is_first:
        save_bfloat16(model, out)
    log(f"talker steps {step}")
