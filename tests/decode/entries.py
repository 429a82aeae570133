"""Entries of n-best lists, whose words the engine reads for all of them at once, compared with their paths."""

from arcbeam.ctc.lattice.alternatives import Alternative


def by_path(entry):
    """The same entry, which reads its words from its path."""
    read = (entry.arcs, entry.score, entry.posterior, entry.reached_final)
    return Alternative(entry._results, *read, entry._boosted_with(), entry._before)


def check_entries(hypotheses):
    """That the entries say what their paths do; returns how many there were, and how many words."""
    entries = [entry for hypothesis in hypotheses for entry in hypothesis.nbest]
    for entry in entries:
        wanted = by_path(entry)
        assert entry._labels is not None and wanted._labels is None
        assert entry.word_ids.dtype == wanted.word_ids.dtype and entry.word_ids.tolist() == wanted.word_ids.tolist()
        assert (entry.text, entry.words) == (wanted.text, wanted.words)
        assert entry.to_dict() == wanted.to_dict()
    return len(entries), sum(len(entry.words) for entry in entries)
