"""The page in a real browser: it plays, filters, copies, listens to keys, and lets nothing in."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from spoken_folders import TEXT, many_records, record, run, tone, with_file, write_folder

from tts_cli.checks.page.content import write_page
from tts_cli.checks.word_times import TimedWord, WordTimes

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EVIL = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<!--<script>alert(3)",
    "javascript:alert(4)",
    "\u2028alert(5)\u2029",
    "\u202egnirts a\u202c \u200f",
    "'); alert(6); ('",
    "${alert(7)} {{alert(8)}} &lt;b&gt;",
    "\x00\x1b[31m\ufffe\U0001f600",
    'b.strong#list[onclick="alert(0)"] > img',
]


def words_of(command: str) -> list[str]:
    """The words that a POSIX shell makes of a command."""
    program = "import sys, json; print(json.dumps(sys.argv[1:]))"
    line = f'"$0" -c "$1" {command}'
    shell = ["sh", "-c", line, sys.executable, program]
    done = subprocess.run(shell, capture_output=True, text=True, check=True)
    words: list[str] = json.loads(done.stdout)
    return words


def small_folder(out: Path) -> Path:
    """Ten fine rows, one failed, one loud, one with three takes, the second of which is chosen."""
    sounds = {f"c/{number:02d}.wav": tone(0.5) for number in range(10)}
    rows = [record(f"c/{number:02d}", text=f"Sentence {number}. {TEXT}") for number in range(10)]
    rows.append(record("bad", status="failed", error="no end", path="truncated/bad.wav"))
    rows.append(record("loud", level_dbfs=-6.0, voice="clara", text="The LOUD one: " + TEXT))
    sounds |= {"truncated/bad.wav": tone(0.3), "loud.wav": tone(0.6, peak=0.9)}
    for take in (1, 2, 3):
        sound = tone(0.4 + take / 10)
        role = "held" if take == 2 else "extra"
        many = {"seed": 100 + take, "voice": "ewan", "path": "many.wav"}
        rows.append(record("many", take=take, role=role, **many))
        sounds[f"takes/many/{take}.wav"] = sound
    sounds["many.wav"] = sounds["takes/many/2.wav"]
    write_folder(out, rows, audio=sounds)
    choices = {"schema": 1, "choices": {"many": {"take": 2}}}
    (out / "takes.json").write_text(json.dumps(choices))
    return out


def wait_until_playing(window: Any) -> None:
    window.page.wait_for_selector("#detail .round[data-icon=pause]")
    window.wait_for("Number(document.querySelector('#detail .seek').value) > 0")


def test_failed_and_suspect_rows_come_first_and_play(open_report: Any, tmp_path: Path) -> None:
    window = open_report(small_folder(tmp_path / "out"))
    page = window.page
    assert window.ids()[:3] == ["bad", "loud", "c/00"]
    assert page.locator("#list .group").all_inner_texts() == ["Failed 1", "Suspect 1", "OK 11"]
    assert window.row("loud").locator(".chip").inner_text() == "loud \u22126.0 dBFS"
    assert window.requests == [(tmp_path / "out" / "report.html").as_uri()]
    window.row("loud").locator(".round").click()
    wait_until_playing(window)
    assert window.requests[1:] == [(tmp_path / "out" / "loud.wav").as_uri()]


def test_search_filters_and_order(open_report: Any, tmp_path: Path) -> None:
    window = open_report(small_folder(tmp_path / "out"))
    page = window.page
    page.fill("#search", "sentence 3")
    assert window.ids() == ["c/03"]
    assert page.inner_text("#count") == "1 of 13 rows"
    page.fill("#search", "no such words")
    assert page.inner_text("#empty").startswith("No row matches.")
    page.click("#clear")
    assert len(window.ids()) == 13
    page.select_option("[data-facet=Voice]", "ewan")
    assert window.ids() == ["many"]
    page.select_option("[data-facet=Voice]", "")
    page.click("#statuses [data-status=failed]")
    assert window.ids() == ["bad"]
    page.click("#statuses [data-status=all]")
    page.select_option("#kind", "loud")
    assert window.ids() == ["loud"]
    page.select_option("#kind", "")
    page.select_option("#sort", "level")
    assert window.ids()[0] == "loud"
    page.click("#direction")
    assert window.ids()[-1] == "loud"


def test_commands_are_copied_as_a_shell_reads_them(open_report: Any, tmp_path: Path) -> None:
    out = small_folder(tmp_path / "it's a $HOME")
    window = open_report(out)
    page = window.page
    window.row("c/00").locator(".text").click()
    page.get_by_role("button", name="Copy id").click()
    assert window.copied() == "c/00"
    page.get_by_role("button", name="Copy seed").click()
    assert window.copied() == "7"
    manifest, folder = "/books/my lines.jsonl", str(out)
    synth = ["tts-cli", "synth", manifest, "--voice", "clara", "--seed", "3", "--out", folder]
    page.get_by_role("button", name="Copy the command for 3 more takes").click()
    assert words_of(window.copied()) == [*synth, "--only", "c/00", "--takes", "3"]


def test_takes_are_chosen_and_collected(open_report: Any, tmp_path: Path) -> None:
    out = small_folder(tmp_path / "out")
    window = open_report(out)
    page = window.page
    pressed = window.row("many").locator(".take[aria-pressed=true]")
    assert pressed.inner_text() == "2"
    window.row("many").locator(".take").nth(2).click()
    wait_until_playing(window)
    assert window.requests[-1] == (out / "takes" / "many" / "3.wav").as_uri()
    assert pressed.inner_text() == "3"
    page.get_by_role("button", name="Copy the pick command for take 3").click()
    assert words_of(window.copied()) == ["tts-cli", "pick", str(out), "many=3"]
    window.row("c/05").locator(".text").click()
    page.keyboard.press("r")
    collected = "1 take selected, 1 row marked for more takes, 1 decision to save"
    assert page.inner_text("#basket-text") == collected
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.inner_text("#basket-text") == collected
    page.click("#basket-open")
    commands = page.locator("#commands code").all_inner_texts()
    assert words_of(commands[0]) == ["tts-cli", "pick", str(out), "many=3"]
    assert words_of(commands[1])[-4:] == ["--only", "c/05", "--takes", "3"]
    assert len(commands) == 2
    page.click("#commands-clear")
    assert page.is_hidden("#basket")


def test_the_keyboard_is_enough(open_report: Any, tmp_path: Path) -> None:
    window = open_report(small_folder(tmp_path / "out"))
    page, press = window.page, window.page.keyboard.press
    assert window.current() == "bad"
    press("j")
    assert window.current() == "loud"
    press("Space")
    wait_until_playing(window)
    press("Space")
    page.wait_for_selector("#detail .round[data-icon=play]")
    press("k")
    assert window.current() == "bad"
    press("/")
    page.keyboard.type("many")
    press("Enter")
    assert window.current() == "many"
    press("1")
    assert window.row("many").locator(".take[aria-pressed=true]").inner_text() == "1"
    press("9")
    assert page.inner_text("#toast") == "many has no take 9"
    press("b")
    assert window.row("many").locator(".take[aria-pressed=true]").inner_text() == "2"
    press("a")
    assert window.row("many").locator(".review").inner_text() == "approved"
    press("x")
    assert window.row("many").locator(".review").inner_text() == "rejected"
    press("x")
    assert window.row("many").locator(".review").is_hidden()
    press("c")
    page.keyboard.type("too slow")
    press("Enter")
    assert page.inner_text("#detail .comments .said") == "too slow"
    press("Escape")
    press("?")
    assert page.is_visible("#help")
    press("Escape")
    assert page.is_hidden("#help")


def test_parts_of_a_long_row_play_from_their_start(open_report: Any, tmp_path: Path) -> None:
    text = "\U0001f600 One is said. Two is said."
    parts = [
        {"text_start": 0, "text_end": 14, "start_s": 0.0, "end_s": 1.0},
        {"text_start": 15, "text_end": 27, "start_s": 1.2, "end_s": 2.0},
    ]
    row = record("long", text=text, spoken_text="One. Two.", parts=parts, audio_s=2.0)
    write_folder(tmp_path / "out", [row], audio={"long.wav": tone(2.0)})
    window = open_report(tmp_path / "out")
    page = window.page
    assert page.locator("#detail .full").all_inner_texts() == [text, "One. Two."]
    page.click("#detail .parts summary")
    said = page.locator("#detail .parts li span").all_inner_texts()
    assert said == ["\U0001f600 One is said.", "Two is said."]
    page.locator("#detail .parts button").nth(1).click()
    wait_until_playing(window)
    window.wait_for("Number(document.querySelector('#detail .seek').value) >= 600")


def test_words_are_shown_as_they_are_said_and_play(open_report: Any, tmp_path: Path) -> None:
    text, sound = "\U0001f600 One, two \u2014 three.", tone(3.0)
    facts = with_file(sound)
    write_folder(
        tmp_path / "out", [record("a", text=text, audio_s=3.0, **facts)], audio={"a.wav": sound}
    )
    words = [
        TimedWord(
            word, start_s, start_s + 0.9, 0.4, text.index(word), text.index(word) + len(word), ""
        )
        for word, start_s in (("One", 0.05), ("two", 1.0), ("three", 2.0))
    ]
    times = WordTimes("a", 1, facts["sha256"], "an aligner", text, 3.0, 0.4, words)
    (tmp_path / "out/a.words.json").write_bytes(times.encode())
    window = open_report(tmp_path / "out")
    page = window.page
    assert page.locator("#detail .full").all_inner_texts() == [text]
    assert page.locator("#detail .word").all_inner_texts() == ["One", "two", "three"]
    assert page.locator("#detail .now").count() == 0, "nothing plays yet"
    page.locator("#detail .word").nth(1).click()
    page.wait_for_selector("#detail .round[data-icon=pause]")
    for word in ("two", "three"):
        window.wait_for(f"document.querySelector('#detail .now')?.textContent === '{word}'")
    window.wait_for("document.querySelector('#detail .now') === null")
    assert window.problems == []


def test_one_row_plays_on_to_the_next(open_report: Any, tmp_path: Path) -> None:
    window = open_report(small_folder(tmp_path / "out"))
    window.page.check("#detail .check input[data-key=goes-on]")
    window.page.locator("#list").focus()
    window.page.keyboard.press("Space")
    window.wait_for("document.querySelector('#list .current').dataset.id === 'c/00'")
    names = [url.rsplit("/", 1)[1] for url in window.requests]
    assert names[:3] == ["report.html", "bad.wav", "loud.wav"]


def test_a_theme_is_kept(open_report: Any, tmp_path: Path) -> None:
    window = open_report(small_folder(tmp_path / "out"), color_scheme="dark")
    page = window.page
    assert page.get_attribute("html", "data-theme") == "dark"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "light"
    page.reload()
    assert page.get_attribute("html", "data-theme") == "light"


def test_nothing_of_a_manifest_runs(open_report: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = [
        record(
            f"evil{number}",
            text=text,
            spoken_text=text + " spoken",
            voice=text,
            instruct=text,
            error=text,
            status="failed" if number % 2 else "ok",
            suspect=[text],
        )
        for number, text in enumerate(EVIL)
    ]
    rows += [record(text, path=None, text=text) for text in EVIL]  # ids of a forged journal
    paths = ["../../etc/passwd", "/etc/passwd", "javascript:alert(9)", "//example.com/a.wav"]
    rows += [record(f"path{number}", path=path) for number, path in enumerate(paths)]
    rows.append(record("#7", path=None, status="failed", error=EVIL[1]))
    evil_run = run(manifests=[EVIL[0]], settings={"voice": EVIL[1]}, model={"source": EVIL[0]})
    write_folder(out, rows, audio={}, runs=[evil_run, run("other", started=EVIL[0])])
    window = open_report(out)
    page = window.page
    for number, text in enumerate(EVIL):
        window.page.fill("#search", f"evil{number}")
        assert page.text_content("#list .row .text") == text.replace("\x00", "\x00")
        page.keyboard.press("Enter")
    page.fill("#search", "")
    page.keyboard.press("Escape")
    for _ in range(len(rows)):
        for key in ("r", "c", "Space", "j"):
            page.keyboard.press(key)
    page.click("#basket-open")
    assert page.locator("#commands code").count() >= 1
    assert page.locator("img, iframe, object, embed, base, link[href^=http]").count() == 0
    assert page.locator("script").count() == 2
    assert window.requests == [(out / "report.html").as_uri()]


def test_the_policy_stops_what_gets_in(open_report: Any, tmp_path: Path) -> None:
    """Even with a hole in the page, nothing but our own script would run or ask for anything."""
    window = open_report(small_folder(tmp_path / "out"))
    page = window.page
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    address = f"http://127.0.0.1:{server.getsockname()[1]}/x.png"
    page.evaluate(
        """(address) => {
          window.isRun = false;
          const script = document.createElement("script");
          try { script.textContent = "window.isRun = true"; } catch {}
          document.body.append(script);
          const image = document.createElement("img");
          image.src = address;
          new Audio(address).play().catch(() => {});
          document.body.append(image);
          const button = document.createElement("button");
          button.setAttribute("id", "hole");
          try { button.setAttribute("onclick", "window.isRun = true"); } catch {}
          document.body.append(button);
          button.click();
        }""",
        address,
    )
    refused = page.evaluate(
        "(address) => fetch(address).then(() => 'fetched', () => 'refused')", address
    )
    assert refused == "refused"
    assert page.evaluate("window.isRun") is False
    assert len(window.problems) >= 3  # each of them was told
    window.problems.clear()
    with server, pytest.raises(BlockingIOError):
        server.accept()


def test_the_folder_was_moved(open_report: Any, tmp_path: Path) -> None:
    out = small_folder(tmp_path / "out")
    (out / "c" / "\u00fc.wav").write_bytes(tone(0.5))
    with (out / "timings.jsonl").open("a") as journal:
        name = "c/\u00fc"
        journal.write(json.dumps(record(name, text="Odd name. " + TEXT)) + "\n")
    write_page(out)
    moved = tmp_path / "else where" / "b\u00fccher 50%"
    moved.parent.mkdir()
    shutil.move(out, moved)
    window = open_report(moved, is_made=True)
    page = window.page
    page.fill("#search", "odd name")
    page.locator("#list .row .round").click()
    wait_until_playing(window)
    assert window.requests[-1] == moved.as_uri() + "/c/" + quote("\u00fc.wav")
    page.keyboard.press("c")
    page.get_by_role("button", name="Copy the command for 3 more takes").click()
    assert words_of(window.copied())[-6:-4] == ["--out", str(moved)]


def test_audio_that_is_gone_is_shown_as_gone(open_report: Any, tmp_path: Path) -> None:
    out = small_folder(tmp_path / "out")
    (out / "loud.wav").unlink()
    window = open_report(out)
    assert window.row("loud").locator(".length").inner_text() == "audio missing"
    assert window.row("loud").locator(".round").is_disabled()
    assert "The audio of 1 row is no longer in the folder" in window.page.inner_text("#notice")
    (out / "c" / "00.wav").unlink()  # after the page was made
    window.row("c/00").locator(".round").click()
    window.wait_for("document.getElementById('toast').textContent.includes('cannot be played')")
    window.problems.clear()  # Chromium tells of the file


# Scrolls from the top to the bottom in 120 frames, and returns the longest task.
_SCROLL = """
() => new Promise((done) => {
  const height = document.body.scrollHeight;
  window.longTasks.length = 0;
  let step = 0;
  (function next() {
    window.scrollTo(0, height * ++step / 120);
    if (step < 120) requestAnimationFrame(next);
    else setTimeout(() => done(Math.max(0, ...window.longTasks)), 100);
  })();
})
"""


def test_thousands_of_rows_stay_smooth(open_report: Any, tmp_path: Path) -> None:
    out = write_folder(tmp_path / "out", many_records(5000))
    window = open_report(out, viewport={"width": 1360, "height": 900})
    page = window.page
    opened_ms = page.evaluate("performance.now()")
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert timing < 3000, opened_ms
    assert page.locator("#list > li").count() < 60
    page.evaluate(
        """() => {
          window.longTasks = [];
          new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
          }).observe({ type: "longtask" });
        }"""
    )
    assert page.evaluate("document.body.scrollHeight") > 5000 * 80
    # The best of three, because other processes may need the processor.
    assert min(page.evaluate(_SCROLL) for _ in range(3)) < 200
    # Row 5,000 failed, and stands in front.
    window.wait_for("!!document.querySelector('[data-id=\"part04/004998\"]')")
    page.select_option("#sort", "id")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    window.wait_for("!!document.querySelector('[data-id=\"part04/004998\"]')")
    row = window.row("part04/004998")
    row.locator(".round").click()
    wait_until_playing(window)
    assert window.requests[-1] == (out / "part04" / "004998.wav").as_uri()
    assert window.current() == "part04/004998"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 390])
def test_axe_finds_nothing_serious(
    open_report: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
    window = open_report(
        small_folder(tmp_path / "out"),
        color_scheme=scheme,
        viewport={"width": width, "height": 844},
        bypass_csp=True,  # or axe could not come in
    )
    page = window.page
    page.keyboard.press("r")
    found = axe.Axe().run(page).response["violations"]
    page.click("#basket-open")
    found += axe.Axe().run(page).response["violations"]
    told = [
        (one["id"], node["html"][:200], node["failureSummary"])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
    assert told == []
