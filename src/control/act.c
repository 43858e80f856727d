/* SPDX-License-Identifier: MIT */
/* act.c - moves contexts to pages of their own or back, returns empty memory to the kernel, and
 * keeps notes, on request. */
#include "control/act.h"
#include "context/collect.h"
#include "context/holes.h"
#include "context/tree.h"
#include "named/named.h"
#include "os/libc.h"
#include "os/meta.h"
#include "region/punch.h"
#include "region/terms.h"
#include "rules/rules.h"

#include <time.h>

/* How long a trim waits until the program's threads have trimmed their heaps: first a trim of all
 * heaps, then one of some contexts. Other clients wait meanwhile. */
#define TRIM_WAIT_MS 40
#define TRIM_CONTEXTS_WAIT_MS 250
#define TRIM_COLLECT_NS 1000000000U /* longest time to collect what other threads freed */
#define TRIM_VISIT_NS 2000000000U   /* longest time to punch the pages of threads that sleep */
#define TRIM_LOOK_MS 5 /* time between two counts of the threads that have not trimmed yet */
/* Time between two calls of heaps_reconsider. After such a call, region_alloc serves each context's
 * next allocation, and there a thread notices the request. */
#define TRIM_REMIND_MS 50

/* Calls `each` with the placement byte (heap_placed) of every context that the request names and
 * that exists. False: out of memory. */
static bool for_each_byte(const struct wire_contexts_request *request,
                          void (*each)(uint8_t *byte, uint32_t context, uint32_t verb)) {
    for (uint32_t i = 0; i < request->count; i++) {
        if (!tree_is_id(request->contexts[i]))
            continue;
        uint8_t *byte = heap_placed_byte(request->contexts[i]);
        if (!byte)
            return false;
        each(byte, request->contexts[i], request->verb);
    }
    return true;
}

/* False: the request names a context that never existed. A context that was evicted since the
 * client read the tree is left out, so that the client can place the other contexts. */
static bool all_existed(const struct wire_contexts_request *request, struct text *text) {
    for (uint32_t i = 0; i < request->count; i++)
        if (request->contexts[i] >= tree_count()) {
            text_add(text, "no context has the id ");
            text_add_number(text, request->contexts[i]);
            return false;
        }
    return true;
}

/* --- placing ---------------------------------------------------------------------------------- */

/* Places one context by hand. PLACE_DEFAULT takes that back: the context's rule, or the allocator,
 * decides again. */
static void place(uint8_t *byte, uint32_t context, uint32_t verb) {
    enum placement placement = (enum placement)(verb & PLACE_MASK);
    bool by_hand = placement != PLACE_DEFAULT;
    /* A named context always has pages of its own: by default those of the program's policy. */
    if (placement == PLACE_DEFAULT && tree_is_named(context))
        placement = named_placement(context);
    /* Terms such as `zero` need pages of the context's own, so the chunks may not go to mixed
     * pages. */
    if (placement < PLACE_SLAB && terms_with(context, TERMS_OWN))
        placement = PLACE_APART;
    heap_set_placement(context, placement);
    if (by_hand)
        or_release(byte, PLACED_BY_HAND);
    else
        and_release(byte, (uint8_t)~PLACED_BY_HAND);
    policy_rules_placed(context);
}

/* True when the contexts of the request may go to mixed pages. False: one of them is named, and its
 * reset frees whole pages; or a rule asks for pages of its own. */
static bool may_share(const struct wire_contexts_request *request, struct text *text) {
    for (uint32_t i = 0; i < request->count; i++)
        if (!tree_is_id(request->contexts[i])) {
            continue;
        } else if (tree_is_named(request->contexts[i])) {
            text_add(text, "the context ");
            text_add_number(text, request->contexts[i]);
            text_add(text, " is named, so it keeps pages of its own; choose contexts without it");
            return false;
        } else if (terms_with(request->contexts[i], TERMS_OWN)) {
            text_add(text, "a rule asks for pages of its own for the context ");
            text_add_number(text, request->contexts[i]);
            text_add(text, "; clear the rule first (memctx rules TARGET --clear)");
            return false;
        }
    return true;
}

uint32_t place_run(const struct wire_contexts_request *request, struct text *text) {
    uint32_t placement = request->verb & ~WIRE_MORE;
    if (!all_existed(request, text))
        return WIRE_REFUSED;
    if (placement >= PLACE_COUNT) {
        text_add(text, "no placement has this number");
        return WIRE_REFUSED;
    }
    if (placement == PLACE_SHARED && !may_share(request, text))
        return WIRE_REFUSED;
    if (!for_each_byte(request, place)) {
        text_add(text, "no memory to keep the placement");
        return WIRE_NO_MEMORY;
    }
    heaps_reconsider();
    text_add(text, "placed");
    return WIRE_OK;
}

/* --- notes: texts that the command stores in the process -------------------------------------- */

static char *notes[WIRE_NOTES_MAX]; /* a ring of texts; control thread only */
static unsigned notes_made;         /* number of notes ever made */
char *const *const notes_shown = notes;
const unsigned *const notes_made_shown = &notes_made;

uint32_t note_run(const char *body, struct text *text) {
    char **note = &notes[notes_made % WIRE_NOTES_MAX];
    size_t length = 0;
    while (length < WIRE_NOTE_BYTES - 1 && body[length])
        length++;
    if (!*note)
        *note = meta_alloc(WIRE_NOTE_BYTES);
    if (!*note) {
        text_add(text, "no memory for a note");
        return WIRE_NO_MEMORY;
    }
    __builtin_memcpy(*note, body, length);
    (*note)[length] = 0;
    notes_made++;
    text_add(text, "noted");
    return WIRE_OK;
}

void note_forget(void) {
    if (notes_made) /* a needless write copies the OS page in the child */
        notes_made = 0;
}

const char *note_next(unsigned *place) {
    unsigned first = notes_made > WIRE_NOTES_MAX ? notes_made - WIRE_NOTES_MAX : 0;
    return first + *place < notes_made ? notes[(first + (*place)++) % WIRE_NOTES_MAX] : NULL;
}

/* --- trimming --------------------------------------------------------------------------------- */

static void set_trim_mark(uint8_t *byte, uint32_t context, uint32_t verb) {
    (void)context;
    (void)verb;
    or_release(byte, TRIM_MARK);
}

static void clear_trim_marks(void) {
    for (uint32_t leaf = 0; leaf < PLACED_LEAVES; leaf++) {
        uint8_t *bytes = load_acquire(&heap_placed[leaf]);
        for (uint32_t i = 0; bytes && i < PLACED_PER_LEAF; i++)
            if (bytes[i] & TRIM_MARK)
                and_release(&bytes[i], (uint8_t)~TRIM_MARK);
    }
}

/* Trims the heaps that belong to no living thread. Holds each heap's lock, and heap_global.lock so
 * that no fork comes in between. */
static void trim_idle_heaps(void) {
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        lock_take(&heap_global.lock);
        uint32_t state = load_acquire(&heap->state);
        if ((state == HEAP_PARKED || state == HEAP_SHARED) && lock_try(&heap->lock)) {
            if (load_acquire(&heap->state) == state && heap->view_count) {
                trim_heap(heap);
                heap_publish_waste(heap);
            }
            lock_release(&heap->lock);
        }
        lock_release(&heap_global.lock);
    }
}

/* Returns how many threads have not trimmed their heap yet; *threads: number of threads with a heap
 * that has views. */
static uint32_t count_waiting(uint32_t *threads) {
    uint32_t waiting = 0;
    *threads = 0;
    for (struct heap *heap = load_acquire(&heap_global.first); heap; heap = heap->next) {
        if (load_acquire(&heap->state) != HEAP_OWNED || !load_relaxed(&heap->view_count))
            continue;
        *threads += 1;
        waiting += load_acquire(&heap->trims) != trim_number;
    }
    return waiting;
}

uint32_t trim_run(const struct wire_contexts_request *request, struct answer *answer) {
    struct wire_trim *trim = answer_add(answer, sizeof *trim);
    bool some = request->verb & WIRE_TRIM_CONTEXTS;
    if (!trim || (some && !for_each_byte(request, set_trim_mark)))
        return WIRE_NO_MEMORY;
    if (request->verb & WIRE_MORE)
        return WIRE_OK;
    trim->rss_before = os_rss_bytes();
    /* A thread answers only the newest request. So this request includes what earlier requests
     * asked of threads that have not answered yet. */
    bool owed = count_waiting(&trim->threads);
    trim_wanted.all = !some || (owed && trim_wanted.all);
    trim_wanted.punch = some || (owed && trim_wanted.punch);
    store_owner(&trim_wanted.released, 0);
    store_release(&trim_number, trim_number + 1);
    trim_idle_heaps();
    collect_look(true, os_now_exact_ns() + TRIM_COLLECT_NS);
    int patience_ms = some ? TRIM_CONTEXTS_WAIT_MS : TRIM_WAIT_MS;
    for (int waited_ms = 0; waited_ms < patience_ms; waited_ms += TRIM_LOOK_MS) {
        if (waited_ms % TRIM_REMIND_MS == 0)
            heaps_reconsider();
        trim->threads_waiting = count_waiting(&trim->threads);
        if (!trim->threads_waiting)
            break;
        os_sleep(&(struct timespec){.tv_nsec = TRIM_LOOK_MS * 1000000L});
    }
    if (trim->threads_waiting) {
        size_t bytes = holes_trim(os_now_exact_ns() + TRIM_VISIT_NS);
        add_relaxed(&trim_wanted.released, (int64_t)bytes);
    }
    trim->punched_bytes = load_relaxed(&trim_wanted.released);
    trim->released_bytes = (int64_t)segment_purge(true) + trim->punched_bytes;
    trim->rss_after = os_rss_bytes();
    if (!trim->threads_waiting)
        clear_trim_marks(); /* otherwise threads that trim later need the marks */
    return WIRE_OK;
}
