"""Emoji and pictographs: what has no words that all readers would say for it."""

from __future__ import annotations

# For a class of characters in a pattern. Symbols and dingbats but for numbers in circles, sharps
# and flats; what else has a picture. None are letters and digits in squares, which are read.
PICTURES = (
    "\u231a\u231b\u2328\u23cf\u23e9-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u266c\u2670-\u2775"
    "\u2794-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d"
    "\U0001f000-\U0001f0ff\U0001f16d-\U0001f18f\U0001f191-\U0001f1ff\U0001f300-\U0001faff"
)
