// SPDX-License-Identifier: MIT
// planted.h - what the files of the program planted share: how a case asks for memory, random
// numbers, looks, and work that leaves no memory behind. planted.cc has the main function.
#ifndef MEMCTX_DIAGNOSIS_PLANTED_H
#define MEMCTX_DIAGNOSIS_PLANTED_H

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#define APART __attribute__((noinline, noipa))

// --- how the program asks for memory ------------------------------------------------------

enum class Wrapper { malloc, xmalloc, op_new, strdup };
extern Wrapper wrapper;
extern char pattern[1 << 20];

APART inline void *xmalloc(size_t size) {
    void *block = std::malloc(size);
    if (!block)
        std::abort();
    return block;
}

APART inline char *get_by(Wrapper by, size_t size) {
    if (by == Wrapper::xmalloc)
        return static_cast<char *>(xmalloc(size));
    if (by == Wrapper::op_new)
        return static_cast<char *>(::operator new(size));
    // The end of `pattern` is a string that has `size` bytes with its NUL.
    return strdup(pattern + sizeof pattern - size);
}

// Inlined, so that with Wrapper::malloc the calling function is the site.
__attribute__((always_inline)) static inline char *get(size_t size) {
    char *block =
        wrapper == Wrapper::malloc ? static_cast<char *>(std::malloc(size)) : get_by(wrapper, size);
    memset(block, 1, size);
    return block;
}

inline void put(char *block) {
    if (wrapper == Wrapper::op_new)
        ::operator delete(block);
    else
        std::free(block);
}

extern uint64_t dice_state;
inline uint64_t dice(uint64_t below) {
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return dice_state % below;
}

inline void look() {
    char line[100];
    puts("look");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        _exit(0);
}

template <typename T> void shuffle(std::vector<T> &items) {
    for (size_t i = items.size(); i > 1; i--)
        std::swap(items[i - 1], items[dice(i)]);
}

// --- work that the cases share, which leaves no memory behind ---------------------------

APART inline char *parse_header(size_t size) {
    char *header = get(size);
    header[0] = 'h';
    return header;
}

APART inline char *render_page(size_t size) {
    char *page = get(size);
    page[0] = 'p';
    return page;
}

inline void serve(int requests) {
    for (int i = 0; i < requests; i++) {
        char *parts[20];
        for (auto &part : parts)
            part = dice(3) ? parse_header(20 + dice(200)) : render_page(500 + dice(3000));
        for (auto &part : parts)
            put(part);
    }
}

APART inline char *cache_store(size_t size) {
    char *entry = get(size);
    entry[0] = 'c';
    return entry;
}

struct Case {
    const char *name;
    void (*run)();
};

// The cases of planted_growth.cc; the last one has the name NULL.
extern const Case growth_cases[];

#endif
