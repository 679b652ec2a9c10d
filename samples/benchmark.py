"""Print the manifest of the README's whole-run benchmark: rows of 62 to 187 frames (5 to 15 s).

    python samples/benchmark.py 1024 > rows.jsonl

Random weights never end a row by themselves, so `max_frames` is each row's length. Texts grow with
it, as real ones do. The same arguments give the same rows.
"""

from __future__ import annotations

import argparse
import json

SHORTEST, SPAN = 62, 126  # frames
CHARS_PER_FRAME = 0.55
TEXT = (
    "It was late, and the rain had not stopped since the morning, so nobody came to the harbour. "
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", type=int, nargs="?", default=1024, help="how many (1024)")
    for row in range(parser.parse_args().rows):
        frames = SHORTEST + row * 7919 % SPAN
        text = (TEXT * 3)[: round(CHARS_PER_FRAME * frames)]
        print(json.dumps({"id": f"{row:05d}", "text": text, "max_frames": frames}))


if __name__ == "__main__":
    main()
