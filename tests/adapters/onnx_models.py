"""Tiny models with random weights, with the nodes and names that exporters write: of torch's two exporters."""

import json

import numpy as np
from onnx import TensorProto, helper, load, numpy_helper, save

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
PIECES = ["\u2581a", "b", "c", "\u2581d", "e", "f", "g", "\u2581h", "i", "j", "k", "l"]
LETTERS = ["\u2581", *"abcdefgh"]
GATES = (0, 3, 1, 2)  # ours are input, forget, candidate, output; ONNX has input, output, forget, candidate


class Graph:
    """A graph that grows by nodes; `half` stores its weights as float16, with a cast to float32."""

    def __init__(self, half=False):
        self.nodes, self.weights, self.half = [], [], half

    def weight(self, name, value):
        value = np.asarray(value)
        if not self.half or value.dtype != np.float32:
            self.weights.append(numpy_helper.from_array(value, name))
            return name
        self.weights.append(numpy_helper.from_array(value.astype(np.float16), f"{name}_half"))
        return self.node("Cast", [f"{name}_half"], name, to=FLOAT)

    def node(self, kind, inputs, output, **attributes):
        outputs = [output] if isinstance(output, str) else output
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0]

    def axes(self, kind, value, axes, output):
        return self.node(kind, [value, self.weight(f"{output}_axes", np.array(axes))], output)

    def linear(self, value, name, weight, bias, output):
        """As for three dimensions: a transposed matrix without its name, and an addition."""
        product = self.node(
            "MatMul", [value, self.weight(f"onnx::{name}", np.ascontiguousarray(weight.T))], f"{name}_p"
        )
        return self.node("Add", [self.weight(f"{name}.bias", bias), product], output)

    def save(self, path, inputs, outputs, external=False, metadata=None):
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "main", [value(*one) for one in inputs], [value(*one) for one in outputs], self.weights
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        helper.set_model_props(model, metadata or {})
        if external:
            options = {"save_as_external_data": True, "location": f"{path.name}.data", "size_threshold": 256}
            save(model, str(path), **options)
        else:
            save(model, str(path))


def lstm_weights(generator, tokens, size, layers, features, joint, outputs):
    """Random weights by the names of `TransducerDecoder.from_arrays`, strong enough to write several tokens."""

    def draw(*shape):
        return generator.normal(size=shape).astype(np.float32)

    arrays = {"embedding": 2 * draw(tokens, size)}
    for i in range(layers):
        for kind in ("ih", "hh"):  # scaled, or a large LSTM would amplify the last bit of a sum
            arrays[f"weight_{kind}_l{i}"] = 4 * draw(4 * size, size) / np.float32(np.sqrt(size))
        arrays[f"bias_ih_l{i}"], arrays[f"bias_hh_l{i}"] = draw(4 * size), draw(4 * size)
    arrays |= {"encoder_weight": draw(joint, features), "encoder_bias": draw(joint)}
    arrays |= {"prediction_weight": 4 * draw(joint, size), "prediction_bias": draw(joint)}
    return arrays | {"output_weight": draw(outputs, joint), "output_bias": with_blank(draw(outputs), tokens - 1)}


def with_blank(bias, blank, more=40):
    """A bias that makes the blank as frequent as in speech, or each frame would have as many tokens as it may."""
    bias[blank] += more
    return bias


def stateless_weights(generator, tokens, size, joint, context=2):
    def draw(*shape):
        return generator.normal(size=shape).astype(np.float32)

    arrays = {"embedding": draw(tokens, size), "convolution": draw(size, 4, context)}
    arrays |= {"prediction_weight": draw(joint, size) / 4, "prediction_bias": draw(joint) / 4}
    return arrays | {"output_weight": draw(tokens, joint), "output_bias": with_blank(draw(tokens), 0, 2)}


def reordered(rows):
    parts = np.split(rows, 4)
    return np.concatenate([parts[gate] for gate in GATES])


def lstm(graph, arrays, value, states, outputs):
    """Layers [1, batch, size] as torch exports them, with states [layers, batch, size]."""
    layers = sum(name.startswith("weight_hh") for name in arrays)
    ends = [[], []]
    for i in range(layers):
        weights = [
            graph.weight(f"onnx::LSTM_{i}_{kind}", reordered(arrays[f"weight_{kind}_l{i}"])[None])
            for kind in ("ih", "hh")
        ]
        biases = [reordered(arrays[f"bias_{kind}_l{i}"]) for kind in ("ih", "hh")]
        bias = graph.weight(f"onnx::LSTM_{i}_b", np.concatenate(biases)[None])
        bounds = [graph.weight(f"layer_{i}_{end}", np.array([i + end])) for end in (0, 1)]
        axis = graph.weight(f"layer_{i}_axis", np.array([0]))
        own = [graph.node("Slice", [state, *bounds, axis], f"{state}_{i}") for state in states]
        made = [f"lstm_{i}", f"hidden_{i}", f"cell_{i}"]
        graph.node("LSTM", [value, *weights, bias, "", *own], made, hidden_size=arrays["weight_hh_l0"].shape[1])
        value = graph.axes("Squeeze", made[0], [1], f"squeezed_{i}")
        ends[0].append(made[1])
        ends[1].append(made[2])
    for names, output in zip(ends, outputs, strict=True):
        graph.node("Concat", names, output, axis=0)
    return value


def predict(graph, arrays, tokens, states, ends, output):
    """Prediction network of NeMo and GigaAM: [batch, size, 1]."""
    table = graph.weight("decoder.prediction.embed.weight", arrays["embedding"])
    embedded = graph.node("Gather", [table, tokens], "embedded")
    turned = graph.node("Transpose", [embedded], "embedded_t", perm=[1, 0, 2])
    value = lstm(graph, arrays, turned, states, ends)
    return graph.node("Transpose", [value], output, perm=[1, 2, 0])


def join(graph, arrays, encoded, predicted, output, activation="Relu", log_softmax=True):
    """Joint network of NeMo and GigaAM: of [batch, features, 1] and [batch, size, 1]."""
    parts = []
    for name, value, axis in (("encoder", encoded, 2), ("prediction", predicted, 1)):
        turned = graph.node("Transpose", [value], f"{name}_t", perm=[0, 2, 1])
        projected = graph.linear(turned, name, arrays[f"{name}_weight"], arrays[f"{name}_bias"], f"{name}_out")
        parts.append(graph.axes("Unsqueeze", projected, [axis], f"{name}_wide"))
    active = graph.node(activation, [graph.node("Add", parts, "joined")], "active")
    logits = graph.linear(
        active, "output", arrays["output_weight"], arrays["output_bias"], "logits" if log_softmax else output
    )
    return graph.node("LogSoftmax", [logits], output, axis=-1) if log_softmax else logits


def filters(seed, outputs, bins):
    """Weights [outputs, bins, 1] whose sum over bins is 0, because some features have a large mean."""
    weight = np.random.default_rng(seed).normal(size=(outputs, bins, 1)).astype(np.float32) / 4
    return weight - weight.mean(axis=1, keepdims=True)


def encoder(path, bins, features, subsampling, names, seed, metadata=None):
    """Features [batch, bins, frames] to [batch, features, frames / subsampling], by NeMo's and GigaAM's names."""
    graph = Graph()
    weight = filters(seed, features, bins)
    signal, length, output, lengths = names
    graph.node("Conv", [signal, graph.weight("conv", weight)], output, strides=[subsampling])
    number = INT32 if names[3] == "encoded_len" else INT64  # GigaAM's are int32
    more = graph.node("Add", [length, graph.weight("more", np.array(subsampling - 1))], "more_frames")
    fewer = graph.node("Div", [more, graph.weight("by", np.array(subsampling))], "frames")
    graph.node("Cast", [fewer], lengths, to=number)
    inputs = [(signal, FLOAT, ["b", bins, "t"]), (length, INT64, ["b"])]
    graph.save(path, inputs, [(output, FLOAT, ["b", features, "n"]), (lengths, number, ["b"])], metadata=metadata)


def vocabulary(path, names):
    path.write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)), encoding="utf-8")


def ctc_model(path, columns, bins=80, subsampling=8, names=("audio_signal", "length", "logprobs"), seed=5):
    graph = Graph()
    weight = filters(seed, columns, bins)
    made = graph.node("Conv", [names[0], graph.weight("conv", weight)], "made", strides=[subsampling])
    turned = graph.node("Transpose", [made], "turned", perm=[0, 2, 1])
    graph.node("LogSoftmax", [turned], names[2], axis=-1)
    inputs = [(names[0], FLOAT, ["b", bins, "t"]), (names[1], INT64, ["b"])]
    graph.save(path, inputs, [(names[2], FLOAT, ["b", "n", columns])])


def nemo_ctc(folder, names, blank="<blk>", **config):
    """model.onnx, vocab.txt and config.json; `blank` None leaves it out of the tokens."""
    ctc_model(folder / "model.onnx", len(names) + (blank is not None))
    vocabulary(folder / "vocab.txt", names if blank is None else [*names, blank])
    (folder / "config.json").write_text(json.dumps({"model_type": "nemo-conformer-ctc"} | config))


def nemo_transducer(folder, durations=0, layers=2, seed=3, half=False, external=False, **config):
    """encoder-model.onnx, decoder_joint-model.onnx, vocab.txt and config.json; returns the weights."""
    tokens, features = len(PIECES) + 1, 20
    arrays = lstm_weights(np.random.default_rng(seed), tokens, 16, layers, features, 24, tokens + durations)
    names = ("audio_signal", "length", "outputs", "encoded_lengths")
    encoder(folder / "encoder-model.onnx", 80, features, 8, names, seed)
    decoder_joint(folder / "decoder_joint-model.onnx", arrays, half=half, external=external)
    vocabulary(folder / "vocab.txt", [*PIECES, "<blk>"])
    kind = "tdt" if durations else "rnnt"
    (folder / "config.json").write_text(json.dumps({"model_type": f"nemo-conformer-{kind}"} | config))
    return arrays


def decoder_joint(path, arrays, half=False, external=False, activation="Relu", log_softmax=True):
    graph, size = Graph(half), arrays["embedding"].shape[1]
    layers = sum(name.startswith("weight_hh") for name in arrays)
    states, ends = ["input_states_1", "input_states_2"], ["output_states_1", "output_states_2"]
    predicted = predict(graph, arrays, "targets", states, ends, "predicted")
    join(graph, arrays, "encoder_outputs", predicted, "outputs", activation, log_softmax)
    graph.node("Identity", ["target_length"], "prednet_lengths")
    inputs = [("encoder_outputs", FLOAT, ["b", arrays["encoder_weight"].shape[1], "t"])]
    inputs += [("targets", INT32, ["b", "u"]), ("target_length", INT32, ["b"])]
    inputs += [(state, FLOAT, [layers, "b", size]) for state in states]
    outputs = [("outputs", FLOAT, ["b", "t", "u", len(arrays["output_weight"])]), ("prednet_lengths", INT32, ["b"])]
    graph.save(path, inputs, [*outputs, *((end, FLOAT, [layers, "b", size]) for end in ends)], external)


def sherpa_nemo_transducer(folder, durations=0, seed=3, quantization=""):
    """encoder.onnx, decoder.onnx, joiner.onnx and tokens.txt, as sherpa-onnx has NeMo's transducers."""
    tokens, features, size, layers = len(PIECES) + 1, 20, 16, 2
    arrays = lstm_weights(np.random.default_rng(seed), tokens, size, layers, features, 24, tokens + durations)
    names = ("audio_signal", "length", "outputs", "encoded_lengths")
    encoder(folder / f"encoder{quantization}.onnx", 128, features, 4, names, seed, {"subsampling_factor": "4"})
    graph = Graph()
    predict(graph, arrays, "targets", ["states.1", "onnx::Slice_3"], ["states", "162"], "outputs")
    graph.node("Identity", ["target_length"], "prednet_lengths")
    inputs = [("targets", INT32, ["b", "u"]), ("target_length", INT32, ["b"])]
    inputs += [(state, FLOAT, [layers, "b", size]) for state in ("states.1", "onnx::Slice_3")]
    outputs = [("outputs", FLOAT, ["b", size, "u"]), ("prednet_lengths", INT32, ["b"])]
    outputs += [(state, FLOAT, [layers, "b", size]) for state in ("states", "162")]
    graph.save(folder / "decoder.onnx", inputs, outputs)
    graph = Graph()
    join(graph, arrays, "encoder_outputs", "decoder_outputs", "outputs", log_softmax=False)
    inputs = [("encoder_outputs", FLOAT, ["b", features, "t"]), ("decoder_outputs", FLOAT, ["b", size, "u"])]
    graph.save(folder / "joiner.onnx", inputs, [("outputs", FLOAT, ["b", "t", "u", tokens + durations])])
    vocabulary(folder / "tokens.txt", [*PIECES, "<blk>"])


def gigaam_transducer(folder, seed=3):
    """GigaAM's three files, whose LSTM has 320 units; the configuration names its type."""
    tokens, features, size = len(PIECES) + 1, 20, 320
    arrays = lstm_weights(np.random.default_rng(seed), tokens, size, 1, features, 24, tokens)
    arrays["prediction_weight"] /= 4
    names = ("audio_signal", "length", "encoded", "encoded_len")
    encoder(folder / "v3_rnnt_encoder.onnx", 64, features, 4, names, seed)
    graph = Graph()
    predicted = predict(graph, arrays, "x", ["h.1", "c.1"], ["h", "c"], "turned_back")
    graph.node("Transpose", [predicted], "dec", perm=[0, 2, 1])
    state = [(name, FLOAT, [1, "b", size]) for name in ("h.1", "c.1", "h", "c")]
    outputs = [("dec", FLOAT, ["b", "u", size]), *state[2:]]
    graph.save(folder / "v3_rnnt_decoder.onnx", [("x", INT64, ["b", "u"]), *state[:2]], outputs)
    graph = Graph()
    join(graph, arrays, "enc", "dec", "joint")
    inputs = [("enc", FLOAT, ["b", features, "t"]), ("dec", FLOAT, ["b", size, "u"])]
    graph.save(folder / "v3_rnnt_joint.onnx", inputs, [("joint", FLOAT, ["b", "t", "u", tokens])])
    vocabulary(folder / "v3_vocab.txt", [*PIECES, "<blk>"])
    (folder / "config.json").write_text(json.dumps({"model_type": "gigaam-v3-rnnt", "version": "v3"}))


def kaldi_encoder(path, outputs, names=("x", "x_lens", "encoder_out", "encoder_out_lens"), log_softmax=False, seed=3):
    """Features [batch, frames, 80] to [batch, frames / 4, outputs]."""
    graph = Graph()
    weight = 6 * filters(seed, outputs, 80)
    signal, length, output, lengths = names
    turned = graph.node("Transpose", [signal], "turned", perm=[0, 2, 1])
    made = graph.node("Conv", [turned, graph.weight("conv", weight)], "made", strides=[4])
    back = graph.node("Transpose", [made], "back" if log_softmax else output, perm=[0, 2, 1])
    if log_softmax:
        graph.node("LogSoftmax", [back], output, axis=-1)
    more = graph.node("Add", [length, graph.weight("more", np.array(3))], "more_frames")
    graph.node("Div", [more, graph.weight("by", np.array(4))], lengths)
    inputs = [(signal, FLOAT, ["n", "t", 80]), (length, INT64, ["n"])]
    graph.save(path, inputs, [(output, FLOAT, ["n", "m", outputs]), (lengths, INT64, ["n"])])


def squeezed_if(graph, value, output):
    """A squeeze of axis 1 as torch.jit.script exports it: where the axis is not known to be 1."""
    axes = graph.weight("squeeze_axes", np.array([1]))
    size = graph.node("Gather", [graph.node("Shape", [value], "shape"), graph.weight("first", np.array(1))], "size")
    is_one = graph.node("Equal", [size, graph.weight("one", np.array(1))], "is_one")
    branches = {}
    for branch, node in (("then", ("Squeeze", [value, axes])), ("else", ("Identity", [value]))):
        made = helper.make_empty_tensor_value_info(f"{branch}_out")
        inner = helper.make_node(*node, [f"{branch}_out"])
        branches[f"{branch}_branch"] = helper.make_graph([inner], branch, [], [made])
    return graph.node("If", [is_one], output, **branches)


def kaldi_transducer(folder, names, suffix="", masked=True, context=2, seed=3, condition=False):
    """encoder, decoder and joiner of icefall, with tokens.txt; `masked`: an empty place of the context adds nothing."""
    folder.mkdir(exist_ok=True)
    size, joint = 16, 24
    arrays = stateless_weights(np.random.default_rng(seed), len(names), size, joint, context)
    kaldi_encoder(folder / f"encoder{suffix}.onnx", joint, seed=seed)
    graph = Graph()
    zero = graph.weight("zero", np.array(0))
    clipped = graph.node("Clip", ["y", zero], "clipped")
    embedded = graph.node("Gather", [graph.weight("embedding.weight", arrays["embedding"]), clipped], "embedded")
    if masked:
        there = graph.node("GreaterOrEqual", ["y", zero], "there")
        mask = graph.node("Cast", [graph.axes("Unsqueeze", there, [-1], "there_wide")], "mask", to=FLOAT)
        embedded = graph.node("Mul", [embedded, mask], "masked")
    turned = graph.node("Transpose", [embedded], "turned", perm=[0, 2, 1])
    kernel = graph.weight("conv.weight", arrays["convolution"])
    convolved = graph.node("Conv", [turned, kernel], "convolved", group=size // 4, kernel_shape=[context])
    active = graph.node("Relu", [graph.node("Transpose", [convolved], "back", perm=[0, 2, 1])], "active")
    weights = [graph.weight(f"decoder_proj.{kind}", arrays[f"prediction_{kind}"]) for kind in ("weight", "bias")]
    squeeze = squeezed_if if condition else lambda graph, value, output: graph.axes("Squeeze", value, [1], output)
    squeezed = squeeze(graph, active, "squeezed")
    graph.node("Gemm", [squeezed, *weights], "decoder_out", transB=1)
    outputs = [("decoder_out", FLOAT, ["n", joint])]
    graph.save(folder / f"decoder{suffix}.onnx", [("y", INT64, ["n", context])], outputs)
    graph = Graph()
    active = graph.node("Tanh", [graph.node("Add", ["encoder_out", "decoder_out"], "joined")], "active")
    weights = [graph.weight(f"output_linear.{kind}", arrays[f"output_{kind}"]) for kind in ("weight", "bias")]
    graph.node("Gemm", [active, *weights], "logit", transB=1)
    inputs = [(name, FLOAT, ["n", joint]) for name in ("encoder_out", "decoder_out")]
    graph.save(folder / f"joiner{suffix}.onnx", inputs, [("logit", FLOAT, ["n", len(names)])])
    vocabulary(folder / "tokens.txt", [*names, "#0", "#1"])
    return arrays


def recordings(count=3):
    """A tone of another pitch every 50 ms, in noise."""
    found = []
    for i in range(count):
        generator = np.random.default_rng(i)
        samples = 16000 + 4800 * i
        pitch = np.repeat(generator.uniform(100, 7000, samples // 800), 800)
        audio = np.sin(2 * np.pi * np.cumsum(pitch) / 16000) / 4 + generator.normal(size=samples) / 100
        found.append(audio.astype(np.float32))
    return found


def broken(folder, name, change):
    """Changes a file of a folder by its graph."""
    model = load(str(folder / name))
    change(model.graph)
    save(model, str(folder / name))
