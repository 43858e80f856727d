// SPDX-License-Identifier: MIT
// tails.cc - C++ functions that end in a tail call on the way to an allocation.
#include <cstddef>
#include <cstdio>
#include <unistd.h>
#include <vector>

#define APART __attribute__((noinline, noclone, noipa))

static void *volatile keep;

namespace shop {

struct Shelf {
    APART char *fill(std::size_t bytes);
    APART char *order(std::size_t bytes);
    virtual char *open(std::size_t bytes);
    virtual ~Shelf() = default;
    char *last = nullptr;
};

char *Shelf::fill(std::size_t bytes) {
    last = new char[bytes];
    last[0] = 'x';
    return last;
}

char *Shelf::order(std::size_t bytes) {
    return fill(bytes + 1); // MARK order
}

APART char *Shelf::open(std::size_t bytes) {
    return fill(bytes + 2);
}

/* The debug information does not tell which function a virtual call reaches. */
APART static char *visit(Shelf *shelf, std::size_t bytes) {
    return shelf->open(bytes);
}

template <typename T> APART T *make(std::size_t count) {
    return static_cast<T *>(operator new(count * sizeof(T))); // MARK make
}

namespace {
struct Row {
    long cells[4];
};
APART Row *rows(std::size_t count) {
    return make<Row>(count + 1); // MARK rows
}
} // namespace

} // namespace shop

APART static void entries(std::vector<long> *list, std::size_t count) {
    list->resize(count);
    keep = list;
}

APART static void prepare(std::vector<long> *list, std::size_t count) {
    entries(list, count + 1); // MARK prepare
}

int main() {
    static std::vector<long> list;
    static shop::Shelf shelf;
    shop::Shelf *volatile visited = &shelf;
    keep = shelf.order(2010);
    keep = shop::visit(visited, 2020);
    keep = shop::rows(63);
    prepare(&list, 300);
    std::puts("ready");
    std::fflush(stdout);
    for (;;)
        pause();
}
