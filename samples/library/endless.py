"""Speak lines as they come, for as long as they come: each is heard before the next is written.

    python samples/library/endless.py spoken/ < a_pipe

Lines of the standard input become spoken/000001.wav and so on, and a line of the standard output
each. The end of the input ends it, and so does Ctrl-C.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tts_cli import Speaker


def main(folder: str) -> int:
    """Returns the exit code."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    lines = (line.strip() for line in sys.stdin)
    failed = 0
    with Speaker() as speaker:
        for speech in speaker.batch(filter(None, lines), ordered=False):
            if speech.error is None:
                path = speech.save(out / f"{speech.id}.wav")
                print(f"{path}: {speech.seconds:.2f} s: {speech.text}", flush=True)
            else:
                failed += 1
                print(f"{speech.id}: {speech.error}", file=sys.stderr, flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
