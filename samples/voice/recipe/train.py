"""Train one part beside a running teachers.py: new chunks of speech are encoded and taken in.

`encode` trains nothing: it leaves the codes beside the chunks, for the talker to come.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from codec import CodecTraining
from codec import train as train_codec
from data import PACK, Utterance, encode, finished_chunks, load_chunk, load_pack
from features import Features, Quantizer
from numpy.typing import NDArray
from safetensors.torch import load_file
from talker import TalkerTraining
from talker import train as train_talker
from talker_data import Store
from team import Team
from torch import Tensor

NUM_VALIDATION = 300  # utterances of the first chunks, kept out of the talker's training
ALL = 10**9


class Log:
    """Prints lines with the seconds since the start and keeps them in a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.start_s = path, time.time()

    def __call__(self, message: str) -> None:
        """Write one line."""
        line = f"[{time.time() - self.start_s:6.0f}] {message}"
        print(line, flush=True)
        with self.path.open("a") as file:
            file.write(line + "\n")


class Feed:
    """Finished chunks of speech, each encoded once; of a team, every process takes its share."""

    def __init__(
        self, folder: Path, codes: Path, max_chunks: int, device: str, rank: int = 0, size: int = 1
    ) -> None:
        state = load_file(codes)
        self.folder, self.max_chunks, self.device = folder, max_chunks, device
        self.rank, self.size = rank, size
        self.extractor, self.quantizer = Features(device), Quantizer(state, device)
        self.books = state["books"]
        self.is_silent = False  # whether codes alone will do
        self.seen: set[Path] = set()

    def _finished(self) -> list[Path]:
        paths = finished_chunks(self.folder)
        return [path for path in paths if crc32(path.stem.encode()) % self.size == self.rank]

    def _load(self, path: Path) -> tuple[list[Utterance], list[NDArray[np.uint8]]]:
        """A chunk and its codes, from the file beside it where another process has left them."""
        kept = path.with_suffix(".npy")
        items = load_chunk(path, self.is_silent and kept.exists())
        if kept.exists():
            rows = np.load(kept)
            return items, np.split(rows, np.cumsum([len(item.places) for item in items])[:-1])
        max_frames = 6000 if self.device == "cpu" else 60_000
        codes = encode(items, self.extractor, self.quantizer, self.device, max_frames)
        part = kept.with_suffix(f".{os.getpid()}.part.npy")
        np.save(part, np.concatenate(codes))
        part.rename(kept)
        return items, codes

    def wait(self, num_chunks: int) -> None:
        """Return when that many chunks are there."""
        while len(self._finished()) < num_chunks:
            time.sleep(0.3)

    def more(self, limit: int = ALL) -> tuple[list[Utterance], list[NDArray[np.uint8]]]:
        """Utterances and codes of at most `limit` new chunks; empty lists when there are none."""
        new = [path for path in self._finished() if path not in self.seen]
        items: list[Utterance] = []
        codes: list[NDArray[np.uint8]] = []
        for path in new[: max(0, self.max_chunks - len(self.seen))][:limit]:
            is_pack = path.name.endswith(PACK)
            chunk, rows = load_pack(path) if is_pack else self._load(path)
            items += chunk
            codes += rows
            self.seen.add(path)
        return items, codes


def run_codec(
    feed: Callable[[], Feed], first: int, settings: CodecTraining, out: Path, log: Log
) -> None:
    """Train the codec decoder, once codes and `first` chunks are there."""
    feeds: list[Feed] = []
    items: list[Utterance] = []
    codes: list[NDArray[np.uint8]] = []

    def refresh() -> tuple[list[Utterance], list[NDArray[np.uint8]]] | None:
        new_items, new_codes = feeds[0].more()
        items.extend(new_items)
        codes.extend(new_codes)
        return (items, codes) if new_items else None

    def speech() -> tuple[tuple[list[Utterance], list[NDArray[np.uint8]]], Tensor]:
        feeds.append(feed())
        feeds[0].wait(first)
        refresh()
        hours = sum(map(len, codes)) * 0.08 / 3600
        log(f"{len(items)} utterances, {hours:.1f} hours")
        return (items, codes), feeds[0].books

    train_codec(speech, out / "codec.pt", settings, log, refresh)


def run_talker(
    feed: Feed, settings: TalkerTraining, out: Path, log: Log, team: Team, first: int
) -> None:
    """Train talker and code predictor, once `first` chunks are encoded."""
    store, validation = Store(settings.device), Store(settings.device)

    def add(target: Store, items: list[Utterance], codes: list[NDArray[np.uint8]]) -> None:
        texts, voices = [item.text for item in items], [item.voice for item in items]
        target.add(texts, voices, codes, [item.places for item in items])

    def refresh() -> bool:
        has_grown = False
        while (chunk := feed.more(8))[0]:
            items, codes = chunk
            if not validation.texts:
                add(validation, items[:NUM_VALIDATION], codes[:NUM_VALIDATION])
                validation.freeze()
                items, codes = items[NUM_VALIDATION:], codes[NUM_VALIDATION:]
            add(store, items, codes)
            has_grown = True
        if has_grown and store.texts:  # the first chunk may all be kept out
            store.freeze()
            num_frames = int(store.num_frames.sum())
            log(f"{len(store.texts)} utterances, {num_frames * 0.08 / 3600:.1f} hours")
        return has_grown

    while len(feed.seen) < min(first, feed.max_chunks) or not store.texts:
        if len(feed.seen) >= feed.max_chunks:
            raise SystemExit(f"{len(feed.seen)} chunks are too few: all their texts are kept out")
        if not refresh():
            time.sleep(0.3)
    train_talker(store, validation, out / "talker.pt", settings, log, refresh, team)


def parse_heads(text: str) -> tuple[tuple[int, int], ...]:
    """ "4:1,3:0" to ((4, 1), (3, 0))."""
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    return tuple((int(layer), int(head)) for layer, head in pairs)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["codec", "talker", "encode"])
    parser.add_argument("--speech", type=Path, required=True, help="folder teachers.py writes to")
    parser.add_argument("--out", type=Path, required=True, help="folder for PART.pt and PART.log")
    parser.add_argument("--codes", type=Path, required=True, help="file of fit_codes.py")
    parser.add_argument("--seconds", type=float, default=1200, help="length of the training (1200)")
    parser.add_argument("--first", type=int, default=8, help="chunks to wait for (8)")
    parser.add_argument("--most", type=int, default=ALL, help="chunks to use at most (all)")
    parser.add_argument("--lr", type=float, help="peak learning rate (codec 6e-4, talker 1.2e-3)")
    parser.add_argument(
        "--init",
        type=Path,
        help="checkpoint folder to go on from, or talker: a run's talker.pt (random weights)",
    )
    parser.add_argument(
        "--final-rate",
        type=float,
        default=0.0,
        help="share of the learning rate left at the end, for a run to go on (0, codec 0.03)",
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=24, help="codec: segments a step (24)")
    parser.add_argument("--gan-at", type=float, default=0.2, help="codec: share of time (0.2)")
    parser.add_argument("--judge-lr", type=float, default=6e-4, help="codec: of the GAN (6e-4)")
    parser.add_argument(
        "--positions", type=int, default=40_000, help="talker: positions a step and GPU (40000)"
    )
    parser.add_argument(
        "--guide",
        default="4:1,3:0",
        help="talker: layer:head pairs taught to look at the text being spoken (4:1,3:0)",
    )
    args = parser.parse_args()
    # Both are read later: at the import of transformers, at the first allocation.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    args.out.mkdir(parents=True, exist_ok=True)
    team = Team(args.device)
    log = Log(args.out / f"{args.part}{team.rank or ''}.log")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    def make_feed() -> Feed:
        while not args.codes.exists():
            time.sleep(0.3)
        return Feed(args.speech, args.codes, args.most, args.device, team.rank, team.size)

    if args.part == "codec":
        codec = CodecTraining(
            seconds=args.seconds,
            device=args.device,
            batch=args.batch,
            gan_start=args.gan_at,
            learning_rate=args.lr or CodecTraining.learning_rate,
            judge_rate=args.judge_lr,
            final_rate=args.final_rate or CodecTraining.final_rate,
            init=args.init,
        )
        run_codec(make_feed, args.first, codec, args.out, log)
    elif args.part == "encode":
        feed = make_feed()
        feed.is_silent = True
        until_s = time.time() + args.seconds
        while time.time() < until_s and not (args.out / "codec.done").exists():
            if not feed.more(8)[0]:
                time.sleep(0.3)
    else:
        feed = make_feed()
        feed.is_silent = True
        talker = TalkerTraining(
            seconds=args.seconds,
            device=args.device,
            max_positions=args.positions,
            learning_rate=args.lr or TalkerTraining.learning_rate,
            final_rate=args.final_rate,
            init=args.init,
            guided=parse_heads(args.guide),
        )
        run_talker(feed, talker, args.out, log, team, args.first)
    if team.is_first:
        (args.out / f"{args.part}.done").write_text("ok")
    log("finished")


if __name__ == "__main__":
    main()
