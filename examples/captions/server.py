"""The application: a page, live captions, and transcription of files, on one acoustic model and one Batcher."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Route, WebSocketRoute

import arcbeam
from examples.captions.limits import Limits
from examples.captions.live import LiveCaptions
from examples.captions.shared_model import SharedModel
from examples.captions.uploads import ApiError, Transcriptions


def make_app(
    model: Any,
    name: str,
    *,
    language: str | None = None,
    window_seconds: float = 4.0,
    step_seconds: float = 1.0,
    ahead_seconds: float = 1.0,
    threads: int = 1,
    batch_size: int = 1,
    limits: Limits = Limits(),  # noqa: B008
) -> Starlette:
    """An ASGI application for a model, which `Transcriber.model` or `arcbeam.from_onnx` gives.

    `name` and `language` are what OpenAI's clients may say; the seconds are those of `Transcriber.live`, `threads` and
    `batch_size` those of `SharedModel`.
    """
    shared = SharedModel(model, threads, batch_size, window_seconds)
    batcher = arcbeam.Batcher(shared.decoder, auto_reset=True)
    transcriber = arcbeam.Transcriber(shared)

    def begin(rate: int, confidence: bool) -> arcbeam.LiveRecording:
        chosen = arcbeam.Transcriber(shared, confidence=True) if confidence else transcriber
        seconds = {"window_seconds": window_seconds, "step_seconds": step_seconds, "ahead_seconds": ahead_seconds}
        return chosen.live(sample_rate=rate, batcher=batcher, **seconds)

    begin(shared.sample_rate, False)  # an error of the seconds comes now
    live, files = LiveCaptions(begin, limits), Transcriptions(transcriber, batcher, name, language, limits)

    @asynccontextmanager
    async def until_the_end(_: Starlette) -> AsyncIterator[None]:
        yield
        for one in (live, files, shared, batcher):
            one.close()

    routes = [
        Route("/", _page),
        WebSocketRoute("/captions", live.serve),
        Route("/v1/audio/transcriptions", files.serve, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=until_the_end, exception_handlers={ApiError: _failed, Exception: _failed})


async def _page(_: Request) -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.html"))


async def _failed(_: Request, error: Exception) -> JSONResponse:
    known = error if isinstance(error, ApiError) else ApiError("the server failed; its log says why", 500)
    return JSONResponse({"error": known.body}, known.status, known.headers)
