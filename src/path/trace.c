/* SPDX-License-Identifier: MIT */
/* Lays walked stacks out as traces, and keeps the tails that traces share; see trace.h. */
#include "path/trace.h"
#include "os/meta.h"
#include "path/functions.h"
#include "region/tables.h"

/* --- tails ------------------------------------------------------------------------------------ */

#define TAIL_BLOCK_LEAST 1024U /* bytes of the smallest block */
#define TAIL_BLOCK_MOST 16384U /* bytes of the largest block */
#define TAIL_BLOCK_SHARE 4U    /* a new block has about 1/TAIL_BLOCK_SHARE of the bytes of all */

/* Adds a block of memory for tails. False: out of memory, or the budget is used up. */
static bool tails_grow(struct paths *paths) {
    struct tail_block *last = paths->tails;
    uint32_t all = last ? last->all_bytes : 0, bytes = TAIL_BLOCK_LEAST;
    while (bytes < TAIL_BLOCK_MOST && bytes < all / TAIL_BLOCK_SHARE)
        bytes *= 2;
    if (!tables_take(bytes, TABLES_TRACE))
        return false;
    struct tail_block *block = meta_alloc(bytes);
    if (!block) {
        tables_add_traces(-(int64_t)bytes);
        return false;
    }
    *block = (struct tail_block){
        .next = last, .bytes = bytes, .used = TAIL_HEADER_BYTES, .all_bytes = all + bytes};
    paths->tails = block;
    return true;
}

void trace_free_tails(struct paths *paths) {
    while (paths->tails) {
        struct tail_block *block = paths->tails;
        paths->tails = block->next;
        tables_add_traces(-(int64_t)block->bytes);
        meta_free(block, block->bytes);
    }
}

/* Returns memory for a tail. NULL: out of memory, or the budget is used up. */
static struct trace_tail *tail_take(struct paths *paths) {
    struct tail_block *block = paths->tails;
    struct trace_tail *tail = block ? block->unused : NULL;
    if (tail) {
        block->unused = tail->outer;
    } else if ((block && block->bytes - block->used >= sizeof *tail) || tails_grow(paths)) {
        block = paths->tails;
        tail = (struct trace_tail *)(void *)((char *)block + block->used);
        block->used += (uint32_t)sizeof *tail;
    }
    paths->trace_bytes += tail ? sizeof *tail : 0;
    return tail;
}

/* Puts a tail without users, and all tails that only it leads to, on the list of unused tails. */
static void tail_drop(struct paths *paths, struct trace_tail *tail) {
    while (tail && !tail->users) {
        struct trace_tail *outer = tail->outer;
        struct trace_tail **at = tail_list(paths->places, paths->trace_room, tail->hash);
        while (*at != tail)
            at = &(*at)->next;
        *at = tail->next;
        tail->outer = paths->tails->unused;
        paths->tails->unused = tail;
        paths->trace_bytes -= (uint32_t)sizeof *tail;
        if (outer)
            outer->users--;
        tail = outer;
    }
}

/* --- words ------------------------------------------------------------------------------------ */

static struct stack_check word_of(const struct trace_words *words, uint32_t i) {
    return i + 1 < words->count ? words->stack->checks[words->first + i] : words->last;
}

/* False: there can be no trace, because the distance from the exported function's frame to a word
 * is negative, not a multiple of 8, or too large for trace_checks.word. A negative distance occurs
 * when a signal handler's stack lies above the interrupted stack. The interrupted stack may be
 * unmapped by the time when the trace is compared. */
static bool words_are_near(const struct trace_words *words) {
    uintptr_t frame = words->last.at - 8, far = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        uintptr_t distance = word_of(words, i).at - frame;
        far |= (distance & 7) | distance >> 35;
    }
    return !far;
}

/* Divides the words into groups, from the outermost on, so that traces with equal outer frames have
 * equal groups. False: there are too many groups for a trace. */
static bool group_words(struct trace_words *words) {
    uintptr_t page = 0;
    words->groups = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        uintptr_t at = word_of(words, i).at;
        if (!i || i - words->starts[words->groups - 1] == 4 || at / OS_PAGE_BYTES != page) {
            if (words->groups == CACHE_GROUPS_MAX)
                return false;
            words->starts[words->groups++] = (uint16_t)i;
        }
        page = at / OS_PAGE_BYTES;
    }
    words->starts[words->groups] = (uint16_t)words->count;
    return true;
}

/* Writes group `number` of the words, the innermost word first. If the group has fewer than four
 * words, fills it up with copies of the outermost. */
static void put_group(struct trace_checks *group, const struct trace_words *words, uint32_t number,
                      uintptr_t base) {
    uint32_t first = words->starts[number], i = words->starts[number + 1];
    for (uint32_t k = 0; k < 4; k++) {
        i -= i > first;
        struct stack_check check = word_of(words, i);
        group->value[k] = check.value;
        group->word[k] = (uint32_t)((check.at - base) / 8);
    }
}

/* Returns the lowest address of the words from `first` to before `end`. */
static uintptr_t lowest(const struct trace_words *words, uint32_t first, uint32_t end) {
    uintptr_t low = UINTPTR_MAX;
    for (uint32_t i = first; i < end; i++)
        low = word_of(words, i).at < low ? word_of(words, i).at : low;
    return low;
}

static uint32_t tail_hash(const struct trace_tail *tail) {
    const uint64_t *contents = (const uint64_t *)(const void *)tail->checks;
    uint64_t hash = (uintptr_t)tail->outer ^ (uintptr_t)tail->base << 16;
    for (uint32_t i = 0; i < sizeof tail->checks / 8; i++)
        hash = (hash ^ contents[i]) * 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(hash >> 32);
}

/* Returns the tail that is equal to *made. Makes it if no trace has it yet. NULL: there is no room.
 */
static struct trace_tail *tail_shared(struct paths *paths, struct trace_tail *made) {
    made->hash = tail_hash(made);
    struct trace_tail **list = tail_list(paths->places, paths->trace_room, made->hash), *tail;
    for (tail = *list; tail; tail = tail->next)
        if (tail->hash == made->hash && tail->outer == made->outer && tail->base == made->base &&
            !__builtin_memcmp(tail->checks, made->checks, sizeof made->checks))
            return tail;
    if (!(tail = tail_take(paths)))
        return NULL;
    made->next = *list;
    *tail = *made;
    *list = tail;
    if (made->outer)
        made->outer->users++;
    return tail;
}

/* Returns the tail that holds groups `number` and `number` + 1 of the words and leads on to the
 * tail `outer`. Makes the tail if no trace has it yet. NULL: there is no room. */
static struct trace_tail *tail_for(struct paths *paths, const struct trace_words *words,
                                   uint32_t number, struct trace_tail *outer) {
    uintptr_t base = lowest(words, words->starts[number], words->starts[number + 2]);
    struct trace_tail made = {.outer = outer, .base = (const uint64_t *)base};
    put_group(&made.checks[0], words, number + 1, base);
    put_group(&made.checks[1], words, number, base);
    return tail_shared(paths, &made);
}

/* Makes `tail` the tail of the trace. The tail's users already count the trace. */
static void set_tail(struct paths *paths, struct trace *trace, struct trace_tail *tail) {
    struct trace_tail *old = trace->tail;
    trace->tail = tail;
    if (old && !--old->users)
        tail_drop(paths, old);
}

/* Goes on from the tail that was laid out last to `inward`, the next one, which leads to it. While
 * a tail is the last one, its users count the words, so that the tail stays if the caller gives
 * traces up. */
static void go_inward(struct trace_words *words, struct trace_tail *inward) {
    inward->users++;
    if (words->tail)
        words->tail->users--;
    words->tail = inward;
}

/* Writes the words into a trace. False: there is no room; the trace is unchanged. */
static bool lay_out(struct paths *paths, struct trace *trace, struct trace_words *words) {
    uint32_t inner = (words->groups - 1) / TRACE_GROUPS * TRACE_GROUPS;
    for (; words->laid < inner; words->laid += TRACE_GROUPS) {
        struct trace_tail *inward = tail_for(paths, words, words->laid, words->tail);
        if (!inward)
            return false;
        go_inward(words, inward);
    }
    set_tail(paths, trace, words->tail);
    trace->groups = (uint8_t)(words->groups - inner);
    for (uint32_t i = inner; i < words->groups; i++)
        put_group(&trace->checks[words->groups - 1 - i], words, i, words->last.at - 8);
    return true;
}

/* --- folded traces ---------------------------------------------------------------------------- */

/* Finds the frames that are not on the path. False: there are none in folded functions. The frames
 * on the path have the lengths 1, 2, ... from the outermost on (context/prefix.h). */
static bool find_erased(struct trace_words *words) {
    const struct stack *stack = words->stack;
    uint32_t length = stack->frames[stack->count - 1].length;
    bool any = false;
    if (!length) /* the lengths are not known */
        return false;
    for (uint32_t i = stack->count; i-- > 0;) {
        const struct stack_frame *frame = &stack->frames[i];
        if (length && frame->length == length) {
            length--;
        } else if (rule_folded(frame->rule) && !frame->exact) {
            words->erased[i / 64] |= 1UL << i % 64;
            any = true;
        }
    }
    return any;
}

/* Returns the range for the next word, whose distance is counted from `base`. */
static struct trace_range next_range(struct trace_words *words, uint32_t i, uintptr_t base) {
    const struct stack *stack = words->stack;
    const struct stack_frame *frames = stack->frames;
    struct stack_check word = word_of(words, i);
    struct trace_range range = {.first = word.value, .word = (uint32_t)((word.at - base) / 8)};
    uint32_t check = words->first + i;
    while (frames[words->frame].checks < check)
        words->frame++;
    const struct stack_frame *frame = &frames[words->frame];
    if (frame->checks != check || !(words->erased[words->frame / 64] >> words->frame % 64 & 1))
        return range;
    functions_look_begins();
    struct cfi_function alike =
        function_alike(rule_folded(frame->rule), frame->address, frame->rule);
    functions_look_ends();
    if (function_holds(alike, frame->address, false)) {
        range.first = alike.start + 1; /* a return address stands behind its call */
        range.span = alike.bytes - 1;
    }
    return range;
}

/* Writes `count` ranges, from word `i` on, with the innermost first. */
static void put_ranges(struct trace_range *ranges, struct trace_words *words, uint32_t i,
                       uint32_t count, uintptr_t base) {
    for (uint32_t k = count; k-- > 0;)
        ranges[k] = next_range(words, i++, base);
}

/* Returns the tail with the ranges of TRACE_RANGES words, from word `i` on. NULL: there is no
 * room. */
static struct trace_tail *folded_tail(struct paths *paths, struct trace_words *words, uint32_t i,
                                      struct trace_tail *outer) {
    uintptr_t base = lowest(words, i, i + TRACE_RANGES);
    struct trace_tail made = {.outer = outer, .base = (const uint64_t *)base};
    put_ranges(made.ranges, words, i, TRACE_RANGES, base);
    return tail_shared(paths, &made);
}

/* Like lay_out, for a folded trace. */
static bool lay_out_folded(struct paths *paths, struct trace *trace, struct trace_words *words) {
    uint32_t inner = (words->count - 1) / TRACE_RANGES * TRACE_RANGES;
    for (; words->laid < inner; words->laid += TRACE_RANGES) {
        uint32_t frame = words->frame;
        struct trace_tail *inward = folded_tail(paths, words, words->laid, words->tail);
        if (!inward) {
            words->frame = frame;
            return false;
        }
        go_inward(words, inward);
    }
    set_tail(paths, trace, words->tail);
    uint32_t count = words->count - inner;
    put_ranges(trace->ranges, words, inner, count, words->last.at - 8);
    if (count % 2) {
        trace->ranges[count] = trace->ranges[count - 1];
        count++;
    }
    trace->groups = (uint8_t)count;
    return true;
}

/* --- both kinds ------------------------------------------------------------------------------- */

bool trace_begin(struct trace_words *words, const struct stack *stack, uint32_t first,
                 bool may_fold) {
    const struct stack_frame *leaf = &stack->frames[stack->count - 1];
    *words = (struct trace_words){.stack = stack,
                                  .first = first,
                                  .count = leaf->checks - first + 1,
                                  .last = {leaf->sp - 8, leaf->address}};
    words->folded = may_fold && find_erased(words);
    return words_are_near(words) && (words->folded || group_words(words));
}

bool trace_lay_out(struct paths *paths, struct trace *trace, struct trace_words *words) {
    return words->folded ? lay_out_folded(paths, trace, words) : lay_out(paths, trace, words);
}

void trace_end(struct paths *paths, struct trace_words *words) {
    if (words->tail && !--words->tail->users)
        tail_drop(paths, words->tail);
}

void trace_give_up_tail(struct paths *paths, struct trace *trace) {
    set_tail(paths, trace, NULL);
}
