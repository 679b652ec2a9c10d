"""Configuration files of checkpoints: JSON objects whose reads name file and key when they fail.

Whoever wrote them is not trusted: no number is taken without an upper bound. Bounds lie far above
every released size, and so low that names and shapes of all tensors can be listed at once; these
are compared with the weight files' headers, which no file is too small for, before anything is
allocated. What no tensor vouches for, positions above all, has a bound that can be allocated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models.checkpoint.files import CheckpointError, read_json
from models.sampling import Setting

MAX_SIZE = 2**20  # of a width, a number of ids, and whatever has no bound of its own
MAX_POSITIONS = 2**20  # 24 hours of frames
MAX_TABLE = 2**25  # numbers of a RoPE table: positions times width of a head
MAX_KERNEL = 2**10  # steps of a convolution
MAX_FRAME_SAMPLES = 2**14
MAX_RATE_HZ = 384_000
LIMITS = {  # by our own names
    "num_layers": 2**10,
    "num_heads": 2**10,
    "num_kv_heads": 2**10,
    "head_dim": 2**12,
    "num_codebooks": 2**8,
    "num_stored_codebooks": 2**8,
    "max_positions": MAX_POSITIONS,
    "kernel": MAX_KERNEL,
    "residual_kernel": MAX_KERNEL,
    "last_kernel": MAX_KERNEL,
    "sample_rate_hz": MAX_RATE_HZ,
}
MAX_FACTORS = 8  # entries of a list of sizes
MAX_NUMBER = 1e12  # of what is no size
MIN_NUMBER = 1e-12
MAX_NAME_CHARS = 100


class Section:
    """A JSON object whose reads name file and key when they fail."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    @classmethod
    def from_file(cls, path: Path) -> Section:
        """Read a JSON object; raises CheckpointError naming the file."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: is not a JSON object")
        return cls(values, str(path))

    def wrong(self, what: str) -> CheckpointError:
        """What is to be raised where something here is wrong."""
        return CheckpointError(f"{self.where}: {what}")

    def section(self, key: str) -> Section:
        """A nested object."""
        return Section(self.read(key, dict), f"{self.where}: {key}")

    def section_or_empty(self, key: str) -> Section:
        """A nested object; an empty one where the key is absent or null."""
        return self.section(key) if self.holds(key) else Section({}, self.where)

    def holds(self, key: str) -> bool:
        """Whether a key is there and not null."""
        return self.values.get(key) is not None

    def read(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The value of a key of the given type; bool never passes as a number."""
        if key not in self.values:
            raise self.wrong(f"key {key!r} is missing")
        value = self.values[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        is_wrong_bool = isinstance(value, bool) and bool not in kinds
        if not isinstance(value, kinds) or is_wrong_bool:
            names = " or ".join(k.__name__ for k in kinds)
            raise self.wrong(f"{key!r} must be {names}, not {value!r:.60}")
        return value

    def integer(self, key: str, least: int = 0, most: int = MAX_SIZE) -> int:
        """A whole number of at least `least` and at most `most`."""
        value = int(self.read(key, int))
        if not least <= value <= most:
            limit = f"at least {least}" if value < least else f"at most {most}"
            raise self.wrong(f"{key!r} must be {limit}, but is {value!r:.60}")
        return value

    def count(self, ours: str, key: str | None = None, least: int = 1) -> int:
        """A size under our own name, which says how large it may be.

        Args:
            key: what it is called here; None: the same.
        """
        return self.integer(key or ours, least, LIMITS.get(ours, MAX_SIZE))

    def counts(self, *names: str, **keys: str) -> dict[str, int]:
        """Sizes of at least 1, under our own names.

        Args:
            names: what is called the same here. keys: our name to the one here.
        """
        same = dict(zip(names, names, strict=True))
        return {ours: self.count(ours, key) for ours, key in (same | keys).items()}

    def factors(self, key: str, most: int = MAX_KERNEL) -> tuple[int, ...]:
        """A short list of whole numbers of 1 to `most`, and of at least one of them."""
        values = self.read(key, list)
        is_short = 1 <= len(values) <= MAX_FACTORS
        if not is_short or not all(type(value) is int and 0 < value <= most for value in values):
            raise self.wrong(
                f"{key!r} must be a list of 1 to {MAX_FACTORS} positive numbers up to {most}, not "
                f"{values!r:.60}"
            )
        return tuple(values)

    def name(self, key: str) -> str:
        """A word that can be shown."""
        return self.shown(self.read(key, str), key)

    def names(self) -> list[str]:
        """The keys, as words that can be shown."""
        return [self.shown(name, "a name") for name in self.values]

    def shown(self, value: str, what: str) -> str:
        """The text itself. Raises CheckpointError where a terminal had better not see it."""
        if not value.isprintable() or not 0 < len(value) <= MAX_NAME_CHARS:
            raise self.wrong(
                f"{what} must be 1 to {MAX_NAME_CHARS} printable characters, not {value!r:.60}"
            )
        return value

    def token_id(self, key: str, vocab_size: int) -> int:
        """An id of a vocabulary."""
        value = self.integer(key)
        if value >= vocab_size:
            raise self.wrong(f"{key!r} is {value}, but the vocabulary has {vocab_size} ids")
        return value

    def number(self, key: str, least: float = MIN_NUMBER, most: float = MAX_NUMBER) -> float:
        """A number of at least `least`, which is above 0, and at most `most`, as float."""
        value = self.read(key, (int, float))
        if not least <= value <= most:  # neither is NaN
            raise self.wrong(f"{key!r} must be {least:g} to {most:g}, but is {value!r:.60}")
        return float(value)

    def setting(self, key: str, setting: Setting) -> float:
        """A sampling setting, in the range that manifest rows keep to."""
        kinds = (int, float) if setting.kind is float else setting.kind
        value = self.read(key, kinds)
        if setting.limits is not None and (problem := setting.limits.problem(value)):
            raise self.wrong(f"{key!r} {problem:.200}")
        return setting.kind(value)

    def expect(self, **accepted: Any) -> None:
        """Refuse settings this code does not implement; an absent key passes.

        Args:
            accepted: the one value of each key that is taken.
        """
        for key, only in accepted.items():
            if (value := self.values.get(key, only)) != only:
                raise self.wrong(f"{key} = {value!r:.60} is not supported (only {(only,)})")

    def check_heads(self, num_heads: int, num_kv_heads: int, head_dim: int) -> None:
        """Refuse heads that cannot share keys evenly, or whose width RoPE cannot halve."""
        if num_heads % num_kv_heads:
            raise self.wrong(f"{num_heads} heads cannot share {num_kv_heads} key heads")
        if head_dim % 2:
            raise self.wrong(f"head_dim = {head_dim} must be even")

    def check_table(self, positions: int, head_dim: int) -> None:
        """Refuse tables of RoPE that take too much memory; no tensor says how long they are."""
        if positions * head_dim > MAX_TABLE:
            raise self.wrong(
                f"{positions} positions of heads {head_dim} wide exceed the size of RoPE "
                f"tables ({MAX_TABLE} numbers)"
            )

    def check_frame(self, samples_per_frame: int) -> None:
        """Refuse frames of too many samples."""
        if samples_per_frame > MAX_FRAME_SAMPLES:
            raise self.wrong(
                f"a frame has {samples_per_frame!r:.60} samples; the maximum is {MAX_FRAME_SAMPLES}"
            )
