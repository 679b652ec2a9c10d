"""Record a first session in the terminal as an animated SVG for the README.

    python samples/terminal.py samples/guide/pictures/terminal.svg

Runs the commands of `SESSION` in a temporary folder, with the `tts-cli` next to this Python, and
draws each line of output when it appeared. The time of typing is added; long waits are shortened.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SESSION = (
    "tts-cli synth samples/lines.jsonl --out first/",
    "tts-cli synth samples/lines.jsonl --out first/",
    "tts-cli check first/ --asr pocketsphinx",
    "tts-cli report first/",
)
COLUMNS = 88
CHAR_PX, LINE_PX, MARGIN_PX = 8.4, 20, 16
TYPING_S, PAUSE_S, MAX_WAIT_S, END_S = 1.0, 0.8, 2.0, 5.0


def record(commands: tuple[str, ...]) -> list[tuple[float, str]]:
    """Run commands and return (seconds since the start, line) of what a terminal would show."""
    lines, now_s = [], 0.0
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "samples").symlink_to(ROOT / "samples")
        for command in commands:
            now_s += PAUSE_S
            lines.append((now_s, f"$ {command}"))
            now_s += TYPING_S
            process = subprocess.Popen(
                shlex.split(command),
                cwd=folder,
                env=env,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            assert process.stdout is not None
            last_s = time.perf_counter()
            for line in process.stdout:
                read_s = time.perf_counter()
                now_s += min(read_s - last_s, MAX_WAIT_S)
                last_s = read_s
                lines.append((now_s, line.rstrip("\n")[:COLUMNS]))
            if process.wait():
                raise SystemExit(f"{command} ended with exit code {process.returncode}")
    return lines


def draw(lines: list[tuple[float, str]]) -> str:
    """Return an SVG in which each line appears at its time; the animation repeats."""
    total_s = lines[-1][0] + END_S
    width = round(COLUMNS * CHAR_PX) + 2 * MARGIN_PX
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    styles, texts = [], []
    for number, (at_s, line) in enumerate(lines):
        share = 100 * at_s / total_s
        styles.append(
            f"@keyframes l{number}"
            f"{{0%,{share:.2f}%{{opacity:0}}{share + 0.01:.2f}%,100%{{opacity:1}}}}"
        )
        style = f"animation:l{number} {total_s:.1f}s step-end infinite"
        kind = "c" if line.startswith("$ ") else "o"
        y = MARGIN_PX + (number + 0.75) * LINE_PX
        texts.append(
            f'<text class="{kind}" x="{MARGIN_PX}" y="{y:g}" style="{style}">{escape(line)}</text>'
        )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            "<title>A first session with tts-cli</title>",
            "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}",
            ".c{fill:#9fd0ff;font-weight:bold}.o{fill:#e6e6e6}",
            "@media (prefers-reduced-motion:reduce){text{animation:none!important}}",
            *styles,
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1b1f27"/>',
            *texts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("svg", type=Path, help="file to write")
    parser.parse_args().svg.write_text(draw(record(SESSION)), encoding="utf-8")
