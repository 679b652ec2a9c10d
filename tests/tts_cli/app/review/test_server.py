"""The server of `review`: who gets an answer, and what is recorded."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from review_server import Review, request, reviewing
from spoken_folders import record, run, tone, with_file, write_folder

from tts_cli.config import RunConfig
from tts_cli.store.store import Store

pytest.importorskip("starlette", reason="needs the extra review")
pytest.importorskip("uvicorn", reason="needs the extra review")
SOUND = tone(0.5)


def folder(out: Path) -> Path:
    """Three rows, one with two takes."""
    rows = [record(name, character="Mara", **with_file(SOUND)) for name in ("a", "b/c-ü", "d")]
    other = tone(0.8)
    rows.append(record("d", take=2, role="extra", path="takes/d/2.wav", **with_file(other)))
    sounds = {f"{name}.wav": SOUND for name in ("a", "b/c-ü", "d")}
    return write_folder(out, rows, audio={**sounds, "takes/d/2.wav": other})


def lines(out: Path) -> list[dict[str, Any]]:
    path = out / "reviews.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Review]]:
    """A server for tests that change nothing."""
    out = folder(tmp_path_factory.mktemp("review") / "out")
    with reviewing(out) as review:
        yield out, review
    assert not (out / "reviews.jsonl").exists()


def test_the_page_and_its_data(shared: tuple[Path, Review]) -> None:
    out, review = shared
    page = review.get()
    assert page.status == 200
    assert b"connect-src 'self'" in page.body
    assert page.headers["cache-control"] == "no-store"
    data = review.post("folder", None).json
    assert [row["id"] for row in data["rows"]] == ["a", "b/c-ü", "d"]
    assert data["rows"][0]["character"] == "Mara"
    assert review.post("changes", 0).json["busy"] is None
    outlines = review.post("outlines", [["a", 1], ["d", 2], ["none", 1]]).json
    assert [one and len(one) for one in outlines] == [160, 160, None]
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == [
        *("a.wav", "d.wav", "run.json", "runs.jsonl", "timings.jsonl")
    ]


def test_audio_comes_in_ranges(shared: tuple[Path, Review]) -> None:
    _, review = shared
    url = review.rows()["b/c-ü"]["takes"][0]["url"]
    whole = review.get(url)
    assert (whole.status, whole.body, whole.headers["content-type"]) == (200, SOUND, "audio/wav")
    part = review.get(url, range="bytes=10-19")
    assert (part.status, part.body) == (206, SOUND[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(SOUND)}"
    assert review.get("audio/2/d").body == tone(0.8)
    assert review.get("audio/9/d").status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:80"},
        {"host": "127.0.0.1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_pages_are_refused(shared: tuple[Path, Review], headers: dict[str, str]) -> None:
    _, review = shared
    for path in ("", "api/folder", "audio/1/a"):
        assert review.get(path, **headers).status == 403
    row = {"id": "a", "takes": [{"take": 1}]}
    given = {"content-type": "application/json", **headers}
    body = json.dumps({"id": row["id"], "take": 1, "state": "approved"}).encode()
    assert request(f"{review.address}api/decide", given, body).status == 403


@pytest.mark.parametrize("token", ["", "x", "x" * 32, "%00"])
def test_without_the_token_there_is_nothing(shared: tuple[Path, Review], token: str) -> None:
    _, review = shared
    for path in ("", "api/folder", "audio/1/a"):
        assert request(f"{review.origin}/{token}/{path}", {}).status == 403
    assert len(urlsplit(review.address).path) > 30


def test_the_server_is_on_this_machine_only(shared: tuple[Path, Review]) -> None:
    _, review = shared
    port = urlsplit(review.address).port
    with socket.socket() as one:
        one.connect(("127.0.0.1", port))
    with socket.socket() as one, pytest.raises(OSError, match=r"refused|unreachable"):
        one.connect(("127.0.0.2", port))


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {},
        7,
        [7],
        {"id": "a"},
        {"id": "../a", "take": 1, "sha256": None, "state": "approved"},
        {"id": "a", "take": 1, "sha256": None, "state": "none"},
        {"id": "a", "take": 1, "sha256": None, "state": "open", "at_s": -1},
        {"id": "a", "take": 0, "sha256": None, "state": "open"},
    ],
)
def test_what_is_no_decision_is_refused(shared: tuple[Path, Review], values: Any) -> None:
    _, review = shared
    answer = review.post("decide", values)
    assert answer.status == 400
    assert answer.json["error"]


def test_requests_that_make_no_sense(shared: tuple[Path, Review]) -> None:
    _, review = shared
    address = f"{review.address}api/decide"
    assert request(address, {"content-type": "text/plain"}, b"{}").status == 415
    json_type = {"content-type": "application/json"}
    assert request(address, json_type, b"{" * 99).status == 400
    assert request(address, json_type, b"[" * 100_000).status == 400
    # Only announced: the server answers before it reads.
    assert request(address, {**json_type, "content-length": str(2 << 20)}, b" ").status == 413
    for name, values in (
        ("pick", ["a"]),
        ("pick", ["a", True]),
        ("pick", ["none", 1]),
        ("outlines", [1]),
        ("outlines", [["a", 1]] * 1000),
        ("changes", "x"),
        ("folder", {}),
        ("retake", {"takes": 1}),
        ("retake", {"id": "a", "takes": 10**9}),
        ("retake", {"id": "a", "takes": 1, "edits": {"ref_audio": "/etc/passwd"}}),
        ("manifest", {"id": "a"}),
    ):
        assert review.post(name, values).status == 400, name
    assert review.post("nothing", None).status == 404
    assert review.get("api/folder").status == 405
    assert review.post("changes", -1).status == 200


@pytest.mark.slow
def test_links_of_a_hostile_folder_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(SOUND)
    out = write_folder(tmp_path / "out", [record("a"), record("b"), record("up/c")], audio={})
    (out / "a.wav").symlink_to(secret)
    (out / "up").symlink_to(tmp_path)
    (tmp_path / "c.wav").write_bytes(SOUND)
    (out / "b.wav").write_bytes(SOUND)
    with reviewing(out) as review:
        rows = review.rows()
        assert [name for name, row in rows.items() if "url" in row["takes"][0]] == ["b"]
        for path in ("a", "up/c", "../secret", quote("../secret", safe=""), "/etc/passwd"):
            assert review.get(f"audio/1/{path}").status == 404, path


@pytest.mark.slow
def test_decisions_survive_a_kill(tmp_path: Path) -> None:
    out = folder(tmp_path / "out")
    with reviewing(out, "--reviewer", "Ana") as review:
        rows = review.rows()
        assert review.decide(rows["a"], "approved").status == 200
        assert review.decide(rows["a"], "comment", comment="warmer", at_s=0.25).status == 200
        assert review.decide(rows["d"], "rejected").status == 200
        review.kill()
    with (out / "reviews.jsonl").open("ab") as file:
        file.write(b'{"id": "a", "take": 1, "state": "reje')  # as if the machine had stopped
    with reviewing(out) as review:
        found = review.post("changes", 0).json
        assert [(one["id"], one["state"], one["reviewer"]) for one in found["decisions"]] == [
            *(("a", "approved", "Ana"), ("a", "comment", "Ana"), ("d", "rejected", "Ana"))
        ]
        assert found["decisions"][1]["at_s"] == 0.25
        assert review.decide(review.rows()["d"], "open").status == 200
        assert len(review.post("changes", 3).json["decisions"]) == 1
    assert not (out / ".tts-cli.lock").exists()
    assert len((out / "reviews.jsonl").read_bytes().splitlines()) == 5


@pytest.mark.slow
def test_a_run_makes_the_page_read_only(tmp_path: Path) -> None:
    out = folder(tmp_path / "out")
    with reviewing(out) as review, reviewing(out) as second:
        row = review.rows()["a"]
        with Store.locked(out, RunConfig()):
            assert "process" in review.post("changes", 0).json["busy"]
            answer = review.decide(row, "approved")
            assert answer.status == 409
            assert "is in use by process" in answer.json["error"]
            assert review.post("pick", ["d", 2]).status == 409
            assert review.get("audio/1/a").status == 200
        assert review.post("changes", 0).json["busy"] is None
        assert review.decide(row, "approved").status == 200
        assert second.decide(second.rows()["d"], "rejected").status == 200
        states = [(one["id"], one["state"]) for one in review.post("changes", 0).json["decisions"]]
        assert states == [("a", "approved"), ("d", "rejected")]


@pytest.mark.slow
def test_a_chosen_take_is_the_rows_file(tmp_path: Path) -> None:
    out = folder(tmp_path / "out")
    with reviewing(out) as review:
        before = review.post("changes", 0).json["stamp"]
        assert review.post("pick", ["d", 2]).status == 200
        assert review.rows()["d"]["chosen"] == 1
        assert review.post("changes", 0).json["stamp"] != before
    assert (out / "d.wav").read_bytes() == tone(0.8)
    assert (out / "takes/d/1.wav").read_bytes() == SOUND


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tts_cli.main import main

    assert main(["review", str(tmp_path), "--no-browser"]) == 2
    assert "has no timings.jsonl" in capsys.readouterr().err
    out = write_folder(tmp_path / "out", [record("a")], runs=[run()])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["review", str(out), "--no-browser", "--port", port]) == 3
    assert f"cannot listen on port {port}" in capsys.readouterr().err
