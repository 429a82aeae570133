"""Threads of the host that answer what lanes ask of a large language model while they search."""

cimport cython
from libc.stdint cimport uint32_t, uintptr_t

from arcbeam.gpu._driver_table cimport forked
from arcbeam.lm._lm_view cimport lm_view_of

from arcbeam.errors import CapacityError


cdef vector[RequestView] lanes_of(views) except *:
    cdef vector[RequestView] lanes
    cdef RequestView lane
    for mapped, size, answer_buffer in views:
        lane.memory = lane.mapped = <unsigned char*> <uintptr_t> mapped
        lane.answer_buffer = <unsigned char*> <uintptr_t> answer_buffer
        lane.size, lane.slot = size, <uint32_t> lanes.size() // kHalves
        lanes.push_back(lane)
    return lanes


cdef void answer_beside(void* beside) noexcept nogil:
    cdef Beside* to = <Beside*> beside
    to.server.answer_all(to.lanes[0])
    to.answer_path.go_on(0)


@cython.no_gc
cdef class HostLookups:
    """What the host knows of a large model: the arcs of a LanguageModel, or all of a KenLM.

    Parameters
    ----------
    rescoring : arcbeam.ctc.rescoring.Rescoring
    threads : int
        They start when they are needed first.
    """

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
        if not forked():  # in a forked child the threads do not exist; joining them would wait for ever
            del self.server
            del self.answer_path
            del self.copier
            del self.answerer

    cdef int copy_by(self, AnswerCopier* copier) except -1:
        """Answers travel to lanes by this copier, which is ours from now on; before anything starts."""
        self.copier = copier
        self.answer_path = self.copied_answers = new CopiedAnswers(copier[0])
        return 0

    cdef int copy_to(self, const vector[RequestView]& lanes, unsigned char** buffers) except -1:
        """To these lanes, all new, through a buffer for each half."""
        self.copied_answers.begin(lanes, buffers)
        return 0

    # A copied_answers's own functions are called here alone: other modules have no part of its class.
    cdef bint copies(self) noexcept:
        """Whether answers travel by copies."""
        return self.copied_answers != NULL

    cdef int failure(self) noexcept:
        """What the driver answered first that was not 0, if anything; 0 from now on."""
        return self.copied_answers.failure()

    cdef uint64_t answer_batches(self) noexcept:
        return self.copied_answers.answer_batches()

    cdef uint64_t copied_bytes(self) noexcept:
        return self.copied_answers.bytes()

    cdef void send_open(self) noexcept nogil:
        """Sends what lanes have stopped for, while nobody watches, and waits for it."""
        self.copied_answers.send_open()

    cdef int start(self) except -1:
        """Starts the threads, once."""
        if self.answer_path == NULL:
            self.answer_path = new Mapped()
        if self.server == NULL:
            try:
                self.server = new Server(self.answerer[0], self.threads, self.answer_path[0])
            except RuntimeError as error:  # std::system_error: the machine gives no more
                raise CapacityError(f"threads: {self.threads} of them cannot be started ({error})") from None
        return 0

    cdef int watch(self, const vector[RequestView]& lanes) except -1:
        """Threads answer what these lanes ask, from now on."""
        with nogil:
            self.server.watch(lanes)
        return 0

    cdef void rest(self) noexcept nogil:
        """No thread looks after any lane any more, and nothing is under way."""
        if self.server != NULL:
            self.server.rest()
        if self.copied_answers != NULL:
            self.copied_answers.rest()

    cdef int answer_all(self, const vector[RequestView]& lanes) except -1:
        """Answers what is open while nobody watches; 0 if there is no room for some answer."""
        with nogil:
            return self.server.answer_all(lanes)

    cdef int number_anew(self, uint32_t* words, size_t capacity) except -1:
        """Histories of KenLM are numbered from 0 again, which is the beginning of a sentence."""
        self.kenlm.begin(words, capacity)
        return 0

    # For measurements

    def trace(self, size_t most):
        """From now on threads write down when they answer, so many times each; 0: no more. Not during a decode."""
        self.start()
        self.server.trace(most)

    def traced(self):
        """list of (thread, lane, round, questions, began_ns, ended_ns); thread None: while a kernel ran, 0 of the others."""
        return [(None if one.thread == kWatch else one.thread, one.lane, one.round, one.questions, one.began_ns,
                 one.ended_ns) for one in self.server.traced()]

    # For tests of the kernel without an engine

    def have(self, views, buffers=(), int looks=0):
        """The lanes, each (mapped, size, answer buffer): addresses of what requests.hpp describes; memory has to stay.

        With `buffers`, one for each half, answers travel, and come after so many looks.
        """
        cdef unsigned char* addresses[2]
        self.lanes = lanes_of(views)
        if buffers:
            if self.copied_answers == NULL:
                self.slow = new SlowCopier(looks)
                self.copy_by(self.slow)
            for i in range(kHalves):
                addresses[i] = <unsigned char*> <uintptr_t> buffers[i]
            self.copied_answers.begin(self.lanes, addresses)
        self.start()

    def answer(self):
        """Answers what has been posted; whether there was room for all."""
        cdef bint answered = self.answer_all(self.lanes)
        if answered and self.copied_answers != NULL:
            self.copied_answers.rest()
            self.copied_answers.send_open()
        return answered

    def beside_a_kernel(self):
        """The addresses of a C function that answers these lanes, and of what it is to be called with."""
        self.beside.server, self.beside.answer_path, self.beside.lanes = self.server, self.answer_path, &self.lanes
        return <uintptr_t> &answer_beside, <uintptr_t> &self.beside

    @property
    def sent(self):
        """How many batches of answers each half has sent."""
        return [self.slow.sent(half) for half in range(kHalves)]

    def write_words_to(self, uint32_t[::1] words):
        """Numbers anew; the array has to live as long as this."""
        self.number_anew(&words[0], words.shape[0] // self.words_a_history)

    def move_words_to(self, uint32_t[::1] words):
        self.kenlm.move(&words[0], words.shape[0] // self.words_a_history)

    @property
    def histories(self):
        """How many numbers of KenLM's histories are taken; not during a decode."""
        return self.kenlm.size()

    @property
    def rounds(self):
        """How many times a lane has asked."""
        return 0 if self.server == NULL else self.server.rounds()

    @property
    def questions(self):
        return 0 if self.server == NULL else self.server.questions()
