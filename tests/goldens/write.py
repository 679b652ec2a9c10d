"""Writes the goldens anew, and says what is otherwise than before.

    python tests/goldens/write.py [SECTION ...]     # of spoken, folders, states, words; all
    python tests/goldens/write.py --look            # says what would be otherwise, writes nothing
    python tests/goldens/write.py --shake 1         # the same with noise in every product
    python tests/goldens/write.py --show folders picked check    # prints a fact

The frozen folders stay as they are; `freeze.py` makes those.
"""

from __future__ import annotations

import difflib
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from desk import HERE, Desk, parser, write_models
from freeze import PRESET, frozen_names, unpack
from readers import facts_of
from spoken import speak_all
from states import states_of
from words import words_of

Facts = dict[str, Any]
SECTIONS: dict[str, Callable[[Desk], Facts]] = {
    "spoken": speak_all,
    "folders": lambda desk: {name: facts_of(desk, name) for name in frozen_names()},
    "states": states_of,
    "words": words_of,
}
MAX_SHOWN = 60
NOISE = 1e-5  # relative; float32 has 6e-8


def make_desk(path: Path) -> Desk:
    """A desk with checkpoints and frozen folders."""
    path.mkdir(parents=True, exist_ok=True)
    desk = Desk(path)
    write_models(desk)
    unpack(desk.path)
    return desk


def file_of(section: str) -> Path:
    return HERE / f"{section}.json.xz"


def kept(section: str) -> Facts:
    """The golden facts of a section."""
    found: Facts = json.loads(lzma.decompress(file_of(section).read_bytes()))
    return found


def keep(section: str, facts: Facts) -> None:
    """Write them."""
    text = json.dumps(facts, indent=0, ensure_ascii=False, sort_keys=True)
    file_of(section).write_bytes(lzma.compress(text.encode(), preset=PRESET))


def as_kept(facts: Facts) -> Facts:
    """As they would be read back."""
    found: Facts = json.loads(json.dumps(facts))
    return found


def differences(wanted: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where two facts are not the same, one a line."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            place = f"{where} > {key}" if where else key
            if key not in found:
                yield f"{place}: is gone, was {_shown(wanted[key])}"
            elif key not in wanted:
                yield f"{place}: is new, {_shown(found[key])}"
            else:
                yield from differences(wanted[key], found[key], place)
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(wanted, list) and isinstance(found, list):
        before, after = ([_shown(entry) for entry in one] for one in (wanted, found))
        for line in difflib.unified_diff(before, after, n=0, lineterm=""):
            if not line.startswith(("---", "+++", "@@")):
                yield f"{where}: {line}"
    elif wanted != found:
        yield f"{where}: was {_shown(wanted)}, is {_shown(found)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}..."


def told(differing: list[str]) -> str:
    """A list of differences, the first of them in full."""
    rest = len(differing) - MAX_SHOWN
    return "\n".join([*differing[:MAX_SHOWN], *([f"and {rest} more"] if rest > 0 else [])])


def shake(seed: int) -> None:
    """Add noise to the products of all layers, a hundred times what processors differ by."""
    import torch
    from torch.nn import functional

    noise = torch.Generator().manual_seed(seed)

    def shaken(real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def product(*args: Any, **kwargs: Any) -> torch.Tensor:
            out = real(*args, **kwargs)
            return out * (1 + NOISE * torch.randn(out.shape, generator=noise))

        return product

    functional.linear, functional.conv1d = map(shaken, (functional.linear, functional.conv1d))


def main() -> int:
    """Command line."""
    known = parser(__doc__)
    known.add_argument("sections", nargs="*")
    known.add_argument("--look", action="store_true", help="1: some differ")
    known.add_argument("--show", action="store_true", help="print the fact of this path")
    known.add_argument("--shake", type=int, metavar="SEED", help="look with noise; 1: some differ")
    options = known.parse_args()
    is_looking = options.look or options.shake is not None
    if options.shake is not None:
        shake(options.shake)
    if options.show:
        fact: Any = kept(options.sections[0])
        for key in options.sections[1:]:
            fact = fact[int(key) if isinstance(fact, list) else key]
        print(json.dumps(fact, indent=1, ensure_ascii=False))
        return 0
    has_changed = False
    with tempfile.TemporaryDirectory() as scratch:
        desk = make_desk(Path(scratch) / "desk")
        for section in options.sections or SECTIONS:
            started_s = time.perf_counter()
            facts = as_kept(SECTIONS[section](desk))
            before = kept(section) if file_of(section).exists() else {}
            differing = list(differences(before, facts))
            seconds = time.perf_counter() - started_s
            print(f"{section}: {len(facts)} facts, {len(differing)} differ; {seconds:.1f} s")
            if differing:
                print(told(differing))
                has_changed = True
                if not is_looking:
                    keep(section, facts)
    return int(is_looking and has_changed)


if __name__ == "__main__":
    sys.exit(main())
