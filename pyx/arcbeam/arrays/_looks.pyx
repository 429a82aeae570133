"""The border to the looks at a few frames of every batch."""

ABOVE_ZERO, SUMS_ABOVE, SUMS_BELOW, BLANK_SELDOM = 1, 2, 4, 8  # arcbeam::looks::Finding


cdef class Looks:
    """Looks at frames, and what they have found so far in all batches of a decoder.

    Parameters
    ----------
    columns : int
        That the graph reads.
    blank : int
        The blank's column; -1 for none.
    is_exact : bool
        Whether the model has no other columns.

    Attributes
    ----------
    told : int
        Bits of what need not be told of again.
    has_news : bool
        Whether something was found that may not have been told of.
    """

    def __cinit__(self, uint32_t columns, int32_t blank, bint is_exact):
        self.looks.reset(new CppLooks(columns, blank, is_exact))

    cdef void pick(self, const int64_t[:, ::1] utterances, size_t most) noexcept:
        """Chooses frames of a batch, which `self.looks` has then; at most so many."""
        self.looks.get().pick(&utterances[0, 0] if utterances.shape[0] else NULL, utterances.shape[0], most)

    cdef void look_at(self, const Pick* pick, const void* row) noexcept:
        """Looks at a frame that was picked, or at a copy of it."""
        self.looks.get().look(pick[0], row)
        self.has_news = self.looks.get().found() & ~self.told != 0

    cdef void at(self, const int64_t[:, ::1] utterances) noexcept:
        """Looks at some frames of a batch in the host's memory; `utterances` is what engines take."""
        cdef CppLooks* looks = self.looks.get()
        cdef size_t i
        self.pick(utterances, <size_t> -1)
        for i in range(looks.picks().size()):
            looks.look(looks.picks()[i], looks.picks()[i].row)
        self.has_news = looks.found() & ~self.told != 0

    def look(self, const int64_t[:, ::1] utterances):
        """:meth:`at` from Python, for tests."""
        self.at(utterances)

    @property
    def found(self):
        """int : bits of what was found."""
        return self.looks.get().found()

    @property
    def counted(self):
        """int : frames of which the best columns were counted: those that differ, not too long ago."""
        return self.looks.get().counted()

    def sight(self, uint32_t of):
        """(int, int, float) : utterance, frame and value of what was found last."""
        cdef const Sight* sight = &self.looks.get().sight(<Finding> of)
        return sight.utterance, sight.frame, sight.value

    def best_in(self, uint32_t column):
        """int : of these the ones whose best column this is."""
        return self.looks.get().best_in(column)

    @property
    def most_often_best(self):
        """int : the column that is the best of most of them."""
        return self.looks.get().most_often_best()
