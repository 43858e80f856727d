// SPDX-License-Identifier: MIT
/*
 * spread.cc - growth over 200 call paths of template instances: `leak` keeps all records, `bounded`
 * keeps 400 records and frees the oldest. `buffers`: buffers of JavaScript, as node allocates them,
 * that recursions of several depths keep. It prints "look" four times.
 */
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace v8::internal {

struct BackingStore {
    static char *Allocate(std::size_t bytes);
};

__attribute__((noinline)) char *BackingStore::Allocate(std::size_t bytes) {
    char *made = new char[bytes];
    std::memset(made, 'b', bytes);
    return made;
}

} // namespace v8::internal

namespace {

std::deque<char *> buffers;

__attribute__((noinline)) void buffers_keep(int depth) {
    if (depth > 0)
        buffers_keep(depth - 1);
    else
        for (int i = 0; i < 10; i++)
            buffers.push_back(v8::internal::BackingStore::Allocate(300000));
    __asm__ volatile("");
}

constexpr std::size_t KINDS = 200, EACH = 4;

struct record {
    std::unique_ptr<char[]> bytes;
};

template <std::size_t KIND> __attribute__((noinline)) record record_parse() {
    record made{std::unique_ptr<char[]>(new char[2000 + KIND])};
    std::memset(made.bytes.get(), int(KIND % 100), 2000);
    return made;
}

template <std::size_t... KIND>
__attribute__((noinline)) void import_all(std::deque<record> &store, std::index_sequence<KIND...>) {
    for (std::size_t i = 0; i < EACH; i++)
        (store.push_back(record_parse<KIND>()), ...);
    __asm__ volatile("");
}

} // namespace

int main(int argc, char **argv) {
    const bool bounded = argc > 1 && std::string(argv[1]) == "bounded";
    const bool deep = argc > 1 && std::string(argv[1]) == "buffers";
    std::deque<record> store;
    for (int round = 0; round < 4; round++) {
        for (int depth = 1; deep && depth <= 10; depth++)
            buffers_keep(depth);
        if (!deep)
            import_all(store, std::make_index_sequence<KINDS>());
        while (bounded && store.size() > 400)
            store.pop_front();
        std::puts("look");
        std::fflush(stdout);
        std::getchar();
    }
    return 0;
}
