/* SPDX-License-Identifier: MIT */
/* Verified traces; see cache.h. */
#include "path/cache.h"
#include "os/meta.h"
#include "region/heap.h"

static struct slot *slot_of(struct paths *paths, uint64_t hash) {
    return &paths->slots[hash >> paths->slot_shift];
}

static size_t table_bytes(const struct paths *paths) {
    return sizeof(struct slot) << (64 - paths->slot_shift);
}

struct paths *cache_create(void) {
    struct paths *paths = meta_alloc(sizeof(struct paths));
    if (!paths)
        return NULL;
    paths->slot_shift = 64 - CACHE_BITS_FIRST;
    paths->worth = CACHE_WORTH_MAX;
    paths->slots = meta_alloc(table_bytes(paths));
    if (paths->slots && stack_make_room(&paths->stack, STACK_FRAMES_FIRST))
        return paths;
    meta_free(paths->slots, table_bytes(paths));
    meta_free(paths, sizeof *paths);
    return NULL;
}

static void trace_free(struct paths *paths, struct slot *slot) {
    struct trace *trace = slot->trace;
    if (!trace)
        return;
    slot->trace = NULL;
    paths->trace_count--;
    paths->trace_bytes -= trace->bytes;
    meta_free(trace, trace->bytes);
}

static struct trace *trace_room(struct paths *paths, struct slot *slot, uint32_t count) {
    size_t bytes = sizeof(struct trace) + count * sizeof(struct trace_checks);
    if (slot->trace && slot->trace->bytes >= bytes)
        return slot->trace;
    trace_free(paths, slot);
    bytes = align_up(bytes, 64);
    struct trace *trace = meta_alloc(bytes);
    if (!trace)
        return NULL;
    trace->bytes = (uint32_t)bytes;
    paths->trace_count++;
    paths->trace_bytes += bytes;
    slot->trace = trace;
    return trace;
}

/* Traces go where their hash leads in the larger table; of two in one place one is dropped. */
static void table_grow(struct paths *paths) {
    struct paths old = {.slots = paths->slots, .slot_shift = paths->slot_shift};
    struct slot *slots = meta_alloc(table_bytes(&old) * 2);
    if (!slots)
        return;
    paths->slots = slots;
    paths->slot_shift--;
    paths->last = 0;
    for (size_t i = 0; i < table_bytes(&old) / sizeof *slots; i++) {
        struct trace *trace = old.slots[i].trace;
        if (!trace)
            continue;
        struct slot *slot = slot_of(paths, trace->hash);
        if (slot->trace)
            trace_free(paths, &old.slots[i]);
        else
            slot->trace = trace;
    }
    meta_free(old.slots, table_bytes(&old));
}

/* Further guesses cost a compare each. Where paths are ever new they are wrong, and are then
 * tried only now and then, to see whether that has changed. */
#define CREDIT_MAX 256
#define CREDIT_HIT 4
#define PROBE_EVERY 32

static int guesses_allowed(struct paths *paths) {
    return paths->credit >= 0 || paths->missed % PROBE_EVERY == 0 ? CACHE_GUESSES_MAX : 1;
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
        paths->worth += hit ? 2 : -1;
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

/* The first check that fails; four times trace->count: none. */
static uint32_t trace_compare(const struct trace *trace, const volatile uint64_t *words) {
    const struct trace_checks *checks = trace->checks;
    for (uint32_t i = 0; i < trace->count; i++, checks++)
        for (uint32_t k = 0; k < 4; k++)
            if (TRACE_DIFFERS(k))
                return i * 4 + k;
    return trace->count * 4;
}

struct view *cache_search(struct paths *paths, uintptr_t frame, uint64_t *hash) {
    const volatile uint64_t *words = (const uint64_t *)frame;
    uintptr_t sp = frame + 16;
    int guesses = guesses_allowed(paths);
    *hash = stack_hash(paths, frame);
    for (int guess = 0;;) {
        struct slot *slot = slot_of(paths, *hash);
        const struct trace *trace = slot->trace;
        if (!trace)
            return NULL;
        uint32_t k = trace->sp == sp ? trace_compare(trace, words) : 0;
        if (k == trace->count * 4) {
            store_owner(&paths->guessed, paths->guessed + 1);
            if (guess && paths->credit < CREDIT_MAX)
                paths->credit += CREDIT_HIT;
            uint32_t index = (uint32_t)(slot - paths->slots);
            paths->slots[paths->last].next = index;
            paths->last = index;
            return trace->view;
        }
        if (++guess == guesses)
            break; /* *hash stays where the path may be kept */
        if (trace->sp == sp) {
            *hash = (*hash ^ words[trace->checks[k / 4].word[k % 4]] ^ (uint64_t)k << 56) *
                    0xd6e8feb86659fd93ULL;
            *hash ^= *hash >> 29;
        } /* else an unrelated path hashes here too */
        *hash *= 0x9e3779b97f4a7c15ULL;
    }
    if (paths->credit > -CREDIT_MAX)
        paths->credit--;
    return NULL;
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
    if (paths->trace_count * 2 > 1UL << (64 - paths->slot_shift) &&
        paths->slot_shift > 64 - CACHE_BITS_MAX)
        table_grow(paths);
    struct slot *slot = slot_of(paths, hash);
    if (slot->missed_view != view->index) {
        slot->missed_view = view->index;
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
    struct trace *trace = trace_room(paths, slot, count);
    if (!trace)
        return;
    for (unsigned i = 0; i < count * 4; i++) {
        const struct stack_check *check = &stack->checks[leaf->checks - (i <= checks ? i : checks)];
        struct trace_checks *group = &trace->checks[i / 4];
        bool innermost = !i || !checks;
        group->value[i % 4] = innermost ? leaf->address : check->value;
        group->word[i % 4] = innermost ? 1 : (uint32_t)((check->at - at) / 8);
    }
    trace->view = view;
    trace->hash = hash;
    trace->sp = leaf->sp;
    trace->count = count;
    slot->missed_view = 0;
    uint32_t index = (uint32_t)(slot - paths->slots);
    paths->slots[paths->last].next = index;
    paths->last = index;
}

void cache_flush(struct paths *paths) {
    for (unsigned i = 0; i < table_bytes(paths) / sizeof *paths->slots; i++)
        trace_free(paths, &paths->slots[i]);
    paths->last = 0;
    paths->stack.count = paths->nodes_valid = paths->walked_view = 0;
    paths->stack.low = paths->stack.high = 0;
    paths->fixed = NULL;
    paths->flushed++;
}
