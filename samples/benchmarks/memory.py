"""Runs on a GPU of 8 to 80 GB, made of a larger one: another process takes what is too much.

That process asks the driver for plain memory and does nothing with it. So a run meets what it would
meet on the smaller card: less is free, its CUDA context counts, and what it asks for beyond that
fails. A run is right that ends well, without having had to step down from the number of rows that
was chosen by the memory's size.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import manifests
from process import CommandFailed, Commands
from whole_run import GIB, Figures, Place, speak

# GB: MiB as drivers say of an RTX 4060, 4070 and 4090, an L40S and an H100; the kernels of each.
CARDS = {
    8: (8_188, "portable"),
    12: (12_282, "portable"),
    24: (24_564, "portable"),
    48: (46_068, "portable"),
    80: (81_559, "auto"),
}
MODELS = {
    "0.6B": ("synthetic:qwen3-tts-0.6b", manifests.FRAMES),
    "1.7B": ("synthetic:qwen3-tts-1.7b", manifests.FRAMES),
    "Fish S2 Pro": ("synthetic:fish-s2-pro", manifests.FISH_FRAMES),
}
ROWS = 272  # more than the 256 that are spoken at once by default
START_S = 60.0
BALLAST = """
import sys
import torch

MIB = 2**20
free, total = torch.cuda.mem_get_info()
held = []
for line in sys.stdin:
    held.clear()
    torch.cuda.empty_cache()
    left = int(line)
    for size in (1024, 128, 16, 2):
        while torch.cuda.mem_get_info()[0] - size * MIB >= left:
            held.append(torch.empty(size * MIB, dtype=torch.uint8, device="cuda"))
    print(torch.cuda.mem_get_info()[0], flush=True)
"""


class Ballast:
    """Another process's memory on the device."""

    def __init__(self, log: Path) -> None:
        with log.open("a") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BALLAST],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
            )

    def leave(self, num_bytes: int) -> int:
        """Take all but so many bytes of the device; how many are free then."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{num_bytes}\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why
        line = process.stdout.readline()
        if not line:
            raise CommandFailed("there is no device to take memory of")
        return int(line)

    def __enter__(self) -> Ballast:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        with suppress(BrokenPipeError), self._process:
            pass  # closes its pipes


def measure(place: Place) -> Figures:
    """What each model chooses, needs and reaches on each card; why it failed where it did."""
    found: Figures = {"runs": []}
    place.commands.close()  # its context takes memory
    with Ballast(place.commands.log) as ballast:
        for card, (size_mib, kernels) in CARDS.items():
            free = ballast.leave(size_mib * 2**20)
            if free < 0.97 * size_mib * 2**20:
                found["runs"].append({"card": card, "error": "this device is smaller"})
                continue
            for name, (model, lengths) in MODELS.items():
                one: Figures = {"card": card, "model": name, "free_gib": free / GIB}
                try:
                    flags = ("--model", model, *place.flags, "--kernels", kernels)
                    one |= _run(place, lengths, f"{card}-{name.split()[0]}", flags)
                except CommandFailed as error:
                    one["error"] = str(error)
                found["runs"].append(one)
                shown = {key: value for key, value in one.items() if value is not None}
                print(f"#   {card} GB, {name}: {shown}", flush=True)
    return found


def _run(place: Place, lengths: str, name: str, flags: tuple[str, ...]) -> Figures:
    """One run in a process of its own."""
    manifest = manifests.write(manifests.rows(ROWS, lengths), place.folder / f"memory-{name}.jsonl")
    with Commands(place.commands.log) as commands:
        return speak(
            commands, manifest, place.folder / f"memory-{name}", "--accept-licence", *flags
        )


def lines(figures: Figures) -> dict[str, str]:
    """A line for each card and model; one that stepped down says that it is wrong."""
    found = {}
    for one in figures["runs"]:
        name = f"{one['card']} GB, {one.get('model', 'all')}"
        if "error" in one:
            found[name] = f"failed: {one['error']}"
            continue
        wrong = "WRONG: stepped down; " if one["step_downs"] or one["failed"] else ""
        found[name] = (
            f"{wrong}{one['max_batch']} rows at once, {one['peak_gib']:.1f} of "
            f"{one['reserved_gib']:.1f} GiB, {one['xrt']:,.0f} xRT"
        )
    return found
