/* SPDX-License-Identifier: MIT */
/*
 * chunks - the chunks of the stress program and the books that count them. A chunk has a pattern,
 * which is checked at each use.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "chunks.h"
#include "paths.h"

struct book {
    _Atomic int64_t live_bytes, live_chunks, allocs, frees, cumulative_bytes;
};

static struct book books[PATHS];
_Atomic uint32_t exchange[EXCHANGE];

/* Uses no stdio: in a forked child another thread may have held a lock of stdio during the fork. */
void die(const char *what, const struct record *record) {
    char text[200];
    int length = snprintf(text, sizeof text, "books: %s: pointer %p size %zu path %u pid %d\n",
                          what, record ? (void *)record->pointer : NULL, record ? record->size : 0,
                          record ? record->path : 0, (int)getpid());
    if (write(2, text, (size_t)length) < 0)
        _exit(4);
    _exit(3);
}

uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void book_alloc(uint32_t path, size_t size) {
    struct book *book = &books[path];
    atomic_fetch_add_explicit(&book->live_bytes, (int64_t)size, memory_order_relaxed);
    atomic_fetch_add_explicit(&book->live_chunks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&book->allocs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&book->cumulative_bytes, (int64_t)size, memory_order_relaxed);
}

static void book_free(uint32_t path, size_t size) {
    struct book *book = &books[path];
    atomic_fetch_sub_explicit(&book->live_bytes, (int64_t)size, memory_order_relaxed);
    atomic_fetch_sub_explicit(&book->live_chunks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&book->frees, 1, memory_order_relaxed);
}

/* Patterns cover every byte of a small chunk, every 61st byte of a large one, and the last. */
static size_t payload_step(size_t size) {
    return size <= 2048 ? 1 : 61;
}

static unsigned char payload_byte(uint32_t seed, size_t at) {
    return (unsigned char)((seed + at) * 0x9e3779b1u >> 24);
}

static void payload_fill(const struct record *record) {
    size_t step = payload_step(record->size);
    for (size_t at = 0; at < record->size; at += step)
        record->pointer[at] = payload_byte(record->seed, at);
    if (record->size)
        record->pointer[record->size - 1] = payload_byte(record->seed, record->size - 1);
}

static void payload_check(const struct record *record, size_t size) {
    size_t step = payload_step(record->size);
    for (size_t at = 0; at < size; at += step)
        if (record->pointer[at] != payload_byte(record->seed, at) && at != record->size - 1)
            die("damaged payload", record);
    if (size == record->size && size &&
        record->pointer[size - 1] != payload_byte(record->seed, size - 1))
        die("damaged last byte", record);
}

void record_check(const struct record *record) {
    payload_check(record, record->size);
}

static size_t random_size(uint64_t *random) {
    uint64_t dice = next_random(random) % 4000;
    if (dice == 0)
        return next_random(random) % (3u << 20);
    if (dice < 40)
        return next_random(random) % 100000;
    if (dice < 400)
        return next_random(random) % 5000;
    if (dice < 2000)
        return next_random(random) % 400;
    return 8 * (next_random(random) % 12); /* few sizes, so that some pages hold one size only */
}

static uint32_t random_path(uint64_t *random) {
    uint64_t dice = next_random(random);
    return (uint32_t)(dice % 2 ? (dice >> 8) % 16 * 149 : (dice >> 8) % NORMAL_PATHS);
}

/* A fork may copy the process at any instruction. So a record is emptied before its chunk is freed,
 * and filled after its chunk is allocated: a child may leak a chunk, but never free it twice. */
void record_alloc(struct record *record, uint64_t *random) {
    struct request request = {.kind = next_random(random) % REQUEST_KINDS,
                              .size = random_size(random),
                              .alignment = (size_t)8 << next_random(random) % 10};
    struct record fresh = {
        .size = request.size, .path = random_path(random), .seed = (uint32_t)next_random(random)};
    path_perform(fresh.path, &request);
    fresh.pointer = request.result;
    if (!fresh.pointer)
        die("no memory", &fresh);
    if (request.kind >= REQUEST_MEMALIGN && (uintptr_t)fresh.pointer % request.alignment)
        die("misaligned", &fresh);
    if (request.kind == REQUEST_CALLOC)
        for (size_t at = 0; at < request.size; at += payload_step(request.size))
            if (fresh.pointer[at])
                die("calloc is not zero", &fresh);
    book_alloc(fresh.path, fresh.size);
    payload_fill(&fresh);
    *record = fresh;
}

/* Like record_alloc, on a path that only handlers use. */
void record_alloc_in_handler(struct record *record, uint64_t *random) {
    struct record fresh = {.size = next_random(random) % 900,
                           .path = NORMAL_PATHS + (uint32_t)(next_random(random) % SIG_LEAVES),
                           .seed = (uint32_t)next_random(random)};
    struct request request = {.kind = REQUEST_MALLOC, .size = fresh.size};
    path_perform(fresh.path, &request);
    fresh.pointer = request.result;
    if (!fresh.pointer)
        die("no memory in a handler", &fresh);
    book_alloc(fresh.path, fresh.size);
    payload_fill(&fresh);
    *record = fresh;
}

void record_free(struct record *record) {
    struct record old = *record;
    payload_check(&old, old.size);
    record->pointer = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    book_free(old.path, old.size);
    free(old.pointer);
}

void record_realloc(struct record *record, uint64_t *random) {
    struct record old = *record, fresh = old;
    size_t size = next_random(random) % 3 ? random_size(random) : old.size + old.size / 4;
    struct request request = {.kind =
                                  next_random(random) % 2 ? REQUEST_REALLOC : REQUEST_REALLOCARRAY,
                              .size = size ? size : 1, /* realloc(p, 0) is a free */
                              .old = old.pointer};
    record->pointer = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    fresh.path = random_path(random);
    fresh.size = request.size;
    path_perform(fresh.path, &request);
    fresh.pointer = request.result;
    if (!fresh.pointer)
        die("no memory in realloc", &old);
    book_free(old.path, old.size);
    book_alloc(fresh.path, fresh.size);
    struct record kept = {
        .pointer = fresh.pointer, .size = old.size, .path = old.path, .seed = old.seed};
    payload_check(&kept, old.size < fresh.size ? old.size : fresh.size);
    payload_fill(&fresh);
    *record = fresh;
}

void record_exchange(uint32_t *place, uint64_t random) {
    uint32_t mine = *place;
    /* a child that is forked here loses the record, else two places would hold it */
    *place = NO_RECORD;
    atomic_signal_fence(memory_order_seq_cst);
    *place = atomic_exchange(&exchange[random % EXCHANGE], mine);
}

void books_write(const char *books_path) {
    char line[256];
    FILE *file = fopen(books_path, "w");
    if (!file)
        die("cannot write the books", NULL);
    for (uint32_t path = 0; path < PATHS; path++) {
        const struct book *book = &books[path];
        if (!book->allocs && !book->frees)
            continue;
        path_print(path, line, sizeof line);
        fprintf(file, "%s %ld %ld %ld %ld %ld\n", line, book->live_bytes, book->live_chunks,
                book->allocs, book->frees, book->cumulative_bytes);
    }
    if (fclose(file))
        die("cannot write the books", NULL);
}
