"""Speak one text into a file, from Python.

python samples/library/say_one.py "The ferry leaves at noon." noon.wav
"""

from __future__ import annotations

import sys

from tts_cli import RowError, Speaker


def main(text: str, path: str) -> int:
    """Returns the exit code."""
    with Speaker(max_batch=1) as speaker:  # the sample voice; model="PATH or REPO" for others
        try:
            speech = speaker.say(text, voice="clara")
        except RowError as error:
            print(f"cannot be synthesized: {error}", file=sys.stderr)
            return 1
        speech.save(path)
    print(f"{path}: {speech.seconds:.2f} s, seed {speech.seed}")
    for what in speech.suspect:
        print(f"listen to it: {what}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
