"""The WebSocket of live audio: samples of 16 bits in, captions as JSON out."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from time import monotonic

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

import arcbeam
from examples.captions.limits import Limits

RATES = range(8_000, 192_001)  # samples a second
MOST_REASON = 123  # bytes of the reason for which a WebSocket is closed
LARGEST = 32768.0  # one more than the largest sample
END = "end"  # the text after the last samples


class Refused(Exception):
    """Why a client is not served any longer: the code and the reason that close its WebSocket."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason.encode()[:MOST_REASON].decode(errors="ignore")


class LiveCaptions:
    """Serves the clients of live audio; each waits for the model and the decoder in a thread of its own."""

    def __init__(self, begin: Callable[[int, bool], arcbeam.LiveRecording], limits: Limits) -> None:
        self._begin, self._limits, self._clients = begin, limits, 0
        self._threads = ThreadPoolExecutor(limits.clients, "captions")

    async def serve(self, websocket: WebSocket) -> None:
        """One client, from its first samples to its last caption."""
        await websocket.accept()
        self._clients += 1
        end = Refused(1000, "")
        try:
            if self._clients > self._limits.clients:
                raise Refused(1013, f"expected at most {self._limits.clients} clients at once; try again later")
            await _Client(websocket, *self._begun(websocket.query_params), self._limits, self._threads).serve()
        except WebSocketDisconnect:
            return
        except Refused as refused:
            end = refused
        except Exception:
            logging.getLogger("uvicorn.error").exception("captions of a client")
            end = Refused(1011, "the server failed; its log says why")
        finally:
            self._clients -= 1
        with suppress(TimeoutError, RuntimeError, WebSocketDisconnect):  # it has gone, or reads nothing
            async with asyncio.timeout(self._limits.reading_seconds):
                await websocket.close(end.code, end.reason)

    def _begun(self, query: Mapping[str, str]) -> tuple[arcbeam.LiveRecording, int]:
        """A recording by the query of an address, and its rate."""
        rate, confidence = query.get("rate", "16000"), query.get("confidence", "false")
        if not (rate.isdecimal() and len(rate) < 7 and int(rate) in RATES):
            raise Refused(1008, f"rate: expected samples a second from {RATES[0]} to {RATES[-1]}, got {rate}")
        if confidence not in ("true", "false"):
            raise Refused(1008, f"confidence: expected true or false, got {confidence}")
        try:
            return self._begin(int(rate), confidence == "true"), int(rate)
        except (ValueError, ImportError) as error:  # a model without confidences, a package that is missing
            raise Refused(1008, str(error)) from error

    def close(self) -> None:
        """Waits for the threads."""
        self._threads.shutdown()


class _Client:
    """The two directions of a WebSocket, between which a bounded number of samples waits."""

    def __init__(
        self, websocket: WebSocket, recording: arcbeam.LiveRecording, rate: int, limits: Limits, threads: Executor
    ) -> None:
        self._websocket, self._recording, self._rate = websocket, recording, rate
        self._limits, self._threads = limits, threads
        self._waiting, self._is_over, self._news = bytearray(), False, asyncio.Event()

    async def serve(self) -> None:
        """Reads and writes until the end, or until one of both raises, which cancels the other.

        Waits are limited by asyncio.timeout, because asyncio.wait_for of Python 3.11 can lose a cancellation.
        """
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        """Samples until the end; Refused for anything else, or for more than may wait."""
        began, received, most = monotonic(), 0, self._limits.waiting_seconds
        while not self._is_over:
            data = await self._message()
            received += len(data)
            self._waiting += data
            if len(self._waiting) > 2 * self._rate * most:
                if received / 2 / self._rate > monotonic() - began + most / 2:
                    raise Refused(1008, f"expected live audio, got {most:g} s more than was recognised; POST files")
                raise Refused(1013, f"captions are {most:g} s late, because of too many clients; try again later")
            self._news.set()

    async def _message(self) -> bytes:
        """The samples of the next message; none of the last one."""
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                message = await self._websocket.receive()
        except TimeoutError:
            raise Refused(1008, f"expected samples, got nothing for {self._limits.idle_seconds:g} s") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message["code"])
        data: bytes | None = message.get("bytes")
        self._is_over = data is None and message["text"] == END
        if data is None and not self._is_over:
            raise Refused(1003, f"expected binary messages of 16-bit samples, or the text '{END}', got other text")
        if len(data or b"") % 2:
            raise Refused(1007, f"expected whole samples of 2 bytes, got {len(data or b''):,} bytes")
        return data or b""

    async def _write(self) -> None:
        """Takes what waits, a second at a time, and sends the captions that become known with it."""
        loop, is_last, turn = asyncio.get_running_loop(), False, 2 * self._rate
        while not is_last:
            await self._news.wait()
            data = bytes(self._waiting[:turn])
            del self._waiting[:turn]
            is_last = self._is_over and not self._waiting
            if not self._waiting:
                self._news.clear()
            for event in await loop.run_in_executor(self._threads, _add, self._recording, data, is_last):
                try:
                    async with asyncio.timeout(self._limits.reading_seconds):
                        await self._websocket.send_text(json.dumps(event.to_dict(), ensure_ascii=False))
                except TimeoutError:
                    seconds = self._limits.reading_seconds
                    raise Refused(1008, f"expected a client that reads captions, got none for {seconds:g} s") from None


def _add(recording: arcbeam.LiveRecording, data: bytes, is_last: bool) -> list[arcbeam.LiveEvent]:
    """What becomes known of a recording with the next samples."""
    events = recording.add(np.frombuffer(data, "<i2").astype(np.float32) / np.float32(LARGEST))
    return events + recording.finish() if is_last else events
