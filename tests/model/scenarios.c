/* SPDX-License-Identifier: MIT */
/*
 * Scenarios in which threads meet in the allocator, with a few calls each: remote frees, heaps that
 * are parked and adopted, pages that become mixed, locks and forks, emergencies, dumps, the tree.
 * The table at the end has these scenarios and those of the other files.
 */
#include "evictions.h"
#include "explore.h"
#include "paths.h"
#include "sleepers.h"
#include "slots.h"
#include "spans.h"

#include "../lib/sums_of.h"
#include "api/fast.h"
#include "base/options.h"
#include "context/lookup.h"
#include "context/retire.h"
#include "context/tree.h"
#include "os/meta.h"
#include "region/bins.h"
#include "region/region.h"
#include "segment/internal.h"

#include <stdlib.h>

/* --- frees of other threads ------------------------------------------------------------------ */

static void thread_remote(unsigned id) {
    if (id == 0) {
        take(heaps[0], 3);
        heap_collect_remote(heaps[0]);
        take(heaps[0], 4);
        give(heaps[0], 3);
    } else if (id == 1) {
        give(heaps[1], 0);
        give(heaps[1], 1);
    } else {
        give(heaps[2], 2);
    }
}

/* The first heap has a full page and a current one. Frees by other threads give the full page free
 * blocks or empty it. */
static void full_page(void) {
    new_heaps(3);
    for (unsigned i = 0; i < IN_PAGE + 2; i++)
        take(heaps[0], i);
}

static void thread_full(unsigned id) {
    if (id == 0) {
        heap_collect_remote(heaps[0]);
        take(heaps[0], IN_PAGE + 2);
        for (unsigned i = 2; i < IN_PAGE; i++)
            give(heaps[0], i);
        heap_collect_remote(heaps[0]);
    } else if (id == 1) { /* frees in both pages, perhaps while the owner collects */
        give(heaps[1], 0);
        give(heaps[1], IN_PAGE);
    } else {
        give(heaps[2], IN_PAGE + 1);
        give(heaps[2], 1);
    }
}

/* A page has a free block already, so the owner appends its list to the list of blocks that other
 * threads freed. Meanwhile these threads begin a new list. */
static void page_with_free(void) {
    new_heaps(3);
    options.promote_bytes = 0;
    for (unsigned i = 0; i < IN_PAGE; i++)
        take(heaps[0], i);
    give(heaps[0], 3);
    model_check(segment_page_of(chunks[0])->free, "no block is free");
}

static void thread_appends(unsigned id) {
    if (id == 0) {
        heap_collect_remote(heaps[0]);
        heap_collect_remote(heaps[0]);
    } else if (id == 1) {
        give(heaps[1], 0);
        give(heaps[1], 1);
    } else {
        give(heaps[2], 2);
    }
}

static void check_appended(void) {
    heap_collect_remote(heaps[0]);
    const struct page *page = segment_page_of(chunks[4]);
    size_t free_blocks = 0;
    for (void *const *block = page->free; block && free_blocks <= IN_PAGE; block = *block)
        free_blocks++;
    model_check(free_blocks == blocks_handed_out(page) - page->used, "free blocks are missing");
    check_all_gone();
}

/* --- heaps without a thread ------------------------------------------------------------------ */

static void thread_park(unsigned id) {
    if (id == 0) {
        give(heaps[0], 0);
        heap_park(heaps[0]);
    } else if (id == 1) {
        give(heaps[1], 1);
        give(heaps[1], 2);
    } else {
        struct heap *heap = heap_acquire(os_thread_id(), false);
        model_check(heap && heap != heaps[1] && heap != heaps[2], "a heap with two owners");
        take(heap, 5);
        give(heap, 5);
        heap_park(heap);
    }
}

static void parked_heap(void) {
    new_heaps(3);
    for (unsigned i = 0; i < IN_PAGE + 2; i++)
        take(heaps[0], i);
    for (unsigned i = 2; i < IN_PAGE; i++)
        give(heaps[0], i);
    heap_park(heaps[0]);
}

static void thread_parked(unsigned id) {
    /* each frees one of the last two chunks of one page and one of the current page */
    if (id < 2) {
        give(heaps[id + 1], id);
        give(heaps[id + 1], IN_PAGE + id);
    } else {
        struct heap *heap = heap_acquire(os_thread_id(), false);
        model_check(heap && heap != heaps[1] && heap != heaps[2], "a heap with two owners");
        take(heap, CHUNKS - 1);
        give(heap, CHUNKS - 1);
        heap_park(heap);
    }
}

/* Two heaps are parked, and two threads start and adopt them. */
static void parked_and_two(void) {
    parked_heap();
    heap_park(heaps[1]);
    heaps[0] = heaps[1] = NULL;
}

static void thread_adopt(unsigned id) {
    if (id < 2) {
        struct heap *heap = heap_acquire(os_thread_id(), false);
        heaps[id] = heap;
        model_check(heap && heap != heaps[1 - id] && heap != heaps[2], "a heap with two owners");
        take(heap, 10 + id);
        give(heap, 10 + id);
        heaps[id] = NULL;
        heap_park(heap);
    } else {
        give(heaps[2], 0);
        give(heaps[2], 1);
    }
}

static void check_adopted(void) {
    heaps[0] = heaps[2];
    check_all_gone();
}

/* --- heaps that are given back ---------------------------------------------------------------- */

enum { STAY = 8, RETIRED_NUMBER = 2 };
#define LOOKS_NS 100000000000UL /* longer than the longest pause between two looks */

/* The second heap is parked with two chunks. STAY newer heaps are parked without chunks; new
 * threads adopt them first. So only the second heap may be retired. */
static void parked_heap_and_others(void) {
    struct heap *others[STAY];
    new_heaps(3);
    take(heaps[1], 0);
    take(heaps[1], 1);
    for (unsigned i = 0; i < STAY; i++)
        others[i] = heap_acquire(os_thread_id(), false);
    for (unsigned i = 0; i < STAY; i++)
        heap_park(others[i]);
    heap_park(heaps[1]);
}

static void look_for_surplus(void) {
    for (unsigned i = 0; i < 4; i++) {
        retire_look();
        model_time_passes(LOOKS_NS);
    }
}

static void give_inside(struct heap *heap, unsigned slot) {
    store_owner(&heap->busy, 1);
    order_stores();
    give(heap, slot);
    (void)load_acquire(&heap_global.first); /* another thread may run here */
    model_check(heaps[1]->number == RETIRED_NUMBER, "a heap went while a thread was inside");
    order_stores();
    store_owner(&heap->busy, 0);
}

/* Two threads free the last chunks of the parked heap. */
static void thread_retired(unsigned id) {
    if (!id)
        look_for_surplus();
    else
        give_inside(heaps[id == 1 ? 0 : 2], id - 1);
}

static void check_retired(void) {
    look_for_surplus();
    model_check(heap_global.heaps == STAY + 3, "the heap without chunks was not retired");
    for (struct heap *heap = heap_global.first; heap; heap = heap->next)
        model_check(heap->number != RETIRED_NUMBER, "a retired heap is in the list");
    check_all_gone();
}

/* A new thread adopts the heap while it may be retired, allocates, and ends. */
static void thread_adopts_marked(unsigned id) {
    if (id) {
        struct heap *heap = heaps[1];
        give_inside(heaps[0], 0);
        give_inside(heaps[0], 1);
        for (unsigned i = 0; i <= STAY; i++)
            heap = heap_acquire(os_thread_id(), false);
        take(heap, 2);
        heap_park(heap);
    } else {
        look_for_surplus();
    }
}

static void check_adopts_marked(void) {
    look_for_surplus();
    give(heaps[0], 2);
    check_all_gone();
}

/* --- a context's own page that becomes a mixed page ------------------------------------------- */

static void own_page(void) {
    new_heaps(3);
    options.promote_bytes = 0;
    for (unsigned i = 0; i < IN_PAGE + 1; i++)
        take(heaps[0], i);
    for (unsigned i = 3; i < IN_PAGE; i++)
        give(heaps[0], i);
    model_check(segment_page_of(chunks[0])->kind == PAGE_OWN, "no page of the context's own");
    heap_publish_waste(heaps[0]);
    options.waste_kib = 0; /* the waste is now past its cap */
}

static void thread_own(unsigned id) {
    if (id == 0) {
        take_sized(heaps[0], 10, 1, BLOCK);
        model_check(segment_page_of(chunks[10])->kind == PAGE_MIXED, "the page was not shared");
        give(heaps[0], 0);
        heap_collect_remote(heaps[0]);
        give(heaps[0], 10);
    } else {
        give(heaps[id], id);
    }
}

/* --- the shared heap -------------------------------------------------------------------------- */

static void thread_shared(unsigned id) {
    if (id == 2) {
        give_if_there(heaps[2], 0);
        give_if_there(heaps[2], 1);
        return;
    }
    struct heap *heap = heap_shared_lock();
    model_check(heap, "the lock of the shared heap was not taken");
    take(heap, id);
    heap_shared_unlock(heap);
    heap = heap_shared_lock();
    take(heap, 3 + id);
    give(heap, 3 + id);
    heap_shared_unlock(heap);
}

static void check_shared(void) {
    for (unsigned i = 0; i < 2; i++) {
        if (chunks[i])
            give(heaps[0], i);
    }
    struct heap *heap = heap_shared_lock();
    bins_release_empty(heap, &heap->mixed);
    heap_shared_unlock(heap);
    check_all_gone();
}

/* --- locks ------------------------------------------------------------------------------------ */

static struct lock lock = LOCK_INIT(RANK_META);
static unsigned inside, entered;

static void change_something(void) {
    model_check(!inside, "two threads hold the lock");
    inside++;
    model_point(&lock.word);
    model_check(inside == 1, "two threads hold the lock");
    inside--;
    entered++;
}

static void nothing(void) {}

static void thread_lock(unsigned id) {
    for (int i = 0; i < 2; i++) {
        if (id < 2 || i == 0) {
            lock_take(&lock);
        } else if (!lock_try(&lock)) {
            entered++;
            continue;
        }
        change_something();
        lock_release(&lock);
    }
}

static void check_lock(void) {
    model_check(!lock.word && entered == 6, "the lock is not free, or was passed over");
}

/* Thread 0 forks twice, one fork inside the other, as a signal handler may do during a fork. The
 * others change data under the lock. */
static void thread_fork(unsigned id) {
    if (id) {
        lock_take(&lock);
        change_something();
        lock_release(&lock);
        return;
    }
    lock_fork_prepare(&lock, false);
    model_point(&lock.word);
    lock_fork_prepare(&lock, true);
    model_point(&lock.word);
    lock_fork_done(&lock, false);
    lock_fork_done(&lock, false);
    lock_take(&lock);
    change_something();
    lock_release(&lock);
}

static void check_fork(void) {
    model_check(!lock.word && !lock.fork && entered >= 2,
                "the lock is not free, or a thread did not get it");
    model_check(!lock_any_is_mine(), "the main thread still holds a lock");
}

/* --- emergencies, dumps, the tree ------------------------------------------------------------- */

static void thread_emergency(unsigned id) {
    if (id == 0) {
        struct page *page = segment_emergency_alloc(100, 16, contexts[0]);
        model_check(page, "out of memory");
        sizes[0] = 100;
        page->chunk[0] = page->chunk[50] = page->chunk[99] = 1;
        allocated[0]++;
        store_release(&chunks[0], page->chunk);
        region_settle(heaps[0]);
    } else if (id == 1) {
        give_if_there(heaps[1], 0);
    } else {
        region_settle(heaps[2]);
    }
}

/* After this both heaps have a view of the context: the second one has freed a chunk of the
 * first. */
static void handed_over(void) {
    new_heaps(3);
    take_sized(heaps[0], 2, 0, 100);
    give(heaps[1], 2);
}

/* Thread 2 sums like a dump while thread 0 allocates two chunks and thread 1 frees them. The
 * freeing thread has the older heap, which is read last. If the sum did not read all frees first,
 * it could miss an allocation whose free it counts. */
static void thread_dump(unsigned id) {
    if (id == 0) {
        take_sized(heaps[1], 0, 0, 100);
        take_sized(heaps[1], 1, 0, 100);
    } else if (id == 1) {
        give_if_there(heaps[0], 0);
        give_if_there(heaps[0], 1);
    } else {
        struct sum sum = sums_of(contexts[0]);
        model_check(sum.frees <= sum.allocs, "the dump counts more frees than allocations");
        model_check(sum.live_bytes >= 0 && sum.live_bytes <= 200,
                    "the dump counts bytes that no chunk has");
    }
}

/* Contexts whose views make the table of views grow. */
static uint32_t later[4];

static void table_about_to_grow(void) {
    new_heaps(2);
    take_sized(heaps[0], 0, 0, 100);
    for (uint32_t i = 0; heaps[0]->view_count * 2 < heaps[0]->slot_mask; i++) {
        struct tree_frame frame = {.address = 0x9000 + i, .module = MODULE_NONE};
        heap_view(heaps[0], tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED));
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct tree_frame frame = {.address = 0x8000 + i, .module = MODULE_NONE};
        later[i] = tree_child(TREE_ROOT, frame, TABLES_UNCOUNTED);
    }
}

/* The table of views grows while another thread reads it: that thread must find the view in the old
 * or the new table. */
static void thread_table(unsigned id) {
    if (id == 0) {
        uint32_t slots = heaps[0]->slot_mask;
        for (uint32_t i = 0; i < 4; i++)
            heap_view(heaps[0], later[i]);
        model_check(heaps[0]->slot_mask > slots, "the table did not grow");
        /* if the old table was freed, this allocation gets and overwrites its memory */
        uint32_t *again = meta_alloc((slots + 1) * sizeof *again);
        for (uint32_t i = 0; i <= slots; i++)
            store_owner(&again[i], 1);
    } else {
        for (int i = 0; i < 2; i++)
            model_check(sums_of(contexts[0]).allocs == 1, "a view was not found");
    }
}

static uint32_t made[3][TREE_INLINE_CHILDREN + 2];

static void thread_tree(unsigned id) {
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN + 2; i++) {
        unsigned which = id == 1 ? TREE_INLINE_CHILDREN + 1 - i : i;
        struct tree_frame frame = {.address = 0x5000 + which * 8, .module = MODULE_NONE};
        made[id][which] = tree_child(contexts[0], frame, TABLES_UNCOUNTED);
    }
}

static void check_tree(void) {
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN + 2; i++) {
        model_check(made[0][i] && made[0][i] == made[1][i] && made[0][i] == made[2][i],
                    "one path has two contexts");
        for (unsigned j = 0; j < i; j++)
            model_check(made[0][i] != made[0][j], "two paths have one context");
    }
    model_check(tree_count() == contexts[1] + 1 + TREE_INLINE_CHILDREN + 2,
                "the tree has a node too many");
}

/* Thread 0 looks up three paths while the other one sets the option depth to 0 and back to 32, as a
 * client may. */
static void thread_depth(unsigned id) {
    char lines[80];
    struct text text = {.bytes = lines, .capacity = sizeof lines};
    if (id) {
        for (int depth = 0; depth <= 32; depth += 32) {
            model_check(options_set(depth ? "depth=32" : "depth=0", &text) == OPTION_SET, lines);
            unwind_rules_new_generation();
        }
        return;
    }
    for (int i = 0; i < 3; i++) {
        struct view *view =
            context_view_searched(heaps[0], (uintptr_t)__builtin_frame_address(0), 16);
        model_check(view && (view->context == TREE_NO_PATHS || view->context >= TREE_FIXED_COUNT),
                    "no path, though there is memory");
    }
}

/* Defines heaps_SETUP(), which makes the heaps of three threads and calls SETUP(). */
#define BEFORE(setup)                                                                              \
    static void heaps_##setup(void) {                                                              \
        new_heaps(3);                                                                              \
        setup(heaps);                                                                              \
    }
BEFORE(paths_folded)
BEFORE(paths_unfolded)
BEFORE(paths_about_to_fold)
BEFORE(paths_nearly_full)
BEFORE(evictions_used)
BEFORE(evictions_handed_over)
BEFORE(evictions_balanced)
BEFORE(evictions_empty_nodes)
BEFORE(evictions_children)
BEFORE(evictions_marked)
BEFORE(evictions_parked)
BEFORE(evictions_folded)
BEFORE(evictions_sleeping)

static const struct scenario scenarios[] = {
    {"remote-frees-meet-the-owner", 3, false, three_chunks, thread_remote, check_all_gone},
    {"full-page-gets-free-blocks", 3, false, full_page, thread_full, check_all_gone},
    {"free-blocks-are-appended", 3, false, page_with_free, thread_appends, check_appended},
    {"heap-parked-and-adopted-under-frees", 3, false, three_chunks, thread_park, check_all_gone},
    {"frees-into-a-parked-heap", 3, false, parked_heap, thread_parked, check_all_gone},
    {"two-threads-adopt", 3, false, parked_and_two, thread_adopt, check_adopted},
    {"heap-is-retired-under-frees", 3, false, parked_heap_and_others, thread_retired,
     check_retired},
    {"heap-is-adopted-while-marked", 2, false, parked_heap_and_others, thread_adopts_marked,
     check_adopts_marked},
    {"own-page-becomes-mixed-under-frees", 3, false, own_page, thread_own, check_all_gone},
    {"shared-heap", 3, false, three_heaps, thread_shared, check_shared},
    {"slices-and-purge", 3, false, dirty_slices, thread_slices, check_slices},
    {"span-caches-and-purge", 3, false, two_span_caches, thread_span_caches, check_span_caches},
    {"segments-get-empty-under-a-dump", 3, false, two_segments, thread_segments, check_slices},
    {"huge-chunks-and-a-dump", 3, false, three_heaps, thread_huge, check_slices},
    {"lock", 3, false, nothing, thread_lock, check_lock},
    {"lock-taken-from-a-fork", 3, true, nothing, thread_fork, check_fork},
    {"lock-taken-from-a-fork-by-one", 2, true, nothing, thread_fork, check_fork},
    {"emergency-is-settled-and-freed", 3, false, three_heaps, thread_emergency, check_all_gone},
    {"dump-of-one-moment", 3, false, handed_over, thread_dump, check_all_gone},
    {"table-of-views-grows-under-a-dump", 2, false, table_about_to_grow, thread_table,
     check_all_gone},
    {"depth-is-set-meanwhile", 2, false, three_heaps, thread_depth, nothing},
    {"tree-grows-in-three-threads", 3, false, three_heaps, thread_tree, check_tree},
    {"folding-begins-under-walks", 2, false, heaps_paths_about_to_fold, thread_begin_folding,
     nothing},
    {"recursion-is-unfolded-under-walks", 2, false, heaps_paths_folded, thread_unfold, nothing},
    {"recursion-is-folded-again-under-walks", 2, false, heaps_paths_unfolded, thread_fold_again,
     nothing},
    {"library-is-closed-under-folded-walks", 2, false, heaps_paths_folded, thread_new_rules,
     nothing},
    {"paths-wait-in-two-threads", 2, false, heaps_paths_nearly_full, thread_wait, check_waited},
    {"paths-are-evicted-under-look-ups", 2, false, heaps_evictions_used, thread_evict_used,
     check_evictions},
    {"views-are-evicted-under-frees", 3, false, heaps_evictions_handed_over,
     thread_evict_handed_over, check_evictions},
    {"chunk-is-alive-under-an-eviction", 2, false, heaps_evictions_balanced, thread_evict_balanced,
     check_evictions},
    {"nodes-leave-under-look-ups", 3, false, heaps_evictions_empty_nodes, thread_evict_nodes,
     check_evictions},
    {"children-leave-under-look-ups", 2, false, heaps_evictions_children, thread_evict_children,
     nothing},
    {"dump-is-read-under-an-eviction", 2, false, heaps_evictions_marked, thread_evict_dump,
     check_evictions},
    {"heaps-are-parked-under-evictions", 3, false, heaps_evictions_parked, thread_evict_parked,
     check_evictions},
    {"parked-views-are-folded-under-a-free", 2, false, heaps_evictions_folded, thread_evict_folded,
     check_folded},
    {"sleeping-threads-are-visited", 2, false, heaps_evictions_sleeping, thread_evict_sleeping,
     check_evictions},
    {"quiet-page-is-punched-under-its-owner", 3, false, quiet_page, thread_quiet, check_quiet},
    {"quiet-page-goes-before-it-is-punched", 3, false, quiet_page, thread_quiet_goes, check_quiet},
    {"quiet-page-becomes-a-large-chunk", 3, false, quiet_page, thread_quiet_becomes_large,
     check_large},
    {"quiet-page-is-left-to-its-owner", 3, false, quiet_page_and_gate, thread_quiet_between,
     check_quiet},
    {"chunks-are-collected-for-a-sleeper", 3, false, handed_page, thread_collects, check_collected},
    {"page-goes-while-it-is-collected", 3, false, handed_page, thread_collects_last,
     check_collected},
    {"two-threads-sweep-alone", 2, false, heaps_evictions_used, thread_evict_alone,
     check_evictions},
    {"budget-is-taken-by-three", 3, false, budget_for_two, thread_budget, check_budget},
};

int main(int argc, char **argv) {
    setenv("MEMCTX_CONTROL", "off", 1);
    options.control = CONTROL_OFF;
    return model_main(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
