/* SPDX-License-Identifier: MIT */
/* The tree of verified traces; see cache.h. */
#include "path/cache.h"
#include "os/meta.h"

#define FIRST_BRANCHES 256U
#define ARENA_FIRST_BYTES (8UL << 10)
#define ARENA_BYTES (64UL << 10)

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes;
};

struct paths *cache_create(void) {
    return meta_alloc(sizeof(struct paths));
}

/* The trace that first had the words before k: what names the tree's node there. */
static const struct trace *node_of(const struct trace *trace, uint32_t k) {
    while (trace && k <= trace->fork_at)
        trace = trace->parent;
    return trace;
}

static uint64_t branch_hash(const struct trace *node, uint32_t k, uint64_t word) {
    return hash_mix(hash_mix((uintptr_t)node, k), word);
}

static struct trace **branch_slot(struct paths *paths, const struct trace *node, uint32_t k,
                                  uint64_t word) {
    for (uint64_t at = branch_hash(node, k, word);; at++) {
        struct trace **slot = &paths->branches[at & paths->branch_mask];
        const struct trace *trace = *slot;
        /* Entries of one trace at several nodes are told apart by node and word. */
        if (!trace || (k < trace->count && trace->values[k] == word && node_of(trace, k) == node))
            return slot;
    }
}

struct trace *cache_search(struct paths *paths, uintptr_t address, uintptr_t sp,
                           struct trace **near, uint32_t *at) {
    struct trace **front = &paths->front[cache_front_slot(address, sp)];
    struct trace *trace = *front;
    uint32_t k = trace ? trace_compare(trace, sp, 0) : 0;
    uint64_t word = address;
    while (paths->branches && !(trace && k == trace->count)) {
        if (trace && k)
            word = trace_word(trace_offsets(trace)[k], sp);
        struct trace *next = *branch_slot(paths, k ? node_of(trace, k) : NULL, k, word);
        if (!next)
            break;
        trace = next;
        k = trace_compare(trace, sp, k + 1);
    }
    if (trace && k == trace->count) {
        *front = trace;
        return trace;
    }
    *near = trace;
    *at = k;
    return NULL;
}

static void *arena_take(struct paths *paths, size_t bytes) {
    if ((size_t)(paths->arena_end - paths->arena_next) < bytes) {
        size_t chunk_bytes = paths->arena_chunks ? ARENA_BYTES : ARENA_FIRST_BYTES;
        if (paths->arena_bytes + chunk_bytes > CACHE_BYTES_MAX) {
            cache_flush(paths);
            chunk_bytes = ARENA_FIRST_BYTES;
        }
        struct arena_chunk *chunk = meta_alloc(chunk_bytes);
        if (!chunk)
            return NULL;
        chunk->next = paths->arena_chunks;
        chunk->bytes = chunk_bytes;
        paths->arena_chunks = chunk;
        paths->arena_bytes += chunk_bytes;
        paths->arena_next = (char *)(chunk + 1);
        paths->arena_end = (char *)chunk + chunk_bytes;
    }
    void *block = paths->arena_next;
    paths->arena_next += bytes;
    return block;
}

static bool branches_grow(struct paths *paths) {
    uint32_t old_count = paths->branches ? paths->branch_mask + 1 : 0;
    uint32_t count = old_count ? old_count * 2 : FIRST_BRANCHES;
    struct trace **old = paths->branches;
    struct trace **branches = meta_alloc(count * sizeof(struct trace *));
    if (!branches)
        return false;
    paths->branches = branches;
    paths->branch_mask = count - 1;
    /* An entry does not say at which node it stands, so the tree is rebuilt from its traces:
     * each stands at the node where it forks, and first-borns where somebody forked from them. */
    for (uint32_t i = 0; i < old_count; i++) {
        struct trace *trace = old[i];
        if (!trace)
            continue;
        *branch_slot(paths, node_of(trace, trace->fork_at), trace->fork_at,
                     trace->values[trace->fork_at]) = trace;
        if (trace->parent) {
            const struct trace *node = node_of(trace, trace->fork_at);
            if (node)
                *branch_slot(paths, node, trace->fork_at, node->values[trace->fork_at]) =
                    (struct trace *)node;
        }
    }
    paths->branch_count = 0;
    for (uint32_t i = 0; i < count; i++)
        paths->branch_count += branches[i] != NULL;
    meta_free(old, old_count * sizeof(struct trace *));
    return true;
}

static void branch_add(struct paths *paths, const struct trace *node, uint32_t k,
                       struct trace *trace) {
    struct trace **slot = branch_slot(paths, node, k, trace->values[k]);
    if (*slot)
        return;
    *slot = trace;
    paths->branch_count++;
}

void cache_insert(struct paths *paths, const struct walk *walk, struct view *view, uintptr_t sp,
                  struct trace *near, uint32_t at) {
    if (!walk->cacheable)
        return;
    uint32_t count = walk->check_count;
    size_t bytes = align_up(sizeof(struct trace) + count * 12UL, 8);
    uint64_t flushes = paths->flushed;
    if (paths->branch_count * 2 + 4 > (paths->branches ? paths->branch_mask : 0) &&
        !branches_grow(paths))
        return;
    struct trace *trace = arena_take(paths, bytes);
    if (!trace)
        return;
    if (paths->flushed != flushes) {
        near = NULL;
        at = 0;
        if (!branches_grow(paths))
            return;
    }
    trace->view = view;
    trace->parent = at ? near : NULL;
    trace->fork_at = at;
    trace->count = count;
    __builtin_memcpy(trace->values, walk->values, count * sizeof(uint64_t));
    __builtin_memcpy(trace->values + count, walk->offsets, count * sizeof(int32_t));
    /* The walk must have read the same words as the traces it forks from; a rule that was learnt
     * anew in between (a library closed) would break the tree, so it is looked at. */
    if (at >= count || (at && __builtin_memcmp(near->values, trace->values, at * sizeof(uint64_t))))
        return;
    const struct trace *node = at ? node_of(near, at) : NULL;
    branch_add(paths, node, at, trace);
    if (node)
        branch_add(paths, node, at, (struct trace *)node);
    paths->front[cache_front_slot(trace->values[0], sp)] = trace;
    paths->trace_count++;
}

void cache_flush(struct paths *paths) {
    struct arena_chunk *chunk = paths->arena_chunks;
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        meta_free(chunk, chunk->bytes);
        chunk = next;
    }
    meta_free(paths->branches, (paths->branch_mask + 1UL) * sizeof(struct trace *));
    __builtin_memset(paths->front, 0, sizeof paths->front);
    paths->branches = NULL;
    paths->branch_mask = paths->branch_count = 0;
    paths->arena_chunks = paths->arena_next = paths->arena_end = NULL;
    paths->arena_bytes = paths->trace_count = 0;
    paths->fixed = NULL;
    paths->flushed++;
}
