// The search kernel with a large language model that the host has, and a boost for each utterance, with
// new words or without. It requests arcs or scores, by its parameters: lanes wait for answers
// most of the time, so there is one kernel to compile and not four.
#include "rescore/new_words.cuh"

ARCBEAM_KERNEL_OCCUPANCY(arcbeam_boosted_host_wide, 512, 1, arcbeam::WithNewWords<arcbeam::BoostedHost<false>>) {
    arcbeam::work<arcbeam::NewWordsSearch<arcbeam::BoostedHost<false>>, false>(params);
}
