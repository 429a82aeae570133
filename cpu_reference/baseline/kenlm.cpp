#include "baseline/kenlm.hpp"

#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <iostream>
#include <vector>

namespace arcbeam::baseline {

// Binary interfaces of KenLM, as the C++ ABI lays them out. Only what is used has a type; the order of the virtual
// functions and of the data members is what counts.
struct KenLm::Vocabulary {
    virtual ~Vocabulary() = default;
    virtual std::uint32_t index_of_piece(const void*) const = 0;
    virtual std::uint32_t index_of_string(const std::string&) const = 0;
    virtual std::uint32_t index(const char* word) const = 0;

    std::uint32_t begin_sentence, end_sentence, not_found;
};

struct KenLm::Model {
    virtual ~Model() = default;
    virtual float score(const void* state, std::uint32_t word, void* next) const = 0;

    std::size_t state_size;
    const void* begin_sentence;
    const void* null_context;
    const Vocabulary* vocabulary;
    unsigned char order;
};

namespace {

constexpr const char* kLoad = "_ZN2lm5ngram11LoadVirtualEPKcRKNS0_6ConfigENS0_9ModelTypeE";
constexpr const char* kConfig = "_ZN2lm5ngram6ConfigC1Ev";
constexpr int kProbing = 0;  // the kind of model that an ARPA file becomes

// The options of loading. Its constructor is called on room that is large enough for any build; it owns nothing.
struct Config {
    alignas(16) unsigned char room[4096];

    // Its first members say whether and where progress is shown. They are changed only if they are what is
    // expected.
    void be_silent() {
        bool shows_progress = false;
        std::ostream* messages = nullptr;
        std::memcpy(&messages, room + sizeof(void*), sizeof messages);
        std::memcpy(&shows_progress, room, sizeof shows_progress);
        if (room[0] == 1 && shows_progress && messages == &std::cerr) {
            room[0] = 0;
            messages = nullptr;
            std::memcpy(room + sizeof(void*), &messages, sizeof messages);
        }
    }
};

}  // namespace

KenLm::~KenLm() { delete model_; }

std::unique_ptr<KenLm> KenLm::load(const std::string& library, const std::string& path, KenLmError& kind,
                                   std::string& reason) {
    kind = KenLmError::kLibrary;
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: models may outlive any owner
    if (handle == nullptr) {
        reason = dlerror();
        return nullptr;
    }
    void* load_symbol = dlsym(handle, kLoad);
    void* config_symbol = dlsym(handle, kConfig);
    if (load_symbol == nullptr || config_symbol == nullptr) {
        reason = library + " lacks the symbol " + (load_symbol == nullptr ? kLoad : kConfig);
        return nullptr;
    }
    const auto load_virtual = reinterpret_cast<Model* (*)(const char*, const Config&, int)>(load_symbol);
    const auto construct = reinterpret_cast<void (*)(Config*)>(config_symbol);
    std::unique_ptr<KenLm> made(new KenLm);
    try {
        const std::unique_ptr<Config> config(new Config{});
        construct(config.get());
        config->be_silent();
        kind = KenLmError::kModel;
        made->model_ = load_virtual(path.c_str(), *config, kProbing);
    } catch (const std::exception& error) {
        reason = error.what();
        return nullptr;
    }
    kind = KenLmError::kLibrary;
    if (!made->looks_right(reason)) {
        made->model_ = nullptr;  // it is not what it was taken for: better a leak than a call into the unknown
        return nullptr;
    }
    kind = KenLmError::kNone;
    return made;
}

bool KenLm::looks_right(std::string& reason) {
    reason = "its models are laid out otherwise than those of kenlm 0.2 and 0.3";
    if (model_ == nullptr) {
        reason = "it gave no model";
        return false;
    }
    state_size_ = model_->state_size;
    order_ = model_->order;
    // A state is words, back-offs and their number, padded to 4 bytes.
    if (state_size_ < 12 || state_size_ > 1024 || (state_size_ - 4) % 8 != 0) {
        return false;
    }
    context_ = (state_size_ - 4) / 8;
    if (order_ < 1 || order_ > context_ + 1 || model_->begin_sentence == nullptr ||
        model_->null_context == nullptr || model_->vocabulary == nullptr) {
        return false;
    }
    vocabulary_ = model_->vocabulary;
    end_sentence_ = vocabulary_->end_sentence;
    const auto* begin = static_cast<const unsigned char*>(model_->begin_sentence);
    std::uint32_t first = 0;
    std::memcpy(&first, begin, sizeof first);
    const std::size_t length = begin[8 * context_];
    return length == (order_ > 1 ? 1U : 0U) && (length == 0 || first == vocabulary_->begin_sentence) &&
           static_cast<const unsigned char*>(model_->null_context)[8 * context_] == 0 &&
           vocabulary_->index("<s>") == vocabulary_->begin_sentence && vocabulary_->index("</s>") == end_sentence_;
}

std::uint32_t KenLm::word(const std::string& text) const { return vocabulary_->index(text.c_str()); }

void KenLm::begin_sentence(void* state) const { std::memcpy(state, model_->begin_sentence, state_size_); }

void KenLm::null_context(void* state) const { std::memcpy(state, model_->null_context, state_size_); }

float KenLm::score(const void* state, std::uint32_t word, void* next) const {
    return model_->score(state, word, next);
}

float KenLm::most(const void* state) const {
    const auto* bytes = static_cast<const unsigned char*>(state);
    float sum = 0.0F;
    for (std::size_t i = 0, n = bytes[8 * context_]; i < n && i < context_; ++i) {
        float backoff = 0.0F;
        std::memcpy(&backoff, bytes + 4 * (context_ + i), sizeof backoff);
        sum += backoff > 0.0F ? backoff : 0.0F;
    }
    return sum;
}

}  // namespace arcbeam::baseline
