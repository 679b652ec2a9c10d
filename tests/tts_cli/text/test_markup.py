"""Markup that would be read aloud, and what people write that is none."""

from __future__ import annotations

import time

import pytest

from models.fish_speech.family import PACE as FISH
from tts_cli.text.words import markup_in, strip_markup

MARKUP = {
    "a tag": [
        'Wait. <break time="500ms"/> Go on.',
        "<speak>Hello.</speak>",
        "Hello.<br>Again.",
        "It is <b>bold</b>.",
        "<PROSODY rate='slow'>Slow.",
        '<say-as interpret-as="date">1/2</say-as>',
        '<mstts:express-as style="sad">Oh.',
        "One <|im_end|> two.",
        "Text <!-- a note -->.",
        # Ren'Py, Godot, Yarn, Unity, Unreal, SubStation.
        "{i}Really?{/i} I did not know.",
        "Well{w=0.5} perhaps.",
        "{color=#f00}Fire{/color}",
        "[b]Stop![/b] Do not move.",
        "[wait=1.0] Is it gone?",
        '[select value="x" 1="one"] apples',
        "<color=red>Fire!</color> Run.",
        "<#ff0000>Fire!",
        "<sprite name=coin> Ten coins.",
        "<Blue>Fire!</> Run.",
        "{\\an8}Look up there.",
        "<v Anna>Look up there.",
    ],
    "a command": ["<<wait 1>>", "Hm. <<jump Next>>"],
    "a stage direction": [
        "Well [pause] no.",
        "[Pause 2s] Now.",
        "[laughs] Stop it!",
        "[sigh]",
        "*sighs* All right.",
        "No. *Laughs softly.* No.",
        "(radio) Come in, over.",
        "ANNA: (on the phone) Yes?",
        "Well (laughs) yes.",
        "(leise flüsternd) Komm her.",
    ],
    "an editor's note": ["[Illustration: A man.]", "[Footnote 1: See there.]"],
    "a placeholder": [
        "Hello, [player_name]!",
        "Hello, [name]!",
        "You have {0} coins.",
        "Hello {player.name}.",
        "Hello {{name}}.",
        "Hello {{ name }}.",
        "{count, plural, one {# apple} other {# apples}}",
        "It is %.2f now, %02d:%02d.",
        "It is {price:N2} now.",
        "You have %s coins.",
        "Hello %(name)s.",
        "%1$d of them",
    ],
    "a Markdown link": ["See [the page](page.html)."],
    "a web address": ["Go to https://example.com/x.", "www.example.com has it.", "ftp://a.b"],
    "an e-mail address": ["Write to anna.b@mail.example.org today."],
    "Markdown": [
        "This is **important**.",
        "这是**重点**内容。",
        "Also __this__ one.",
        "This is *important*.",
        "On _3 October._ it began.",
        "Type `ls -l` here.",
        "```\ncode\n```",
    ],
    "a Markdown heading": ["# Chapter one", "First.\n\n## Second"],
    "an HTML entity": ["Tom &amp; Jerry", "It&#39;s late", "a&nbsp;b", "&#x27;"],
    "a cue time": ["00:00:01,500 --> 00:00:02,000"],
    "a written line end": ["One line.\\nAnother line.", "one\\NTwo"],
    "an escaped quote": ['He said \\"no\\".'],
    "an emoji": ["We are home \U0001f389!", "thanks \u2764\ufe0f", "\U0001f1e9\U0001f1ea wins"],
}
NONE = [
    "a < b and c > d",
    "a <v and b> c, 50 %5d neither",
    "if x<s and y>2 then",
    "I <3 you, at <place>.",
    "5 * 3 * 2, 2**8 and 3**2",
    "the password is ab**cd**ef",
    "*** The end ***",
    "** * **",
    "AT&T, R&B; P&L;",
    "snake_case and __",
    "fill in ____ and ____",
    "#1 in line, # 5 of them, C# is",
    "a hash # in a line",
    "[sic] and [1] and [Paused]",
    "He said ``so''.",
    "rock 'n' roll `til dawn",
    "@anna at 5:30, ratio 3:2",
    "user@host and www",
    "e.g. p. 5",
    "- a list",
    "Anything else?",
    "100 %s are no figure, 5%d neither, 100 % sure",
    "the file_3 and x_1 of snake_case_names",
    "[he] said (see below) [sic] a[i] [e.g. that]",
    "(see below) It is there.",
    "(And so it ended.) Then they left.",
    "(1) First, (b) second (which is last).",
    "C:\\new\\tests",
    "\u00a9 2020 \u2122 \u00ae, F\u266f and \u2460, 5 \u2192 6",
    "a set {1, 2, 3} of {}",
    "if a<bb and c=d>e",
    "<<Bonjour>>, dit-il",
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in MARKUP.items() for text in texts]
)
def test_markup(kind: str, text: str) -> None:
    found = markup_in(text)
    assert kind in [markup.kind for markup in found]
    assert all(str(markup).startswith(f"{markup.kind} (") for markup in found)


@pytest.mark.parametrize("text", NONE)
def test_no_markup(text: str) -> None:
    assert markup_in(text) == []


def test_tags_of_a_checkpoint_are_its_own() -> None:
    assert markup_in("[laughs] Stop. <|speaker:0|>", FISH) == []
    (found,) = markup_in("[laughs] **Stop**.", FISH)
    assert str(found).startswith("Markdown ('**Stop**.') would be read aloud; ")


def test_the_place_is_short_and_one_line() -> None:
    (found,) = markup_in("First\n<b>bold\nand more")
    assert (found.kind, found.place) == ("a tag", "'<b>bold'")
    (found,) = markup_in("<b>" + "x" * 500)
    assert found.place == f"{'<b>' + 'x' * 37!r}..."


def test_each_kind_is_told_with_its_remedy() -> None:
    tag, name = markup_in("{i}Hello{/i}, [player_name]!")
    assert str(tag).endswith("would be read aloud; remove it, or add --strip-markup")
    assert (name.kind, str(name).endswith("read aloud; remove it")) == ("a placeholder", True)


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("{i}Really?{/i} I did{w=0.5} not know.", "Really? I did not know."),
        ("[b]Stop![/b] [wait=1.0] Go.", "Stop! Go."),
        ("<color=red>Fire!</color> <sprite name=coin> Run.", "Fire! Run."),
        ("<Blue>Fire!</> Run.", "Fire! Run."),
        ("{\\an8}Look{\\i1} there.", "Look there."),
        ("It is <b>un</b>likely.<br>Yes.", "It is unlikely. Yes."),
        ("**Bold**, *thin*, _both_, `code` and __more__", "Bold, thin, both, code and more"),
        ("# One\n\n## Two", "One\n\nTwo"),
        ('One.\\nTwo \\"x\\".', 'One.\nTwo "x".'),
        # What stands for something else stays: nobody knows what.
        ("Hi [player_name], {0} of %s.", "Hi [player_name], {0} of %s."),
        ("*sighs* Well (radio) [laughs].", "*sighs* Well (radio) [laughs]."),
        ("See [it](a.html) &amp; [pause 1s] that 🎉", "See [it](a.html) & [pause 1s] that 🎉"),
        ("It&#39;s &lt;here&gt;, caf&#xe9;.", "It's <here>, café."),
        (
            "Lit.<break time=\"700ms\"/> Mind <break time='1.5s'>it.<break/> Go",
            "Lit. [pause 700ms] Mind [pause 1.5s] it. Go",
        ),
        ('The <sub alias="World Wide Web">WWW</sub> is old.', "The World Wide Web is old."),
        ("[whisper in small voice] <|speaker:0|> Hi", "[whisper in small voice] <|speaker:0|> Hi"),
        ("snake_case  has  spaces, 2 * 3 * 4", "snake_case  has  spaces, 2 * 3 * 4"),
    ],
)
def test_style_is_taken_out_and_no_more(text: str, stripped: str) -> None:
    assert strip_markup(text) == stripped
    assert not any(markup.is_style for markup in markup_in(stripped))


HOSTILE = [
    "<b a=" * 4000,
    "<b " + " " * 19_000,
    "<|" * 10_000,
    ("<|" + "a" * 79) * 240,
    "[" * 20_000,
    "[pause" * 3000,
    "[a](" * 5000,
    "*" * 20_000,
    "**a" * 6000,
    "_" * 20_000,
    "__a" * 6000,
    "`a " * 6000,
    "a" * 19_999 + "@",
    "a.b@c-" * 3000,
    "# " * 9000,
    "&#" * 10_000,
    "www." * 5000,
    "[a_" * 6000,
    "[" + "a_" * 9000,
    "{a" * 9000,
    "<a b=" * 4000,
    "<aa" * 6000 + "</",
    "<bb>" * 5000,
    "(laughs" * 2500,
    "(ab cd" * 3000,
    "%(a" * 6000,
    "\\n" * 6000,
    "*sighs" * 3000,
    "_a" * 9000,
    "[a b=" * 4000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:6] for text in HOSTILE])
def test_no_text_takes_long(text: str) -> None:
    """At most some 50 ms; a pattern that backtracks takes seconds, or hours."""
    started_s = time.process_time()
    markup_in(text)
    strip_markup(text)
    assert time.process_time() - started_s < 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("He wrote [12] that.", "'[12]'"),
        ("They [sic] went.", "'[sic]'"),
        ("The tide [see page 4] is high.", "'[see page 4]'"),
        ("Cited [3, 4-6] here.", "'[3, 4-6]'"),
        ("[laugh] Well [in a low voice] then.", None),
    ],
)
def test_notes_in_brackets_that_a_model_takes_for_tags(text: str, shown: str | None) -> None:
    """For Fish Speech brackets are style tags; [12] of a real text was lost without a word."""
    found = [str(markup) for markup in markup_in(text, FISH)]
    assert bool(found) is (shown is not None)
    assert shown is None or (shown in found[0] and "parentheses" in found[0])
