"""NeMo's label-looping, loaded without the rest of NeMo, on networks made of plain arrays."""

import pytest

from benchmarks.adapters import nemo_sources

PART = "nemo.collections.asr.parts.submodules.transducer_decoding"


def load():
    """The module of NeMo's computers; skips the test where it cannot be loaded."""
    for package in ("torch", "omegaconf"):
        pytest.importorskip(package, reason="NeMo's label-looping needs it")
    try:
        nemo_sources.find()
    except ImportError as error:
        pytest.skip(str(error))
    return nemo_sources.load(PART)


class Decoder:
    """The prediction network as NeMo's loop calls it."""

    def __init__(self, arrays):
        import torch

        self.torch = torch
        self.embedding = torch.from_numpy(arrays["embedding"])
        self.layers = sum(name.startswith("weight_hh") for name in arrays)
        self.units = arrays["weight_hh_l0"].shape[1]
        self.lstm = torch.nn.LSTM(arrays["embedding"].shape[1], self.units, self.layers)
        self.lstm.load_state_dict({name: torch.from_numpy(arrays[name]) for name in self.lstm.state_dict()})

    def initialize_state(self, y):
        # Two tensors: the loop writes into them in place.
        return tuple(self.torch.zeros(self.layers, len(y), self.units) for _ in range(2))

    def predict(self, y, state, add_sos=False, batch_size=None):
        out, state = self.lstm(self.embedding[y].transpose(0, 1), state)
        return out.transpose(0, 1), state

    def batch_replace_states_mask(self, src_states, dst_states, mask):
        for source, target in zip(src_states, dst_states, strict=True):
            self.torch.where(mask[None, :, None], source, target, out=target)


class Joint:
    """The joint network as NeMo's loop calls it."""

    def __init__(self, arrays):
        import torch

        self.torch = torch
        self.weights = {name: torch.from_numpy(value) for name, value in arrays.items()}
        self.num_classes_with_blank = len(arrays["output_weight"])

    def _linear(self, name, x):
        return self.torch.nn.functional.linear(x, self.weights[f"{name}_weight"], self.weights[f"{name}_bias"])

    def project_encoder(self, x):
        return self._linear("encoder", x)

    def project_prednet(self, x):
        return self._linear("prediction", x)

    def joint_after_projection(self, encoded, predicted):
        return self._linear("output", self.torch.tanh(encoded[:, :, None] + predicted[:, None]))


class StatelessDecoder:
    """NeMo's own stateless network, as its decoder wraps it, with the tables of a state dict."""

    def __init__(self, tables):
        import torch

        self.torch = torch
        module = nemo_sources.load("nemo.collections.asr.parts.submodules.stateless_net")
        tokens, size = len(tables[0]), sum(table.shape[1] for table in tables)
        self.blank = tokens - 1
        self.net = module.StatelessNet(len(tables), self.blank, size, self.blank, None, 0.0)
        self.net.load_state_dict({f"embeds.{i}.weight": torch.from_numpy(table) for i, table in enumerate(tables)})

    def initialize_state(self, y):
        return [self.torch.full((len(y), self.net.context_size - 1), self.blank)]

    def predict(self, y, state, add_sos=False, batch_size=None):
        return self.net(y, state)

    def batch_replace_states_mask(self, src_states, dst_states, mask):
        self.torch.where(mask[:, None], src_states[0], dst_states[0], out=dst_states[0])
