// SPDX-License-Identifier: MIT
// C++ functions whose names stand in rules.
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace shop {
template <class T> struct shelf {
    __attribute__((noinline)) static char *put(T bytes) {
        char *chunk = static_cast<char *>(std::malloc(bytes));
        __asm__ volatile("" ::: "memory");
        return chunk;
    }
};
namespace inner {
struct till {
    __attribute__((noinline)) char *open(int bytes) const {
        char *chunk = static_cast<char *>(std::malloc(static_cast<std::size_t>(bytes)));
        __asm__ volatile("" ::: "memory");
        return chunk;
    }
};
} // namespace inner
} // namespace shop

int main() {
    char *chunks[] = {shop::shelf<std::size_t>::put(3000), shop::inner::till().open(3000)};
    std::puts("begun");
    std::fflush(stdout);
    std::getchar();
    for (char *chunk : chunks)
        std::free(chunk);
    return 0;
}
