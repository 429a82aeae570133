"""A sentence of a transducer's stream after some chunk; immutable, so that a stream advances in one step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import Fault
from arcbeam.streams.stream import SpeechStream
from arcbeam.streams.waiting import Waiting
from arcbeam.transducer.beam.hypothesis import BeamHypothesis
from arcbeam.transducer.hypothesis import HypothesisForm, TransducerHypothesis, left_of
from arcbeam.transducer.streams.beam_partial import BeamPartial
from arcbeam.transducer.streams.endpoint import End, TransducerRules
from arcbeam.transducer.streams.partial import TransducerPartial

if TYPE_CHECKING:
    from arcbeam.streams.endpoints import Endpoint
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.growing_words import GrowingWords

MANY = 2**32


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence after some chunk. `written` has room after its first `count` tokens, where later chunks write."""

    form: HypothesisForm
    endpoint: Endpoint | None
    rules: TransducerRules | None  # those of the endpoint, in frames
    boost: BoostingTree | None
    first_frame: int  # frames of the sentences before
    state: Any  # of the search; None at the start of the stream
    written: dict[str, npt.NDArray[Any]]  # the form's fields
    count: int
    spelled: GrowingWords | None
    nbest: int | None = None  # with a beam: the entries of lists that results have
    best: tuple[BeamHypothesis, int] | None = None  # with a beam: the last chunk's, and its tokens that are written
    models: Any = None  # states of n-gram models, with which a next sentence may go on; None: of their start
    is_final: bool = False
    fired: int = 0  # the number of the rule that has ended the sentence, from 1; 0 if it has not ended
    waiting: tuple[Waiting, ...] = ()
    last_came: bool = False  # the stream's last chunk

    @classmethod
    def begun(
        cls,
        form: HypothesisForm,
        endpoint: Endpoint | None,
        boost: BoostingTree | None,
        start: Any,
        nbest: int | None = None,
        models: Any = None,
    ) -> Self:
        """A sentence without tokens; `start` None: the stream's start. ValueError as `TransducerRules.of`."""
        rules = None if endpoint is None else TransducerRules.of(endpoint, form.frame_shift)
        written: dict[str, npt.NDArray[Any]] = {name: np.empty(0, dtype) for name, dtype in form.fields.items()}
        first_frame = 0 if start is None else start.frames
        return cls(form, endpoint, rules, boost, first_frame, start, written, 0, form.spelled(), nbest, models=models)

    @property
    def frames(self) -> int:
        """Frames of the sentence."""
        return (0 if self.state is None else self.state.frames) - self.first_frame

    @property
    def tokens(self) -> dict[str, npt.NDArray[Any]]:
        """The settled tokens so far; of greedy search all."""
        return {name: array[: self.count] for name, array in self.written.items()}

    @cached_property
    def partial(self) -> TransducerPartial:
        """The result."""
        name = None if self.endpoint is None or not self.fired else list(self.endpoint.rules)[self.fired - 1]
        return self._result(self.count, self.is_final, None, name, self.spelled)

    def refused(self, error: Fault) -> TransducerPartial:
        """The result of a chunk that has an error."""
        return self._result(0, False, error, None, self.form.spelled())

    def _result(
        self,
        count: int,
        is_final: bool,
        error: Fault | None,
        endpoint: str | None,
        spelled: GrowingWords | None,
    ) -> TransducerPartial:
        """A result with so many settled tokens."""
        if not self.form.takes_back:
            tokens = {name: array[:count] for name, array in self.written.items()}
            return TransducerPartial(
                self.form, tokens, self.state, is_final, error, self.first_frame, endpoint, spelled
            )
        frames = 0 if self.state is None else self.state.frames
        return BeamPartial(
            self.form, self.written, count, self.best, self.nbest, frames, is_final, error, self.first_frame, endpoint,
            spelled,
        )  # fmt: skip

    @property
    def frames_to_check(self) -> int:
        """Frames up to the next check of its rules; many if there are none."""
        return MANY if self.rules is None else self.rules.every - self.frames % self.rules.every

    def first_end(self, found: TransducerHypothesis) -> End | None:
        """Where the sentence ends within a chunk that has been decoded; None if it does not."""
        if self.rules is None:
            return None
        known = slice(max(0, self.count - 1), self.count)  # the last token is one that silence may follow
        tokens_on = np.concatenate([self.written["frames"][known], found.frames]) - self.first_frame
        durations = None
        if found.durations is not None:
            durations = np.concatenate([self.written["durations"][known], found.durations])
        return self.rules.first_end(tokens_on, durations, self.frames, left_of(found).state.frames - self.first_frame)

    def after(self, found: TransducerHypothesis, last: bool, fired: int) -> Self:
        """The sentence after a chunk that has been decoded; a rule may have ended it."""
        left = left_of(found)
        count, written = self.count + left.num_settled, self.written
        if count > len(written["tokens"]):  # results keep the arrays that they have, whose beginnings stay
            written = {name: self._grown(array, count + count // 2) for name, array in written.items()}
        if left.num_settled > 0:  # else a beam's tokens are not read here
            for name, array in written.items():
                array[self.count : count] = getattr(found, name)[: left.num_settled]
        last_came, is_final = self.last_came or last, last or fired > 0
        best = (found, left.num_settled) if isinstance(found, BeamHypothesis) else None
        return self._changed(
            state=left.state, written=written, count=count, best=best, models=left.models, is_final=is_final,
            fired=fired, last_came=last_came,
        )  # fmt: skip

    def with_waiting(self, waiting: list[Waiting], last_came: bool) -> Self:
        """Frames wait after those that wait; the last chunk may have come."""
        partial = self.partial  # the same result
        return self._changed(waiting=(*self.waiting, *waiting), last_came=self.last_came or last_came, partial=partial)

    def _changed(self, **fields: Any) -> Self:
        """A copy with other fields, as `replace` makes it in a third of the time."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("partial", None)
        made.__dict__.update(fields)
        return made

    def _grown(self, array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
        grown = np.empty(room, array.dtype)
        grown[: self.count] = array[: self.count]
        return grown


class SentenceStream(SpeechStream[TransducerPartial]):
    """A stream, which is at a sentence."""

    _sentence: Sentence


def sentences_of(streams: Iterable[SentenceStream]) -> list[Sentence]:
    """Where streams are."""
    return [stream._sentence for stream in streams]


def move_on(stream: SentenceStream, sentence: Sentence) -> None:
    """One step: the stream has its chunk, or is as before."""
    stream._sentence = sentence
