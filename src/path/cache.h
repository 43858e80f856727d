/* SPDX-License-Identifier: MIT */
/*
 * cache.h - call paths at allocation speed: traces of one thread, verified at every use.
 *
 * A *trace* is what a walk read: words of the stack at fixed offsets from the stack pointer, and the
 * view that pays for the path. A table guesses the trace; it is used only when every word is on the
 * stack again, compared innermost first, which is the order in which a walk would read them: each
 * read is as safe as the walk's. The first guess is by the stack pointer and the innermost three
 * return addresses; where the outer two stand is remembered for each inner one (frames mostly have
 * one size at one call), and read only within the known part of the stack. Where the guessed trace
 * is wrong at word k, the next guess is by (slot, k, the word that is there), and so on: paths that
 * begin alike are told apart by the words in which they differ. When the guesses end the stack is walked (stack.h), which costs only the frames that
 * changed since the last walk.
 *
 * A slot's trace gives way to another path only when that one was missed there twice in a row, so
 * that a program with ever new paths does not spend its time on making traces.
 *
 * Owned by one heap's thread; its memory is bounded by CACHE_SLOTS traces.
 */
#ifndef MEMCTX_CACHE_H
#define MEMCTX_CACHE_H

#include "path/stack.h"

#define CACHE_SLOT_BITS 12U
#define CACHE_SLOTS (1U << CACHE_SLOT_BITS)
#define CACHE_GUESSES_MAX 6
#define FRAME_SIZES 1024U

struct view;

struct trace {
    struct view *view;
    uintptr_t address, sp;
    uint32_t count, bytes; /* checks, a multiple of 4; memory of the trace */
    /* count values, then count offsets from sp */
    uint64_t values[];
};

struct paths {
    uint32_t fast_generation; /* generation, or 0 to send every look-up to the slow path */
    uint32_t generation;      /* of the rules that all this was made with */
    uint32_t verify_left;     /* cached paths until the next comparison with libunwind */
    struct view *fixed;       /* MEMCTX_DEPTH=0: everything is charged here */
    struct trace *slots[CACHE_SLOTS];
    uint16_t missed_views[CACHE_SLOTS]; /* what the last miss at a slot found (index, cut off) */
    int32_t credit; /* what further guesses have earned; below 0 most look-ups do without them */
    uint64_t guessed, missed, flushed; /* statistics: found, but not at first; walked; emptied */
    uint64_t trace_count, trace_bytes;
    uint16_t frame_words[FRAME_SIZES]; /* by return address: words up to the next one; 0: unknown */
    uint32_t nodes_valid; /* frames of the stack, from the outermost, whose node is right */
    struct stack stack;
};

INLINE unsigned frame_size_slot(uintptr_t address) {
    return (unsigned)((address ^ address >> 10) % FRAME_SIZES);
}

/* Mixes in the return address that probably is the next one out. Moves *sp to its frame. */
INLINE uint64_t hash_next_frame(const struct paths *paths, uint64_t hash, uintptr_t *address,
                                uintptr_t *sp) {
    uintptr_t at = *sp + paths->frame_words[frame_size_slot(*address)] * 8UL;
    if (UNLIKELY(at == *sp) || UNLIKELY(at + 8 > paths->stack.high))
        return hash;
    *address = *(const volatile uint64_t *)at;
    *sp = at + 8;
    return (hash ^ *address) * 0xd6e8feb86659fd93ULL;
}

INLINE uint64_t cache_hash(const struct paths *paths, uintptr_t address, uintptr_t sp) {
    uint64_t hash = (address ^ sp << 7) * 0x9e3779b97f4a7c15ULL;
    if (LIKELY(sp >= paths->stack.low)) {
        hash = hash_next_frame(paths, hash ^ hash >> 32, &address, &sp);
        hash = hash_next_frame(paths, hash ^ hash >> 32, &address, &sp);
    }
    return hash;
}

INLINE unsigned cache_slot_of(uint64_t hash) {
    return (unsigned)(hash >> (64 - CACHE_SLOT_BITS));
}

/* The first check that fails; trace->count: none. Checks come in fours, the last one repeated. */
INLINE uint32_t trace_compare(const struct trace *trace, uintptr_t sp) {
    uint32_t count = trace->count;
    const uint64_t *values = trace->values;
    const int32_t *offsets = (const int32_t *)(values + count);
#define DIFFERS(i)                                                                                 \
    UNLIKELY(*(const volatile uint64_t *)(sp + (uintptr_t)(intptr_t)offsets[i]) != values[i])
    for (uint32_t i = 0; i < count; i += 4, offsets += 4, values += 4) {
        if (DIFFERS(0))
            return i;
        if (DIFFERS(1))
            return i + 1;
        if (DIFFERS(2))
            return i + 2;
        if (DIFFERS(3))
            return i + 3;
    }
#undef DIFFERS
    return count;
}

/* The usual case: the first guess is right. NULL: the path must be looked up. */
INLINE struct view *cache_find(struct paths *paths, uintptr_t frame) {
    uintptr_t sp = frame + 16;
    uintptr_t address = *(const uintptr_t *)(frame + 8);
    if (UNLIKELY(paths->fast_generation != load_relaxed(&rules_generation)))
        return NULL;
    if (UNLIKELY(paths->fixed != NULL))
        return paths->fixed;
    const struct trace *trace = paths->slots[cache_slot_of(cache_hash(paths, address, sp))];
    if (UNLIKELY(!trace) || UNLIKELY(trace->sp != sp) || UNLIKELY(trace->address != address) ||
        UNLIKELY(trace_compare(trace, sp) != trace->count))
        return NULL;
    return trace->view;
}

/* All guesses. NULL: *slot is where cache_keep may put the path's trace. */
struct view *cache_search(struct paths *paths, uintptr_t frame, unsigned *slot);

/* After a miss and a walk that gave `view`: keeps the stack's innermost `depth` frames as a trace,
 * if it is worth it. `view_mark` tells views apart, mostly. */
void cache_keep(struct paths *paths, unsigned slot, struct view *view, uint16_t view_mark,
                unsigned depth);
/* After a walk: remembers the sizes of the innermost frames for the first guess. */
void cache_learn_sizes(struct paths *paths);
struct paths *cache_create(void);
/* Empties it; the memory goes back to the library's own tables. */
void cache_flush(struct paths *paths);

#endif
