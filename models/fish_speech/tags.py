"""Tags in a text of Fish Speech S2 that hold beyond their own place: who speaks, and how.

A style is any words in brackets; the family documents no closing tag, so one is taken to hold until
the next, or the next speaker. Words for a sound or a pause, `[laughing]` or `[short pause]`, are no
style: they are made once, where they stand. Which they are is our reading of the official lists;
the model itself knows no difference.
"""

from __future__ import annotations

SOUNDS = (
    r"laugh|chuckl|giggl|sigh|cough|paus|breath|inhal|exhal|gasp|sniff|yawn|sneez|sob|groan|moan|"
    r"tsk|tongue|throat|swallow|burp|hum|whistl|applau|cheer|silence|break|emphasis|click|noise"
)

SPEAKER_TAG = r"<\|speaker:\d+\|>"
STYLE_TAG = rf"(?i)\[(?![^\[\]]*\b(?:{SOUNDS}))[^\[\]]*\]"
