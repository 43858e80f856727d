// SPDX-License-Identifier: MIT
// planted_more.cc - programs in C++ with one fault each, which planted.cc does not have.
//
// planted_more CASE prints "look" when doctor is to look at it. Cases that work on meanwhile, like
// a server (go_on), end at a line on stdin; the others, at the end of stdin at the latest.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#define APART __attribute__((noinline, noclone))

static bool told_within(int ms) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char line[100];
    return poll(&input, 1, ms) > 0 && (fgets(line, sizeof line, stdin) || true);
}

static void look() {
    puts("look");
    fflush(stdout);
}

template <typename Step> static void go_on(Step step) {
    look();
    while (!told_within(10))
        step();
}

// --- growth that is not malloc's ----------------------------------------------------------------

// An array in a mapping of its own, which grows by mremap and may move.
template <typename T> class MappedArray {
    T *items = nullptr;
    size_t count = 0, capacity = 0;

  public:
    void push(const T &item) {
        if (count == capacity) {
            size_t more = capacity + (1 << 20) / sizeof(T);
            void *moved = items ? mremap(static_cast<void *>(items), capacity * sizeof(T),
                                         more * sizeof(T), MREMAP_MAYMOVE)
                                : mmap(nullptr, more * sizeof(T), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (moved == MAP_FAILED)
                _exit(3);
            items = static_cast<T *>(moved);
            capacity = more;
        }
        items[count++] = item;
    }
};

static void moved() {
    MappedArray<long> events;
    go_on([&] {
        for (int i = 0; i < 30000; i++)
            events.push(i);
        free(malloc(100000));
    });
}

// --- memory that was never touched --------------------------------------------------------------

struct Buffer {
    size_t used = 0;
    char room[7800];
};

APART static Buffer *buffer_new() {
    return new Buffer;
}

// Buffers of which only the beginning is written. One of four is not freed.
static void barely_written() {
    std::vector<Buffer *> buffers(16000);
    for (auto &buffer : buffers)
        buffer = buffer_new();
    for (size_t i = 0; i < buffers.size(); i++)
        if (i % 4)
            delete buffers[i];
    look();
    told_within(-1);
    std::vector<std::string> other(10000, "a text that is too long to stand in the object itself");
    look();
    told_within(-1);
}

// --- peaks of threads that have ended ------------------------------------------------------------

struct Item {
    char text[104];
};

APART static Item *item_new() {
    Item *item = new Item;
    item->text[0] = 'i';
    return item;
}

template <int id> APART static void handle(std::vector<Item *> &items) {
    for (int i = 0; i < 60; i++)
        items.push_back(item_new());
    asm volatile("" : : "r"(id));
}

template <int... ids>
static void handle_all(std::vector<Item *> &items, std::integer_sequence<int, ids...>) {
    // No fold expression: clang bounds its length at 256.
    int calls[] = {(handle<ids>(items), 0)...};
    (void)calls;
}

// Many paths with few live bytes each, so they share mixed pages. A thread makes the items and
// frees nearly all of them; pages of their own would not bring the remaining items closer together.
static void thinned() {
    for (;;) {
        std::vector<Item *> items;
        items.reserve(60 * 1500);
        std::thread([&] {
            handle_all(items, std::make_integer_sequence<int, 1500>{});
            for (size_t i = 0; i < items.size(); i++)
                if (i % 30)
                    delete items[i];
        }).join();
        look();
        if (told_within(-1) && feof(stdin))
            return;
        for (size_t i = 0; i < items.size(); i += 30)
            delete items[i];
    }
}

// --- chunks that another policy may serve better -------------------------------------------------

struct alignas(128) AlignedSample {
    char values[384];
};
struct PlainSample {
    char values[1160];
};

template <typename Sample> APART static Sample *sample_new() {
    return new Sample();
}

template <typename Sample> static void samples() {
    std::vector<Sample *> all(sizeof(Sample) > 1200 ? 20000 : 80000);
    for (size_t at = 0;; at = at * 7 + 1) {
        for (size_t i = 0; i < 2 * all.size(); i++) {
            Sample *&sample = all[(i * 7919 + at) % all.size()];
            delete sample;
            sample = sample_new<Sample>();
        }
        look();
        if (told_within(-1) && feof(stdin))
            return;
    }
}

// --- very many call paths, without any recursion ------------------------------------------------

static int left_chunks;

APART static void leave_chunks() {
    for (int i = 0; i < left_chunks; i++)
        memset(malloc(200), 'c', 200);
}

// Two bits of `way` choose one of four functions on each level.
template <int level, int number> APART static void step(uint64_t way) {
    if constexpr (level == 0)
        leave_chunks();
    else
        switch (way % 4) {
        case 0: step<level - 1, 0>(way / 4); break;
        case 1: step<level - 1, 1>(way / 4); break;
        case 2: step<level - 1, 2>(way / 4); break;
        default: step<level - 1, 3>(way / 4);
        }
    asm volatile("" : : "r"(number));
}

// A million contexts from 300 000 call paths. One path of a hundred leaves 20 chunks, others one.
static void levels() {
    do {
        for (uint64_t i = 0; i < 300000; i++) {
            left_chunks = i % 100 ? 1 : 20;
            step<11, 0>((i * 0x9e3779b97f4a7c15U) >> 42);
        }
        look();
    } while (!told_within(-1) || !feof(stdin));
}

struct Case {
    const char *name;
    void (*run)();
};

int main(int argc, char **argv) {
    static const Case cases[] = {
        {"levels", levels},
        {"plain-samples", samples<PlainSample>},
        {"aligned-samples", samples<AlignedSample>},
        {"thinned", thinned},
        {"moved", moved},
        {"barely-written", barely_written},
    };
    for (const Case &one : cases)
        if (argc > 1 && !strcmp(argv[1], one.name)) {
            one.run();
            return 0;
        }
    fprintf(stderr, "planted_more: no such case\n");
    return 2;
}
