"""Keep what the talker learns from in files of at most 16 MB: texts, places and codes.

    python3 pack.py SPEECH CODES OUT [--hours 18]

A folder of such files is speech enough for `train.py talker`, hours after the teachers' speech is
gone. The men's speech, which costs more, comes first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from data import PACK, save_pack
from train import Feed

HOURS_EACH = 18.0  # of one file
FRAMES_PER_HOUR = 45_000


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("speech", type=Path)
    parser.add_argument("codes", type=Path)
    parser.add_argument("out", type=Path, help="folder")
    parser.add_argument("--hours", type=float, default=HOURS_EACH, help="in all (18)")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    feed = Feed(args.speech, args.codes, 10**9, args.device)
    items, codes = feed.more()
    men = [place for place, item in enumerate(items) if item.voice != "heart"]
    women = [place for place, item in enumerate(items) if item.voice == "heart"]
    number, left = 0, int(args.hours * FRAMES_PER_HOUR)
    chosen: list[int] = []
    size = 0
    for place in [*men, *women, None]:
        frames = 0 if place is None else len(codes[place])
        is_last = place is None or left < frames
        if chosen and (is_last or size + frames > HOURS_EACH * FRAMES_PER_HOUR):
            path = args.out / f"{number:02d}{PACK}"
            save_pack(path, [items[one] for one in chosen], [codes[one] for one in chosen])
            print(f"{path.name}: {len(chosen)} texts, {size / FRAMES_PER_HOUR:.1f} hours")
            number, chosen, size = number + 1, [], 0
        if is_last:
            break
        chosen.append(place)
        size, left = size + frames, left - frames


if __name__ == "__main__":
    main()
