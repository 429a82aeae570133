#include "kenlm/kenlm.hpp"

#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <iostream>

namespace arcbeam {

namespace {

// The memory layout that the C++ ABI gives KenLM's two interfaces: a table of virtual functions first, then the
// data members.
struct VocabularyLayout {
    const void* virtuals;
    std::uint32_t begin_sentence, end_sentence, not_found;
};

struct ModelLayout {
    const void* virtuals;
    std::size_t state_size;
    const void* begin_sentence;
    const void* null_context;
    const VocabularyLayout* vocabulary;
    unsigned char order;
};

// Places in the tables of virtual functions; a virtual destructor takes two.
constexpr std::size_t kDelete = 1;
constexpr std::size_t kScore = 2;  // of a model
constexpr std::size_t kIndex = 4;  // of a vocabulary: by a C string, after two more ways to give a word

template <typename Function>
Function virtual_function(const void* object, std::size_t place) {
    const void* const* table = nullptr;
    std::memcpy(&table, object, sizeof table);
    Function function = nullptr;
    std::memcpy(&function, table + place, sizeof function);
    return function;
}

constexpr const char* kLoad = "_ZN2lm5ngram11LoadVirtualEPKcRKNS0_6ConfigENS0_9ModelTypeE";
constexpr const char* kConfig = "_ZN2lm5ngram6ConfigC1Ev";
constexpr int kProbing = 0;  // the kind of model that an ARPA file becomes

// The options of loading. Its constructor is called on memory that is large enough for any build; it owns nothing.
struct Config {
    alignas(16) unsigned char room[4096];

    // Its first members say whether and where progress is shown. They are changed only if they have the expected
    // values.
    void be_silent() {
        std::ostream* messages = nullptr;
        std::memcpy(&messages, room + sizeof(void*), sizeof messages);
        if (room[0] == 1 && messages == &std::cerr) {
            room[0] = 0;
            messages = nullptr;
            std::memcpy(room + sizeof(void*), &messages, sizeof messages);
        }
    }
};

}  // namespace

KenLm::~KenLm() {
    if (model_ != nullptr) {
        virtual_function<void (*)(void*)>(model_, kDelete)(model_);
    }
}

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
    const auto load_virtual = reinterpret_cast<void* (*)(const char*, const Config&, int)>(load_symbol);
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
    if (!made->is_plausible(reason)) {
        // It is not the expected class: a leak is better than a call to an unknown function
        made->model_ = nullptr;
        return nullptr;
    }
    kind = KenLmError::kNone;
    return made;
}

bool KenLm::is_plausible(std::string& reason) {
    reason = "its models have another layout than those of kenlm 0.2 and 0.3";
    if (model_ == nullptr) {
        reason = "it returned no model";
        return false;
    }
    ModelLayout model{};
    std::memcpy(&model, model_, sizeof model);
    // A state is words, back-offs and their number, padded to 4 bytes.
    if (model.state_size < 12 || model.state_size > kLargestState || (model.state_size - 4) % 8 != 0) {
        return false;
    }
    state_size_ = model.state_size;
    context_ = (state_size_ - 4) / 8;
    order_ = model.order;
    if (order_ < 1 || order_ > context_ + 1 || model.begin_sentence == nullptr || model.null_context == nullptr ||
        model.vocabulary == nullptr) {
        return false;
    }
    begin_sentence_ = model.begin_sentence;
    null_context_ = model.null_context;
    vocabulary_ = model.vocabulary;
    start_word_ = model.vocabulary->begin_sentence;
    end_sentence_ = model.vocabulary->end_sentence;
    index_ = virtual_function<decltype(index_)>(vocabulary_, kIndex);
    score_ = virtual_function<decltype(score_)>(model_, kScore);
    const std::size_t seen = length(begin_sentence_);
    return seen == (order_ > 1 ? 1U : 0U) && (seen == 0 || word_of(begin_sentence_, 0) == start_word_) &&
           length(null_context_) == 0 && word("<s>") == start_word_ && word("</s>") == end_sentence_;
}

}  // namespace arcbeam
