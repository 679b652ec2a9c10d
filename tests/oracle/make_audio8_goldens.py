"""Makes the golden file of Audio8-TTS's talker and code predictor with mlx-audio's port of it, on a
CPU. See README.md for what it needs.

`golden_audio8.json` has every row's text, voice, cap and token ids, `golden_audio8.safetensors` its
codes. A choice closer than SMALLEST_GAP would be decided by rounding: such a row is refused, and
another seed or text is the remedy.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from golden_files import write_rows
from mlx_audio.tts.models.arktts.arktts import ArkttsModel, Model, ModelConfig

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent.parent)]

import tiny_audio8 as tiny  # noqa: E402
import tiny_fish_speech as fish  # noqa: E402

SEED = 4
PACKAGES = ("mlx-audio", "mlx", "torch", "transformers", "tokenizers", "numpy")
SMALLEST_GAP = 1e-4
MAX_FRAMES = 40
TEXTS = (
    "Hello there.",
    "The quick brown fox jumps over the lazy dog, twice; then all of them sing.",
    "你好\uff0c世界。",
    "A",
    "One line,\nand  another\t one. ",
    "Grüße!",
    "What is it? It is a test.",
    "Numbers 1, 2, 3.",
    "  Spaces around. ",
    "The end is the end.",
    "그것은 시험이다",
    "<|speaker:1|>I have a tag.",
)
REFERENCES = ((9, "It ends in a dot."), (1, "参考"), (40, "<|speaker:1|>A tag\n\nof my own."))


class Watched(ArkttsModel):
    """Notes by how little a choice was made."""

    smallest = float("inf")

    def _processed_scores(
        self, scores: Any, top_k: int, top_p: float, temperature: float, semantic: bool
    ) -> Any:
        kept = self._semantic_filter(scores) if semantic else scores
        best = np.sort(np.array(kept[0]))[-2:]
        self.smallest = min(self.smallest, float(best[1] - best[0]))
        return super()._processed_scores(scores, top_k, top_p, temperature, semantic)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Make the golden files anew.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder the files go to")
    out = parser.parse_args().out
    fields = ModelConfig.__dataclass_fields__
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = tiny.write_checkpoint(Path(folder), SEED, has_codec=False)
        digest = fish.digest(checkpoint)
        given = json.loads((checkpoint / "config.json").read_text())
        config = ModelConfig(**{key: value for key, value in given.items() if key in fields})
        model = Watched(config)
        weights = tiny.random_weights(SEED).items()
        model.load_weights([(name, mx.array(value.float().numpy())) for name, value in weights])
        prompts = Model.__new__(Model)
        prompts._load_tokenizer = lambda: tokenizer_of(checkpoint)  # type: ignore[method-assign]
        rows, tensors = [], {}
        for number in range(2 * len(TEXTS)):
            text, is_cloned = TEXTS[number % len(TEXTS)], number >= len(TEXTS)
            voice = REFERENCES[number % len(REFERENCES)] if is_cloned else None
            most = 3 if text == "A" else MAX_FRAMES
            ids, codes = speak(model, prompts, text, voice, most, number)
            rows.append(
                {
                    "id": str(number),
                    "text": text,
                    "voice": voice and {"frames": voice[0], "text": voice[1]},
                    "max_frames": most,
                    "token_ids": ids,
                    "frames": len(codes),
                    "finish_reason": "max_frames" if len(codes) == most else "eos",
                }
            )
            tensors[f"codes.{number}"] = torch.from_numpy(codes).to(torch.int16).contiguous()
    if model.smallest < SMALLEST_GAP:
        raise SystemExit(f"a choice by {model.smallest:.1e} only")
    report = {
        "seed": SEED,
        "checkpoint": digest,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "smallest_gap": model.smallest,
        "rows": rows,
    }
    write_rows(out, "golden_audio8", report, tensors)


def tokenizer_of(checkpoint: Path) -> Any:
    """The checkpoint's tokenizer as transformers reads it."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=str(checkpoint / "tokenizer.json"))


def speak(
    model: ArkttsModel,
    prompts: Model,
    text: str,
    voice: tuple[int, str] | None,
    most: int,
    seed: int,
) -> tuple[list[int], np.ndarray]:
    """Token ids of the prompt, and greedy codes (F, K)."""
    reference, codes, lengths = None, None, None
    if voice is not None:
        made = fish.random_voice(tiny.SPEC, *voice, seed).codes
        assert made is not None
        reference, codes, lengths = voice[1], [made.numpy().T], [len(made)]
    prefix, suffix = prompts._prompt_segments(text, reference, voice is not None)
    greedy = {"max_new_tokens": most, "do_sample": False}
    found = model.generate_codes([prefix], [suffix], codes, lengths, **greedy)
    spoken = [] if codes is None else (codes[0][0] + fish.SEMANTIC_START).tolist()
    ids = [*map(int, prefix), *map(int, spoken), *map(int, suffix)]
    return ids, np.ascontiguousarray(np.array(found)[0].T)


if __name__ == "__main__":
    main()
