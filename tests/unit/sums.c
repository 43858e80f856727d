/* SPDX-License-Identifier: MIT */
/* Tests of src/figures/sums.c and of the tree under threads: sums over heaps, marks, resets. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/sums_of.h"
#include "context/tree.h"
#include "control/dump.h"
#include "control/marks.h"
#include "control/resets.h"
#include "os/meta.h"
#include "region/region.h"

static char words[256];

static uint32_t node(uint32_t parent, uintptr_t address) {
    struct tree_frame frame = {.address = address, .module = MODULE_NONE};
    return tree_child(parent, frame, TABLES_UNCOUNTED);
}

static char room[WIRE_ANSWER_MAX] __attribute__((aligned(8)));

/* Asks for a piece of a dump and returns its head, in `room`; the records follow the head. */
static const struct wire_piece *piece(uint32_t status, const struct wire_piece_request *request) {
    struct answer answer = {.bytes = room, .capacity = sizeof room};
    cr_assert_eq(piece_run(request, &answer), status);
    return (const void *)room;
}

/* Returns the entry of a context in a mark. Reads all entries, a few at a time. */
static struct wire_mark_entry entry_of(const char *name, uint32_t context, uint32_t *count) {
    struct wire_mark_entry found = {.context = WIRE_NONE};
    struct wire_piece_request request = {.part = WIRE_PART_ENTRIES, .most = 7};
    strcpy(request.mark, name);
    *count = 0;
    do {
        const struct wire_piece *head = piece(WIRE_OK, &request);
        const struct wire_mark_entry *entries = (const void *)(head + 1);
        cr_assert(!head->next || head->next > request.from);
        for (uint32_t i = 0; i < head->count; i++, ++*count)
            if (entries[i].context == context)
                found = entries[i];
        request.from = head->next;
    } while (request.from);
    return found;
}

/* Allocates and frees at random in two heaps, one of which is parked and adopted now and then.
 * Every sum must equal a plain count. */
Test(sums, invariant_1_sums_are_exact) {
    enum { CONTEXTS = 4, SLOTS = 500 };
    static struct {
        void *chunk;
        size_t size;
        int context;
    } slots[SLOTS];
    struct sum wanted[CONTEXTS] = {0};
    uint32_t ids[CONTEXTS];
    struct heap *heaps[2];
    srand(31);
    for (uintptr_t i = 0; i < CONTEXTS; i++)
        ids[i] = node(TREE_ROOT, 0x100 + i);
    for (int i = 0; i < 2; i++)
        heaps[i] = heap_acquire(os_thread_id(), false);
    for (int step = 0; step < 30000; step++) {
        int i = rand() % SLOTS;
        struct heap *heap = heaps[rand() % 2];
        if (slots[i].chunk == NULL) {
            slots[i].size = (size_t)rand() % 12000;
            slots[i].context = rand() % CONTEXTS;
            slots[i].chunk =
                region_alloc(heap, heap_view(heap, ids[slots[i].context]), slots[i].size, false);
            struct sum *sum = &wanted[slots[i].context];
            sum->allocs++;
            sum->live_bytes += (int64_t)slots[i].size;
            sum->requested_cum_bytes += (int64_t)slots[i].size;
        } else {
            region_free(heap, slots[i].chunk);
            slots[i].chunk = NULL;
            wanted[slots[i].context].frees++;
            wanted[slots[i].context].live_bytes -= (int64_t)slots[i].size;
        }
        if (step % 1000 == 999) {
            heap_park(heaps[1]);
            heaps[1] = heap_acquire(os_thread_id(), false);
        }
        for (int c = 0; step % 500 == 499 && c < CONTEXTS; c++) {
            struct sum sum = sums_of(ids[c]);
            cr_assert_eq(sum.allocs, wanted[c].allocs);
            cr_assert_eq(sum.frees, wanted[c].frees);
            cr_assert_eq(sum.live_bytes, wanted[c].live_bytes);
            cr_assert_eq(sum.requested_cum_bytes, wanted[c].requested_cum_bytes);
        }
    }
    cr_assert_eq(heap_global.lost_views, 0);
}

Test(sums, invariant_6_reset_frees_nothing_and_takes_a_subtree) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    uint32_t top = node(TREE_ROOT, 0x10), below = node(top, 0x20), other = node(TREE_ROOT, 0x30);
    char *kept = region_alloc(heap, heap_view(heap, below), 100, false);
    region_free(heap, region_alloc(heap, heap_view(heap, below), 900, false));
    cr_assert(region_alloc(heap, heap_view(heap, other), 70, false) != NULL);
    memset(kept, 5, 100);
    struct text text = {.bytes = words, .capacity = sizeof words};
    struct wire_reset_request request = {.context = top};
    cr_assert_eq(reset_run(&request, &text), WIRE_OK);
    struct sum sum = sums_of(below);
    cr_assert_eq(sum.base_allocs, 2);
    cr_assert_eq(sum.base_frees, 1);
    cr_assert_eq(sum.base_requested_cum_bytes, 1000);
    cr_assert_eq(sum.live_bytes, 100, "live bytes stay");
    cr_assert_eq(sum.peak_bytes, 100, "the peak starts anew");
    cr_assert_eq(sums_of(other).base_allocs, 0, "outside the subtree nothing changes");
    for (int i = 0; i < 1000; i++) {
        char *chunk = region_alloc(heap, heap_view(heap, below), 100, false);
        cr_assert_neq(chunk, kept);
        memset(chunk, 6, 100);
    }
    cr_assert_eq(kept[0] + kept[99], 10);
    heap_park(heap); /* parking moves the counters and the baseline */
    cr_assert_eq(sums_of(below).base_allocs, 2);
    cr_assert_eq(sums_of(below).allocs, 1002);
    cr_assert_eq(sums_of(below).peak_bytes, WIRE_UNKNOWN, "of a thread that has ended");
    request.context = tree_count();
    cr_assert_eq(reset_run(&request, &text), WIRE_REFUSED);
}

Test(sums, marks_keep_their_numbers_move_and_run_out) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    uint32_t id = node(TREE_ROOT, 0x10), count;
    struct text text = {.bytes = words, .capacity = sizeof words};
    struct wire_mark_request request = {.name = "first"};
    region_alloc(heap, heap_view(heap, id), 10, false);
    cr_assert_eq(mark_set(&request, &text), WIRE_OK);
    region_alloc(heap, heap_view(heap, id), 10, false);
    cr_assert_eq(entry_of("first", id, &count).allocs, 1);
    cr_assert_eq(count, 1, "of contexts in which nothing happened there is none");
    cr_assert_eq(mark_set(&request, &text), WIRE_OK);
    cr_assert_eq(entry_of("first", id, &count).allocs, 2, "a mark of the same name moves");
    for (int i = 1; i < WIRE_MARKS_MAX; i++) {
        request = (struct wire_mark_request){.name = {'m', (char)('A' + i)}};
        cr_assert_eq(mark_set(&request, &text), WIRE_OK);
    }
    request = (struct wire_mark_request){.name = ""};
    cr_assert_eq(mark_set(&request, &text), WIRE_REFUSED, "no slot is left");
    piece(WIRE_REFUSED, &(struct wire_piece_request){.part = WIRE_PART_ENTRIES, .mark = "none"});
}

/* A forked child has no marks, so a mark of the parent must not keep a context of the child. */
Test(sums, a_forked_child_keeps_no_context_for_its_parents_marks) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    uint32_t id = node(TREE_ROOT, 0x10);
    struct text text = {.bytes = words, .capacity = sizeof words};
    region_alloc(heap, heap_view(heap, id), 10, false);
    cr_assert_eq(mark_set(&(struct wire_mark_request){.name = "m"}, &text), WIRE_OK);
    cr_assert(tree_node(id)->flags & TREE_MARKED);
    int64_t marked_bytes = tables_used_bytes;
    marks_forget();
    cr_assert_lt(tables_used_bytes, marked_bytes, "the child shares the mark with its parent");
    marks_look(); /* as the child's control thread does in each turn */
    cr_assert_not(tree_node(id)->flags & TREE_MARKED);
    cr_assert_eq(mark_set(&(struct wire_mark_request){.name = "own"}, &text), WIRE_OK);
    marks_look();
    cr_assert(tree_node(id)->flags & TREE_MARKED, "its own marks keep theirs");
}

/* One heap allocates, the other one frees, so that a mark has small, large and negative figures. */
Test(sums, a_mark_has_every_context) {
    enum { MANY = 3000 };
    struct heap *heap = heap_acquire(os_thread_id(), false);
    struct heap *other = heap_acquire(os_thread_id(), false);
    struct text text = {.bytes = words, .capacity = sizeof words};
    uint32_t first = tree_count(), count;
    for (uintptr_t i = 0; i < MANY; i++) {
        uint32_t id = node(TREE_ROOT, 0x1000 + i);
        char *chunk = region_alloc(heap, heap_view(heap, id), i * 40, false);
        if (i % 3 == 0)
            region_free(other, chunk);
        node(id, 0x10); /* a context without allocations */
    }
    cr_assert_eq(mark_set(&(struct wire_mark_request){.name = "all"}, &text), WIRE_OK);
    cr_assert_eq(reset_run(&(struct wire_reset_request){.context = first + 2}, &text), WIRE_OK);
    for (uint32_t i = 0; i < MANY; i += 331) {
        struct wire_mark_entry entry = entry_of("all", first + 2 * i, &count);
        /* the reset subtracts the allocation from the mark, too */
        int64_t freed = i % 3 == 0, gone = i == 1;
        cr_assert_eq(count, MANY);
        cr_assert_eq(entry.requested_bytes, freed ? 0 : (int64_t)i * 40);
        cr_assert_eq(entry.allocs, 1 - gone);
        cr_assert_eq(entry.frees, freed);
        cr_assert_eq(entry.live_chunks, 1 - freed);
        cr_assert_eq(entry.requested_cum_bytes, (int64_t)i * 40);
    }
    cr_assert_eq(entry_of("all", first + 2, &count).allocs, 0, "a reset moves both sides");
    cr_assert_eq(entry_of("all", first + 2, &count).requested_bytes, 40);
    cr_assert_eq(entry_of("all", first + 1, &count).context, WIRE_NONE);
}

/* Marks take at most an eighth of the tables' limit. When little of that is left, a mark omits the
 * contexts that hold least; when nothing is left, marks are refused. */
Test(sums, marks_have_a_bound) {
    enum { MANY = 60000 };
    struct heap *heap = heap_acquire(os_thread_id(), false);
    struct text text = {.bytes = words, .capacity = sizeof words - 1};
    struct wire_mark_request request = {.name = "A"};
    uint32_t count, status = WIRE_OK;
    options.tables = 16 << 20;
    for (uintptr_t i = 0; i < MANY; i++) {
        struct view *view = heap_view(heap, node(TREE_ROOT, 0x1000 + i));
        void *chunk = region_alloc(heap, view, 8, false);
        if (i % 2)
            region_free(heap, chunk);
    }
    int64_t used = tables_used_bytes, meta = meta_usage(false).used_bytes, before = used;
    bool left_out = false;
    while (status == WIRE_OK && request.name[0] < 'P') {
        before = tables_used_bytes;
        text.length = 0;
        status = mark_set(&request, &text);
        words[text.length] = 0;
        if (status == WIRE_OK && strstr(words, "leaves out"))
            cr_assert(strstr(words, " contexts that hold nothing; for each") ||
                          strstr(words, " contexts that hold at most 8 bytes each"),
                      "%s", words);
        left_out |= strstr(words, "leaves out") != NULL;
        request.name[0]++;
    }
    cr_assert_eq(status, WIRE_REFUSED);
    cr_assert_gt(request.name[0], 'C', "there is room for some");
    cr_assert(left_out, "the last one that had room is not whole");
    cr_assert(strstr(words, "no room for the mark"), "%s", words);
    cr_assert_eq(tables_used_bytes, before, "what was refused was given back");
    cr_assert_leq(before - used, tables_limit_bytes() / 8, "bytes of all marks");
    cr_assert_eq(before - used, meta_usage(false).used_bytes - meta, "all are counted");
    strcpy(request.name, "A");
    cr_assert_eq(mark_set(&request, &text), WIRE_OK, "in its own place it has room");
    entry_of("A", 0, &count);
    cr_assert_eq(count, MANY);
}

/* Asks for pieces with random cursors, as a hostile client may. */
Test(sums, pieces_from_anywhere) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    struct text text = {.bytes = words, .capacity = sizeof words - 1};
    for (uintptr_t i = 0; i < 2000; i++)
        region_alloc(heap, heap_view(heap, node(TREE_ROOT, 0x1000 + i)), i * 7, false);
    mark_set(&(struct wire_mark_request){.name = "m"}, &text);
    srand(5);
    for (int i = 0; i < 20000; i++) {
        uint64_t from = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand();
        struct wire_piece_request request = {.part = (uint32_t)rand() % (WIRE_PARTS + 1),
                                             .flags = (uint32_t)rand() % 8,
                                             .from = from >> rand() % 64,
                                             .mark = "m"};
        struct answer answer = {.bytes = room, .capacity = sizeof room};
        const struct wire_piece *head = (const void *)room;
        uint32_t status = piece_run(&request, &answer);
        cr_assert_eq(status == WIRE_OK, request.part < WIRE_PARTS);
        if (status == WIRE_OK)
            cr_assert(!head->next || head->next > request.from);
    }
}

/* A context with more threads than one record holds has several records, which must not count
 * anything twice. */
Test(sums, threads_in_several_records) {
    enum { HEAPS = 600, BYTES = 16 };
    uint32_t id = node(TREE_ROOT, 0x10), records = 0, views = 0;
    for (uint32_t i = 0; i < HEAPS; i++) {
        struct heap *heap = heap_acquire(os_thread_id(), false);
        region_alloc(heap, heap_view(heap, id), BYTES, false);
    }
    struct wire_piece_request request = {.flags = WIRE_DUMP_THREADS, .from = WIRE_FROM_ID(id)};
    int64_t allocs = 0, bytes = 0;
    do {
        const struct wire_piece *head = piece(WIRE_OK, &request);
        const char *at = (const char *)(head + 1);
        for (uint32_t i = 0; i < head->count; i++) {
            const struct wire_context *context = (const void *)at;
            const struct wire_sums *sums = (const void *)(context + 1);
            cr_assert_eq(context->id, id);
            cr_assert_eq(!!(context->holds & WIRE_CONTEXT_FURTHER), records > 0);
            records++;
            views += context->views;
            allocs += sums->allocs;
            bytes += sums->requested_bytes;
            at += context->bytes;
        }
        request.from = head->next;
    } while (request.from);
    cr_assert_eq(records, (HEAPS + SUMS_HEAPS) / SUMS_HEAPS);
    cr_assert_eq(views, HEAPS);
    cr_assert_eq(allocs, HEAPS);
    cr_assert_eq(bytes, HEAPS * BYTES);
    cr_assert_eq(sums_of(id).allocs, HEAPS);
}

/* The table of slots grows while a reader uses it. Old tables stay until the reader has left, and
 * it finds every view. */
Test(sums, views_are_found_while_slots_grow) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    uint32_t first = tree_count();
    for (uintptr_t i = 0; i < 40000; i++)
        node(TREE_ROOT, 0x1000 + i);
    for (uint32_t i = 0; i < 40000; i++) {
        if (i % 7000 == 0)
            heap_read_begin();
        heap_view(heap, first + i);
        if (i % 7000 == 3000) {
            struct heap_views walk = heap_views_of(first + i - 1234 % (i + 1));
            const struct view *view = heap_views_next(&walk);
            cr_assert(view && view->context == first + i - 1234 % (i + 1));
            cr_assert_null(heap_views_next(&walk));
            heap_read_end();
        }
    }
    cr_assert_eq(heap->slots_retired, 0);
}

enum { PATHS = 5000 };
static uint32_t found[4][PATHS];

static void *intern(void *argument) {
    uint32_t *ids = argument;
    for (uintptr_t i = 0; i < PATHS; i++)
        ids[i] = node(i % 3 && i > 3 ? ids[i / 3] : TREE_ROOT, 0x1000 + i);
    return NULL;
}

Test(tree, threads_that_intern_the_same_paths_get_equal_ids) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, intern, found[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(memcmp(found[i], found[0], sizeof found[0]), 0);
    cr_assert_eq(tree_count(), PATHS + TREE_FIXED_COUNT);
}

static unsigned kept_count(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < MARKS_KEPT_MAX; i++)
        count += *marks_kept_shown && (*marks_kept_shown)->slots[i].uptime_ns;
    return count;
}

#define KEPT 4U

static void make_kept_marks(void) {
    options.marks = MEMCTX_MARKS_PACK + KEPT; /* one each millisecond */
    for (int i = 0; i < 10000 && kept_count() < KEPT; i++) {
        marks_look();
        usleep(1000);
    }
    cr_assert_eq(kept_count(), KEPT);
}

/* A mark that a user sets matters more than the oldest marks of MEMCTX_MARKS. */
Test(sums, a_mark_takes_the_room_of_automatic_marks) {
    enum { MANY = 10000 };
    struct heap *heap = heap_acquire(os_thread_id(), false);
    struct text text = {.bytes = words, .capacity = sizeof words - 1};
    struct wire_mark_request request = {.name = "A"};
    options.tables = 4 << 20;
    for (uintptr_t i = 0; i < MANY; i++)
        cr_assert(region_alloc(heap, heap_view(heap, node(TREE_ROOT, 0x1000 + i)), 8, false));
    make_kept_marks();
    while (mark_set(&request, &text) == WIRE_OK && request.name[0] < 'P')
        request.name[0]++;
    words[text.length] = 0;
    cr_assert(strstr(words, "no room for the mark"), "%s", words);
    cr_assert_eq(kept_count(), 1, "the newest one stays");
}

/* If the tables are full without the automatic marks, dropping these would make no room. */
Test(sums, automatic_marks_are_not_dropped_in_vain) {
    struct heap *heap = heap_acquire(os_thread_id(), false);
    struct text text = {.bytes = words, .capacity = sizeof words - 1};
    cr_assert(region_alloc(heap, heap_view(heap, node(TREE_ROOT, 0x10)), 8, false));
    make_kept_marks();
    tables_add(tables_limit_bytes());
    cr_assert_eq(mark_set(&(struct wire_mark_request){.name = "A"}, &text), WIRE_REFUSED);
    cr_assert_eq(kept_count(), KEPT);
}
