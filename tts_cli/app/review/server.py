"""The web server of `review`: one page, its data, and the decisions that it sends.

Only pages of this server get an answer: the address has a secret token; the host must be the one
that we listen on, so that a foreign name which resolves to 127.0.0.1 gets nothing; and a request
that names an origin must name ours.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from tts_cli.app.look import Screen
from tts_cli.app.review.folder import Decide, Outlines, Pick, ReviewFolder
from tts_cli.app.review.retakes import Retake, Retakes, Rewording
from tts_cli.checks.page.build import build_page
from tts_cli.config import RunConfig
from tts_cli.errors import FolderLocked, Interrupted, SetupError, TtsCliError, UsageError
from tts_cli.store.store import Store

HOST = "127.0.0.1"
MAX_BODY_BYTES = 1 << 20
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
AUDIO_TYPES = {".wav": "wav", ".flac": "flac", ".mp3": "mpeg", ".ogg": "ogg", ".opus": "ogg"}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def serve(
    out: Path,
    config: RunConfig,
    machine: Mapping[str, Any],
    screen: Screen,
    announce: Callable[[str], None],
    *,
    port: int,
    reviewer: str,
    is_confirmed: bool,
) -> None:
    """Serve the page of a folder until a signal comes; a retake in progress is stopped in order.

    Args:
        machine: settings of retakes that are not the folder's, by name.
        announce: called with the address of the page.
        port: 0: any free one.
        reviewer, is_confirmed: see `ReviewFolder` and `Retakes`.
    Raises:
        UsageError: it is not an output folder.
        SetupError: the folder cannot be read, or the port is in use.
    """
    Store.read_only(out)
    folder = ReviewFolder(out, config, reviewer)
    retakes = Retakes(folder, machine, screen, is_confirmed=is_confirmed)
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise SetupError(
            f"cannot listen on port {port}: {error.strerror or error}",
            remedy="choose another --port, or leave it out for any free one",
        ) from error
    port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
    with serving(Guard(make_app(folder, retakes, token), token, port), listener):
        announce(f"http://{HOST}:{port}/{token}/")
        try:
            retakes.run()
        except Interrupted:  # the usual end
            return


@contextmanager
def serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """Answer requests in a thread, inside the block."""
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False)
    )
    run = partial(server.run, sockets=[listener])
    thread = threading.Thread(target=run, name="server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()


class Guard:
    """Refuses requests from other pages, and those without the token."""

    def __init__(self, app: Any, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        problem = self._problem(scope)
        app = self._app if problem is None else PlainTextResponse(problem, 403)
        await app(scope, receive, send_safely)

    def _problem(self, scope: Message) -> str | None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host") not in self._hosts:
            return "This server has another name."
        if headers.get("origin", "http://" + headers["host"]) not in self._origins:
            return "Requests of other pages are refused."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "Requests of other pages are refused."
        token = scope["path"].split("/")[1].encode("utf-8", "replace")
        if not secrets.compare_digest(token, self._token):
            return "The address lacks its token: open the one that `tts-cli review` printed."
        return None


def make_app(folder: ReviewFolder, retakes: Retakes, token: str) -> Starlette:
    """Return the routes of the page."""

    def page(request: Request) -> Response:
        path = folder.out.resolve()
        content = {"folder": {"path": str(path), "name": path.name}, "server": True}
        return Response(build_page(content, is_served=True), media_type="text/html")

    def content(request: Request) -> Response:
        return _answer(folder.content)

    def changes(request: Request) -> Response:
        after = request.query_params.get("after", "")
        number = int(after) if after.isdecimal() and len(after) < 16 else -1
        return _answer(lambda: {**folder.changes(number), "job": retakes.state()})

    def audio(request: Request) -> Response:
        path = folder.audio(request.path_params["row_id"], request.path_params["take"])
        if path is None:
            return PlainTextResponse("There is no such file.", 404)
        return FileResponse(path, media_type=f"audio/{AUDIO_TYPES.get(path.suffix, 'x-unknown')}")

    async def post(kind: type, run: Callable[[Any], Any], request: Request) -> Response:
        if request.headers.get("content-type") != "application/json":
            return PlainTextResponse("JSON is expected.", 415)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                return PlainTextResponse("The request is too long.", 413)
        return await run_in_threadpool(_answer, lambda: run(_decoded(body, kind)))

    posts: dict[str, tuple[type, Callable[[Any], Any]]] = {
        "decide": (Decide, folder.decide),
        "outlines": (Outlines, folder.outlines),
        "pick": (Pick, folder.pick),
        "retake": (Retake, retakes.start),
        "manifest": (Rewording, retakes.reword),
    }
    routes = [
        Route("/", page),
        Route("/api/folder", content),
        Route("/api/changes", changes),
        Route("/audio/{take:int}/{row_id:path}", audio),
        *(
            Route(f"/api/{name}", partial(post, *how), methods=["POST"])
            for name, how in posts.items()
        ),
    ]
    return Starlette(routes=[Mount(f"/{token}", routes=routes)])


def _decoded(body: bytes, kind: type) -> Any:
    """Return a request as its type. Raises UsageError."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise UsageError(f"the request is not valid: {error}") from error


def _answer(make: Callable[[], Any]) -> Response:
    """Return a value as JSON, or an error with its remedy."""
    status = 200
    try:
        value = make()
    except TtsCliError as error:
        value = {"error": error.message, "remedy": error.remedy}
        status = 409 if isinstance(error, FolderLocked) else 400
    return Response(json.dumps(value, allow_nan=False), status, media_type="application/json")
