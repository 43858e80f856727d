// SPDX-License-Identifier: MIT
// tails_across.cc - a member function of a C++ library that ends in a tail call of operator new.
// Built with LIBRARY, the file is the library, else the program.
#include <cstddef>
#include <cstdio>
#include <unistd.h>

namespace shop {
struct Shelf {
    char *order(std::size_t bytes);
    static void *make(std::size_t bytes);
};
} // namespace shop

#ifdef LIBRARY

__attribute__((noinline, noipa)) static char *fill(std::size_t bytes) {
    char *chunk = new char[bytes];
    chunk[0] = 'x';
    return chunk;
}

char *shop::Shelf::order(std::size_t bytes) {
    return fill(bytes + 1);
}

void *shop::Shelf::make(std::size_t bytes) {
    return operator new(bytes + 1);
}

#else

static void *volatile keep;

int main() {
    shop::Shelf shelf;
    keep = shelf.order(1300);
    keep = shop::Shelf::make(1310);
    std::puts("ready");
    std::fflush(stdout);
    for (;;)
        pause();
}

#endif
