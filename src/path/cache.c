/* SPDX-License-Identifier: MIT */
/* Verified traces; see cache.h. */
#include "path/cache.h"
#include "os/meta.h"
#include "region/heap.h"

#define ASTRAY_FIRST 256
#define ASTRAY_LAST (1 << 20)
#define KEEP_ANYWAY_EVERY 8

static uint32_t place_of(const struct paths *paths, uint64_t hash) {
    return (uint32_t)(hash >> paths->table_shift);
}

static size_t places(const struct paths *paths) {
    return 1UL << (64 - paths->table_shift);
}

static uint32_t guess_bits(const struct paths *paths) {
    uint32_t bits = 64 - paths->table_shift + CACHE_GUESS_BITS;
    return bits < CACHE_GUESS_BITS_MAX ? bits : CACHE_GUESS_BITS_MAX;
}

static size_t guess_bytes(const struct paths *paths) {
    return sizeof *paths->guesses << guess_bits(paths);
}

static void table_free(const struct paths *paths) {
    meta_free(paths->guesses, guess_bytes(paths));
    meta_free(paths->missed_views, places(paths) * sizeof *paths->missed_views);
    meta_free(paths->traces, places(paths) * sizeof *paths->traces);
}

static bool table_create(struct paths *paths, uint32_t shift) {
    struct paths fresh = {.table_shift = shift};
    fresh.guesses = meta_alloc(guess_bytes(&fresh));
    fresh.missed_views = meta_alloc(places(&fresh) * sizeof *fresh.missed_views);
    fresh.traces = meta_alloc(places(&fresh) * sizeof *fresh.traces);
    if (!fresh.guesses || !fresh.missed_views || !fresh.traces) {
        table_free(&fresh);
        return false;
    }
    paths->guesses = fresh.guesses;
    paths->missed_views = fresh.missed_views;
    paths->traces = fresh.traces;
    paths->table_shift = shift;
    paths->guess_shift = 64 - guess_bits(&fresh);
    paths->last = 0;
    return true;
}

struct paths *cache_create(void) {
    struct paths *paths = meta_alloc(sizeof(struct paths));
    if (!paths)
        return NULL;
    paths->worth = CACHE_WORTH_MAX;
    paths->last_mask = UINT32_MAX;
    paths->astray_max = ASTRAY_FIRST;
    if (table_create(paths, 64 - CACHE_BITS_FIRST)) {
        if (stack_make_room(&paths->stack, STACK_FRAMES_FIRST))
            return paths;
        table_free(paths);
    }
    meta_free(paths, sizeof *paths);
    return NULL;
}

static size_t more_bytes(const struct trace *trace) {
    return trace->more_room * sizeof *trace->more;
}

static void trace_free(struct paths *paths, struct trace *trace) {
    if (!trace->sp)
        return;
    paths->trace_count--;
    paths->trace_bytes -= sizeof *trace + more_bytes(trace);
    meta_free(trace->more, more_bytes(trace));
    *trace = (struct trace){0};
}

/* Makes room for so many groups of checks; what was there is gone. */
static bool trace_make_room(struct paths *paths, struct trace *trace, uint32_t count) {
    uint32_t more = count > TRACE_INLINE_GROUPS ? count - TRACE_INLINE_GROUPS : 0;
    if (more > trace->more_room || (!more && trace->more)) {
        trace_free(paths, trace);
        trace->more = more ? meta_alloc(more * sizeof *trace->more) : NULL;
        if (more && !trace->more)
            return false;
        trace->more_room = (uint16_t)more;
    }
    if (!trace->sp) {
        paths->trace_count++;
        paths->trace_bytes += sizeof *trace + more_bytes(trace);
    }
    return true;
}

/* Traces go where their hash leads in the larger table; of two in one place one is dropped. */
static void table_grow(struct paths *paths) {
    struct paths old = {.guesses = paths->guesses,
                        .missed_views = paths->missed_views,
                        .traces = paths->traces,
                        .table_shift = paths->table_shift};
    if (!table_create(paths, old.table_shift - 1))
        return;
    for (size_t i = 0; i < places(&old); i++) {
        struct trace *trace = &old.traces[i];
        if (!trace->sp)
            continue;
        struct trace *place = &paths->traces[place_of(paths, (uint64_t)trace->hash << 32)];
        if (place->sp)
            trace_free(paths, trace);
        else
            *place = *trace;
    }
    table_free(&old);
}

bool cache_pass_over(struct paths *paths) {
    if (LIKELY(!paths->probe_left))
        return false;
    if (--paths->probe_left)
        return true;
    paths->probe_left = CACHE_PROBE_EVERY;
    return false;
}

void cache_judge(struct paths *paths, bool hit) {
    if (!paths->probe_left) {
        paths->worth += hit || paths->guess_right ? 2 : -3;
        if (paths->worth > CACHE_WORTH_MAX)
            paths->worth = CACHE_WORTH_MAX;
        if (paths->worth > 0)
            return;
        paths->probe_left = CACHE_PROBE_EVERY;
        paths->probes_won = 0;
        return;
    }
    if (hit || paths->probes_won > -CACHE_PROBES_TO_WIN)
        paths->probes_won += hit ? 1 : -1;
    if (paths->probes_won >= CACHE_PROBES_TO_WIN) {
        paths->probe_left = 0;
        paths->worth = CACHE_WORTH_MAX;
    }
}

static unsigned hint_slot(uintptr_t address) {
    return (unsigned)((address ^ address >> 10) % CACHE_HINTS);
}

static uint64_t rotate(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

/* By the stack pointer and what probably are the innermost return addresses: mapped, but perhaps
 * words that mean something else, which AddressSanitizer would take amiss. */
static __attribute__((no_sanitize("address"))) uint64_t stack_hash(const struct paths *paths,
                                                                   uintptr_t frame) {
    const volatile uint64_t *at = (const uint64_t *)(frame + 8);
    uint64_t hash = *at ^ frame << 7;
    const volatile uint64_t *next = at + paths->hints[hint_slot(*at)].first;
    if (LIKELY(frame >= paths->stack.low) && LIKELY((uintptr_t)(next + 1) <= paths->stack.high)) {
        struct hint hint = paths->hints[hint_slot(*next)];
        const volatile uint64_t *outer = next + hint.second;
        hash ^= rotate(*next, 21);
        if (LIKELY((uintptr_t)(outer + 1) <= paths->stack.high))
            hash ^= rotate(next[hint.first], 42) ^ rotate(*outer, 13);
    }
    hash *= 0x9e3779b97f4a7c15ULL;
    return hash;
}

static const struct trace_checks *trace_group(const struct trace *trace, uint32_t i) {
    return i < TRACE_INLINE_GROUPS ? &trace->checks[i] : &trace->more[i - TRACE_INLINE_GROUPS];
}

/* The first check that fails; four times trace->count: none. */
static uint32_t trace_compare(const struct trace *trace, const stack_word *words) {
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct trace_checks *checks = trace_group(trace, i);
        for (uint32_t k = 0; k < 4; k++)
            if (UNLIKELY(words[checks->word[k]] != checks->value[k]))
                return i * 4 + k;
    }
    return trace->count * 4U;
}

/* A search found a trace, so the first guess was wrong. When it was wrong four times of five, the next
 * ones are made without the last trace; and with it again when they are wrong once in nine. Longer each
 * time, because there are programs where neither is right. */
static void judge_first_guess(struct paths *paths) {
    const struct view *view = paths->traces[paths->last].view;
    paths->guess_right =
        paths->last != paths->searched || (view && view->allocs != paths->searched_allocs);
    int32_t wrong = paths->last_mask ? 1 : 8, right = paths->last_mask ? 4 : 1;
    paths->astray += paths->guess_right ? -right : wrong;
    if (paths->astray < 0)
        paths->astray = 0;
    if (paths->astray >= paths->astray_max) {
        paths->astray = 0;
        paths->last_mask = ~paths->last_mask;
        if (paths->astray_max < ASTRAY_LAST)
            paths->astray_max *= 4;
    }
}

static struct view *searched(struct paths *paths, struct view *view) {
    const struct view *last = view ? view : paths->traces[paths->last].view;
    paths->searched = paths->last;
    paths->searched_allocs = last ? last->allocs + (view != NULL) : 0;
    return view;
}

struct view *cache_search(struct paths *paths, uintptr_t frame, uint64_t *hash) {
    const stack_word *words = (const stack_word *)frame;
    uintptr_t sp = frame + 16;
    judge_first_guess(paths);
    *hash = stack_hash(paths, frame);
    for (int guess = 0;;) {
        uint32_t place = place_of(paths, *hash);
        const struct trace *trace = &paths->traces[place];
        if (!trace->sp)
            return searched(paths, NULL);
        uint32_t k = trace->sp == sp ? trace_compare(trace, words) : 0;
        if (k == trace->count * 4U) {
            store_owner(&paths->guessed, paths->guessed + 1);
            *first_guess(paths, frame) = (uint16_t)place;
            paths->last = place;
            return searched(paths, trace->view);
        }
        if (++guess == CACHE_GUESSES_MAX)
            return searched(paths, NULL); /* *hash stays where the path may be kept */
        if (trace->sp == sp) {
            *hash = (*hash ^ words[trace_group(trace, k / 4)->word[k % 4]] ^ (uint64_t)k << 56) *
                    0xd6e8feb86659fd93ULL;
            *hash ^= *hash >> 29;
        } /* else an unrelated path hashes here too */
        *hash *= 0x9e3779b97f4a7c15ULL;
    }
}

void cache_learn_hints(struct paths *paths) {
    const struct stack *stack = &paths->stack;
    for (unsigned i = 1; i <= 2 && i + 1 < stack->count; i++) {
        const struct stack_frame *frame = &stack->frames[stack->count - i];
        uint64_t first = (frame[-1].sp - frame->sp) / 8, second = (frame[-2].sp - frame->sp) / 8;
        struct hint *known = &paths->hints[hint_slot(frame->address)];
        if (second > CACHE_HINT_MAX || first > second)
            continue;
        if (known->first != first || known->second != second)
            *known = (struct hint){(uint16_t)first, (uint16_t)second};
    }
}

void cache_keep(struct paths *paths, uint64_t hash, struct view *view, unsigned depth) {
    const struct stack *stack = &paths->stack;
    const struct stack_frame *leaf = &stack->frames[stack->count - 1];
    struct trace *trace = &paths->traces[place_of(paths, hash)];
    /* Earlier where traces are in each other's way. */
    if (paths->trace_count * (trace->sp ? 8 : 2) > places(paths) &&
        paths->table_shift > 64 - CACHE_BITS_MAX) {
        table_grow(paths);
        trace = &paths->traces[place_of(paths, hash)];
    }
    uint32_t place = place_of(paths, hash);
    /* Two paths may miss here in turns. */
    if (paths->missed_views[place] != view->index && paths->missed % KEEP_ANYWAY_EVERY) {
        paths->missed_views[place] = view->index;
        return;
    }
    unsigned first = stack->count > depth ? stack->frames[stack->count - depth].checks : 0;
    unsigned checks = leaf->checks - first;
    uintptr_t at = leaf->sp - 16; /* of the saved rbp; the innermost return address is next to it */
    for (unsigned i = 0; i < checks; i++) {
        uintptr_t distance = stack->checks[first + i].at - at;
        if (distance % 8 || distance / 8 > UINT32_MAX)
            return; /* a handler's stack below the one that it interrupted, say */
    }
    unsigned count = checks / 4 + 1; /* the first one is the innermost return address */
    if (!trace_make_room(paths, trace, count))
        return;
    for (unsigned i = 0; i < count * 4; i++) {
        const struct stack_check *check = &stack->checks[leaf->checks - (i <= checks ? i : checks)];
        struct trace_checks *group = i / 4 < TRACE_INLINE_GROUPS
                                         ? &trace->checks[i / 4]
                                         : &trace->more[i / 4 - TRACE_INLINE_GROUPS];
        bool innermost = !i || !checks;
        group->value[i % 4] = innermost ? leaf->address : check->value;
        group->word[i % 4] = innermost ? 1 : (uint32_t)((check->at - at) / 8);
    }
    trace->view = view;
    trace->hash = (uint32_t)(hash >> 32);
    trace->sp = leaf->sp;
    trace->count = (uint16_t)count;
    paths->missed_views[place] = 0;
    *first_guess(paths, at) = (uint16_t)place;
    paths->last = place;
}

void cache_flush(struct paths *paths) {
    for (struct trace *trace = paths->traces; paths->trace_count; trace++)
        trace_free(paths, trace);
    paths->last = 0;
    paths->stack.count = paths->nodes_valid = paths->walked_view = 0;
    paths->stack.low = paths->stack.high = 0;
    paths->fixed_generation = 0;
    paths->flushed++;
}
