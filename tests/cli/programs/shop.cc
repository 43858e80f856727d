// SPDX-License-Identifier: MIT
// shop.cc - allocations in a method, a template and an anonymous namespace.
#include <cstdio>
#include <unistd.h>

namespace shop {

static void *volatile keep;

struct Cart {
    void add(int bytes);
};

__attribute__((noinline, noipa)) void Cart::add(int bytes) {
    keep = new char[bytes];
}

template <typename T> __attribute__((noinline, noipa)) void fill(T *value, int count) {
    keep = new T[count];
    *value = 1;
}

namespace {
__attribute__((noinline, noipa)) void hidden(long bytes) {
    keep = ::operator new(bytes);
}
} // namespace

} // namespace shop

int main() {
    char value;
    shop::Cart().add(1111);
    shop::fill(&value, 2222);
    shop::hidden(3333);
    std::puts("ready");
    std::fflush(stdout);
    for (;;) {
        pause();
    }
}
