"""Consent: asked for before the first use, remembered, and asked for again when terms change."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from models.base import Licence
from models.registry import licences
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.plan.checkpoint import accept, accepted_on, consent_file, require_consent

LICENCE = Licence("Some Licence 1.0", "Not for dogs. The whole text is in LICENSE.md.")
ASKING, ACCEPTING = RunConfig(), RunConfig(accept_licence=True)


def test_without_consent_nothing_goes_on() -> None:
    with pytest.raises(UsageError) as caught:
        require_consent(LICENCE, ASKING)
    assert caught.value.exit_code == 2
    for words in (LICENCE.name, LICENCE.terms, "--accept-licence"):
        assert words in str(caught.value)
    assert not consent_file().exists()


def test_consent_is_asked_for_once(caplog: pytest.LogCaptureFixture, config_home: Path) -> None:
    assert accepted_on(LICENCE) is None
    with caplog.at_level(logging.WARNING):
        require_consent(LICENCE, ACCEPTING)
    assert LICENCE.name in caplog.text
    assert LICENCE.terms in caplog.text  # what was accepted has been on the screen
    assert consent_file() == config_home / "tts-cli" / "licences.json"
    day = accepted_on(LICENCE)
    assert day is not None
    assert day[:2] == "20"
    caplog.clear()
    require_consent(LICENCE, ASKING)
    require_consent(LICENCE, ACCEPTING)
    assert caplog.text == ""


def test_other_terms_and_other_licences_ask_again() -> None:
    accept(LICENCE)
    other = replace(LICENCE, name="Another Licence")
    for licence in (replace(LICENCE, terms="Not for cats."), other):
        with pytest.raises(UsageError, match="You must accept it before their first use"):
            require_consent(licence, ASKING)
    accept(other)
    assert None not in (accepted_on(LICENCE), accepted_on(other))


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", '{"Some Licence 1.0": 3}', "\udc80", "[" * 9999]
)
def test_a_broken_record_counts_for_nothing_and_is_replaced(content: str) -> None:
    consent_file().parent.mkdir(parents=True)
    consent_file().write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match="You must accept it before their first use"):
        require_consent(LICENCE, ASKING)
    require_consent(LICENCE, ACCEPTING)
    assert list(json.loads(consent_file().read_text())) == [LICENCE.name]


def test_a_record_that_cannot_be_written_holds_for_this_run(
    caplog: pytest.LogCaptureFixture, config_home: Path
) -> None:
    config_home.parent.mkdir(parents=True, exist_ok=True)
    config_home.write_text("a file where the folder should be")
    require_consent(LICENCE, ACCEPTING)
    assert "cannot be written" in caplog.text
    with pytest.raises(UsageError, match="You must accept it before their first use"):
        require_consent(LICENCE, ASKING)


def test_the_licences_of_all_families_say_what_matters() -> None:
    names = [licence.name for licence in licences()]
    assert names == ["Fish Audio Research License"]
    for licence in licences():
        assert "non-commercial" in licence.terms
        assert "LICENSE.md" in licence.terms
