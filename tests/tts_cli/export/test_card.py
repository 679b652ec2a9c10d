"""The card of a data set."""

from __future__ import annotations

from tts_cli.config import SETTINGS
from tts_cli.export import card
from tts_cli.setting import Topic


def test_it_states_every_setting_of_the_speech_and_its_files() -> None:
    topics = (Topic.SPEECH, Topic.OUTPUT, Topic.SAMPLING)
    known = {name for name, one in SETTINGS.items() if one.topic in topics and not one.names_path}
    assert known - {"voice", "save_codes", "subtitles"} == {*card._SETTINGS} - {"normalize"}
