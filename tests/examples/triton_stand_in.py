"""A stand-in for Triton: its module `triton_python_backend_utils`, its sequence batcher's inputs, and config.pbtxt."""

import json
import re
from types import ModuleType

import numpy as np

TYPES = {"TYPE_FP32": np.float32, "TYPE_INT64": np.int64, "TYPE_BOOL": np.bool_, "TYPE_STRING": np.object_}


class TritonError:
    def __init__(self, message):
        assert type(message) is str
        self._message = message

    def message(self):
        return self._message


class Tensor:
    def __init__(self, name, values):
        assert isinstance(values, np.ndarray)
        self._name, self._values = name, values

    def name(self):
        return self._name

    def as_numpy(self):
        return self._values


class InferenceResponse:
    def __init__(self, output_tensors, error=None):
        self._tensors, self._error = output_tensors, error

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def output_tensors(self):
        return self._tensors


def get_input_tensor_by_name(request, name):
    return request.get(name)


def module():
    """What ``import triton_python_backend_utils`` gives within Triton, as far as the model calls it."""
    made = ModuleType("triton_python_backend_utils")
    for one in (TritonError, Tensor, InferenceResponse, get_input_tensor_by_name):
        setattr(made, one.__name__, one)
    return made


def request(log_probs, sequence, start=False, end=False, ready=True):
    """A request as the sequence batcher hands it over: a batch of one, and the controls of config.pbtxt."""
    controls = {"START": start, "READY": ready, "END": end}
    made = {name: Tensor(name, np.array([[value]], np.int32)) for name, value in controls.items()}
    made["CORRID"] = Tensor("CORRID", np.array([[sequence]], np.uint64))
    if log_probs is not None:
        made["LOG_PROBS"] = Tensor("LOG_PROBS", np.asarray(log_probs)[None])
    return made


def config(text):
    """config.pbtxt as Triton tells it to a model: a dictionary of JSON."""
    bare = re.sub(r"#[^\n]*", "", text)
    tokens = re.findall(r'"[^"]*"|[\w.-]+|[\[\]{}:,]', bare)
    made, at = _fields(tokens, 0, None)
    assert at == len(tokens)
    for name in ("parameters",):
        made[name] = {one["key"]: one["value"] for one in made[name]}
    return made


def _fields(tokens, at, end):
    made = {}
    while at < len(tokens) and tokens[at] != end:
        if tokens[at] == ",":
            at += 1
            continue
        name, at = tokens[at], at + 1
        if tokens[at] == ":":
            at += 1
        made[name], at = _value(tokens, at)
    return made, at


def _value(tokens, at):
    if tokens[at] == "{":
        made, at = _fields(tokens, at + 1, "}")
        return made, at + 1
    if tokens[at] == "[":
        items, at = [], at + 1
        while tokens[at] != "]":
            if tokens[at] == ",":
                at += 1
                continue
            item, at = _value(tokens, at)
            items.append(item)
        return items, at + 1
    return (json.loads(tokens[at]) if re.match(r'"|-?\d|true|false', tokens[at]) else tokens[at]), at + 1
