"""The state of a beam search between two chunks of its stream, and its arrays."""

import numpy as np

from libc.stdint cimport int32_t, uint32_t
from libcpp.utility cimport move

from arcbeam.arrays._vectors cimport into_vector
from arcbeam.transducer.beam._lists cimport copied

DTYPES = {
    "arrivals": np.dtype([("frame", "<i8"), ("node", "<u4"), ("score", "<f4"), ("path", "<f4"), ("log", "<u4")]),
    "histories": np.dtype([
        ("parent", "<u4"), ("token", "<u4"), ("states", "<u4", 3), ("shares", "<f4", 3), ("ilm_share", "<f4"),
    ]),
    "shares": np.dtype("<f8"),
    "predicted": np.dtype("<u4"),
    "hidden": np.dtype("<f4"),
    "cell": np.dtype("<f4"),
    "contexts": np.dtype("<i4"),
    "log": np.dtype([
        ("frame", "<i8"), ("before", "<u4"), ("token", "<u4"), ("duration", "<u4"), ("log_prob", "<f4"),
        ("confidence", "<f4"),
    ]),
}


cdef class BeamState:
    """A state, which does not change."""

    @staticmethod
    def begun(frames, states):
        """Before the first frame of a sentence, after some frames of its stream, with these states of the models."""
        cdef BeamState made = BeamState()
        cdef FusionStates of
        of.of[0], of.of[1], of.of[2] = states
        made.of = CppBeamState.begun(frames, of)
        return made

    @property
    def frames(self):
        """Frames of the stream so far."""
        return self.of.frames

    @property
    def nbytes(self):
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def numbers(self):
        """(offset of the scores, labels of the sentence that are settled)."""
        return self.of.offset, self.of.labels

    def arrays(self):
        """dict : arrays by the names and of the types in `DTYPES`."""
        cdef const History* one
        found = {
            "predicted": copied(self.of.predicted.data(), self.of.predicted.size(), np.uint32),
            "hidden": copied(self.of.hidden.data(), self.of.hidden.size(), np.float32),
            "cell": copied(self.of.cell.data(), self.of.cell.size(), np.float32),
            "contexts": copied(self.of.contexts.data(), self.of.contexts.size(), np.int32),
            "shares": np.array([self.of.shares[i] for i in range(4)], np.float64),
        }
        arrivals = [(of.frame, of.node, of.score, of.path, of.log) for of in self.of.arrivals]
        histories = []
        for i in range(self.of.histories.size()):
            one = &self.of.histories[i]
            states = [one.fused.states.of[k] for k in range(3)]
            shares = [one.fused.shares[k] for k in range(3)]
            histories.append((one.parent, one.token, states, shares, one.fused.ilm_share))
        labels = [
            (label.frame, label.before, label.token, label.duration, label.log_prob, label.confidence)
            for label in self.of.log
        ]
        for name, rows in (("arrivals", arrivals), ("histories", histories), ("log", labels)):
            found[name] = np.array(rows, DTYPES[name])
        return found

    @staticmethod
    def of_arrays(frames, offset, labels, arrays):
        """The state with these arrays, which have been checked."""
        cdef BeamState made = BeamState()
        cdef CppBeamState state
        cdef History history
        state.frames, state.offset, state.labels = frames, offset, labels
        for one in arrays["arrivals"].tolist():
            state.arrivals.push_back(Arrival(one[0], one[1], one[2], one[3], one[4]))
        for parent, token, states, shares, ilm_share in arrays["histories"].tolist():
            history.parent, history.token, history.fused.ilm_share = parent, token, ilm_share
            for i in range(3):
                history.fused.states.of[i], history.fused.shares[i] = states[i], shares[i]
            state.histories.push_back(history)
        for i in range(4):
            (&state.shares[i])[0] = arrays["shares"][i]
        into_vector[uint32_t](state.predicted, arrays["predicted"].astype(np.uint32))
        into_vector[float](state.hidden, arrays["hidden"].astype(np.float32))
        into_vector[float](state.cell, arrays["cell"].astype(np.float32))
        into_vector[int32_t](state.contexts, arrays["contexts"].astype(np.int32))
        for one in arrays["log"].tolist():
            state.log.push_back(Label(one[1], one[2], one[0], one[3], one[4], one[5]))
        made.of = move(state)
        return made
