"""The border to the C++ code that looks at a few frames of every batch."""

ABOVE_ZERO, SUMS_ABOVE, SUMS_BELOW, BLANK_SELDOM, TOO_LOW = 1, 2, 4, 8, 16  # arcbeam::looks::Finding


cdef class InputChecks:
    """Checks frames, and keeps the findings of all batches of a decoder. `reported`, `found`: bits of findings."""

    def __cinit__(self, uint32_t columns, int32_t blank, bint is_exact):
        self.looks.reset(new CppLooks(columns, blank, is_exact))

    cdef void pick(self, const int64_t[:, ::1] utterances, size_t most) noexcept:
        """Chooses at most `most` frames of a batch; `self.looks` keeps them."""
        self.looks.get().pick(&utterances[0, 0] if utterances.shape[0] else NULL, utterances.shape[0], most)

    cdef void look_at(self, const Pick* pick, const void* row) noexcept:
        """Looks at a frame that was picked, or at a copy of it."""
        self.looks.get().look(pick[0], row)
        self.has_news = self.looks.get().found() & ~self.told != 0

    cdef void at(self, const int64_t[:, ::1] utterances) noexcept:
        """Looks at some frames of a batch in the host's memory; `utterances` is the table that engines take."""
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
        """int : recent distinct frames for which the best column was counted."""
        return self.looks.get().counted()

    def sight(self, uint32_t of):
        """(int, int, float) : utterance, frame and value of the last finding of this kind."""
        cdef const Sight* sight = &self.looks.get().sight(<Finding> of)
        return sight.utterance, sight.frame, sight.value

    def best_in(self, uint32_t column):
        """int : the number of these frames whose best column this is."""
        return self.looks.get().best_in(column)

    @property
    def most_often_best(self):
        """int : the column that is the best of the most frames."""
        return self.looks.get().most_often_best()
