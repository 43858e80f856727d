/* SPDX-License-Identifier: MIT */
/* automatic.c - chooses placement policies for call paths; see automatic.h. */
#include "control/automatic.h"
#include "base/options.h"
#include "context/tree.h"
#include "figures/buffers.h"
#include "figures/pages.h"
#include "figures/sums.h"
#include "os/meta.h"
#include "region/serial.h"
#include "rules/rules.h"

#define LOOK_EVERY_NS 2000000000ULL /* shortest pause between two looks */
#define LOOK_SHARE 50U              /* looks take at most one part in LOOK_SHARE of the time */
#define CHOICES_MAX 1024U           /* greatest number of contexts that have a choice */
#define CANDIDATES_MAX 256U         /* greatest number of contexts that one look considers */
/* Slab is chosen if at least SLAB_SPARE per cent of the bytes in live blocks are spare (no request
 * used them). Generation is chosen if at least GENERATION_WASTE per cent of the touched bytes of
 * the pages are not requested. */
#define SLAB_SPARE 6
#define GENERATION_WASTE 10
#define GENERATION_SIZES 3U /* the least number of block sizes */
/* A trial of generation is judged when the context has freed TURNOVERS times as many chunks as it
 * has alive. */
#define TURNOVERS 4
#define BETTER_BY 2 /* a trial must lower the waste by this many percentage points */
#define WORSE_BY 15 /* a trial that adds this many percentage points of waste ends early */

struct choice {
    uint32_t context;
    /* Parent and address of the context's node. Another context may get the id of an evicted one;
     * the choice is then stale, and its entry is free. */
    uint32_t parent;
    uint64_t address;
    uint8_t placement; /* the current placement; PLACE_DEFAULT: the choice was taken back */
    bool tried;        /* the trial has been judged, or there is none */
    uint8_t sizes;     /* number of block sizes when the choice was made */
    /* The waste in per cent, when the choice was made and when the trial was judged. For slab: the
     * spare bytes of the live blocks. For generation: the part of the pages' touched bytes
     * that was not requested. */
    int16_t before, after;
    int64_t frees_then; /* the context's frees when the choice was made */
};
static struct {
    struct choice *choices;
    uint32_t count;
    uint64_t next_ns;      /* time of the next look */
    uint32_t next_context; /* first id of the next look */
} state;

/* A context whose pages are examined in this look. */
struct candidate {
    uint32_t context;
    int64_t live_bytes, live_chunks, frees;
    /* Bytes of the context's pages: touched; in live blocks; in live blocks, but not requested
     * (pages_spare_units). */
    int64_t touched_bytes, block_bytes, spare_bytes;
    uint64_t sizes; /* a bit for each size class that has a page */
};
struct look {
    struct candidate list[CANDIDATES_MAX]; /* by rising context id */
    uint32_t count;
};

static bool is_stale(const struct choice *choice) {
    const struct tree_node *node = tree_node(choice->context);
    return tree_is_gone(choice->context) || node->parent != choice->parent ||
           node->address != choice->address ||
           heap_placement(choice->context) != choice->placement; /* a rule or user placed it */
}

static struct choice *choice_of(uint32_t context) {
    for (uint32_t i = 0; i < state.count; i++)
        if (state.choices[i].context == context && !is_stale(&state.choices[i]))
            return &state.choices[i];
    return NULL;
}

/* Returns a free entry. NULL: there is none. */
static struct choice *new_choice(void) {
    for (uint32_t i = 0; i < state.count; i++)
        if (is_stale(&state.choices[i]))
            return &state.choices[i];
    return state.count < CHOICES_MAX ? &state.choices[state.count] : NULL;
}

/* True when a choice may be made for the context, or an earlier choice must be judged. */
static bool is_candidate(uint32_t context, const struct sum *sum) {
    bool by_hand = heap_leaf_byte(heap_placed, context) & PLACED_BY_HAND;
    const struct choice *choice = choice_of(context);
    if (by_hand || context < TREE_FIXED_COUNT || tree_is_named(context) ||
        policy_rules_of(context) || (choice && choice->tried))
        return false;
    return choice || (load_relaxed(&options.automatic) && sum->live_bytes >= AUTO_LIVE_BYTES);
}

/* Fills the list of a look. If there are too many candidates for one look, the next look begins
 * with the context behind the last candidate. */
static void add_candidates(struct look *look) {
    uint32_t count = tree_count(), id = state.next_context;
    sums_begin();
    for (; id < count && look->count < CANDIDATES_MAX; id++) {
        struct sum sum;
        sums_pause(id);
        sums_read(id, &sum, NULL);
        if (is_candidate(id, &sum))
            look->list[look->count++] = (struct candidate){.context = id,
                                                           .live_bytes = sum.live_bytes,
                                                           .live_chunks = sum.allocs - sum.frees,
                                                           .frees = sum.frees};
    }
    sums_end();
    state.next_context = id < count ? id : 0;
}

static struct candidate *find_candidate(struct look *look, uint32_t context) {
    uint32_t low = 0, high = look->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (look->list[middle].context < context)
            low = middle + 1;
        else
            high = middle;
    }
    return low < look->count && look->list[low].context == context ? &look->list[low] : NULL;
}

static bool look_at_page(const struct page *page, const char *start, void *context) {
    struct look *look = context;
    bool of_one = page->kind == PAGE_OWN || page->kind == PAGE_SERIAL;
    const struct view *view = of_one ? page->view : NULL;
    struct candidate *candidate = view ? find_candidate(look, view->context) : NULL;
    if (!candidate)
        return true;
    if (page->kind == PAGE_SERIAL) {
        candidate->touched_bytes += (int64_t)serial_touched(page, start);
        candidate->block_bytes += (int64_t)serial_live(page, start).bytes;
        return true;
    }
    candidate->touched_bytes += (int64_t)blocks_touched(page, start);
    candidate->block_bytes += (int64_t)page->used * page->block_bytes;
    /* Policy slab stores chunks with an alignment of their own in larger blocks. So in a region
     * with such chunks no bytes count as spare. */
    candidate->spare_bytes +=
        (int64_t)(view->region && region_of(view->region)->aligned ? 0 : page->used) *
        pages_spare_units(page, start) * (int64_t)SERIAL_UNIT;
    candidate->sizes |= 1UL << page->size_class;
    return true;
}

static void look_at_segment(struct segment *segment, bool huge, void *context) {
    if (!huge)
        pages_each(segment, 0, NULL, look_at_page, context);
}

static int16_t per_cent(int64_t part, int64_t whole) {
    return (int16_t)(whole > 0 && part > 0 ? part * 100 / whole : 0);
}

/* Places the context by the policy. True: the placement has changed. */
static bool choose(const struct candidate *candidate, enum placement placement, int16_t before) {
    struct choice *choice = new_choice();
    if (!choice || !heap_set_placement(candidate->context, placement))
        return false;
    state.count += choice == &state.choices[state.count];
    const struct tree_node *node = tree_node(candidate->context);
    *choice = (struct choice){.context = candidate->context,
                              .parent = node->parent,
                              .address = node->address,
                              .placement = (uint8_t)placement,
                              /* A slab never takes more memory, so it needs no trial. */
                              .tried = placement == PLACE_SLAB,
                              .sizes = (uint8_t)__builtin_popcountl(candidate->sizes),
                              .before = before,
                              .frees_then = candidate->frees};
    return true;
}

/* Judges the trial of the policy generation. True: the choice was taken back. False: the trial goes
 * on, or the choice stays. */
static bool judge(struct choice *choice, const struct candidate *candidate) {
    int64_t frees = candidate->frees - choice->frees_then;
    choice->after =
        per_cent(candidate->touched_bytes - candidate->live_bytes, candidate->touched_bytes);
    bool worse = choice->after >= choice->before + WORSE_BY && frees > candidate->live_chunks;
    if (!worse && frees < TURNOVERS * (candidate->live_chunks + 1))
        return false;
    choice->tried = true;
    if (choice->after + BETTER_BY <= choice->before || !candidate->touched_bytes)
        return false;
    choice->placement = PLACE_DEFAULT;
    return heap_set_placement(choice->context, PLACE_DEFAULT);
}

/* Makes or judges the choice for one context. True: the placement has changed. */
static bool decide(const struct candidate *candidate) {
    struct choice *choice = choice_of(candidate->context);
    if (choice)
        return judge(choice, candidate);
    int16_t spare = per_cent(candidate->spare_bytes, candidate->block_bytes);
    if (spare >= SLAB_SPARE)
        return choose(candidate, PLACE_SLAB, spare);
    int16_t waste =
        per_cent(candidate->touched_bytes - candidate->live_bytes, candidate->touched_bytes);
    unsigned sizes = (unsigned)__builtin_popcountl(candidate->sizes);
    if (waste >= GENERATION_WASTE && sizes >= GENERATION_SIZES &&
        candidate->frees >= TURNOVERS * candidate->live_chunks)
        return choose(candidate, PLACE_GENERATION, waste);
    return false;
}

static void look_now(void) {
    struct look *look = buffers_map(sizeof *look, true);
    bool moved = false;
    if (!state.choices)
        state.choices = meta_alloc(CHOICES_MAX * sizeof *state.choices);
    if (look && state.choices) {
        add_candidates(look);
        if (look->count)
            segment_each(look_at_segment, look);
        for (uint32_t i = 0; i < look->count; i++)
            moved |= decide(&look->list[i]);
    }
    buffers_unmap(look);
    if (moved)
        heaps_reconsider();
}

static bool is_trying(void) {
    for (uint32_t i = 0; i < state.count; i++)
        if (!state.choices[i].tried && !is_stale(&state.choices[i]))
            return true;
    return false;
}

/* After the option was switched off, the trials that have begun are still judged. */
void automatic_look(void) {
    uint64_t now = os_now_exact_ns();
    if (now < state.next_ns || (!load_relaxed(&options.automatic) && !is_trying()))
        return;
    look_now();
    uint64_t after = os_now_exact_ns(), took = (after - now) * LOOK_SHARE;
    state.next_ns = after + (took > LOOK_EVERY_NS ? took : LOOK_EVERY_NS);
}

bool automatic_reason(uint32_t context, struct text *text) {
    const struct choice *choice = state.count ? choice_of(context) : NULL;
    if (!choice || heap_leaf_byte(heap_placed, context) & PLACED_BY_HAND)
        return false;
    text_add(text, "automatic: ");
    if (choice->placement == PLACE_SLAB) {
        text_add(text, "slab, because the program did not request ");
        text_add_number(text, choice->before);
        text_add(text, " % of the bytes in its blocks");
        return true;
    }
    text_add(text, choice->placement == PLACE_GENERATION
                       ? "generation, because its chunks come and go in blocks of "
                       : "generation was tried, because its chunks come and go in blocks of ");
    text_add_number(text, choice->sizes);
    text_add(text, " sizes, and the program did not request ");
    text_add_number(text, choice->before);
    text_add(text, " % of the bytes in its pages");
    if (choice->tried) {
        text_add(text, choice->placement == PLACE_GENERATION
                           ? "; since then "
                           : "; it was undone, because then this share was ");
        text_add_number(text, choice->after);
        text_add(text, " %");
    }
    return true;
}
