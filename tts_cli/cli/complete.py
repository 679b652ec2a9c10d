"""What a shell can complete of a flag's value. No torch, no network, no errors: a shell that waits
for a Tab wants nothing else on its line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tts_cli.config import RunConfig

if TYPE_CHECKING:
    from models.base import ModelInfo

MAX_IDS = 200
MAX_JOURNAL_BYTES = 8 << 20

Names = Callable[[click.Context, str], Iterator[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completer(names: Names) -> Completer:
    """Those names that begin with what is typed, letter case ignored."""

    @wraps(names)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        start = incomplete.casefold()
        os.environ["HF_HUB_OFFLINE"] = "1"  # of this process, which ends with its answer
        try:
            return [name for name in names(ctx, incomplete) if name.casefold().startswith(start)]
        except Exception:  # whatever it is, this is not the place to tell
            return []

    return complete


def _info(ctx: click.Context) -> ModelInfo:
    """The checkpoint that the line names so far."""
    from tts_cli.plan.checkpoint import read_info

    return read_info(RunConfig(model=ctx.params.get("model"), revision=ctx.params.get("revision")))


@completer
def voices(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """Speakers of the checkpoint, or voice files."""
    from tts_cli.voices.voice_folder import VoiceFolder

    info = _info(ctx)
    if not info.takes_voice_files:
        yield from info.voices
    else:
        folder = ctx.params.get("voices")
        yield from VoiceFolder(None if folder is None else Path(folder)).names()


@completer
def languages(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """Languages of the checkpoint."""
    yield from _info(ctx).languages


@completer
def normalizers(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """What --normalize takes."""
    from tts_cli.text.care import LANGUAGES

    yield from ("auto", "off", *LANGUAGES)


@completer
def devices(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """auto, cpu, and the GPUs that the driver lists."""
    yield from ("auto", "cpu")
    gpus = Path("/proc/driver/nvidia/gpus")
    count = len(list(gpus.iterdir())) if gpus.is_dir() else 0
    if count:
        yield "cuda"
    yield from (f"cuda:{number}" for number in range(count))


@completer
def ids(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """Ids of the rows in --out, by its journal."""
    from tts_cli.core import Status
    from tts_cli.folder.take import Take
    from tts_cli.manifest.ids import is_recorded_id

    out: Any = ctx.params.get("out")
    found: dict[str, None] = {}
    with open(Path(out) / "timings.jsonl", "rb") as file:
        for line in file.read(MAX_JOURNAL_BYTES).splitlines():
            if (take := Take.decode(line)) is None:
                continue
            if take.status is Status.GONE:
                found.pop(take.id, None)
            elif is_recorded_id(take.id) and take.id.startswith(incomplete):
                found[take.id] = None
            if len(found) >= MAX_IDS:
                break
    yield from found


VALUES = {  # of flags, by their settings
    "voice": voices,
    "language": languages,
    "normalize": normalizers,
    "device": devices,
    "only": ids,
}
