"""Find out why the request of a done row differs from the recorded one: its manifest changed,
the user gave other settings, or another version, model or normalizer reads the same row
differently. Only the first is a reason to synthesize the row again without asking.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tts_cli.config import RunConfig
from tts_cli.errors import TtsCliError
from tts_cli.plan.checkpoint import is_at_hand, read_info
from tts_cli.plan.free_voices import VoiceDesigner, who_speaks
from tts_cli.plan.remembered import PastRuns, RunFacts, explicit_changes, facts_of, settings_now
from tts_cli.plan.resolve import Resolver
from tts_cli.text.languages import named_language
from tts_cli.text.unicode import clean_unicode
from tts_cli.versions import versions
from tts_cli.voices.generated import is_made

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.core import Row
    from tts_cli.plan.resolve import ResolvedRow
    from tts_cli.store.entry import JournalEntry

# Settings whose effect on an earlier request is not always known: their files may have changed.
_EXTERNAL = ("model", "revision", "clone_model", "cast", "made_voices", "voice_dir")


class Cause(Enum):
    ROW = "row"  # its text, voice or own settings, or a lexicon that was edited
    SETTINGS = "settings"  # settings that the user gave now
    OTHER = "other"  # version, model, or settings of an earlier run


class _Hashes(NamedTuple):
    """The hashes of a row's request; None: it cannot be computed."""

    request: str | None = None
    content: str | None = None


class Changes:
    """Finds out why requests of done rows differ now. Not thread-safe. Raises OSError, SetupError:
    `runs.jsonl` cannot be read.

    Args:
        runs: reads the folder's runs; called at most once, for the first such row.
    """

    def __init__(self, planner: Resolver, runs: Callable[[], PastRuns]) -> None:
        self._planner = planner
        self._read = runs
        self._exists = cache(os.path.exists)
        self._planners: dict[tuple[int, bool], Resolver | None] = {}

    @cached_property
    def _runs(self) -> PastRuns:
        return self._read()

    @cached_property
    def explicit(self) -> Mapping[str, tuple[Any, Any]]:
        """The speech settings that the user changed now: old and new value, by name."""
        last = self._runs.last
        return {} if last is None else explicit_changes(last, self._given)

    @cached_property
    def _settings(self) -> Mapping[str, Any]:
        return settings_now(self._given)

    @property
    def _given(self) -> RunConfig:
        return self._planner.maker.config

    def is_news(self, report: Mapping[str, Any]) -> bool:
        """Return whether a run's first line of `runs.jsonl` changes the remembered settings."""
        now = facts_of(report)
        last = self._runs.last or RunFacts()
        is_other = now.remembered(now.manifests) != last.remembered(now.manifests)
        return is_other and not now.is_narrow

    def cause(self, resolved: ResolvedRow, take: JournalEntry, *, is_pinned: bool) -> Cause:
        """Return why the request of a row differs from that of its take.

        Args:
            is_pinned: a user chose the take, so seed and sampling may differ.
        """
        run = self._runs.of(take.run_id)
        if run is None:
            return Cause.ROW
        then, content = self._hashes(run, resolved.row, is_as_then=True)
        is_same = then == take.request_hash
        is_same = is_same or (is_pinned and content is not None and content == take.content_hash)
        if not is_same and self._is_of_row(resolved, take, run):
            return Cause.ROW
        if self.explicit and self._is_of_settings(resolved):
            return Cause.SETTINGS
        return Cause.OTHER

    def other_manifest(self, take: JournalEntry) -> str:
        """Return the manifest of a take if it exists and is not read now, else an empty text."""
        run, now = self._runs.of(take.run_id), self._runs.manifests
        if run is None or not now or not set(now).isdisjoint(run.manifests):
            return ""
        return next(filter(self._exists, run.manifests), "")

    def _is_of_settings(self, resolved: ResolvedRow) -> bool:
        if resolved.row.character is not None and "cast" in self.explicit:
            return True  # the row has its values from the cast already
        last = self._runs.last or RunFacts()
        then = self._hashes(last, resolved.row, is_as_then=False)
        return then.request != resolved.request_hash()

    def _is_of_row(self, resolved: ResolvedRow, take: JournalEntry, run: RunFacts) -> bool:
        """Return whether the row's own fields changed. The recorded request cannot be computed
        any more.
        """
        if self._has_other_fields(resolved, take, run):
            return True
        if resolved.row.language is None and "language" in self.explicit:
            return take.language == resolved.request.language  # a book's rows have its language
        settings = self._settings
        is_other_text = take.said != resolved.request.text
        is_same_lexicon = run.lexicon_sha256 == self._planner.care.lexicon.sha256
        if run.settings.get("lexicon") == settings["lexicon"] and not is_same_lexicon:
            return is_other_text  # the file was edited
        if any(run.settings.get(name) != settings[name] for name in _EXTERNAL):
            return False
        is_same_model = run.identity in (None, self._planner.info.identity)
        is_same_version = run.version in (None, versions()["tts-cli"])
        return is_same_model and is_same_version and not is_other_text

    def _has_other_fields(self, resolved: ResolvedRow, take: JournalEntry, run: RunFacts) -> bool:
        row, request, need = resolved.row, resolved.request, resolved.need
        if take.text is None or clean_unicode(take.text) != row.text:
            return True
        if row.lexicon != take.extra.get("lexicon") and "lexicon" not in (row.extra or {}):
            return True
        if row.seed is not None and take.attempts <= 1 and take.seed not in (None, row.seed):
            return True
        settings = run.settings
        if row.character is not None and settings.get("cast") != self._settings["cast"]:
            return take.character != row.character  # all else may come from the cast
        if take.instruct not in (row.instruct, request.instruct):
            return True
        if row.clone_mode is not None and take.clone_mode != row.clone_mode:
            return True
        if need is not None and need.digest and take.ref_sha256 != need.ref_sha256:
            return True
        known = self._planner.info.languages
        language = row.language or str(settings.get("language") or "auto")
        is_flag = row.language is None and "language" in self.explicit
        if not is_flag and take.language not in (None, named_language(language, known)):
            return True
        if row.ref_audio is not None or is_made(take.voice) or is_made(request.voice):
            return False
        return take.voice != (row.voice or run.default_voice)

    def _hashes(self, run: RunFacts, row: Row, *, is_as_then: bool) -> _Hashes:
        """Return the hashes of a row with the settings of an earlier run.

        Args:
            is_as_then: also use the identity of the checkpoint that the run recorded.
        """
        key = id(run), is_as_then
        if key not in self._planners:
            try:
                self._planners[key] = self._planner_of(run, is_as_then=is_as_then)
            except TtsCliError:
                self._planners[key] = None
        planner = self._planners[key]
        if planner is None:
            return _Hashes()
        try:
            resolved = planner.resolve(row)
        except TtsCliError:
            return _Hashes()
        if resolved.problem or resolved.lacks_voice:
            return _Hashes()
        return _Hashes(resolved.request_hash(), resolved.content_hash())

    def _planner_of(self, run: RunFacts, *, is_as_then: bool) -> Resolver | None:
        """Return a resolver with a run's settings. Raises TtsCliError: they are not usable now."""
        present, given = self._planner, self._given
        config = run.config(given)
        info, maker = present.info, present.maker
        if _models(config) == _models(given):
            maker = VoiceDesigner(config, maker.info)
            if config.clone_model is not None:
                config = replace(config, model=config.clone_model, revision=None, clone_model=None)
        elif is_at_hand(config.model, config.revision) and is_at_hand(config.clone_model, None):
            config, info, maker = who_speaks(config, read_info(config))
        else:
            return None
        if is_as_then:
            is_two = maker.info is not info
            info = _identified(info, run.identity)
            made_by = _identified(maker.info, run.voice_identity) if is_two else info
            maker = VoiceDesigner(maker.config, made_by)
        planner = Resolver(config, info, maker, present.voices.made)
        planner.voices.follow(present.voices)
        return planner


def _models(config: RunConfig) -> tuple[str | None, ...]:
    settings = settings_now(config)
    return settings["model"], settings["revision"], settings["clone_model"]


def _identified(info: ModelInfo, identity: str | None) -> ModelInfo:
    return info if identity is None else replace(info, identity=identity)
