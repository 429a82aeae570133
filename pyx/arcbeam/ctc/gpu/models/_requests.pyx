# distutils: extra_compile_args = -O3
"""Threads of the host that answer lanes' questions about a large language model during a search."""

cimport cython
from libc.stdint cimport uint32_t, uintptr_t

from arcbeam.gpu._driver_table cimport forked
from arcbeam.lm._lm_view cimport lm_view_of

from arcbeam.core.errors import CapacityError


@cython.no_gc
cdef class HostLookups:
    """Answers from a model on the host, by threads: arcs of a LanguageModel, or whole answers of a KenLM."""

    def __cinit__(self, rescoring, size_t threads=0):
        cdef const uint32_t[::1] ranks
        cdef KenLmModel model
        cdef LmView view
        self.rescoring, self.threads = rescoring, threads
        if rescoring.kenlm is None:
            view = lm_view_of(rescoring.large.columns, rescoring.large.about)
            self.answerer = new ArcAnswerer(view)
        else:
            model, ranks = rescoring.kenlm, rescoring.ranks
            self.kenlm = new KenLmAnswerer(model.lm.get()[0], &ranks[0])
            self.answerer = self.kenlm
            self.words_a_history = <uint32_t> self.kenlm.words_a_state()

    def __dealloc__(self):
        if not forked():  # in a forked child the threads do not exist, and joining them would never end
            del self.server
            del self.answer_path
            del self.copier
            del self.answerer

    cdef int copy_by(self, AnswerCopier* copier) except -1:
        """Makes answers travel to lanes by this copier, which belongs to this object from now on. Call it first."""
        self.copier = copier
        self.answer_path = self.copied_answers = new CopiedAnswers(copier[0])
        return 0

    cdef int copy_to(self, const vector[RequestView]& lanes, unsigned char** buffers) except -1:
        """Sends to these lanes, all new, through one buffer for each half."""
        self.copied_answers.begin(lanes, buffers)
        return 0

    # The functions of copied_answers are called only here: other modules do not include its class.
    cdef bint copies(self) noexcept:
        """Whether answers travel by copies."""
        return self.copied_answers != NULL

    cdef int failure(self) noexcept:
        """The first result code of the driver that was not 0, if any. Resets the code to 0."""
        return self.copied_answers.failure()

    cdef uint64_t answer_batches(self) noexcept:
        return self.copied_answers.answer_batches()

    cdef uint64_t copied_bytes(self) noexcept:
        return self.copied_answers.bytes()

    cdef void send_open(self) noexcept nogil:
        """Sends the answers for which lanes have stopped, and waits for the copies. No thread may be on duty."""
        self.copied_answers.send_open()

    cdef int start(self) except -1:
        """Starts the threads, once."""
        if self.answer_path == NULL:
            self.answer_path = new Mapped()
        if self.server == NULL:
            try:
                self.server = new Server(self.answerer[0], self.threads, self.answer_path[0])
            except RuntimeError as error:  # std::system_error: the machine cannot start more
                raise CapacityError(f"threads: {self.threads} threads cannot be started ({error}); use fewer") from None
        return 0

    cdef int watch(self, const vector[RequestView]& lanes) except -1:
        """From now on threads answer these lanes."""
        with nogil:
            self.server.watch(lanes)
        return 0

    cdef void stop(self) noexcept nogil:
        """After this no thread serves any lane, and no copy is under way."""
        if self.server != NULL:
            self.server.stop()
        if self.copied_answers != NULL:
            self.copied_answers.stop()

    cdef int answer_all(self, const vector[RequestView]& lanes) except -1:
        """Answers all open questions while no thread is on duty; 0 if there is no room for some answer."""
        with nogil:
            return self.server.answer_all(lanes)

    cdef int number_anew(self, uint32_t* words, size_t capacity) except -1:
        """Numbers histories of KenLM from 0 again, which is the beginning of a sentence."""
        self.kenlm.begin(words, capacity)
        return 0

    # For measurements

    def trace(self, size_t most):
        """Threads record when they answer, at most `most` times each; 0 ends the recording. Not during a decode."""
        self.start()
        self.server.trace(most)

    def traced(self):
        """list of (thread, lane, round, questions, began_ns, ended_ns); thread None is a whole run of a kernel."""
        return [(None if one.thread == kWatch else one.thread, one.lane, one.round, one.questions, one.began_ns,
                 one.ended_ns) for one in self.server.traced()]

    # For tests, in which this answers while a kernel runs in the emulator

    def address_of_answerer(self):
        """Where the C++ object that answers lies, as an Answerer*. Valid as long as this object."""
        return <uintptr_t> self.answerer

    @property
    def histories(self):
        """The number of KenLM's histories that have numbers; not during a decode."""
        return self.kenlm.size()

    @property
    def rounds(self):
        """The number of rounds of questions, of all lanes."""
        return 0 if self.server == NULL else self.server.rounds()

    @property
    def questions(self):
        return 0 if self.server == NULL else self.server.questions()
