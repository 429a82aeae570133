#include "arcbeam/ctc/boost/_boost/lists.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "pool/thread_pool.hpp"

namespace arcbeam::boost {

namespace {

// False if memory ran out.
bool compile_one(const WordIndex& index, PhraseList& list) {
    try {
        list.is_known.assign(list.scores.size(), 0);
        const Phrases phrases = known_phrases(index, list.of_request, list.text, list.scores, list.is_known.data());
        list.made = compile(phrases, list.depth_scaling);
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    } catch (const std::length_error&) {  // more than a vector could ever hold
        return false;
    }
}

// Null where no threads can be started.
std::unique_ptr<twin::ThreadPool> pool_of(std::size_t threads) {
    try {
        return std::make_unique<twin::ThreadPool>(threads);
    } catch (const std::system_error&) {
        return nullptr;
    }
}

}  // namespace

bool compile_all(const WordIndex& index, std::vector<PhraseList>& lists, std::size_t threads) {
    std::atomic<bool> enough{true};
    const auto compile_item = [&](std::size_t, std::size_t item) {
        if (!compile_one(index, lists[item])) {
            enough = false;
        }
    };
    const std::size_t needed = std::min(threads, lists.size());
    const std::unique_ptr<twin::ThreadPool> pool = needed > 1 ? pool_of(needed) : nullptr;
    if (pool == nullptr) {
        for (std::size_t item = 0; item < lists.size(); ++item) {
            compile_item(0, item);
        }
        return enough;
    }
    pool->start(lists.size(), compile_item);
    while (!pool->wait(std::chrono::milliseconds(1000))) {
    }
    return enough;
}

}  // namespace arcbeam::boost
