"""Makes the golden files of Fish Speech's talker and code predictor. See README.md for what it
needs.

Each spec of tests/support/tiny_fish_speech.py gets `golden_fish_<spec>.json` (every row's input,
token ids and how it ended) and `golden_fish_<spec>.safetensors` (codes, and the logits of a few
steps). A choice closer than SMALLEST_GAP would be decided by rounding, not by the model: such a row
is refused, and another seed or text is the remedy. `golden_fish_draws.*` holds logits and what the
package would draw from.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from golden_files import HERE, parse, versions, write, write_rows
from torch import Tensor

sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent.parent)]

import official_fish_speech as official  # noqa: E402
import tiny_fish_speech as tiny  # noqa: E402

SEEDS = {"small": 1, "wide": 2}
PACKAGES = ("fish-speech", "vllm-omni")
SMALLEST_GAP = 1e-4
MAX_FRAMES = 40
LONG = "The quick brown fox jumps over the lazy dog, twice; [laughing] then all of them sing."
LINES: tuple[dict[str, Any], ...] = (
    {"text": "Hello there."},
    {"text": LONG},
    {"text": "\u4f60\u597d\uff0c\u4e16\u754c\u3002"},
    {"text": "A", "max_frames": 3},
    {"text": "<|speaker:0|>Who is there?\n<|speaker:1|>[whisper] Me."},
    {"text": "Two lines:\nthe second  one. ", "voice": {"frames": 9, "text": "It ends in a dot."}},
    {"text": "Gru\u0308\u00dfe!", "voice": {"frames": 1, "text": "\u53c2\u8003"}},
    {"text": LONG, "voice": {"frames": 40, "text": "<|speaker:1|>I have a tag of my own.\n\n"}},
)
DRAWS = ((1.0, 0.9), (0.8, 0.8), (0.7, 1.0), (1.3, 0.3), (1.0, 1e-4))  # temperature, top_p


def main() -> int:
    """Write the golden files of the specs asked for."""
    options = parse("Make the golden files anew.", SEEDS)
    torch.set_num_threads(1)
    for name in options.specs:
        seed = SEEDS[name] if options.seed is None else options.seed
        report, tensors = speak_all(name, seed)
        write_rows(options.out, f"golden_fish_{name}", report, tensors)
    write_draws(options.out)
    return 0


def speak_all(name: str, seed: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Every line, alone: the package has no batches."""
    from transformers import PreTrainedTokenizerFast

    spec = tiny.SPECS[name]
    rows: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    smallest = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = tiny.write_checkpoint(Path(folder), spec, seed, has_codec=False)
        digest = tiny.digest(checkpoint)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(checkpoint / "tokenizer.json"))
    model = official.build(spec, tiny.random_weights(spec, seed))
    for index, line in enumerate(LINES):
        ids, codes = prompt_of(tokenizer, spec, line, index)
        most = line.get("max_frames", MAX_FRAMES)
        spoken = official.speak(model, spec, torch.cat([torch.tensor(ids)[None], codes]), most)
        smallest = min(smallest, spoken.smallest_gap)
        if spoken.smallest_gap < SMALLEST_GAP:
            raise SystemExit(f"{name} {index}: a choice by {spoken.smallest_gap:.1e} only")
        frames = len(spoken.codes)
        first_steps = sorted({0, 1, frames // 2, len(spoken.first_logits) - 1})
        rest_steps = sorted({0, frames - 1})
        rows.append(
            {
                "id": str(index),
                "text": line["text"],
                "voice": line.get("voice"),
                "max_frames": most,
                "token_ids": ids,
                "frames": frames,
                "finish_reason": spoken.finish_reason,
                "first_steps": first_steps,
                "rest_steps": rest_steps,
            }
        )
        tensors[f"codes.{index}"] = spoken.codes.to(torch.int16)
        tensors[f"first.{index}"] = spoken.first_logits[first_steps].contiguous()
        tensors[f"rest.{index}"] = spoken.rest_logits[rest_steps].contiguous()
    report = {
        "spec": name,
        "seed": seed,
        "checkpoint": digest,
        "versions": versions(*PACKAGES),
        "smallest_gap": smallest,
        "rows": rows,
    }
    return report, tensors


def prompt_of(
    tokenizer: Any, spec: tiny.Spec, line: dict[str, Any], seed: int
) -> tuple[list[int], Tensor]:
    """Ids (T,) and codes (K, T) of a line, spelled out part by part for a reference."""
    if "voice" not in line:
        ids = official.plain_prompt(tokenizer, line["text"])
        return ids, torch.zeros(spec.num_codebooks, len(ids), dtype=torch.int64)
    voice = tiny.random_voice(spec, line["voice"]["frames"], line["voice"]["text"], seed)
    assert voice.codes is not None

    def encode(*parts: str) -> list[int]:
        return [i for part in parts for i in tokenizer.encode(part, add_special_tokens=False)]

    tag = "" if "<|speaker:" in line["voice"]["text"] else "<|speaker:0|>"
    before = encode(
        "<|im_start|>system\n",
        "convert the provided text to speech reference to the following:\n\nText:\n",
        tag + line["voice"]["text"],
        "\n\nSpeech:\n",
    )
    after = encode(
        "<|im_end|>\n",
        "<|im_start|>user\n",
        line["text"],
        "<|im_end|>\n",
        "<|im_start|>assistant\n<|voice|>",
    )
    spoken = (voice.codes[:, 0] + tiny.SEMANTIC_START).tolist()
    ids = [*before, *spoken, *after]
    codes = torch.zeros(spec.num_codebooks, len(ids), dtype=torch.int64)
    codes[:, len(before) : len(before) + len(spoken)] = voice.codes.T
    return ids, codes


def write_draws(out: Path) -> None:
    """Logits, settings and the probabilities the package would draw from."""
    tensors: dict[str, Tensor] = {}
    cases = []
    for index, (temperature, top_p) in enumerate(DRAWS):
        logits = torch.from_numpy(6 * tiny.uniform(index, "draws", (64,)))
        tensors[f"logits.{index}"] = logits
        tensors[f"probabilities.{index}"] = official.probabilities(logits, temperature, top_p)
        cases.append({"temperature": temperature, "top_p": top_p})
    report = {"cases": cases, "versions": versions(*PACKAGES)}
    write(out, "golden_fish_draws", report, tensors)


if __name__ == "__main__":
    sys.exit(main())
