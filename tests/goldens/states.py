"""The state of every row of a mixed folder under settings that make other rows done or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from desk import Desk
from readers import told

FOLDER = "mixed"
SETTINGS: dict[str, tuple[object, ...]] = {
    "as spoken": (),
    "another seed": ("--seed", 9, "--redo"),
    "another seed, not settled": ("--seed", 9),
    "another seed, done rows kept": ("--seed", 9, "--keep-done"),
    "another temperature": ("--temperature", 0.5, "--redo"),
    "greedy": ("--greedy", "--redo"),
    "another cap": ("--max-seconds", 0.05, "--redo"),
    "another format": ("--format", "wav"),
    "another level": ("--loudness", "-30"),
    "codes kept": ("--save-codes",),
    "overwrite": ("--overwrite",),
    "overwrite by another seed": ("--overwrite", "--seed", 9),
    "retry failed": ("--retry-failed",),
    "only some": ("--only", "a,d,l,q"),
    "more takes": ("--takes", 3),
    "verified": ("--verify-files",),
    "pruned": ("--prune",),
    "whole": ("--split", "off", "--redo"),
    "other pauses": ("--pause-sentence", 0.1, "--redo"),
    "read in words": ("--normalize", "english", "--redo"),
    "another voice": ("--voice", "fang", "--redo"),
    "another language": ("--language", "german", "--redo"),
    "streaming": ("--layout", "streaming", "--redo"),
    "reproducible": ("--reproducible", "--max-batch", 4, "--redo"),
    "a shard": ("--shard", "1/2"),
    "wordless fail": ("--wordless", "fail", "--skip-invalid"),
    "another model": ("--model", "models/other", "--redo"),
}


def states_of(desk: Desk) -> dict[str, Any]:
    """By setting: each row's state, and what a dry run counts."""
    kind = json.loads((desk.path / FOLDER / "kind.json").read_text())
    found: dict[str, Any] = {}
    for manifest in ("rows", "fewer"):
        for name, flags in SETTINGS.items():
            if manifest == "fewer" and name not in ("as spoken", "pruned", "overwrite"):
                continue
            given = ["synth", f"{FOLDER}/{manifest}.jsonl", "--out", f"{FOLDER}/out"]
            given += ["--model", f"models/{kind['model']}", "--device", "cpu"]
            with noted_states() as states:
                said = desk.run(*given, "--dry-run", "--json", *kind["flags"], *flags)
            found[f"{manifest}: {name}"] = {"states": states, **told(said)}
    return found


@contextmanager
def noted_states() -> Iterator[dict[str, list[str]]]:
    """Inside, what the planner finds of each row is noted, by id.

    The one place of the goldens that knows insides: change it with `FolderDiff.by_record`, which
    rows that are in no journal do not reach, and `Plan._count`.
    """
    from tts_cli.plan.diff import FolderDiff
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.resolve import ResolvedRow

    real, count = FolderDiff.by_record, Plan._count
    states: dict[str, list[str]] = {}

    def counted(plan: Plan, resolved: ResolvedRow, *more: Any, **named: Any) -> None:
        states.setdefault(resolved.row.id, ["NEW"])
        count(plan, resolved, *more, **named)

    def noted(folder: FolderDiff, resolved: ResolvedRow) -> Any:
        found = real(folder, resolved)
        about = [found.do.value.upper()]
        about += [f"take {found.pinned.take} chosen"] if found.pinned else []
        about += ["choice has fallen"] if found.is_unpinned else []
        about += ["as expected"] if found.is_expected else []
        about += [f"made of {found.job.source.kind}"] if found.job else []
        about += [f"not kept: {found.not_convertible}"] if found.not_convertible else []
        states[resolved.row.id] = about
        return found

    FolderDiff.by_record = noted  # type: ignore[method-assign]
    Plan._count = counted  # type: ignore[method-assign]
    try:
        yield states
    finally:
        FolderDiff.by_record = real  # type: ignore[method-assign]
        Plan._count = count  # type: ignore[method-assign]
