// SPDX-License-Identifier: MIT
// owners.cc - objects that own several chunks, which are allocated in several ways: one finding.
//
//     feeds     a library without source lines makes documents, and marks each of them later
//     pictures  have a head of two chunks, which one function makes, and pixels of another function
//     letters   are kept by the caller of the function that makes them, in a deque
//     waiters   are threads that wait for ever, each with a buffer
//     sizes     chunks of one call path, of six sizes one after another, of which one of 30 stays
//
// With -DLIBRARY this file is the library. Each case prints "look" and waits for a line.
#include <cstdlib>
#include <cstring>

struct Document {
    char *text, *index, *mark;
};

extern "C" Document *document_open(const char *source);
extern "C" void document_mark(Document *document);

#ifdef LIBRARY

#define APART __attribute__((noinline))

APART static char *copy(const char *source, size_t size) {
    return (char *)memset(malloc(size), source[0], size);
}

APART static char *index_make() {
    return (char *)memset(malloc(700), 'i', 700);
}

extern "C" APART Document *document_open(const char *source) {
    Document *document = (Document *)calloc(1, sizeof *document);
    document->text = copy(source, 900);
    document->index = index_make();
    return document;
}

extern "C" APART void document_mark(Document *document) {
    document->mark = copy("m", 25);
}

#else

#include "looks.h"

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#define OBJECTS 3000 // between two looks
#define WAITERS 12

KEEP static void feed_load() {
    document_mark(document_open("feed"));
}

static void feeds() {
    for (int i = 0; i < OBJECTS; i++)
        feed_load();
}

struct Picture {
    char *palette, *pixels, **rows;
};

KEEP static Picture *head_make() {
    Picture *picture = (Picture *)calloc(1, sizeof *picture + 20);
    picture->palette = (char *)calloc(1, 60);
    return picture;
}

KEEP static void pixels_make(Picture *picture) {
    picture->rows = (char **)calloc(4, sizeof *picture->rows);
    picture->pixels = (char *)memset(malloc(4000), 'p', 4000);
    picture->rows[0] = picture->pixels;
}

KEEP static Picture *picture_open() {
    Picture *picture = head_make();
    pixels_make(picture);
    return picture;
}

static void pictures() {
    for (int i = 0; i < OBJECTS; i++)
        if (picture_open()->rows[0][0] != 'p')
            abort();
}

struct Letter {
    char *text;
};

KEEP static Letter *letter_make() {
    Letter *letter = (Letter *)malloc(sizeof *letter + 60);
    letter->text = (char *)memset(malloc(300), 't', 300);
    return letter;
}

KEEP static void letter_keep() {
    static std::deque<Letter *> kept;
    kept.push_back(letter_make());
}

static void letters() {
    for (int i = 0; i < OBJECTS; i++)
        letter_keep();
}

static std::mutex taken;
static std::atomic<int> filled;

KEEP static void waiter_start() {
    std::thread([] {
        std::vector<char> buffer(5000, 'b');
        filled++;
        std::lock_guard<std::mutex> waits(taken);
        if (buffer[0] != 'b')
            abort();
    }).detach();
}

static void waiters() {
    static bool first = taken.try_lock();
    for (filled = 0; first && filled < WAITERS;) {
        int before = filled;
        waiter_start();
        while (filled == before)
            usleep(100);
    }
}

KEEP static void *part_make(size_t size) {
    return memset(malloc(size), 1, size);
}

static void sizes() {
    for (size_t size = 200; size < 1000; size += 150) {
        std::vector<void *> parts;
        for (int i = 0; i < 30000; i++)
            parts.push_back(part_make(size));
        for (size_t i = 0; i < parts.size(); i++)
            if (i % 30 != 0)
                free(parts[i]);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)();
    } cases[] = {{"feeds", feeds},
                 {"pictures", pictures},
                 {"letters", letters},
                 {"waiters", waiters},
                 {"sizes", sizes}};
    for (const auto &one : cases)
        while (argc == 2 && strcmp(argv[1], one.name) == 0) {
            one.run();
            look();
        }
    fprintf(stderr, "usage: owners CASE\n");
    return 2;
}

#endif
