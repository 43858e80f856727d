/* SPDX-License-Identifier: MIT */
/*
 * paths.h - 200 distinct functions on three levels, so that each book entry has a call path.
 *
 * top_10..top_19 call mid_10..mid_39, these call leaf_100..leaf_259, and only the leaves allocate.
 * The innermost three function names of a context (leaf, mid, top) name one book entry. The signal
 * handler has functions of its own (sig_*), because it may interrupt any other function.
 */
#ifndef STRESS_PATHS_H
#define STRESS_PATHS_H

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "../lib/repeat.h"

enum request_kind {
    REQUEST_MALLOC,
    REQUEST_CALLOC,
    REQUEST_REALLOC,
    REQUEST_REALLOCARRAY,
    REQUEST_MEMALIGN,
    REQUEST_POSIX_MEMALIGN,
    REQUEST_ALIGNED_ALLOC,
    REQUEST_KINDS
};

struct request {
    enum request_kind kind;
    size_t size, alignment;
    void *old;
    unsigned mid, leaf; /* numbers of the functions mid_N and leaf_N */
    void *result;
};

/* For functions that must have a frame on the stack: not inlined, no tail calls, and a different
 * barrier in each, so that the compiler merges none. */
#define PATH_FUNCTION __attribute__((noinline, noclone))
#define PATH_BARRIER(number) __asm__ volatile("# " #number : : : "memory")

/* A macro, not an inline function, so that the leaf function itself contains the calls. */
#define PERFORM(request)                                                                           \
    switch ((request)->kind) {                                                                     \
    case REQUEST_MALLOC: (request)->result = malloc((request)->size); break;                       \
    case REQUEST_CALLOC: (request)->result = calloc(1, (request)->size); break;                    \
    case REQUEST_REALLOC: (request)->result = realloc((request)->old, (request)->size); break;     \
    case REQUEST_REALLOCARRAY:                                                                     \
        (request)->result = reallocarray((request)->old, 1, (request)->size);                      \
        break;                                                                                     \
    case REQUEST_MEMALIGN:                                                                         \
        (request)->result = memalign((request)->alignment, (request)->size);                       \
        break;                                                                                     \
    case REQUEST_POSIX_MEMALIGN:                                                                   \
        if (posix_memalign(&(request)->result, (request)->alignment, (request)->size))             \
            (request)->result = NULL;                                                              \
        break;                                                                                     \
    default: (request)->result = aligned_alloc((request)->alignment, (request)->size); break;      \
    }

#define EACH_LEAF(M) HUNDRED(M, 1) TEN(M, 20) TEN(M, 21) TEN(M, 22) TEN(M, 23) TEN(M, 24) TEN(M, 25)
#define EACH_MID(M) TEN(M, 1) TEN(M, 2) TEN(M, 3)
#define EACH_TOP(M) TEN(M, 1)

enum { LEAVES = 160, MIDS = 30, TOPS = 10, LEAVES_PER_MID = 8, SIG_LEAVES = 4 };
enum { NORMAL_PATHS = TOPS * MIDS * LEAVES_PER_MID, PATHS = NORMAL_PATHS + SIG_LEAVES };

typedef void path_function(struct request *request);

#define DEFINE_LEAF(n)                                                                             \
    PATH_FUNCTION void leaf_##n(struct request *request);                                          \
    PATH_FUNCTION void leaf_##n(struct request *request) {                                         \
        PERFORM(request);                                                                          \
        PATH_BARRIER(leaf n);                                                                      \
    }
#define LEAF_ENTRY(n) leaf_##n,
EACH_LEAF(DEFINE_LEAF)
static path_function *const leaves[] = {EACH_LEAF(LEAF_ENTRY)};

#define DEFINE_MID(n)                                                                              \
    PATH_FUNCTION void mid_##n(struct request *request);                                           \
    PATH_FUNCTION void mid_##n(struct request *request) {                                          \
        leaves[request->leaf](request);                                                            \
        PATH_BARRIER(mid n);                                                                       \
    }
#define MID_ENTRY(n) mid_##n,
EACH_MID(DEFINE_MID)
static path_function *const mids[] = {EACH_MID(MID_ENTRY)};

#define DEFINE_TOP(n)                                                                              \
    PATH_FUNCTION void top_##n(struct request *request);                                           \
    PATH_FUNCTION void top_##n(struct request *request) {                                          \
        mids[request->mid](request);                                                               \
        PATH_BARRIER(top n);                                                                       \
    }
#define TOP_ENTRY(n) top_##n,
EACH_TOP(DEFINE_TOP)
static path_function *const tops[] = {EACH_TOP(TOP_ENTRY)};

#define DEFINE_SIG_LEAF(n)                                                                         \
    PATH_FUNCTION void sig_leaf_##n(struct request *request);                                      \
    PATH_FUNCTION void sig_leaf_##n(struct request *request) {                                     \
        request->result = malloc(request->size);                                                   \
        PATH_BARRIER(sig leaf n);                                                                  \
    }
DEFINE_SIG_LEAF(0)
DEFINE_SIG_LEAF(1)
DEFINE_SIG_LEAF(2)
DEFINE_SIG_LEAF(3)
static path_function *const sig_leaves[] = {sig_leaf_0, sig_leaf_1, sig_leaf_2, sig_leaf_3};

PATH_FUNCTION void sig_mid(struct request *request);
PATH_FUNCTION void sig_mid(struct request *request) {
    sig_leaves[request->leaf](request);
    PATH_BARRIER(sig mid);
}

PATH_FUNCTION void sig_top(struct request *request);
PATH_FUNCTION void sig_top(struct request *request) {
    sig_mid(request);
    PATH_BARRIER(sig top);
}

/* Performs the request on call path `path`; the block is in request->result. */
static inline void path_perform(unsigned path, struct request *request) {
    if (path >= NORMAL_PATHS) {
        request->leaf = path - NORMAL_PATHS;
        sig_top(request);
        return;
    }
    request->mid = path / LEAVES_PER_MID % MIDS;
    request->leaf = (request->mid * LEAVES_PER_MID + path % LEAVES_PER_MID) % LEAVES;
    tops[path / LEAVES_PER_MID / MIDS](request);
}

static inline int path_print(unsigned path, char *out, size_t out_bytes) {
    if (path >= NORMAL_PATHS)
        return snprintf(out, out_bytes, "sig_leaf_%u sig_mid sig_top", path - NORMAL_PATHS);
    unsigned mid = path / LEAVES_PER_MID % MIDS;
    return snprintf(out, out_bytes, "leaf_%u mid_%u top_%u",
                    100 + (mid * LEAVES_PER_MID + path % LEAVES_PER_MID) % LEAVES, 10 + mid,
                    10 + path / LEAVES_PER_MID / MIDS);
}

#endif
