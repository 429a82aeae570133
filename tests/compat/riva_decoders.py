"""riva-asrlib-decoder's decoder with options by name, and arcbeam's own for the same graph."""

from arcbeam import CtcDecoder, Graph
from arcbeam.compat import riva
from benchmarks.data.openfst_writer import write_openfst


def config(**options):
    """The default options but these, by the names of their groups: `decoder_opts__max_active=5`."""
    made = riva.BatchedMappedDecoderCudaConfig()
    made.online_opts.frame_shift_seconds = 0.02
    for name, value in options.items():
        *groups, last = name.split("__")
        group = made if name == "n_input_per_chunk" else made.online_opts
        for one in groups:
            group = getattr(group, one)
        setattr(group, last, value)
    return made


def post(**options):
    return {f"lattice_postprocessor_opts__{name}": value for name, value in options.items()}


def decoder(spoken, **options):
    made = config(**options)
    return riva.BatchedMappedDecoderCuda(made, str(spoken.fst), str(spoken.words), spoken.columns, device="cpu")


def ours(spoken, lattice_beam=10.0, posterior_scale=1.0, **options):
    return CtcDecoder(
        spoken.graph, beam=15.0, lattice_beam=lattice_beam, posterior_scale=posterior_scale, device="cpu", **options
    )


def said(spoken, entries):
    return [" ".join(spoken.graph.word_symbols[word] for word in entry.words) for entry in entries]


def small(tmp_path, arcs, finals, num_columns=3):
    """The paths of a small graph's file and of its words."""
    write_openfst(Graph.from_arcs(arcs, finals=finals, num_columns=num_columns), tmp_path / "small.fst")
    (tmp_path / "small.txt").write_text("<eps> 0\na 1\nb 2\n")
    return str(tmp_path / "small.fst"), str(tmp_path / "small.txt"), num_columns
