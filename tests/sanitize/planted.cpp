// A write beyond the end of an array, for AddressSanitizer: where Python loads this library as it loads arcbeam's
// extensions, the sanitizer must report it, or the silence of the tests beside it means nothing.
#include <cstddef>
#include <vector>

extern "C" int planted_overflow(std::size_t size) {
    std::vector<int> values(size, 0);
    int* const end = values.data() + size;
    *end = 1;
    return *end;
}
