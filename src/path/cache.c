/* SPDX-License-Identifier: MIT */
/* Finds, keeps and gives up traces; see cache.h. */
#include "os/meta.h"
#include "path/trace.h"
#include "region/tables.h"

#define ASTRAY_FIRST 256      /* first value of paths.astray_max */
#define ASTRAY_LAST (1 << 20) /* greatest value of paths.astray_max */
/* about one in this many wrong guesses changes a salt (learn_first_guess); a power of two */
#define SALT_EVERY 128
#define SALT_TRIES 4 /* at most this many salts are tried to find an unused entry */
/* cache_keep keeps the path of one walk in this many, even if the last walk from its place led to
 * another view */
#define KEEP_ANYWAY_EVERY 32

static struct trace_place *place_of(const struct paths *paths, uint64_t hash) {
    return &paths->places[hash >> paths->place_shift];
}

static uint16_t tag_of(uint64_t hash) {
    return (uint16_t)(hash >> 32);
}

/* Returns the number of bits that choose one of the guesses. Up to CACHE_TRACES_FIRST traces there
 * are 8 guesses for each trace, so that the guesses share an OS page with the places. For more
 * traces there are 32 for each, but at most 2^CACHE_GUESS_BITS_MAX in all. */
static uint32_t guess_bits(uint32_t room) {
    uint32_t bits = 31U - (uint32_t)__builtin_clz(room) + (room <= CACHE_TRACES_FIRST ? 3 : 5);
    return bits < CACHE_GUESS_BITS_MAX ? bits : CACHE_GUESS_BITS_MAX;
}

/* Returns the value for paths.last_mask that makes the first guess depend on the last trace. */
static uint32_t guess_mask(const struct paths *paths) {
    return (1U << (64 - paths->guess_shift)) - 1;
}

static size_t guess_bytes(uint32_t room) {
    return sizeof(uint16_t) << guess_bits(room);
}

/* Returns the number of hints: two for each trace that there is room for, at most
 * CACHE_HINTS_MAX. */
static uint32_t hint_count(uint32_t room) {
    return 2 * room < CACHE_HINTS_MAX ? 2 * room : CACHE_HINTS_MAX;
}

/* Returns the bytes of the places and of the lists of tails, which stand behind the places. */
static size_t place_bytes(uint32_t room) {
    return room * (2 * sizeof(struct trace_place) + sizeof(struct trace_tail *));
}

static size_t trace_bytes(uint32_t room) {
    return (size_t)room * sizeof(struct trace);
}

static size_t table_bytes(uint32_t room) {
    return trace_bytes(room) + place_bytes(room) + guess_bytes(room) +
           hint_count(room) * sizeof(struct hint);
}

/* Returns the bytes of the tables that are taken from the tables budget. The tables for
 * CACHE_TRACES_FURTHER traces are part of TABLES_HEAP_BYTES, so they are not taken. */
static int64_t counted_bytes(uint32_t room) {
    return room ? (int64_t)(table_bytes(room) - table_bytes(CACHE_TRACES_FURTHER)) : 0;
}

/* Takes the bytes of a thread's first tables from the budget, and returns the room of these tables.
 * The program's first thread gets more room, so that its tables do not grow in a child that is
 * forked early. */
static uint32_t first_room(void) {
    bool more = load_relaxed(&tables_heaps) <= 1 &&
                tables_take(counted_bytes(CACHE_TRACES_FIRST), TABLES_TRACE);
    return more ? CACHE_TRACES_FIRST : CACHE_TRACES_FURTHER;
}

/* Doubles the room for traces, or makes the first room. Traces keep their numbers. Two traces with
 * different places get different places again. Each hint is copied to both places where its return
 * address may be looked for now. False: out of memory, nothing changed. */
static bool table_grow(struct paths *paths) {
    uint32_t old = paths->trace_room, room = old ? old * 2 : first_room();
    int64_t more = counted_bytes(room) - counted_bytes(old);
    if (old && !tables_take(more, TABLES_TRACE))
        return false;
    uint32_t old_hints = old ? hint_count(old) : 0, hints = hint_count(room);
    struct trace *traces = meta_alloc(trace_bytes(room));
    struct trace_place *places = meta_alloc(place_bytes(room));
    bool more_guesses = !old || guess_bytes(room) > guess_bytes(old),
         more_hints = hints > old_hints;
    uint16_t *guesses = more_guesses ? meta_alloc(guess_bytes(room)) : paths->guesses;
    struct hint *hint = more_hints ? meta_alloc(hints * sizeof *hint) : paths->hints;
    if (!traces || !places || !guesses || !hint) {
        meta_free(traces, trace_bytes(room));
        meta_free(places, place_bytes(room));
        if (more_guesses)
            meta_free(guesses, guess_bytes(room));
        if (more_hints)
            meta_free(hint, hints * sizeof *hint);
        tables_add_traces(-more);
        return false;
    }
    if (paths->traces)
        __builtin_memcpy(traces, paths->traces, trace_bytes(old));
    /* the number of a place has one bit more than that of a trace: there are 2 * room places */
    uint32_t shift = (uint32_t)__builtin_clz(room) + 32;
    for (uint32_t i = 0; i < 2 * old; i++) {
        uint32_t number = paths->places[i].trace;
        if (number)
            places[(uint64_t)traces[number].hash << 32 >> shift] = paths->places[i];
    }
    for (uint32_t i = 0; i < old; i++) {
        struct trace_tail *tail = *tail_list(paths->places, old, i), *next;
        for (; tail; tail = next) {
            struct trace_tail **list = tail_list(places, room, tail->hash);
            next = tail->next;
            tail->next = *list;
            *list = tail;
        }
    }
    for (uint32_t i = 0; more_hints && old && i < hints; i++)
        hint[i] = paths->hints[i & (old_hints - 1)];
    meta_free(paths->traces, trace_bytes(old));
    meta_free(paths->places, place_bytes(old));
    if (more_guesses && old)
        meta_free(paths->guesses, guess_bytes(old));
    if (more_hints)
        meta_free(paths->hints, old_hints * sizeof *hint);
    paths->traces = traces;
    paths->places = places;
    paths->guesses = guesses;
    paths->hints = hint;
    paths->hint_mask = hints - 1;
    paths->place_shift = shift;
    paths->guess_shift = 64 - guess_bits(room);
    if (paths->last_mask)
        paths->last_mask = guess_mask(paths);
    paths->trace_room = room;
    return true;
}

bool cache_make(struct paths *paths) {
    if (!paths->stack.room && !stack_make_room(&paths->stack, STACK_FRAMES_FIRST))
        return false;
    if (!paths->patience[false]) { /* the first call for this heap */
        paths->patience[false] = CACHE_PATIENCE;
        paths->patience[true] = CACHE_PATIENCE_PAST;
    }
    paths->astray_max = ASTRAY_FIRST;
    paths->trace_next = 1;
    if (!paths->traces && !table_grow(paths))
        return false;
    paths->last_mask = guess_mask(paths);
    return true;
}

/* Goes on to the next trace, in the order of their numbers, 1 to `count` - 1: this trace is now
 * paths->oldest. Empties the place that leads to it. */
static void forget_oldest(struct paths *paths, uint32_t count) {
    paths->oldest = paths->oldest % (count - 1) + 1;
    struct trace_place *place = place_of(paths, (uint64_t)paths->traces[paths->oldest].hash << 32);
    if (place->trace == paths->oldest)
        place->trace = 0;
}

/* Returns the number of a trace that was never used, or, if there is none, of the oldest trace,
 * which is given up. */
static uint32_t trace_take(struct paths *paths) {
    if (paths->trace_next < paths->trace_room)
        return paths->trace_next++;
    forget_oldest(paths, paths->trace_room);
    return paths->oldest;
}

static struct hint *hint_of(const struct paths *paths, uintptr_t address) {
    return &paths->hints[(address ^ address >> 10) & paths->hint_mask];
}

static uint64_t rotate(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

/* Hashes the stack pointer and the words that are probably the innermost four return addresses. A
 * hint proves nothing: the word where it leads may be anything, so AddressSanitizer would report
 * the read. The hint may come from a larger stack than the present one, so no read leaves the OS
 * page of this frame. */
static __attribute__((no_sanitize("address"))) uint64_t stack_hash(const struct paths *paths,
                                                                   uintptr_t frame) {
    const volatile uint64_t *at = (const uint64_t *)(frame + 8);
    const volatile uint64_t *end = (const uint64_t *)(align_up(frame + 16, OS_PAGE_BYTES));
    uint64_t hash = *at ^ frame << 7;
    const volatile uint64_t *next = at + hint_of(paths, *at)->first;
    if (LIKELY(next < end)) {
        struct hint hint = *hint_of(paths, *next);
        const volatile uint64_t *outer = next + hint.second;
        hash ^= rotate(*next, 21);
        if (LIKELY(outer < end))
            hash ^= rotate(next[hint.first], 42) ^ rotate(*outer, 13);
    }
    hash *= 0x9e3779b97f4a7c15ULL;
    return hash;
}

/* Returns the index of the first check of the group whose word has changed; 4: all words are
 * equal. */
static uint32_t group_compare(const struct trace_checks *checks, const stack_word *words) {
    uint32_t k = 0;
    while (k < 4 && LIKELY(words[checks->word[k]] == checks->value[k]))
        k++;
    return k;
}

/* Compares all words of the trace with the stack, the innermost first. Returns the number of the
 * first word that differs, and sets *found to the word on the stack. UINT32_MAX: all words are
 * equal. */
static uint32_t trace_compare(const struct trace *trace, const stack_word *words, uint64_t *found) {
    const struct trace_checks *checks = trace->checks;
    const struct trace_tail *tail = trace->tail;
    uint32_t left = trace->groups, passed = 0;
    for (;; checks++, left--, passed += 4) {
        if (!left) {
            if (!tail)
                return UINT32_MAX;
            words = (const stack_word *)tail->base;
            checks = tail->checks;
            left = TRACE_GROUPS;
            tail = tail->outer;
        }
        uint32_t k = group_compare(checks, words);
        if (k < 4) {
            *found = words[checks->word[k]];
            return passed + k;
        }
    }
}

/* Like trace_compare, for a folded trace. */
static uint32_t folded_compare(const struct trace *trace, const stack_word *words,
                               uint64_t *found) {
    const struct trace_range *range = trace->ranges;
    const struct trace_tail *tail = trace->tail;
    uint32_t left = trace->groups, passed = 0;
    for (;;) {
        for (; left; range++, left--, passed++)
            if (!range_holds(range, words)) {
                *found = words[range->word];
                return passed;
            }
        if (!tail)
            return UINT32_MAX;
        words = (const stack_word *)tail->base;
        range = tail->ranges;
        left = TRACE_RANGES;
        tail = tail->outer;
    }
}

/* Called when the first guess was wrong. There are two ways to make the first guess: with the last
 * trace, or without it. A wrong guess counts against the present way if the guess before was wrong,
 * too, and for the present way otherwise. If more than four of five wrong guesses count against the
 * way with the last trace, the next guesses are made without it. If more than one of nine counts
 * against the way without it, the last trace is used again. Each change takes longer than the one
 * before, because in some programs neither way is right. */
static void judge_first_guess(struct paths *paths) {
    int32_t wrong = paths->last_mask ? 1 : 8, right = paths->last_mask ? 4 : 1;
    paths->astray += paths->found ? -right : wrong;
    if (paths->astray < 0)
        paths->astray = 0;
    if (paths->astray >= paths->astray_max) {
        paths->astray = 0;
        paths->last_mask = paths->last_mask ? 0 : guess_mask(paths);
        if (paths->astray_max < ASTRAY_LAST)
            paths->astray_max *= 4;
    }
}

/* Called when the first guess was wrong: writes the right trace, `number`, into the entry of the
 * guess. Two last traces may lead to the same entry. If the thread uses these two in turn, each
 * overwrites the entry of the other, and every guess is wrong. So about one in SALT_EVERY wrong
 * guesses, chosen at random, gives the last trace another salt, which leads to another entry. */
static void learn_first_guess(struct paths *paths, uintptr_t frame, uint16_t number) {
    uint16_t *guess = first_guess(paths, frame);
    uint64_t random = paths->guessed * 0x9e3779b97f4a7c15ULL;
    bool change = *guess && paths->last_mask && !(random >> 32 & (SALT_EVERY - 1));
    for (int i = 0; change && *guess && i < SALT_TRIES; i++) {
        last_trace(paths)->salt = (uint16_t)(random >> 12 * i);
        guess = first_guess(paths, frame);
    }
    *guess = number;
}

struct view *cache_search(struct paths *paths, uintptr_t frame, uint64_t *hash) {
    const stack_word *words = (const stack_word *)frame;
    uintptr_t sp = frame + 16;
    judge_first_guess(paths);
    *hash = stack_hash(paths, frame);
    for (int guess = 0;;) {
        const struct trace_place *place = place_of(paths, *hash);
        uint16_t number = place->trace;
        struct trace *trace = &paths->traces[number];
        if (!number)
            return NULL;
        bool folded = trace->sp & TRACE_FOLDED_BIT;
        bool related = place->tag == tag_of(*hash) && trace->sp - folded == sp;
        uint64_t found = 0;
        uint32_t k = !related ? 0
                     : folded ? folded_compare(trace, words, &found)
                              : trace_compare(trace, words, &found);
        if (k == UINT32_MAX) {
            store_owner(&paths->guessed, paths->guessed + 1);
            if (LIKELY(!paths->quiet))
                learn_first_guess(paths, frame, number);
            else
                paths->quiet--;
            paths->last = number * (uint32_t)sizeof(struct trace);
            return trace->view;
        }
        if (++guess == CACHE_GUESSES_MAX)
            return NULL; /* cache_keep may put the path at the place of *hash */
        if (related) {
            *hash = (*hash ^ found ^ (uint64_t)k << 56) * 0xd6e8feb86659fd93ULL;
            *hash ^= *hash >> 29;
        } /* otherwise the place has the trace of an unrelated path */
        *hash *= 0x9e3779b97f4a7c15ULL;
    }
}

void cache_learn_hints(struct paths *paths) {
    const struct stack *stack = &paths->stack;
    for (unsigned i = 1; i <= 2 && i + 1 < stack->count; i++) {
        const struct stack_frame *frame = &stack->frames[stack->count - i];
        uint64_t first = (frame[-1].sp - frame->sp) / 8, second = (frame[-2].sp - frame->sp) / 8;
        struct hint *known = hint_of(paths, frame->address);
        if (second > CACHE_HINT_MAX || first > second)
            continue;
        if (known->first != first || known->second != second)
            *known = (struct hint){(uint16_t)first, (uint16_t)second};
    }
}

/* True if the frame's address is in libc or in the dynamic linker. */
static bool frame_in_libc(const struct stack_frame *frame) {
    uint32_t module = rule_module(frame->rule);
    return module != MODULE_NONE && unwind_rules_module(module)->loader;
}

/* Returns how many of the outermost checks a trace can leave out. The outermost frames of a thread
 * start the thread: _start of the program, and in libc __libc_start_main and the function that
 * calls main; or clone and start_thread of libc. These frames stay where they are as long as the
 * thread lives. So if the return address into the innermost libc frame is where a walk found it,
 * the frames further out are unchanged, too. The outermost of them has no checks, because its
 * unwind information says that nothing called it. */
static unsigned checks_of_start(const struct stack *stack) {
    const struct stack_frame *frames = stack->frames; /* the outermost first */
    unsigned last = stack->count > 4 && frame_in_libc(&frames[2]) ? 2 : 1;
    if (stack->end != STACK_COMPLETE || stack->count < 4 || frames[0].checks ||
        !frame_in_libc(&frames[1]) || frame_in_libc(&frames[last + 1]))
        return 0;
    return frames[last].checks;
}

#define GIVE_UP_MOST 8 /* the most traces that are given up for one new trace */

/* Called when there is no room for a new tail: makes the oldest trace unused, so that its tails can
 * be used again. A guess that leads to this trace is wrong from now on, because no stack pointer is
 * 0. */
static void give_up_oldest(struct paths *paths) {
    forget_oldest(paths, paths->trace_next);
    struct trace *trace = &paths->traces[paths->oldest];
    if (!trace->sp)
        return;
    trace_give_up_tail(paths, trace);
    trace->sp = 0;
    paths->trace_count--;
    paths->trace_bytes -= (uint32_t)sizeof *trace;
}

void cache_keep(struct paths *paths, uint64_t hash, struct view *view, unsigned depth,
                enum trace_kind kind) {
    const struct stack *stack = &paths->stack;
    const struct stack_frame *leaf = &stack->frames[stack->count - 1];
    struct trace_place *place = place_of(paths, hash);
    /* A path is kept when the last walk from this place led to the same view. The path of every
     * KEEP_ANYWAY_EVERY-th walk is kept in any case, because two paths may come to the place in
     * turn. */
    if (place->missed_view != view->index && paths->missed % KEEP_ANYWAY_EVERY) {
        place->missed_view = view->index;
        return;
    }
    /* The table grows when it is full, and earlier if traces displace each other. */
    if ((paths->trace_next == paths->trace_room ||
         (place->trace && paths->trace_next * 2 > paths->trace_room)) &&
        paths->trace_room < CACHE_TRACES_MAX && table_grow(paths))
        place = place_of(paths, hash);
    unsigned first =
        stack->count > depth ? stack->frames[stack->count - depth].checks : checks_of_start(stack);
    struct trace_words words;
    if (!trace_begin(&words, stack, first, kind == TRACE_FOLDED))
        return;
    uint32_t number = place->trace ? place->trace : trace_take(paths);
    struct trace *trace = &paths->traces[number];
    for (unsigned tries = 0; !trace_lay_out(paths, trace, &words); tries++) {
        if (tries < GIVE_UP_MOST) {
            give_up_oldest(paths);
            continue;
        }
        trace_end(paths, &words);
        if (!trace->sp && number + 1 == paths->trace_next)
            paths->trace_next--;
        return;
    }
    if (!trace->sp) {
        paths->trace_count++;
        paths->trace_bytes += sizeof *trace;
    }
    trace->view = view;
    trace->hash = (uint32_t)(hash >> 32);
    trace->sp = leaf->sp + (words.folded ? TRACE_FOLDED_BIT : 0);
    trace->salt = (uint16_t)(number << 2);
    place->missed_view = 0;
    place->trace = (uint16_t)number;
    place->tag = tag_of(hash);
    *first_guess(paths, leaf->sp - 16) = (uint16_t)number;
    paths->last = number * (uint32_t)sizeof(struct trace);
}

static void table_free(struct paths *paths) {
    uint32_t room = paths->trace_room;
    cache_flush(paths);
    meta_free(paths->traces, trace_bytes(room));
    meta_free(paths->places, place_bytes(room));
    meta_free(paths->guesses, guess_bytes(room));
    meta_free(paths->hints, hint_count(room) * sizeof *paths->hints);
    tables_add_traces(-counted_bytes(room));
    paths->traces = NULL;
    paths->places = NULL;
    paths->guesses = NULL;
    paths->hints = NULL;
    paths->trace_room = 0;
}

bool cache_give_back_traces(struct paths *paths) {
    struct stack stack = paths->stack;
    uint32_t nodes_valid = paths->nodes_valid;
    if (paths->trace_room <= CACHE_TRACES_FURTHER)
        return false;
    table_free(paths);
    paths->stack = stack;
    paths->nodes_valid = nodes_valid;
    return true;
}

void cache_shrink(struct paths *paths) {
    if (paths->trace_room > CACHE_TRACES_FIRST)
        table_free(paths);
}

void cache_end(struct paths *paths, bool all) {
    if (!all && paths->trace_room <= CACHE_TRACES_FIRST &&
        paths->stack.room <= STACK_FRAMES_FIRST) {
        cache_flush(paths);
        return;
    }
    if (paths->traces)
        table_free(paths);
    stack_end(&paths->stack);
    /* 0: the next allocation calls context_view_searched, which makes the tables */
    paths->generation = 0;
    store_owner(&paths->fast_generation, 0);
}

void cache_flush(struct paths *paths) {
    if (paths->traces)
        __builtin_memset(paths->traces, 0, paths->trace_next * sizeof *paths->traces);
    paths->trace_count = paths->trace_bytes = 0;
    trace_free_tails(paths);
    if (paths->places)
        __builtin_memset(paths->places, 0, place_bytes(paths->trace_room));
    paths->last = paths->oldest = 0;
    paths->trace_next = 1;
    paths->stack.count = paths->nodes_valid = 0;
    paths->stack.low = paths->stack.high = 0;
    store_owner(&paths->fixed_generation, 0);
    paths->flushed++;
}
