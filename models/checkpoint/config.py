"""Configuration files of checkpoints: JSON objects that fill dataclasses, whose fields have bounds.

A family gives the names of a dataclass's fields in its file; an error names the file, the key, the
expected and the actual value. Checks across fields are a dataclass's `__post_init__`, which raises
ValueError.

A checkpoint is not trusted: every number has an upper bound, far above every released size, and so
low that names and shapes of all tensors can be listed; these are compared with the headers of the
weight files before anything is allocated. A number that no tensor confirms, above all positions,
has a bound that can be allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta

from models.checkpoint.files import CheckpointError, read_json

if TYPE_CHECKING:
    from models.sampling import Setting

MAX_SIZE = 2**20  # of a width, a number of ids, and everything without another bound
MAX_POSITIONS = 2**20  # 24 hours of frames
MAX_KERNEL = 2**10  # steps of a convolution
MAX_TABLE = 2**25  # numbers of a RoPE table: positions times width of a head
MAX_FRAME_SAMPLES = 2**14
MAX_NAME_CHARS = 100

Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
Id = Annotated[int, Meta(ge=0, le=MAX_SIZE)]
Count = Annotated[int, Meta(ge=1, le=2**10)]  # of layers or heads
HeadDim = Annotated[int, Meta(ge=1, le=2**12)]
Codebooks = Annotated[int, Meta(ge=1, le=2**8)]
ManyCodebooks = Annotated[int, Meta(ge=2, le=2**8)]  # the first and others
Positions = Annotated[int, Meta(ge=1, le=MAX_POSITIONS)]
Kernel = Annotated[int, Meta(ge=1, le=MAX_KERNEL)]
RateHz = Annotated[int, Meta(ge=1, le=384_000)]
Number = Annotated[float, Meta(ge=1e-12, le=1e12)]
Theta = Annotated[float, Meta(ge=1, le=1e12)]  # base of RoPE
Factors = Annotated[tuple[Kernel, ...], Meta(min_length=1, max_length=8)]
Sizes = Annotated[tuple[Size, ...], Meta(min_length=1, max_length=8)]

T = TypeVar("T")


class Section:
    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    @classmethod
    def from_file(cls, path: Path) -> Section:
        """Read a JSON object. Raises CheckpointError."""
        values = read_json(path)
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}: is not a JSON object")
        return cls(values, str(path))

    def wrong(self, what: object) -> CheckpointError:
        """Return the error to raise if a value of this file is wrong."""
        return CheckpointError(f"{self.where}: {what}")

    def get(self, key: str, kind: Any) -> Any:
        """Return the value of a key, as a type with its bounds. Raises CheckpointError."""
        if key not in self.values:
            raise self.wrong(f"key {key!r} is missing")
        value = self.values[key]
        try:
            return msgspec.convert(value, kind)
        except (msgspec.ValidationError, UnicodeError) as error:
            found = "text" if isinstance(error, UnicodeError) else str(error)
            expected = found.partition(" - at ")[0].replace("`", "")
            expected = expected.removeprefix("Expected ").partition(", got")[0]
            if " - at `$[" in str(error):
                expected = f"a list of {expected}"
            raise self.wrong(f"{key!r} must be {expected:.100}, not {value!r:.60}") from None

    def fill(self, kind: type[T], names: Mapping[str, str] | None = None, /, **given: Any) -> T:
        """Return a dataclass whose fields are keys of this object.

        Args:
            names: the key of a field, if it is not the field's name.
            given: fields that are not read from the file.
        Raises:
            CheckpointError: a key is missing or wrong, or values contradict each other.
        """
        hints = get_type_hints(kind, include_extras=True)
        found = dict(given)
        for field in fields(kind):  # type: ignore[arg-type]  # a dataclass
            key = (names or {}).get(field.name, field.name)
            if field.name not in given and (key in self.values or field.default is MISSING):
                found[field.name] = self.get(key, hints[field.name])
        try:
            return kind(**found)
        except ValueError as error:
            raise self.wrong(error) from None

    def section(self, key: str) -> Section:
        return Section(self.get(key, dict), f"{self.where}: {key}")

    def section_or_empty(self, key: str) -> Section:
        """Return a nested object; an empty one if the key is absent or null."""
        return self.section(key) if self.has(key) else Section({}, self.where)

    def has(self, key: str) -> bool:
        """Whether a key is present and not null."""
        return self.values.get(key) is not None

    def shown(self, value: str, what: str) -> str:
        """Return the text itself. Raises CheckpointError if a terminal should not print it."""
        if not value.isprintable() or not 0 < len(value) <= MAX_NAME_CHARS:
            raise self.wrong(
                f"{what} must be 1 to {MAX_NAME_CHARS} printable characters, not {value!r:.60}"
            )
        return value

    def token_id(self, key: str, vocab_size: int) -> int:
        value = int(self.get(key, Id))
        if value >= vocab_size:
            raise self.wrong(f"{key!r} is {value}, but the vocabulary has {vocab_size} ids")
        return value

    def setting(self, key: str, setting: Setting) -> float:
        """Return a sampling setting, in the range that manifest rows have."""
        value: float = self.get(key, setting.kind)
        if setting.limits is not None and (problem := setting.limits.problem(value)):
            raise self.wrong(f"{key!r} {problem:.200}")
        return value

    def expect(self, **accepted: Any) -> None:
        """Refuse settings that this code does not implement; an absent key passes.

        Args:
            accepted: the only accepted value of each key.
        """
        for key, only in accepted.items():
            if (value := self.values.get(key, only)) != only:
                raise self.wrong(f"{key} = {value!r:.60} is not supported (only {(only,)})")


def check_frame(samples_per_frame: int) -> None:
    if samples_per_frame > MAX_FRAME_SAMPLES:
        raise ValueError(
            f"a frame has {samples_per_frame!r:.60} samples; the maximum is {MAX_FRAME_SAMPLES}"
        )
