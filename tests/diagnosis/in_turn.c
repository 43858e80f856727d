/* SPDX-License-Identifier: MIT */
/*
 * in_turn.c - programs in which several functions make the same chunks larger in turn, and others
 * in which one path does not tell the cause; says "look" and waits for a line after each round.
 *
 *     in-turn journal    three functions add to one text, which grows in steps of a fixed size
 *     in-turn eighth     a text that grows by an eighth
 *     in-turn long       each function adds alone for a whole round
 *     in-turn rooms      forty texts, to each of which three functions add
 *     in-turn shards     three large chunks, the last of which is made larger by a tail call
 *     in-turn folders    a recursion that is deeper than a path keeps one chunk of four
 *     in-turn tokens     beside a large cache, one small chunk of 300 is never freed
 *   healthy:
 *     in-turn rotated    a text to which three functions add is freed when it is long enough
 *     in-turn emptied    such a text is emptied, and keeps its size
 *     in-turn messages   buffers grow to the size of their largest message
 *     in-turn once       maps much memory in the first interval, and then a little each time
 */
#include "looks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REQUESTS 3000
#define BEHIND asm volatile("" ::: "memory") /* the call before is no tail call */

KEEP static char *filled(size_t bytes) {
    char *chunk = malloc(bytes);
    memset(chunk, 1, bytes);
    return chunk;
}

/* What each request allocates and frees. */
KEEP static void work(void) {
    char *parts[6];
    for (int i = 0; i < 6; i++)
        parts[i] = filled(20 + below(300));
    for (int i = 0; i < 6; i++)
        free(parts[i]);
}

struct text {
    char *bytes;
    size_t used, size;
};
static struct text journal, rooms[40];
/* A text grows by 4 KiB, and by 1/step_part of its size if step_part is not 0. */
static size_t step_part;

KEEP static void text_add(struct text *text, size_t bytes) {
    if (text->used + bytes > text->size) {
        text->size += 4096 + (step_part ? text->size / step_part : 0);
        text->bytes = realloc(text->bytes, text->size);
    }
    memset(text->bytes + text->used, 'x', bytes);
    text->used += bytes;
    BEHIND;
}

KEEP static void user_joins(struct text *text) {
    text_add(text, 60);
    BEHIND;
}

KEEP static void user_speaks(struct text *text) {
    text_add(text, 180);
    BEHIND;
}

KEEP static void user_leaves(struct text *text) {
    text_add(text, 150);
    BEHIND;
}

static void (*const adders[])(struct text *) = {user_joins, user_speaks, user_leaves};

static void add_to(struct text *text, int times) {
    for (int i = 0; i < times; i++)
        adders[below(3)](text);
}

static void journal_add(unsigned number) {
    (void)number;
    add_to(&journal, 2);
}

static void journal_eighth(unsigned number) {
    (void)number;
    step_part = 8;
    add_to(&journal, 2);
}

static void journal_long(unsigned number) {
    for (int i = 0; i < 3; i++)
        adders[number / REQUESTS % 3](&journal);
}

static void rooms_add(unsigned number) {
    (void)number;
    add_to(&rooms[below(40)], 1);
}

static void rotated(unsigned number) {
    journal_add(number);
    if (journal.used > 300000) {
        free(journal.bytes);
        journal = (struct text){0};
    }
}

static void emptied(unsigned number) {
    journal_add(number);
    if (journal.used > 300000)
        journal.used = 0;
}

static void messages(unsigned number) {
    static struct text buffers[300];
    struct text *buffer = &buffers[below(300)];
    size_t bytes = (size_t)64 << below(10);
    (void)number;
    if (bytes <= buffer->size)
        return;
    buffer->size = bytes;
    buffer->bytes = realloc(buffer->bytes, bytes);
}

#define SHARD_STEP ((size_t)700000)
static struct text shards[3];

KEEP static void shard_append(unsigned number) {
    struct text *shard = &shards[number % 3];
    shard->size += SHARD_STEP;
    shard->bytes = realloc(shard->bytes, shard->size);
    memset(shard->bytes + shard->size - SHARD_STEP, 1, SHARD_STEP);
}

static void shards_append(unsigned number) {
    if (number % 1000 != 0)
        return;
    shard_append(0);
    shard_append(1);
    shard_append(2);
}

KEEP static void *folder_read(unsigned depth, unsigned number) {
    char *folder = filled(120);
    void *inner = depth ? folder_read(depth - 1, number) : NULL;
    if (number % 4) {
        free(folder);
        return inner;
    }
    memcpy(folder, &inner, sizeof inner);
    return folder;
}

static void *volatile kept;

KEEP static void folders_scan(unsigned number) {
    if (number % 20 == 0)
        kept = folder_read(60, number / 20);
}

KEEP static char *token_new(void) {
    char *token = malloc(90);
    memset(token, 2, 90);
    return token;
}

static void tokens(unsigned number) {
    static char *cache[20000];
    for (int i = 0; number == 0 && i < 20000; i++)
        cache[i] = filled(2000);
    for (int i = 0; i < 10; i++) {
        size_t place = below(20000);
        free(cache[place]);
        cache[place] = filled(500 + below(3000));
        char *token = token_new();
        if (number % 30 == 0 && i == 3)
            kept = token;
        else
            free(token);
    }
}

static void heap_map(size_t bytes) {
    char *heap = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED)
        exit(1);
    memset(heap, 1, bytes);
}

static void once(unsigned number) {
    if (number % REQUESTS == 1 && number > 1)
        heap_map(number < 2 * REQUESTS ? 12 << 20 : 200 << 10);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*handle)(unsigned);
        unsigned looks; /* 0: without end */
    } cases[] = {{"journal", journal_add, 0},  {"eighth", journal_eighth, 0},
                 {"long", journal_long, 0},    {"rooms", rooms_add, 0},
                 {"shards", shards_append, 0}, {"folders", folders_scan, 0},
                 {"tokens", tokens, 0},        {"once", once, 8},
                 {"rotated", rotated, 8},      {"emptied", emptied, 8},
                 {"messages", messages, 8}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        if (argc != 2 || strcmp(argv[1], cases[k].name) != 0)
            continue;
        unsigned number = 0;
        for (unsigned seen = 0; cases[k].looks == 0 || seen < cases[k].looks; seen++, look())
            for (int i = 0; i < REQUESTS; i++, number++) {
                cases[k].handle(number);
                work();
            }
        return 0;
    }
    fprintf(stderr, "usage: in-turn CASE\n");
    return 2;
}
