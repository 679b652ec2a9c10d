"""Makes the golden files of this folder with the official package. See README.md for what it needs.

Each spec of tests/support/tiny_qwen3_tts.py gets `golden_<spec>.json` (every row's input and how
it ended) and `golden_<spec>.safetensors` (codes, samples, prompts). Every group is spoken as one
batch, then each row alone, and both must agree, or nothing is written. A choice closer than
SMALLEST_GAP would be decided by rounding, not by the model: such a row is refused, and another
seed or text is the remedy. `golden_draws.*` holds some of the package's random choices: the logits,
and the probabilities it drew from.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from golden_files import HERE, parse, versions, write, write_rows
from torch import Tensor

sys.path.insert(0, str(HERE.parent / "support"))

import official_package as official
import tiny_qwen3_tts as tiny
from official_package import Line

SEEDS = {"custom_voice": 3, "custom_voice_wide": 3, "voice_design": 0}
PACKAGES = ("qwen-tts", "qwen-tts-hf")
SMALLEST_GAP = 1e-4
MAX_SAMPLES = 3000  # of a row kept; more are thinned out evenly
LONGEST_PROMPT = 200  # vectors of longer ones are not kept
LONG_FRAMES = 330  # past the official decoder's chunk of 300

LONG = "The quick brown fox jumps over the lazy dog, twice; then all the others sing along."
VOICE_LINES = {
    "custom_voice": (
        Line("Hello there.", "ada", "english"),
        Line(LONG, "Boris", None),
        Line("\u4f60\u597d\uff0c\u4e16\u754c\u3002", "chen", "Chinese"),
        Line("A", "CHEN", "auto"),
        Line("Gru\u0308\u00dfe aus Mu\u0308nchen!", "chen", "German"),
        Line("Two lines:\nthe second  one. ", "ada", "Japanese", "Whisper, please."),
    ),
    "custom_voice_wide": (
        Line("Good morning.", "dora", "english", "Very slowly, and with a smile."),
        Line(LONG, "emil", "Auto"),
        Line("\u4f60\u597d\uff0c\u4e16\u754c\u3002", "fang", None, "\u5feb\u4e00\u70b9"),
        Line("B?", "fang", "english", ""),
        Line("It's 12:30, isn't it? We'll see.", "emil", "german"),
    ),
    "voice_design": (
        Line("Good evening, everyone.", None, "english", "A low, calm voice of an old man."),
        Line(LONG, None, None, "Bright and young."),
        Line("\u3053\u3093\u306b\u3061\u306f", None, "Japanese", "\u5973\u6027\u306e\u58f0"),
        Line("C.", None, "auto", None),
    ),
}
GROUPS: tuple[dict[str, Any], ...] = (  # the settings a batch of the official package shares
    {"layout": "non_streaming", "repetition_penalty": 1.05, "max_new_tokens": 41},
    {"layout": "streaming", "repetition_penalty": 1.05, "max_new_tokens": 33},
    {"layout": "non_streaming", "repetition_penalty": 1.3, "max_new_tokens": 25},
    {"layout": "streaming", "repetition_penalty": 1.0, "max_new_tokens": 3},
)
SAMPLING: tuple[dict[str, Any], ...] = (  # what the package draws from under these is kept too
    {"temperature": 0.9, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.05},
    {"temperature": 0.7, "top_k": 0, "top_p": 0.8, "repetition_penalty": 1.3},
    {"temperature": 1.4, "top_k": 7, "top_p": 0.9, "repetition_penalty": 1.0},
)
SUBTALKER = {"subtalker_temperature": 0.8, "subtalker_top_k": 9, "subtalker_top_p": 0.85}


def main() -> int:
    """Write the golden files of the specs asked for."""
    options = parse("Make the golden files anew.", SEEDS)
    torch.set_num_threads(1)
    for name in options.specs:
        seed = SEEDS[name] if options.seed is None else options.seed
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = tiny.write_checkpoint(Path(folder), tiny.GOLDEN_SPECS[name], seed)
            digest = tiny.digest(checkpoint)
            wrapper = official.load_model(checkpoint)
            report, tensors = speak_all(wrapper, name, VOICE_LINES[name])
            report |= {
                "spec": name,
                "seed": seed,
                "checkpoint": digest,
                "versions": versions(*PACKAGES),
            }
            report |= long_decode(wrapper, name, seed, tensors)
        write_rows(options.out, f"golden_{name}", report, tensors)
        if name == "voice_design":
            write_draws(wrapper, name, options.out)
    return 0


def write_draws(wrapper: Any, name: str, out: Path) -> None:
    """Logits and probabilities of some of the package's own random choices."""
    cases: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for i, settings in enumerate(SAMPLING):
        line = VOICE_LINES[name][i]
        draws = official.sampled_draws(wrapper, line, i, max_new_tokens=9, **settings, **SUBTALKER)
        talker = [draw for draw in draws if draw.is_talker]
        predictor = [draw for draw in draws if not draw.is_talker]
        kept = [(step, talker[step], settings) for step in (0, 1, 2, len(talker) - 1)]
        renamed = {key.removeprefix("subtalker_"): value for key, value in SUBTALKER.items()}
        kept.append((3, predictor[3], {**renamed, "repetition_penalty": 1.0}))
        for step, draw, used in kept:
            tensors[f"logits.{len(cases)}"] = draw.logits
            tensors[f"probabilities.{len(cases)}"] = draw.probabilities
            part = "talker" if draw.is_talker else "predictor"
            seen = draw.seen if draw.is_talker else []
            cases.append({"part": part, "step": step, "seen": seen, **used})
    report = {"spec": name, "cases": cases, "versions": versions(*PACKAGES)}
    write(out, "golden_draws", report, tensors)


def speak_all(
    wrapper: Any, name: str, lines: tuple[Line, ...]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Every line of a spec under every group's settings, alone and together."""
    rows: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    smallest = float("inf")
    for g, settings in enumerate(GROUPS):
        together = official.speak(wrapper, lines, **settings)
        for i, (line, mate) in enumerate(zip(lines, together, strict=True)):
            (spoken,) = official.speak(wrapper, [line], **settings)
            row_id = f"{g}.{i}"
            smallest = min(smallest, spoken.smallest_gap)
            if spoken.smallest_gap < SMALLEST_GAP:
                raise SystemExit(f"{name} {row_id}: a choice by {spoken.smallest_gap:.1e} only")
            if not torch.equal(spoken.codes, mate.codes):
                raise SystemExit(f"{name} {row_id}: the official batch and single row disagree")
            torch.testing.assert_close(spoken.samples, mate.samples, rtol=0, atol=1e-5)
            step = max(1, len(spoken.samples) // MAX_SAMPLES)
            rows.append(
                {
                    "id": row_id,
                    "text": line.text,
                    "voice": line.voice,
                    "language": line.language,
                    "instruct": line.instruct,
                    **_reference(line),
                    **settings,
                    "token_ids": spoken.token_ids,
                    "prompt_tokens": len(spoken.prompt),
                    "trailing_tokens": len(spoken.trailing),
                    "frames": len(spoken.codes),
                    "finish_reason": spoken.finish_reason,
                    "num_samples": len(spoken.samples),
                    "sample_step": step,
                }
            )
            tensors[f"codes.{row_id}"] = spoken.codes.to(torch.int16)
            tensors[f"samples.{row_id}"] = spoken.samples[::step].clone()
            if g < 2 and len(spoken.prompt) <= LONGEST_PROMPT:
                tensors[f"prompt.{row_id}"] = spoken.prompt.contiguous()
                tensors[f"trailing.{row_id}"] = spoken.trailing.contiguous()
    return {"rows": rows, "smallest_gap": smallest}, tensors


def _reference(line: Line) -> dict[str, Any]:
    if line.reference is None:
        return {}
    return {"reference": line.reference.name, "reference_text": line.reference.text}


def long_decode(wrapper: Any, name: str, seed: int, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Random codes for more than one chunk of the official decoder."""
    spec = tiny.SPECS[name]
    codes = tiny.random_codes(spec, seed, LONG_FRAMES)
    samples = torch.from_numpy(
        wrapper.model.speech_tokenizer.decode([{"audio_codes": codes}])[0][0]
    )
    step = max(1, len(samples) // (4 * MAX_SAMPLES))
    tensors["samples.long"] = samples[::step].clone()
    return {"long": {"frames": LONG_FRAMES, "num_samples": len(samples), "sample_step": step}}


if __name__ == "__main__":
    sys.exit(main())
