/* SPDX-License-Identifier: MIT */
/* Verified traces; see cache.h. */
#include "path/cache.h"
#include "os/meta.h"

struct paths *cache_create(void) {
    return meta_alloc(sizeof(struct paths));
}

static void trace_free(struct paths *paths, unsigned slot) {
    struct trace *trace = paths->slots[slot];
    if (!trace)
        return;
    paths->trace_count--;
    paths->trace_bytes -= trace->bytes;
    meta_free(trace, trace->bytes);
    paths->slots[slot] = NULL;
}

static struct trace *trace_room(struct paths *paths, unsigned slot, uint32_t count) {
    size_t bytes = sizeof(struct trace) + count * (sizeof(uint64_t) + sizeof(int32_t));
    if (paths->slots[slot] && paths->slots[slot]->bytes >= bytes)
        return paths->slots[slot];
    trace_free(paths, slot);
    bytes = align_up(bytes, 64);
    struct trace *trace = meta_alloc(bytes);
    if (!trace)
        return NULL;
    trace->bytes = (uint32_t)bytes;
    paths->trace_count++;
    paths->trace_bytes += bytes;
    paths->slots[slot] = trace;
    return trace;
}

/* Further guesses cost a compare each. Where paths are ever new they are wrong, and are then
 * tried only now and then, to see whether that has changed. */
#define CREDIT_MAX 256
#define CREDIT_HIT 4
#define PROBE_EVERY 32

static int guesses_allowed(struct paths *paths) {
    return paths->credit >= 0 || paths->missed % PROBE_EVERY == 0 ? CACHE_GUESSES_MAX : 1;
}

struct view *cache_search(struct paths *paths, uintptr_t frame, unsigned *slot) {
    uintptr_t sp = frame + 16;
    uintptr_t address = *(const uintptr_t *)(frame + 8);
    uint64_t hash = cache_hash(paths, address, sp);
    int guesses = guesses_allowed(paths);
    for (int guess = 0; guess < guesses; guess++) {
        *slot = cache_slot_of(hash);
        const struct trace *trace = paths->slots[*slot];
        if (!trace)
            return NULL;
        if (trace->sp != sp || trace->address != address) { /* an unrelated path hashes here too */
            hash *= 0x9e3779b97f4a7c15ULL;
            continue;
        }
        uint32_t k = trace_compare(trace, sp);
        if (k == trace->count) {
            store_owner(&paths->guessed, paths->guessed + 1);
            if (guess && paths->credit < CREDIT_MAX)
                paths->credit += CREDIT_HIT;
            return trace->view;
        }
        const int32_t *offsets = (const int32_t *)(trace->values + trace->count);
        uint64_t word = *(const volatile uint64_t *)(sp + (uintptr_t)(intptr_t)offsets[k]);
        hash = (hash ^ word ^ (uint64_t)k << 56) * 0xd6e8feb86659fd93ULL;
        hash ^= hash >> 29;
        hash *= 0x9e3779b97f4a7c15ULL;
    }
    if (paths->credit > -CREDIT_MAX)
        paths->credit--;
    return NULL;
}

void cache_learn_sizes(struct paths *paths) {
    const struct stack *stack = &paths->stack;
    for (unsigned i = 1; i <= 2 && i < stack->count; i++) {
        const struct stack_frame *frame = &stack->frames[stack->count - i];
        uint64_t words = (frame[-1].sp - 8 - frame->sp) / 8;
        uint16_t *known = &paths->frame_words[frame_size_slot(frame->address)];
        if (words <= UINT16_MAX && *known != words)
            *known = (uint16_t)words;
    }
}

void cache_keep(struct paths *paths, unsigned slot, struct view *view, uint16_t view_mark,
                unsigned depth) {
    const struct stack *stack = &paths->stack;
    const struct stack_frame *leaf = &stack->frames[stack->count - 1];
    if (paths->slots[slot] && paths->missed_views[slot] != view_mark) {
        paths->missed_views[slot] = view_mark;
        return;
    }
    unsigned first = stack->count > depth ? stack->frames[stack->count - depth].checks : 0;
    unsigned checks = leaf->checks - first;
    for (unsigned i = 0; i < checks; i++) {
        int64_t offset = (int64_t)(stack->check_at[first + i] - leaf->sp);
        if (offset > INT32_MAX || offset < INT32_MIN)
            return;
    }
    unsigned count = (unsigned)align_up(checks, 4);
    struct trace *trace = trace_room(paths, slot, count);
    if (!trace)
        return;
    int32_t *offsets = (int32_t *)(trace->values + count);
    for (unsigned i = 0; i < count; i++) {
        unsigned from = leaf->checks - 1U - (i < checks ? i : checks - 1);
        offsets[i] = (int32_t)(stack->check_at[from] - leaf->sp);
        trace->values[i] = stack->check_value[from];
    }
    trace->view = view;
    trace->address = leaf->address;
    trace->sp = leaf->sp;
    trace->count = count;
    paths->missed_views[slot] = 0;
}

void cache_flush(struct paths *paths) {
    for (unsigned i = 0; i < CACHE_SLOTS; i++) {
        trace_free(paths, i);
        paths->missed_views[i] = 0;
    }
    paths->stack.count = paths->nodes_valid = 0;
    paths->stack.low = paths->stack.high = 0;
    paths->fixed = NULL;
    paths->flushed++;
}
