// What a detector keeps for each word of memory that was read or written, in pages that are made when one is
// needed.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace arcbeam::emulator {

template <class Word>
class Shadow {
  public:
    Word& operator[](std::uintptr_t address) {
        const std::uintptr_t number = address / kPageBytes;
        auto& recent = recent_[number % 64U];
        if (recent.number != number) {
            std::unique_ptr<Page>& page = pages_[number];
            if (!page) page = std::make_unique<Page>();
            recent = {number, page.get()};
        }
        return recent.page->words[address % kPageBytes / 4U];
    }

  private:
    static constexpr std::uintptr_t kPageBytes = 1024U;
    struct Page {
        Word words[kPageBytes / 4U];
    };

    std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
    struct {
        std::uintptr_t number = ~std::uintptr_t{0};
        Page* page = nullptr;
    } recent_[64];
};

}  // namespace arcbeam::emulator
