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
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from tts_cli.app.review.folder import ReviewFolder
from tts_cli.app.review.retakes import Retakes
from tts_cli.checks.page.build import build_page
from tts_cli.errors import FolderLocked, SetupError, TtsCliError, UsageError

HOST = "127.0.0.1"
MAX_BODY_BYTES = 1 << 20
AUDIO_TYPES = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
}
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Action = Callable[[dict[str, Any]], Any]


class Server:
    """Context manager that serves the page in a thread.

    Args:
        port: 0: any free one.
    Raises on entry:
        SetupError: the port is in use.
    """

    def __init__(self, folder: ReviewFolder, retakes: Retakes, port: int) -> None:
        try:
            self._socket = socket.create_server((HOST, port))
        except (OSError, OverflowError) as error:
            raise SetupError(
                f"cannot listen on port {port}: {getattr(error, 'strerror', None) or error}",
                remedy="choose another --port, or leave it out for any free one",
            ) from error
        port, token = self._socket.getsockname()[1], secrets.token_urlsafe(24)
        self.address = f"http://{HOST}:{port}/{token}/"
        app = Guard(make_app(folder, retakes, token), token, port)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False
        )
        self._server = uvicorn.Server(config)
        run = partial(self._server.run, sockets=[self._socket])
        self._thread = threading.Thread(target=run, name="server", daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._socket.close()


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
                message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
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
        kind = AUDIO_TYPES.get(path.suffix.lower(), "application/octet-stream")
        return FileResponse(path, media_type=kind)

    async def post(run: Action, request: Request) -> Response:
        if request.headers.get("content-type") != "application/json":
            return PlainTextResponse("JSON is expected.", 415)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                return PlainTextResponse("The request is too long.", 413)
        return await run_in_threadpool(_answer, partial(_run, run, body))

    actions: dict[str, Action] = {
        "decide": lambda values: folder.decide(values.get("decisions")),
        "outlines": lambda values: folder.outlines(values.get("takes")),
        "pick": folder.pick,
        "retake": retakes.start,
        "manifest": retakes.edit_manifest,
    }
    posts = [
        Route(f"/api/{name}", partial(post, run), methods=["POST"]) for name, run in actions.items()
    ]
    routes = [
        Route("/", page),
        Route("/api/folder", content),
        Route("/api/changes", changes),
        Route("/audio/{take:int}/{row_id:path}", audio),
        *posts,
    ]
    return Starlette(routes=[Mount(f"/{token}", routes=routes)])


def _run(run: Action, body: bytes) -> Any:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise UsageError("a JSON object is expected")
    return run(values)


def _answer(make: Callable[[], Any]) -> Response:
    """Return a value as JSON, or an error with its remedy."""
    status = 200
    try:
        value = make()
    except TtsCliError as error:
        value = {"error": error.message, "remedy": error.remedy}
        status = 409 if isinstance(error, FolderLocked) else 400
    return Response(json.dumps(value, allow_nan=False), status, media_type="application/json")
