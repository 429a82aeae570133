"""What kills mutants: tests of kernels, called with what makes them see a wrong rule soonest."""

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from arcbeam import Boost, LanguageModel
from tests.decode import graphs, kenlm_files
from tests.decode import test_align_emulated as align_emulated
from tests.decode import test_lattice_emulated as lattice_emulated
from tests.decode import test_log_softmax_emulated as log_softmax_emulated
from tests.decode import test_small_frames_emulated as small_frames_emulated
from tests.decode import test_stream_lattices_emulated as stream_lattices_emulated
from tests.decode import test_streams_emulated as streams_emulated
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.language_models import WORDS, all_costs_equal, longer_than_lanes, over, random_model
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.small_search import ROOMY
from tests.decode.test_new_words import small_graph
from tests.decode.test_settled import check_a_frame_backwards, check_kernel
from tests.rescore import placed, searches
from tests.rescore import test_boost_emulated as boost_emulated
from tests.rescore import test_new_words_emulated as new_words_emulated
from tests.rescore import test_requests_emulated as requests_emulated
from tests.rescore import test_rescore_emulated as rescore_emulated
from tests.rescore import test_rescoring_stages_emulated as stages_emulated
from tests.rescore import test_searches_emulated as searches_emulated
from tests.rescore import test_small_boosts_emulated as small_boosts_emulated
from tests.rescore import test_small_rescoring_emulated as small_rescoring_emulated
from tests.rescore import test_streams_emulated as rescored_streams_emulated
from tests.rescore import test_ties_emulated as ties_emulated
from tests.simt import test_emulator as emulator
from tests.simt.build import HERE, load, schedules
from tests.transducer import test_beam_emulated as beam_emulated
from tests.transducer import test_beam_lattice_emulated as beam_lattice_emulated
from tests.transducer import test_beam_streams_emulated as beam_streams_emulated
from tests.transducer import test_fusion_emulated as fusion_emulated
from tests.transducer.arpas import random_arpa

ROOM = replace(ROOMY, shared_states=512)


def _kernels(name):
    return load(HERE / "kernels" / f"{name}.cu")


def emulator_scan():
    kernels = _kernels("scan")
    emulator.test_prefix_sum(kernels, np.arange(64, dtype=np.uint32), 64)
    emulator.test_argmin(kernels, np.arange(1000, dtype=np.uint32) % 77, 32)


def emulator_tables():
    kernels = _kernels("tables")
    emulator.test_work_queue_between_blocks(kernels)
    emulator.test_blocks_that_publish_to_each_other(kernels)


def emulator_exchange():
    kernels = _kernels("exchange")
    emulator.test_cluster_exchange(kernels, 2)
    emulator.test_asynchronous_copies(kernels)
    emulator.test_named_barriers_hand_a_buffer_over(kernels)


def rescoring():
    """Barriers of the kernel that rescores, with a model on the device and with arcs that are requested."""
    rng = np.random.default_rng(4)
    large, small = (random_model(rng, WORDS, order, share=0.2) for order in (3, 2))
    graph = over(graphs.random_graph(4, states=120, columns=12), small)
    for schedule in schedules(5):
        for place in ("resident", "arcs requested"):
            placed.check(
                graph, (large, small), [graphs.random_log_probs(0, 5, 12)], place=place, beam=5.0,
                hypotheses_per_state=2, requests=32, room=ROOM, shape=Shape(lanes=1), schedule=schedule,
            )  # fmt: skip


def single_arcs():
    """Of single arcs: the place that keeps an arc and a state apart, the names, the order of sums, what is entered for
    the time when answers come, and that an unfinished word stays open."""
    of_both = {"place": "arcs requested", "room": ROOM}
    graph, (exact, small) = longer_than_lanes()
    weights = exact.columns["backoff.weights"] * np.float32(0.37)
    large = LanguageModel(exact.columns | {"backoff.weights": weights}, exact.about)
    placed.check(
        graph, (large, small), [graphs.random_log_probs(seed, 20, 3) for seed in range(8)], beam=8.0,
        hypotheses_per_state=4, shape=Shape(lanes=2, block=256), **of_both,
    )  # fmt: skip
    batch = [graphs.random_log_probs(seed, 6, 12) for seed in range(4)]
    for number, schedule in enumerate(schedules(10)):
        rng = np.random.default_rng(number % 4)  # of costs whose sums depend on their order
        models = [random_model(rng, WORDS, order, share=0.2, cost=lambda r: float(r.gamma(4.0))) for order in (4, 2)]
        placed.check(
            over(graphs.random_graph(4, states=120, columns=12), models[1]), models, batch, beam=5.0,
            hypotheses_per_state=2, schedule=schedule, shape=Shape(lanes=4, block=(32, 256)[number % 2]),
            arc_cache=(32, 256, 8192)[number % 3], **of_both,
        )  # fmt: skip


def log_probs_that_come():
    """While the kernel runs, by copies of the host."""
    graph = graphs.random_graph(4, states=120, columns=12)
    batch = [graphs.random_log_probs(seed, 6, 12) for seed in range(2)]
    for schedule in schedules(5):
        check(graph, batch, beam=5.0, room=ROOMY, schedule=schedule, parts=(512, 2048, 256), arrivals=[100, 2000, 4000])


def _answers(graph, models, batch, place):
    for number, schedule in enumerate(schedules(10)):
        placed.check(
            graph, models, batch, beam=4.0, hypotheses_per_state=2, room=ROOM, shape=Shape(lanes=3, block=32),
            schedule=schedule, histories=500, every=(20, 150)[number % 2], polls=(0, 4)[number % 2], place=place,
            arc_cache=(0, 512, 1 << 14)[number % 3],
        )  # fmt: skip


def answers_that_are_copied():
    """Answers of lanes that send requests for arcs."""
    rng = np.random.default_rng(4)
    large, small = (random_model(rng, WORDS, order, share=0.2) for order in (3, 2))
    graph = over(graphs.random_graph(4, states=120, columns=12), small)
    batch = [graphs.random_log_probs(seed, 5, 12) for seed in range(4)]
    _answers(graph, (large, small), batch, "arcs requested")


def answers_that_are_mapped():
    """Answers of KenLM, where histories are tied, so that their words are read."""
    kenlm_files.need_kenlm()
    with tempfile.TemporaryDirectory() as folder:
        graph, models = requests_emulated.tied_by_words(Path(folder), 0)
        batch = [np.full((8, 3), np.log(1 / 3), np.float32)] * 4
        _answers(graph, models, batch, "kenlm")
        for schedule in schedules(5):  # the second lane begins late, and the cache has all that it needs
            placed.check(
                graph, models, batch[:2], beam=4.0, hypotheses_per_state=2, room=ROOM, shape=Shape(lanes=2, block=32),
                parts=(128, 2048, 1 << 10), arrivals=[40_000], schedule=schedule, histories=500, every=20,
                arc_cache=1 << 17, place="kenlm", wait_cycles=10**6,
            )  # fmt: skip


def answers_by_the_cache():
    """Of KenLM, which another block has sent."""
    with tempfile.TemporaryDirectory() as folder:
        requests_emulated.test_words_of_histories_that_another_block_has_sent(Path(folder))


def questions_that_are_shared():
    with tempfile.TemporaryDirectory() as folder:
        requests_emulated.test_histories_share_a_question_of_the_large_model(Path(folder))


def ties_at_the_cutoff():
    """Of states, and of histories: their numbers, and the words of those that the host has numbered."""
    kenlm_files.need_kenlm()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", UserWarning)
        for search in ("plain", "resident", "boosted, kenlm"):
            for max_active in (1, 4):
                ties_emulated.test_schedules(Path(folder), search, max_active)


def ranking():
    rescore_emulated.test_lists_that_just_fit()


def stages():
    """Each stage beside the twin's. Words on epsilon arcs, lists that are cut, a cache of 16 entries; and a search in
    which all is tied."""
    rng = np.random.default_rng(4)
    cost = lambda r: float(r.gamma(4.0))  # noqa: E731
    models = tuple(random_model(rng, WORDS, order, share=0.25, cost=cost) for order in (3, 1))
    graph = over(random_graph(4, states=120, columns=12), models[1])
    tied = all_costs_equal(0, arcs=96)
    tasks = [
        (graph, models, random_log_probs(2, 6, 12), stages_emulated.OPTIONS | {"hypotheses_per_state": 2}),
        (*tied, np.full((4, 3), -1.0, np.float32), {"beam": 2.0, "max_active": 0, "hypotheses_per_state": 2}),
    ]
    for graph, models, rows, options in tasks:
        for schedule in schedules(3):
            stages_emulated.check(
                graph, models, rows, stages_emulated.ROOMY, schedule=schedule, frames={2, 3, 4, 5}, turns=2, **options
            )


def log_probs_of_logits():
    """Of rows of all kinds, whose values lie apart or not."""
    for kind in ("float32", "float16"):
        for columns in (1, 33, 70):
            log_softmax_emulated.check(columns, kind, {})


def fused_labels():
    """The kernels that score labels with a boosting tree and an n-gram model, beside the twin, from states, too."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arpa = random_arpa(Path(folder) / "a.arpa", range(11))
        for kernel in ("kept", "many"):
            fusion_emulated.test_chunks("rnnt", kernel, arpa)
            fusion_emulated.test_the_same_bytes("tdt", kernel, True, arpa)
        fusion_emulated.test_states_with_more_arcs_than_a_warp_takes("kept")
        fusion_emulated.test_schedules("rnnt", "kept", arpa)
        fusion_emulated.test_schedules("stateless", "kept", arpa)  # has no barrier between a label and the next row


def starts():
    """Searches of a batch that begin in different states."""
    align_emulated.check()


def collections():
    """Collections of a token log."""
    for frames in (1, 2, 5, 20):
        for seed in range(25):
            rng = np.random.default_rng(seed)
            check_kernel(rng, frames=frames, most=3 + seed % 4, near=1 + seed % 2, seed=seed)
    check_a_frame_backwards()


def lattices():
    """Of searches in which all has room and of such in which nothing has, one of which dies; of logs that are pruned;
    and of a search in which all is tied, so that slacks are as large as the beam."""
    lattice_emulated.test_more_links_than_tokens()
    graph = graphs.random_graph(4, states=120, columns=12)
    batch = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 70, 9))]
    batch[2][6:] = -np.inf
    for room, shape in ((ROOMY, Shape(lanes=1, block=32)), (ROOMY, Shape("cluster", cluster=2)), (TIGHT, Shape())):
        for schedule in schedules(5):
            check(graph, batch, beam=5.0, lattice_beam=2.0, room=room, shape=shape, schedule=schedule)
    lattice_emulated.test_the_log_is_pruned_before_it_grows()


def lattices_read_early():
    """By the host, while others decode."""
    lattice_emulated.test_the_host_reads_what_has_been_written_while_others_decode()


def rescored_lattices():
    """Of lists that are cut, and of a search in which all is tied."""
    graph, models = all_costs_equal(0, arcs=48)
    for n in (2, None):
        for schedule in schedules(5):
            placed.check(
                graph, models, [np.full((10, 3), -1.0, np.float32)], beam=2.0, hypotheses_per_state=n,
                lattice_beam=2.0, room=ROOMY, shape=Shape(lanes=1), schedule=schedule,
            )  # fmt: skip
        searches_emulated.test_schedules(None, "resident", n, 4.0)


def boosts():
    """Of utterances that each have a list, short or long, in searches for one path and for lattices; and of phrases
    that overlap."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "boost", UserWarning)
        searches_emulated.test_schedules("known", None, None, None)
        searches_emulated.test_schedules("known", None, None, 4.0)
        boost_emulated.test_few_words_in_many_phrases(None, 0)
        for seed in range(3):
            boost_emulated.test_few_words_that_become_dear(seed, *boost_emulated.DEAR[0])
        boost_emulated.test_few_words_of_epsilon_arcs_become_dear(8.0)
        boost_emulated.test_a_long_list_has_no_filter()
        boost_emulated.test_more_rounds_than_are_listed()
        searches_emulated.test_schedules_with_little_room("known", None, None)


def new_words():
    """Of utterances with new words and without, in graphs of any number of arcs, with one entrance or many."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "boost", UserWarning)
        new_words_emulated.test_schedules(4.0)
        for seed in range(6):
            new_words_emulated.test_random_slots(seed)


def new_words_in_clusters():
    """The same, by blocks that help with the frames of others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "boost", UserWarning)
        searches_emulated.test_clusters_give_the_same_bytes("new", None, 2, 2, 32, 0)


def new_words_in_streams():
    """Sentences that end at pauses, one of which has new words at its end."""
    lists = [Boost({"zz": 6.0, "xy": 6.0}), None, Boost(["a"]), Boost({"x": 6.0, "yx": 7.0})]
    for number in range(3):
        new_words_emulated.in_chunks(small_graph(number), lists, 5, new_words_emulated.SOON)


def new_words_with_models():
    """Also in graphs without a word on any epsilon arc."""
    _new_words_of("resident")
    searches_emulated.test_no_epsilon_arc_of_the_graph_has_a_word("resident")


def boosts_with_arcs_requested():
    _new_words_of("arcs requested")


def boosts_with_kenlm():
    """And ties that the words of histories settle."""
    for lattice_beam in (None, 2.0):
        with tempfile.TemporaryDirectory() as folder:
            ties_emulated.test_paths_that_tie(Path(folder), "boosted, kenlm", 2, lattice_beam)
    _new_words_of("kenlm")


def _new_words_of(place):
    for lattice_beam in (None, 4.0):
        searches.check("new", place, hypotheses_per_state=2, lattice_beam=lattice_beam, room=ROOM, arc_cache=512)


def boosts_with_models():
    """The same with a large language model: words that are looked up each by itself, and words that share answers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "boost", UserWarning)
        searches_emulated.test_schedules("known", "resident", 2, None)
        boost_emulated.test_few_words_in_many_phrases("resident", 0)
        for seed in range(3):
            boost_emulated.test_few_words_that_become_dear(seed, *boost_emulated.DEAR[1])


def streams():
    """Chunks that the kernel decodes, one of a search that died among them."""
    streams_emulated.in_chunks(7, Shape(lanes=3, block=64), streams_emulated.LITTLE)
    streams_emulated.test_few_tokens(streams_emulated.PATHS)
    streams_emulated.test_a_search_that_died_checks_later_chunks_whole()


def stream_lattices():
    """Chunks of streams whose sentences give lattices, with states that are pruned, searches that die among them, and
    endpoints."""
    for schedule in schedules(2):
        streams_emulated.in_chunks(
            7, Shape(lanes=3, block=64), streams_emulated.PRUNED, schedule, **streams_emulated.LINKS
        )
    streams_emulated.test_few_tokens(streams_emulated.LINKS)
    streams_emulated.test_a_search_that_has_died(streams_emulated.LINKS)
    stream_lattices_emulated.test_streams_that_have_ended_give_no_lattice()


def rescored_streams():
    """Chunks with a large language model: sentences that go on with a history, and company with a boost."""
    rescored_streams_emulated.in_chunks(6, Shape(lanes=3, block=64))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "boost", UserWarning)
        rescored_streams_emulated.test_schedules_of_company_with_a_boost()


def endpoints():
    """Sentences that end in the kernel, also after the search has died."""
    for schedule in schedules(2):
        of = {"endpoint": streams_emulated.SOON, "batch": streams_emulated.SPEECHES}
        streams_emulated.in_chunks(8, Shape(lanes=3, block=64), streams_emulated.LITTLE, schedule, **of)
    streams_emulated.test_few_tokens(streams_emulated.PATHS)
    streams_emulated.test_silence_that_is_settled(streams_emulated.PATHS)
    streams_emulated.test_a_search_that_has_died(streams_emulated.PATHS)
    streams_emulated.test_rows_after_an_endpoint_are_checked({})


def beam_of_a_transducer():
    """Of an RNN-T and of a TDT, with beams that prune; and rooms that grow."""
    for kind, kernel in (("rnnt", "kept"), ("tdt", "many")):
        for beam in (1.0, 3.0):
            options = beam_emulated.options_of(kind, beam=beam, max_symbols=2)
            beam_emulated.check(beam_emulated.small(kind), beam_emulated.BATCH, beam_emulated.Shape(kernel), **options)
    beam_emulated.test_rooms_grow("tdt", "many")


def internal_language_model():
    """Subtracted once in a beam of an RNN-T that is so small that the next frame mostly has the same hypothesis."""
    options = beam_emulated.options_of("rnnt", beam=0.5, ilm_scale=0.25)
    beam_emulated.check(beam_emulated.small("rnnt"), beam_emulated.BATCH, beam_emulated.Shape("kept"), **options)


def streams_of_a_beam():
    """Chunks, whose states are compared: labels that settle by age, rooms that grow, the internal language model."""
    for kind, more in (
        ("tdt", {"settle_frames": 2}),
        ("rnnt", {"settle_frames": 1, "max_hypotheses": 8}),
    ):
        options = beam_emulated.options_of(kind, **{"beam": 6.0, **more})
        shape = beam_emulated.Shape("many", most_tests=1)
        for seed in (3, 4):
            beam_streams_emulated.check_streams(
                beam_emulated.small(kind), beam_emulated.BATCH, seed, shape, figures=beam_emulated.TIGHT, **options
            )
    beam_streams_emulated.test_labels_of_whole_utterances_settle_by_age("tdt", 1)
    beam_streams_emulated.test_more_restored_predictions_than_tests_of_a_round("many")


def lattices_of_a_transducer():
    """Of an RNN-T with a tree, and of a TDT, whose durations lead beyond the end; and rooms that grow."""
    tree = beam_lattice_emulated.BoostingTree({(1, 2, 3): 2.0, (3, 3): 1.0}, vocab_size=6)
    for kind, boost in (("rnnt", tree), ("tdt", None)):
        for figures in (beam_lattice_emulated.TIGHT, beam_lattice_emulated.ROOMY):
            for labels in (1, 3):
                options = beam_emulated.options_of(kind, beam=6.0, max_symbols=2, merge_context=labels, boost=boost)
                arrays = beam_emulated.small(kind)
                beam_lattice_emulated.check(arrays, beam_emulated.BATCH[2:], figures=figures, **options)
    beam_lattice_emulated.test_the_room_of_lattices_grows_alone("arcs")
    beam_lattice_emulated.test_the_room_of_lattices_grows_alone("tokens")


def small_frames():
    """That one warp decodes: in rooms that grow and in others, with many arcs, epsilon arcs, ties and milestones."""
    for room in (TIGHT, ROOMY):
        small_frames_emulated.test_a_frame_between_a_warp_and_the_block(32, room)
    small_frames_emulated.test_arcs_and_states_around_what_a_warp_holds(500)
    small_frames_emulated.test_closures_that_fill_the_warp()
    small_frames_emulated.test_ties()
    small_frames_emulated.test_milestones_and_collected_logs()


def small_lattices():
    """Their links: few that have room, candidates of epsilon arcs, ties, streams, and paths that tie by histories."""
    small_frames_emulated.test_a_frame_between_a_warp_and_the_block(32, small_frames_emulated.FEW_LINKS)
    for more in (0, 1):
        small_frames_emulated.test_candidates_of_epsilon_arcs_around_what_a_warp_keeps(more)
    small_frames_emulated.test_closures_that_fill_the_warp()
    small_frames_emulated.test_ties()
    small_frames_emulated.test_links_that_fill_their_room()
    small_boosts_emulated.test_ties_of_costs(32)
    small_boosts_emulated.test_ties_of_phrases(5, epsilon=False)


def small_boosts():
    """The same with phrases: ties of them, epsilon arcs with words, words that make paths dearer."""
    for epsilon in (False, True):
        small_boosts_emulated.test_ties_of_phrases(5, epsilon)
    small_boosts_emulated.test_ties_of_costs(32)
    small_boosts_emulated.test_closures_with_words()
    small_boosts_emulated.test_phrases_that_begin_and_end_with_one_word()
    small_boosts_emulated.test_few_words_that_become_dear()
    small_boosts_emulated.test_arcs_and_states_around_what_a_warp_holds(32)


def small_rescoring():
    """The same with a large model: states with too many hypotheses, words that are looked up again, ties."""
    for n in (None, 1, 2):
        small_rescoring_emulated.test_a_frame_between_a_warp_and_the_block(ROOMY, 32, n)
    small_rescoring_emulated.test_ties(32, 2)
