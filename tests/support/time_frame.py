"""Time whole frames of a synthetic Qwen3-TTS 0.6B by path: one GPU, bf16, CUDA graphs.

    python tests/support/time_frame.py [batch ...]

Paths: chain (separate operations); with one row also persistent (one launch a step).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from kernels.bench.graph_timing import replay_us  # noqa: E402
from models.qwen3_tts.loader import load_synthetic  # noqa: E402
from tts_cli.app.profile import count_kernels  # noqa: E402

PATHS = ("chain", "persistent")
POSITION, REPLAYS = 150, 30


def main() -> None:
    batches = [int(argument) for argument in sys.argv[1:]] or [1, 64, 256, 2, 16, 32, 128]
    model = load_synthetic("qwen3-tts-0.6b", torch.device("cuda"), torch.bfloat16, use_graphs=True)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; ms, position {POSITION}")
    print(f"{'batch':>5} {'path':16} {'frame':>8} {'predict':>8} {'talker':>8} launches")
    for batch in batches:
        for path in PATHS:
            if path == "persistent" and batch > 1:
                continue
            with torch.inference_mode():
                try:
                    model.allocate(batch, 400, 300)
                    if path == "chain":
                        for network in (model.talker, model.predictor):
                            network.decoder.is_one_launch = False
                    model.slots.hidden.normal_()
                    model.slots.position.fill_(POSITION)
                    stages = (
                        partial(model._frame, batch),
                        partial(model.predict, batch),
                        partial(model.step, batch),
                    )
                    times = [replay_us(stage, REPLAYS) / 1e3 for stage in stages]
                    count = count_kernels(stages[0], model.device)
                except Exception as error:  # one path must not cost the others
                    print(f"{batch:5} {path:16} {type(error).__name__}: {str(error)[:200]}")
                    continue
            print(
                f"{batch:5} {path:16} {times[0]:8.3f} {times[1]:8.3f} {times[2]:8.3f} {count:8}",
                flush=True,
            )


if __name__ == "__main__":
    main()
