"""Voice files by name: a user's in a folder, generated ones in the `.voices` of an output folder.

Every file is untrusted: links out of the folder are not followed, and a damaged file is reported,
never used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tts_cli import signals
from tts_cli.atomic import is_part, write_atomic, write_standalone
from tts_cli.config import users_folder
from tts_cli.errors import RowError, SetupError, StoppedEarly, UsageError
from tts_cli.events import Count
from tts_cli.named import counted, nearest, shown
from tts_cli.sources.ids import VOICES, fold_id, id_problem
from tts_cli.sources.mapping import MAX_NAME_CHARS
from tts_cli.store.files import CODES_SUFFIX
from tts_cli.voices.generated import (
    PREFIX,
    GeneratedVoice,
    bytes_of,
    damaged,
    file_of,
    files_of,
    is_made,
    json_last,
    json_of,
    read_generated,
)
from tts_cli.voices.recording import opened
from tts_cli.voices.voice_file import MAX_FILE_BYTES, SUFFIX, StoredVoice, decode, encode

if TYPE_CHECKING:
    from models.base import ModelInfo

log = logging.getLogger(__name__)

_MAX_LISTED = 1000
_REMEMBERED = 256  # voices, and errors


def default_folder() -> Path:
    return users_folder("XDG_DATA_HOME", ".local/share") / "voices"


def name_problem(name: str) -> str | None:
    """Return why a user's voice cannot have this name, or None."""
    if "/" in name:
        return "contains '/'; the name of a voice is not a path"
    if len(name) > MAX_NAME_CHARS:
        return f"is longer than {MAX_NAME_CHARS} characters"
    if name.startswith((".", "-")):
        return f"starts with '{name[0]}'"
    return id_problem(name)


class WholeFiles(NamedTuple):
    """The undamaged files of a generated voice."""

    made: GeneratedVoice | None
    stored: dict[str, StoredVoice]  # for checkpoints, by file name
    problems: list[str]  # of the other files


class VoiceStore:
    """A user's voices and generated ones, read once. User's voices are found in any letter case.

    Args:
        path: folder of the user's voices; None: the default one.
        out: output folder with generated voices; None: none.
        source: another output folder whose generated voices count as well, see `bring`.
    """

    def __init__(
        self, path: Path | None = None, *, out: Path | None = None, source: Path | None = None
    ) -> None:
        self.path = default_folder() if path is None else path
        self.out_folder = None if out is None else out / VOICES
        self._folders = [one / VOICES for one in (out, source) if one is not None]
        self._known: OrderedDict[tuple[str, str], StoredVoice | RowError | None] = OrderedDict()

    def find(self, voice: str, info: ModelInfo) -> StoredVoice | None:
        """Return a voice for a checkpoint; None: it must be generated first. Raises RowError."""
        if is_made(voice):
            return self._remembered(voice, info)
        stored = self.load(voice)
        if problem := stored.problem(info):
            raise RowError(f"voice {shown(voice)} {problem}")
        return stored

    def require(self, voice: str, info: ModelInfo) -> StoredVoice:
        """Return a voice for a checkpoint. Raises RowError if it does not exist."""
        if (stored := self.find(voice, info)) is None:
            raise RowError(f"its voice {voice} is missing")
        return stored

    def forget(self) -> None:
        self._known.clear()

    def _remembered(self, voice: str, info: ModelInfo | None) -> StoredVoice | None:
        """Read a voice once. A failure is remembered too. Raises RowError."""
        key = voice, "" if info is None else info.identity
        if key not in self._known:
            try:
                found = self._read(voice) if info is None else self._read_generated(voice, info)
                self._known[key] = found
            except RowError as error:
                self._known[key] = error
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        known = self._known[key]
        if isinstance(known, RowError):
            raise known.with_traceback(None)
        return known

    # A user's voices.

    def names(self) -> list[str]:
        try:
            with os.scandir(self.path) as entries:
                names = [e.name[: -len(SUFFIX)] for e in entries if e.name.endswith(SUFFIX)]
        except OSError:
            return []
        return sorted(name for name in names if name_problem(name) is None)[:_MAX_LISTED]

    def path_of(self, name: str) -> Path | None:
        if name_problem(name) is not None:
            return None
        exact = self.path / (name + SUFFIX)
        if os.path.lexists(exact):
            return exact
        folded = fold_id(name)
        for entry in self.names():
            if fold_id(entry) == folded:
                return self.path / (entry + SUFFIX)
        return None

    def load(self, name: str) -> StoredVoice:
        """Return a user's voice, for any checkpoint. Raises RowError."""
        stored = self._remembered(name, None)
        assert stored is not None
        return stored

    def write(self, name: str, voice: StoredVoice, is_overwriting: bool = False) -> Path:
        """Write a user's voice, all of it or nothing. Raises UsageError, SetupError, DiskFull."""
        path = self.target(name, is_overwriting)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_standalone(path, encode(voice))
        except OSError as error:
            raise SetupError(
                f"cannot write {path}: {error.strerror or error}", "choose another --voice-dir"
            ) from error
        self._known.clear()
        return path

    def target(self, name: str, is_overwriting: bool = False) -> Path:
        """Return the path that `write` uses. Raises UsageError for a bad name or existing file."""
        if problem := name_problem(name):
            raise UsageError(f"the voice name {shown(name)} {problem}")
        path = self.path_of(name)
        if path is None:
            return self.path / (name + SUFFIX)
        if not is_overwriting:
            raise _exists(path)
        return path

    def require_same(self, path: Path, name: str, reference: str, info: ModelInfo) -> StoredVoice:
        """Return an existing voice if it equals the one to be made, or raise UsageError.
        `reference` is the digest of the recording and of its settings.
        """
        try:
            stored = self.load(name)
        except RowError:
            raise _exists(path) from None
        if (stored.reference, stored.identity) != (reference, info.identity):
            raise _exists(path)
        return stored

    def _read(self, name: str) -> StoredVoice:
        path = self.path_of(name)
        if path is None:
            close = nearest(name, self.names())
            advice = f"; did you mean '{close}'?" if close else ""
            raise RowError(f"voice {shown(name)} is not in {self.path}{advice}")
        try:
            return _read_voice(path)
        except RowError as error:
            raise RowError(f"voice {shown(name)}: {path.name} {error}") from None

    # Generated voices.

    def wav(self, voice: str) -> str:
        return f"{self.out_folder}/{voice.removeprefix(PREFIX)}.wav"

    def made(self, voice: str) -> GeneratedVoice | None:
        """Return the audio of a generated voice, or None if it does not exist yet. Raises RowError
        if it is damaged, and UsageError if the other folder has a different voice of the same name.
        """
        found = [read_generated(path) for path in self._paths(json_of(voice))]
        for other in found[1:]:
            if other.sums != found[0].sums:
                raise UsageError(
                    f"{other.path}: is a different voice than {found[0].path}",
                    remedy="leave --made-voices out, or remove the files of that name in "
                    f"{self.out_folder}; its rows are then synthesized again in the other voice",
                )
        return found[0] if found else None

    def require_made(self, voice: str) -> GeneratedVoice:
        """Return the audio of a generated voice. Raises RowError if it is missing or damaged."""
        if (made := self.made(voice)) is None:
            raise RowError(f"{voice} is missing")
        return made

    def keep(self, voice: str, facts: Mapping[str, object], wav: bytes, codes: bytes) -> None:
        files = {".wav": wav, CODES_SUFFIX: codes}
        sums = {suffix: hashlib.sha256(data).hexdigest() for suffix, data in files.items()}
        described = {
            **facts,
            # [object] SHA-256 of the WAV file and the codes, by the ends of their names
            "files": sums,
        }
        about = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
        name = voice.removeprefix(PREFIX)
        for suffix, data in {**files, ".json": about.encode("utf-8", "surrogatepass")}.items():
            self._write(name + suffix, data)

    def keep_for(self, info: ModelInfo, voice: str, stored: StoredVoice) -> None:
        self._write(file_of(voice, info), encode(stored))
        self._known.pop((voice, info.identity), None)

    def bring(self, voices: Iterable[str]) -> None:
        """Copy what this folder lacks from the other. Raises SetupError, DiskFull, UsageError."""
        for folder in self._folders[1:]:
            files = files_of(folder)
            for voice in voices:
                # Without its JSON, a killed run left the other files.
                is_described = self._exists(json_of(voice))
                for name in files.get(voice, ()):
                    if self._exists(name) if name.endswith(SUFFIX) else is_described:
                        continue
                    try:
                        self.copy(folder / name)
                    except RowError as error:
                        raise damaged(voice, error) from None

    def generated(self) -> Iterator[tuple[str, WholeFiles]]:
        folder = self.out_folder
        if folder is None:
            return
        for voice, names in files_of(folder).items():
            found = WholeFiles(None, {}, [])
            for name in names:
                try:
                    if name.endswith(SUFFIX):
                        found.stored[name] = _read_named(folder / name)
                    elif name.endswith(".json"):
                        found = found._replace(made=self.made(voice))
                except RowError as error:
                    found.problems.append(str(error))
            yield voice, found

    def copy(self, path: Path) -> None:
        self._write(path.name, bytes_of(path))

    def require_folder(self) -> Path:
        """Return the folder of generated voices. Raises SetupError if it is not a folder."""
        folder = self.out_folder
        assert folder is not None
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            raise SetupError(f"{folder}: is not a folder", remedy="move it out of the way")
        return folder

    def _read_generated(self, voice: str, info: ModelInfo) -> StoredVoice | None:
        path = next(self._paths(file_of(voice, info)), None)
        if path is None:
            return None
        stored = _read_named(path)
        if problem := stored.problem(info):
            raise RowError(f"{path} {problem}")
        return stored

    def _exists(self, name: str) -> bool:
        return self.out_folder is not None and os.path.lexists(self.out_folder / name)

    def _paths(self, name: str) -> Iterator[Path]:
        return (one / name for one in self._folders if os.path.lexists(one / name))

    def _write(self, name: str, data: bytes) -> None:
        path = self.require_folder() / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        except OSError as error:
            raise SetupError(f"{path}: {error.strerror}", "remove what is in its way") from None


class _MergedFile(NamedTuple):
    folder: int  # index of the folder that it is taken from
    content: str  # hash or text, what the audio of rows depends on
    is_settled: bool  # wins over a different file


class VoiceMerge:
    """Merge the generated voices of folders into the first one. Raises SetupError.

    Damaged files are not copied, nor the files of a killed run, which no `NAME.json` describes.

    Args:
        folders: voices that are complete in the first one are never replaced.
        is_settled: whether the voices of a folder, by index, win over all later ones.
        left: collects the files in `.voices` that belong to no voice.
    """

    def __init__(
        self, folders: Sequence[Path], is_settled: Callable[[int], bool], left: Count
    ) -> None:
        self.num_copied = 0  # files
        self._folders = [folder / VOICES for folder in folders]
        self._target = VoiceStore(out=folders[0])
        self._is_settled = is_settled
        self._files: dict[str, _MergedFile] = {}  # by name
        self._is_target_disputed = False
        self._conflicts, self._outvoted, self._damaged = Count(), Count(), Count()
        for index, folder in enumerate(self._folders):
            if folder.is_symlink() or not folder.is_dir():
                continue
            for voice, whole in VoiceStore(out=folders[index]).generated():
                self._add(index, voice, whole)
            known = {name for names in files_of(folder).values() for name in names}
            for name in sorted(os.listdir(folder)) if index else ():
                if name not in known and not is_part(name):
                    left.add(f"{VOICES}/{name}")

    def require_no_conflicts(self) -> None:
        """Raise UsageError if voices of one name differ, and SetupError if the target cannot have
        any.
        """
        if self._conflicts.count:
            what = counted(self._conflicts.count, "generated voice is", "generated voices are")
            remedy = "choose the folder whose voice to use, with --prefer DIR"
            if self._is_target_disputed:
                remedy = f"--prefer {self._folders[0].parent} keeps the existing voice"
            raise UsageError(
                f"{what} different in another folder; nothing was written:\n  "
                f"{self._conflicts.and_more()}",
                f"{remedy}, and synth then synthesizes the rows of the other one again; shards "
                "share one voice if it is generated once with --voices-only and all get it with "
                "--made-voices DIR",
            )
        if self._files:
            self._target.require_folder()

    def run(self) -> None:
        """Copy what the target lacks. May be repeated. Raises DiskFull, StoppedEarly."""
        if self._damaged.count:
            log.warning("damaged files of generated voices: %s", self._damaged.and_more())
        if self._outvoted.count:
            log.warning(
                "generated voices that differ; the first of each two stays, and synth "
                "synthesizes the rows of the other one again: %s",
                self._outvoted.and_more(),
            )
        for name in sorted(self._files, key=json_last):
            if (index := self._files[name].folder) == 0:
                continue
            signals.check()
            path = self._folders[index] / name
            try:
                self._target.copy(path)
            except (SetupError, RowError) as error:
                reason = error.message if isinstance(error, SetupError) else error
                raise StoppedEarly(
                    f"cannot copy {path}: {reason}",
                    "remove what is in its way, and run the command again",
                ) from error
            self.num_copied += 1

    def _add(self, index: int, voice: str, whole: WholeFiles) -> None:
        """Add the files of a folder's voice, unless the voice differs from an earlier one."""
        for problem in whole.problems:
            self._damaged.add(problem)
        found = {name: stored.digest for name, stored in whole.stored.items()}
        if whole.made is not None:
            found |= {**whole.made.sums, json_of(voice): whole.made.text}
        known, is_settled = self._files, self._is_settled(index)
        differing = [name for name in found if name in known and known[name].content != found[name]]
        if not differing:
            for name, content in found.items():
                file = known.setdefault(name, _MergedFile(index, content, is_settled))
                # A file that a killed merge has copied counts as its source does.
                known[name] = file._replace(is_settled=file.is_settled or is_settled)
            return
        name = max(differing, key=lambda one: one.endswith(".wav"))  # users can listen to it
        first = known[name]
        names = ", ".join(str(self._folders[at] / name) for at in (first.folder, index))
        (self._outvoted if first.is_settled else self._conflicts).add(names)
        self._is_target_disputed |= first.folder == 0 and not first.is_settled


def _read_voice(path: Path) -> StoredVoice:
    """Read a voice file. The message of a RowError continues a sentence about the file."""
    with (
        opened(str(path), path.parent, MAX_FILE_BYTES, "the voices folder") as handle,
        os.fdopen(os.dup(handle), "rb") as file,
    ):
        return decode(file.read(MAX_FILE_BYTES + 1))


def _read_named(path: Path) -> StoredVoice:
    """Read a voice file. Raises RowError; its message names the file."""
    try:
        return _read_voice(path)
    except RowError as error:
        raise RowError(f"{path}: {error}") from None


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} already exists", remedy="add --overwrite to replace it")
