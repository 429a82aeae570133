// Splits a range over a few threads. The pieces are contiguous and in order, so that the first failure in range
// order is found however the threads run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "common/room_to_throw.hpp"
#include "common/status.hpp"

namespace arcbeam {

constexpr std::uint64_t kSmallestPiece = 1U << 16U;  // less work than this does not pay for a thread

// Calls piece(begin, end) -> Status on contiguous parts of [0, count); returns the first failure in range order.
template <typename Piece>
Status parallel_ranges(std::uint64_t count, unsigned threads, Piece piece) {
    const std::uint64_t most = std::max<std::uint64_t>(1U, count / kSmallestPiece);
    const auto parts = static_cast<std::size_t>(std::min<std::uint64_t>(std::max(1U, threads), most));
    const auto edge = [&](std::size_t i) { return count / parts * i + count % parts * i / parts; };
    if (parts == 1U) return piece(std::uint64_t{0}, count);

    std::vector<Status> results(parts);
    std::vector<std::exception_ptr> thrown(parts);
    const auto run = [&](std::size_t i) {
        try {
            results[i] = piece(edge(i), edge(i + 1U));
        } catch (...) {
            thrown[i] = std::current_exception();
        }
    };
    std::vector<std::uint8_t> is_left(parts);  // by a thread without memory to throw with, to the caller
    const auto attempt = [&](std::size_t i) {
        if (has_room_to_throw()) {
            run(i);
        } else {
            is_left[i] = 1U;
        }
    };
    std::vector<std::thread> workers;
    workers.reserve(parts);
    try {
        for (std::size_t i = 1U; i < parts; ++i) workers.emplace_back(attempt, i);
    } catch (...) {  // no thread can be started: those that run must end before their data goes away
        for (std::thread& worker : workers) worker.join();
        throw;
    }
    run(0U);
    for (std::thread& worker : workers) worker.join();
    for (std::size_t i = 1U; i < parts; ++i) {
        if (is_left[i] != 0U) run(i);
    }
    for (const std::exception_ptr& error : thrown) {
        if (error) std::rethrow_exception(error);
    }
    for (Status& status : results) {
        if (!status.ok()) return std::move(status);
    }
    return {};
}

}  // namespace arcbeam
