"""Starts the server: ``python -m examples.captions MODEL``."""

import argparse
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

import arcbeam
from examples.captions.limits import Limits
from examples.captions.server import make_app

MESSAGE_BYTES = 2**20  # of a WebSocket: half a minute of 16,000 samples a second
UNREAD_MS = 30_000  # after which the connection of a client ends that does not even read why it was closed


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser("python -m examples.captions", description="Serves captions in a browser.")
    add = parser.add_argument
    add("model", help="a folder, as of arcbeam.Transcriber: an ONNX export, or a model of Transformers")
    add("--lm", help="an ARPA over words, for a CTC model")
    add("--preprocessor", help="the features of an ONNX export, as of arcbeam transcribe: nemo80, or FILE.py:FUNCTION")
    add("--blank", help="the blank of a CTC model, as a token or a column, if its tokens do not say it")
    add("--acoustic-scale", type=float, help="for a CTC model; 1 to 2 suits most")
    add("--device", default="cpu", help="what decodes, and runs the model of an ONNX export: cpu or cuda")
    add("--language", help="the code of the model's language; requests for another one are refused")
    add("--window-seconds", type=float, default=4.0, help="audio that the model takes at a time")
    add("--step-seconds", type=float, default=1.0, help="new audio of each window")
    add("--ahead-seconds", type=float, default=1.0, help="audio after that, with which the model knows its end better")
    add("--threads", type=int, default=os.cpu_count(), help="how many run the model; 1 for a GPU")
    add("--batch-size", type=int, default=1, help="windows that an ONNX export takes together, such as 16 on a GPU")
    add("--clients", type=int, default=Limits().clients, help="the most clients of live audio at once")
    add("--host", default="127.0.0.1", help="0.0.0.0 for other machines, whose browsers need a certificate")
    add("--port", type=int, default=8000)
    add("--certificate", help="a file, for https")
    add("--key", help="the file of its key")
    return parser


def open_model(given: argparse.Namespace) -> Any:
    """The model, each of whose calls uses one core: many are called at once."""
    decoder: dict[str, Any] = {"device": given.device}
    if given.acoustic_scale is not None:
        decoder["acoustic_scale"] = given.acoustic_scale
    if given.blank is not None:
        decoder["blank"] = int(given.blank) if given.blank.isdecimal() else given.blank
    if not [*Path(given.model).glob("*.onnx"), *Path(given.model).glob("*/*.onnx")]:
        model = arcbeam.Transcriber(
            given.model, given.lm, preprocessor=given.preprocessor, confidence=True, **decoder
        ).model
        import torch

        torch.set_num_threads(1)
        return model
    import onnxruntime

    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = 1
    providers = [f"{given.device.upper().partition(':')[0]}ExecutionProvider"]
    return arcbeam.from_onnx(
        given.model, given.lm, preprocessor=given.preprocessor, providers=providers, sess_options=session, **decoder
    )


def main() -> None:
    """Serves until Ctrl-C."""
    parser = options()
    given = parser.parse_args()
    as_given = ("language", "window_seconds", "step_seconds", "ahead_seconds", "threads", "batch_size")
    named = {name: getattr(given, name) for name in as_given}
    try:
        app = make_app(open_model(given), Path(given.model).name, limits=Limits(clients=given.clients), **named)
    except (arcbeam.ArcbeamError, TypeError, ValueError, OSError) as error:
        parser.error(str(error))
    tls = {"ssl_certfile": given.certificate, "ssl_keyfile": given.key}
    config = uvicorn.Config(app, host=given.host, port=given.port, ws_max_size=MESSAGE_BYTES, **tls)
    listening = config.bind_socket()
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
    listening.listen()  # so that clients wait until the server has started
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
