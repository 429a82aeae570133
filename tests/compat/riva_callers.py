"""Programs that call riva-asrlib-decoder, with their calls and the attributes that they read: NeMo's and WeNet's."""

import itertools
import tempfile
from pathlib import Path
from typing import NamedTuple

import kaldifst


def as_dict(group):
    """All options of a group, as NeMo copies them into its own configuration."""
    found = {}
    for name in group.__dir__():
        if not name.startswith("__"):
            value = getattr(group, name)
            found[name] = value if type(value).__module__ == "builtins" else as_dict(value)
    return found


def fill(group, values):
    """Sets the options of a group, as NeMo does from its configuration."""
    for name, value in values.items():
        if isinstance(value, dict):
            fill(getattr(group, name), value)
        else:
            setattr(group, name, value)


class Unit(NamedTuple):
    """What NeMo makes of an entry."""

    words: tuple
    timesteps: tuple
    alignment: tuple
    score: float


class Nemo:
    """The decoder of NeMo's ``strategy: wfst`` with ``search_type: riva``: one file, whose tables it reads."""

    def __init__(self, module, fst_path, mode, lattice_beam=10.0, lm_weight=1.0, nbest=1):
        options = as_dict(module.BatchedMappedDecoderCudaConfig())
        online = options["online_opts"]
        online["lattice_postprocessor_opts"]["acoustic_scale"] = 10.0
        options["n_input_per_chunk"] = 50
        online["decoder_opts"] |= {"default_beam": 20.0, "max_active": 10000, "lattice_beam": lattice_beam}
        online |= {"determinize_lattice": True, "max_batch_size": 800, "num_channels": 800, "frame_shift_seconds": 1}
        online["lattice_postprocessor_opts"] |= {"word_ins_penalty": 0.0, "lm_scale": lm_weight * 10.0, "nbest": nbest}
        fst = kaldifst.StdVectorFst.read(str(fst_path))
        columns = fst.input_symbols.find("#0") - 1
        self.names = {
            int(line.split("\t")[1]): line.split("\t")[0] for line in str(fst.output_symbols).strip().split("\n")
        }
        with tempfile.NamedTemporaryFile(mode="w+t") as words:
            fst.output_symbols.write_text(words.name)
            config = module.BatchedMappedDecoderCudaConfig()
            fill(config, options)
            self.decoder = module.BatchedMappedDecoderCuda(config, str(fst_path), words.name, columns)
        self.mode = mode

    def decode(self, log_probs, lengths):
        return getattr(self, f"_{self.mode}")(log_probs, lengths)

    def _nbest(self, log_probs, lengths):
        found = []
        for entries in self.decoder.decode_nbest(log_probs, lengths):
            units = []
            for entry in entries:
                times = map(int, entry.word_start_times_seconds)
                said = [(self.names[w], t) for w, t in zip(entry.words, times, strict=True) if w != 0]
                alignment = tuple(label - 1 for label in entry.ilabels)
                assert isinstance(entry.score, float)
                units.append(Unit(tuple(w for w, _ in said), tuple(t for _, t in said), alignment, entry.score))
            found.append(sorted(units, key=lambda unit: unit.score))
        return found

    def _mbr(self, log_probs, lengths):
        return [
            [Unit(tuple(word[0] for word in words), tuple(int(word[1]) for word in words), (), 0.0)]
            for words in self.decoder.decode_mbr(log_probs, lengths)
        ]

    def _lattice(self, log_probs, lengths):
        """For each utterance its arcs: (source, target, word, graph cost, acoustic cost)."""
        with tempfile.NamedTemporaryFile() as file:
            path = f"{file.name}.lats"
            names = [str(i) for i in range(len(log_probs))]
            self.decoder.decode_write_lattice(log_probs, lengths, names, f"ark,t:{path}")
            found, current = {}, None
            for line in Path(path).read_text().splitlines():
                fields = line.split()
                if len(fields) == 1 and fields[0] in names and current is None:
                    current = found.setdefault(fields[0], [])
                elif not fields:
                    current = None
                elif len(fields) == 4:
                    graph_cost, acoustic_cost, _ = fields[3].split(",")
                    current.append((*map(int, fields[:3]), float(graph_cost), float(acoustic_cost)))
        return [found[name] for name in names]


WENET = {
    "acoustic_scale": 10.0, "n_input_per_chunk": 50, "default_beam": 17.0, "max_active": 7000, "lattice_beam": 8.0,
    "determinize_lattice": True, "max_batch_size": 200, "num_channels": 400, "frame_shift_seconds": 0.04,
    "lm_scale": 5.0, "word_ins_penalty": 0.0,
}  # fmt: skip


def wenet_config(module, options):
    config = module.BatchedMappedDecoderCudaConfig()
    config.n_input_per_chunk = options["n_input_per_chunk"]
    online = config.online_opts
    for name in ("determinize_lattice", "max_batch_size", "num_channels", "frame_shift_seconds"):
        setattr(online, name, options[name])
    for name in ("default_beam", "lattice_beam", "max_active"):
        setattr(online.decoder_opts, name, options[name])
    for name in ("acoustic_scale", "lm_scale", "word_ins_penalty"):
        setattr(online.lattice_postprocessor_opts, name, options[name])
    return config


def word_names(path):
    with open(path, encoding="utf-8") as lines:
        return {int(label): word for word, label in (line.rstrip().split() for line in lines)}


class WeNet:
    """The decoder of WeNet's Triton model; the frames that it leaves out, those of sure blanks, are not its subject."""

    def __init__(self, module, columns, fst_path, words_path, nbest):
        config = wenet_config(module, WENET | {"lattice_beam": nbest})
        config.online_opts.lattice_postprocessor_opts.nbest = nbest
        self.decoder = module.BatchedMappedDecoderCuda(config, str(fst_path), str(words_path), columns)
        self.names, self.columns, self.count = word_names(words_path), columns, nbest

    def decode_nbest(self, log_probs, lengths):
        texts, labels, longest = [], [], 3
        for entries in self.decoder.decode_nbest(log_probs, lengths):
            said, spelled = [], []
            for entry in entries:
                columns = [label - 1 for label in entry.ilabels]
                merged = [column for column, _ in itertools.groupby(columns) if column != 0]
                spelled.append([self.columns - 1, *merged, self.columns - 1])
                longest = max(longest, len(spelled[-1]))
                said.append(" ".join(self.names[word] for word in entry.words if word != 0))
            texts.append(said + [""] * (self.count - len(said)))
            labels.append(spelled + [[self.columns - 1, 0, self.columns - 1]] * (self.count - len(spelled)))
        return texts, labels, longest

    def decode_mbr(self, log_probs, lengths):
        return [" ".join(word[0] for word in words) for words in self.decoder.decode_mbr(log_probs, lengths)]


class WeNetOnline:
    """The decoder of WeNet's Triton model for streams, which gives the options of the offline decoder in part."""

    def __init__(self, module, columns, fst_path, words_path):
        online = wenet_config(module, WENET).online_opts
        online.decoder_opts.ntokens_pre_allocated = 10_000_000
        online.num_decoder_copy_threads, online.num_post_processing_worker_threads = 2, 4
        online.use_final_probs = False
        self.decoder = module.BatchedMappedOnlineDecoderCuda(online, str(fst_path), str(words_path), columns)
        self.names = word_names(words_path)

    def initialize_sequence(self, corr_id):
        return self.decoder.try_init_corr_id(corr_id)

    def decode_batch(self, log_probs, lengths, corr_ids, is_first, is_last):
        chunks = [one[: lengths[i]] for i, one in enumerate(log_probs)]
        _, found = self.decoder.decode_batch(corr_ids, chunks, is_first, is_last)
        return [" ".join(self.names[word] for word in one.words) for one in found]
