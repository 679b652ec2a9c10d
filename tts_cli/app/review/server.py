"""The web server of `review`: one page, its data, and the decisions that it sends.

Only pages of this server get an answer: the address has a secret token; the host must be the one
that we listen on, so that a foreign name which resolves to 127.0.0.1 is rejected; and a request
that names an origin must name ours.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from tts_cli.app.review.folder import Outlines, ReviewFolder, TakeKey
from tts_cli.app.review.retakes import Retake, Retakes, Rewording
from tts_cli.audio.file import FORMATS
from tts_cli.checks.page.build import build_page
from tts_cli.checks.reviews import Decision
from tts_cli.errors import FolderLocked, Interrupted, SetupError, TtsCliError, writing
from tts_cli.store.store import Store

HOST = "127.0.0.1"
MAX_BODY_BYTES = 1 << 20
MAX_JOBS = 200  # retakes that the page shows
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
SITES = ("same-origin", "none")  # in `Sec-Fetch-Site`; none: the user opened the address


def serve(
    folder: ReviewFolder, retakes: Retakes, port: int, announce: Callable[[str], None]
) -> None:
    """Serve the page of a folder until a signal comes; a retake is then stopped in order.

    `announce` is called with the address. Raises UsageError if it is not an output folder,
    and SetupError if it cannot be read or the port is in use. Port 0: any free one.
    """
    Store.read_only(folder.out)
    remedy = "choose another --port, or leave it out for any free one"
    with writing(port, SetupError, f"cannot listen on port {port}", remedy):
        listener = socket.create_server((HOST, port))
    port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
    app = make_app(folder, retakes, port, token)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    thread.start()
    try:
        announce(f"http://{HOST}:{port}/{token}/")
        with suppress(Interrupted):  # the usual end
            retakes.run()
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()


def make_app(folder: ReviewFolder, retakes: Retakes, port: int, token: str) -> Starlette:
    hosts = (f"{HOST}:{port}", f"localhost:{port}")

    def page(request: Request) -> Response:
        path = folder.out.resolve()
        content = {"folder": {"path": str(path), "name": path.name}, "server": True}
        return Response(build_page(content, is_served=True), media_type="text/html")

    def audio(request: Request) -> Response:
        path = folder.audio((request.path_params["row_id"], request.path_params["take"]))
        if path is None:
            return PlainTextResponse("There is no such file.", 404)
        about = FORMATS.get(path.suffix.removeprefix("."))
        return FileResponse(path, media_type=f"audio/{about.media_type if about else 'x-unknown'}")

    def changes(after: int) -> dict[str, Any]:
        return {**folder.changes(after), "jobs": retakes.jobs[-MAX_JOBS:]}

    calls: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "changes": (int, changes),
        "decide": (Decision, folder.decide),
        "folder": (None, folder.content),
        "manifest": (Rewording, retakes.reword),
        "outlines": (Outlines, folder.outlines),
        "pick": (TakeKey, folder.pick),
        "retake": (Retake, retakes.start),
    }

    async def call(kind: Any, run: Callable[[Any], Any], request: Request) -> Response:
        if request.headers.get("content-type") != "application/json":
            return PlainTextResponse("JSON is expected.", 415)
        if int(request.headers.get("content-length", MAX_BODY_BYTES + 1)) > MAX_BODY_BYTES:
            return PlainTextResponse("The request is too long.", 413)
        return await run_in_threadpool(_answer, kind, run, await request.body())

    async def guard(request: Request, answer: Callable[..., Any]) -> Response:
        headers, given, problem = request.headers, request.scope["path"].split("/")[1], ""
        site, host = headers.get("sec-fetch-site", "none"), headers.get("host", "")
        if host not in hosts:
            problem = "This server has another name."
        elif headers.get("origin", f"http://{host}") != f"http://{host}" or site not in SITES:
            problem = "Requests of other pages are refused."
        elif not secrets.compare_digest(given.encode("utf-8", "replace"), token.encode()):
            problem = "The address lacks its token: open the one that `tts-cli review` printed."
        response: Response = PlainTextResponse(problem, 403) if problem else await answer(request)
        response.headers.update(HEADERS)
        return response

    routes = [
        Route(f"/{token}/", page),
        Route(f"/{token}/audio/{{take:int}}/{{row_id:path}}", audio),
        *(
            Route(f"/{token}/api/{name}", partial(call, *found), methods=["POST"])
            for name, found in calls.items()
        ),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


def _answer(kind: Any, run: Callable[[Any], Any], body: bytes) -> Response:
    """Return the answer to a request of a type as JSON, or an error with its remedy."""
    status = 200
    try:
        value = run(msgspec.json.decode(body, type=kind))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        status, value = 400, {"error": f"the request is not valid: {error}"}
    except TtsCliError as error:
        status = 409 if isinstance(error, FolderLocked) else 400
        value = {"error": error.message, "remedy": error.remedy}
    return Response(msgspec.json.encode(value), status, media_type="application/json")
