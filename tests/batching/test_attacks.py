"""A Batcher under attack: nothing breaks, and what comes out of streams that are not harmed is right."""

import pytest

from tests.batching.attack import under_attack
from tests.batching.clients import ctc, transducer

SPEECH = {"ctc": ctc, "transducer": transducer}

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning", "ignore:log_probs. :UserWarning")


@pytest.mark.parametrize("kind", SPEECH)
def test_some_attacks(kind):
    happened = under_attack(SPEECH[kind](), utterances=6, threads=8)
    assert sum(happened[attack] for attack in ("speaks", "moves", "forges", "resets")) == 6 * 8


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SPEECH)
def test_many_attacks(kind, seed):
    happened = under_attack(SPEECH[kind](), utterances=150, seed=seed)
    assert happened["closed"] and happened["refused state"] and happened["cancelled"] and happened["refused"]
