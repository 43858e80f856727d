// SPDX-License-Identifier: MIT
// call_chain_cpp - like call_chain.c, but through C++ operators, with names to demangle:
//   main > shop::shelf<int>::fill(int) > operator new[]      8 blocks of 4000 bytes
//   main > shop::open_box(unsigned long) > operator new      5 blocks of 3001 bytes
//   main > shop::aligned_box() > operator new, aligned       3 blocks of 2048 bytes
#include <cstddef>
#include <new>

namespace shop {

template <typename item> struct shelf {
    item *items[16];
    int count = 0;
    void fill(int length);
};

template <typename item> __attribute__((noinline)) void shelf<item>::fill(int length) {
    item *volatile made = new item[length];
    items[count++] = made;
}

__attribute__((noinline)) void *open_box(unsigned long bytes) {
    void *volatile made = ::operator new(bytes);
    return made;
}

__attribute__((noinline)) void *aligned_box() {
    void *volatile made = ::operator new(2048, std::align_val_t(256));
    return made;
}

} // namespace shop

static shop::shelf<int> shelf;
static void *volatile kept[16];

int main() {
    for (int i = 0; i < 8; i++) {
        shelf.fill(1000);
    }
    for (int i = 0; i < 5; i++) {
        kept[i] = shop::open_box(3001);
    }
    for (int i = 0; i < 3; i++) {
        kept[8 + i] = shop::aligned_box();
    }
    return 0;
}
