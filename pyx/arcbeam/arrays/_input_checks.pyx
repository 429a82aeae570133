"""The border to the C++ code that checks a few frames of every batch."""

ABOVE_ZERO, SUMS_ABOVE, SUMS_BELOW, BLANK_SELDOM, TOO_LOW = 1, 2, 4, 8, 16  # arcbeam::input_checks::Finding


cdef class InputChecks:
    """Checks frames, and keeps the findings of all batches of a decoder. `reported`, `found`: bits of findings."""

    def __cinit__(self, uint32_t columns, int32_t blank, bint is_exact):
        self.checks.reset(new CppInputChecks(columns, blank, is_exact))

    cdef void pick(self, const int64_t[:, ::1] utterances, size_t most) noexcept:
        """Chooses at most `most` frames of a batch; `self.checks` keeps them."""
        self.checks.get().pick(&utterances[0, 0] if utterances.shape[0] else NULL, utterances.shape[0], most)

    cdef void check_frame(self, const Pick* pick, const void* row) noexcept:
        """Checks a frame that was picked, or a copy of it."""
        self.checks.get().check(pick[0], row)
        self.has_news = self.checks.get().found() & ~self.reported != 0

    cdef void at(self, const int64_t[:, ::1] utterances) noexcept:
        """Checks some frames of a batch in host memory; `utterances` is the table that engines take."""
        cdef CppInputChecks* checks = self.checks.get()
        cdef size_t i
        self.pick(utterances, <size_t> -1)
        for i in range(checks.picks().size()):
            checks.check(checks.picks()[i], checks.picks()[i].row)
        self.has_news = checks.found() & ~self.reported != 0

    def check(self, const int64_t[:, ::1] utterances):
        """:meth:`at` from Python, for tests."""
        self.at(utterances)

    @property
    def found(self):
        """int : bits of what was found."""
        return self.checks.get().found()

    @property
    def counted(self):
        """int : recent distinct frames for which the best column was counted."""
        return self.checks.get().counted()

    def sight(self, uint32_t of):
        """(int, int, float) : utterance, frame and value of the last finding of this kind."""
        cdef const Sight* sight = &self.checks.get().sight(<Finding> of)
        return sight.utterance, sight.frame, sight.value

    def best_in(self, uint32_t column):
        """int : the number of these frames whose best column this is."""
        return self.checks.get().best_in(column)

    @property
    def most_often_best(self):
        """int : the column that is the best of the most frames."""
        return self.checks.get().most_often_best()
