"""Transcription of files as OpenAI's clients request it, with its fields, formats and errors."""

import asyncio
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import soundfile
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Message, Receive

import arcbeam
from examples.captions.limits import Limits

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
TIMES = "timestamp_granularities[]"
FIELDS = ("file", "model", "language", "response_format", "temperature", "prompt", "stream", TIMES)
IDLE = {"temperature": ("0", "0.0"), "prompt": ("",), "stream": ("false", "False")}  # fields that may only say this
ALIAS = "whisper-1"  # a name that many clients do not let their users choose
UNKNOWN = "und"  # ISO 639's code of an undetermined language
DRAINED = 2**28  # bytes of a request, of which so much is read before its error
OF_WHISPER = dict.fromkeys(("avg_logprob", "compression_ratio", "no_speech_prob", "temperature"))  # its decoder's
TYPES = {429: "rate_limit_error", 500: "server_error"}


class ApiError(Exception):
    """An error in OpenAI's form."""

    def __init__(
        self, message: str, status: int = 400, param: str | None = None, *, retry_seconds: int | None = None
    ) -> None:
        super().__init__(message)
        self.headers = {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
        kind = TYPES.get(status, "invalid_request_error")
        self.status, self.body = status, {"message": message, "type": kind, "param": param, "code": None}


class Transcriptions:
    """Serves files, each in a thread; those that come while all threads are busy wait for their turn."""

    def __init__(self, transcriber: Any, batcher: Any, name: str, language: str | None, limits: Limits) -> None:
        self._transcriber, self._batcher, self._limits = transcriber, batcher, limits
        self._names, self._language, self._uploads = (name, ALIAS), language, 0
        self._threads = ThreadPoolExecutor(limits.uploads, "uploads")

    async def serve(self, request: Request) -> Response:
        """One file: its transcript, or an ApiError."""
        limits, size = self._limits, self._limits.upload_bytes
        error = ApiError(f"file: expected a request of at most {size:,} bytes, got more", 413, "file")
        most = limits.uploads + limits.waiting_uploads
        if self._uploads >= most:
            message = f"expected at most {most} files at once; try again in {limits.retry_seconds} s"
            size, error = 0, ApiError(message, 429, retry_seconds=limits.retry_seconds)
        self._uploads += 1
        try:
            async with asyncio.timeout(limits.idle_seconds):
                body = _limited(request.receive, size, error)
                form = await Request(request.scope, body).form(max_files=1, max_fields=20)
            try:
                fields = self._checked(form)
                return _response(await self._transcribed(fields["file"], request), fields)
            finally:
                await form.close()
        except HTTPException as damaged:
            raise ApiError(damaged.detail) from damaged
        except TimeoutError:
            raise ApiError(f"file: expected a request within {limits.idle_seconds:g} s", 408) from None
        finally:
            self._uploads -= 1

    def _checked(self, form: FormData) -> dict[str, Any]:
        """The fields of a request, of which none is ignored; of `language`, only what is not known to be wrong."""
        fields = {"response_format": "json", "language": self._language or UNKNOWN, **form}
        fields[TIMES] = form.getlist(TIMES) or ["segment"]
        for name in fields:
            _check("fields", name, FIELDS)
        if not isinstance(fields.get("file"), UploadFile):
            raise ApiError("file: expected an audio file, got none", 400, "file")
        _check("model", fields.get("model"), self._names, 404)
        _check("response_format", fields["response_format"], FORMATS)
        for one in fields[TIMES]:
            _check(TIMES, one, ("word", "segment"))
        if TIMES in form and fields["response_format"] != "verbose_json":
            raise ApiError(f"{TIMES}: expected it only with response_format=verbose_json", 400, TIMES)
        _check("language", fields["language"], (self._language or fields["language"],))
        for name, idle in IDLE.items():
            _check(name, fields.get(name, idle[0]), idle)
        return fields

    async def _transcribed(self, file: UploadFile, request: Request) -> arcbeam.Transcript:
        """The transcript of a file, on which no work is done once its client is gone."""
        is_gone = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._transcript, file, is_gone)
        gone = asyncio.ensure_future(request.receive())  # after the whole request, this is its end
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        is_gone.set()
        gone.cancel()
        return await work

    def _transcript(self, file: UploadFile, is_gone: threading.Event) -> arcbeam.Transcript:
        """The same in a thread."""

        def go_on(_: float) -> None:
            if is_gone.is_set():
                raise ApiError("the client is gone", 499)

        go_on(0.0)
        with tempfile.NamedTemporaryFile() as copy:
            shutil.copyfileobj(file.file, copy)
            copy.flush()
            with suppress(soundfile.LibsndfileError):  # of which transcribe says more
                seconds, most = soundfile.info(copy.name).duration, self._limits.upload_seconds
                if seconds > most:
                    raise ApiError(f"file: expected at most {most:g} s of audio, got {seconds:g} s", 400, "file")
            try:
                return self._transcriber.transcribe(copy.name, channel="mean", progress=go_on, batcher=self._batcher)
            except ValueError as error:
                raise ApiError(str(error).replace(copy.name, "file"), 400, "file") from error

    def close(self) -> None:
        """Waits for the threads."""
        self._threads.shutdown()


def _limited(receive: Receive, limit: int, error: ApiError) -> Receive:
    """The body of a request; the error once it is larger."""
    size = 0

    async def part() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:  # what follows is read, too, because clients read an error only after they have written all
            while message.get("more_body") and size < DRAINED:
                message = await receive()
                size += len(message.get("body", b""))
            raise error
        return message

    return part


def _check(name: str, given: Any, expected: tuple[Any, ...], status: int = 400) -> None:
    """ApiError unless what was given is one of what is expected."""
    if given not in expected:
        raise ApiError(f"{name}: expected {' or '.join(expected) or 'none'}, got {given}", status, name)


def _response(transcript: arcbeam.Transcript, fields: dict[str, Any]) -> Response:
    """The transcript in the format of a request."""
    kind = fields["response_format"]
    if kind in ("srt", "vtt"):
        return PlainTextResponse(transcript.render(kind))
    if kind == "text":
        return PlainTextResponse(f"{transcript.text}\n")
    found: dict[str, Any] = {"text": transcript.text}
    if kind == "verbose_json":
        found |= {"task": "transcribe", "language": fields["language"], "duration": transcript.duration}
        if "segment" in fields[TIMES]:
            found["segments"] = [
                {"id": i, "seek": 0, "start": one.start, "end": one.end, "text": one.text, "tokens": [], **OF_WHISPER}
                for i, one in enumerate(transcript.segments)
            ]
        if "word" in fields[TIMES]:
            found["words"] = [{"word": one.word, "start": one.start, "end": one.end} for one in transcript.words]
    return JSONResponse(found)
