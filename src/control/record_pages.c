/* SPDX-License-Identifier: MIT */
/*
 * Adds up, for a moment of the recording, what each watched context holds in pages.
 *
 * The pages are read as for `memctx frag --quick` (WIRE_DUMP_LIGHT), piece by piece, and each piece
 * is added up at once, so the memory for the pieces is bounded. In a process with many pages a look
 * at all pages takes long. The recording may use one part in RECORD_SHARE of the time as CPU time,
 * and the looks at pages take only the part of it that the moments leave. The moments in between
 * say nothing about pages. Cannot do: tell which memory of the pages is resident.
 */
#include "control/dump.h"
#include "control/recorder.h"
#include "os/os.h"

/* CPU time for looks at the start. Later, unused CPU time is kept up to this plus the time of the
 * last look. */
#define CREDIT_NS 20000000
#define LATEST_NS 600000000000ULL /* this long after a look, the next look is made in any case */

void recorder_add_held(struct record_held *sum, const struct record_held *part) {
    sum->block_bytes += part->block_bytes;
    sum->reserved_bytes += part->reserved_bytes;
    sum->alone_bytes += part->alone_bytes;
    sum->alone_free_bytes += part->alone_free_bytes;
    sum->shared_free_bytes += part->shared_free_bytes;
}

/* Returns the sums of a context; those of the rest if it is not watched. */
static struct record_held *held_of(struct record_pages *pages, uint32_t id) {
    const struct watched *watched = recorder->tables->watched;
    uint32_t low = 0, high = recorder->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (watched[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < recorder->count && watched[low].id == id ? &recorder->tables->held[low]
                                                          : &pages->rest;
}

static void add_own(struct record_pages *pages, const struct wire_page *page) {
    bool large = page->kind == WIRE_PAGE_LARGE;
    int64_t live = (int64_t)(page->live_bytes - page->guard_bytes);
    int64_t touched = (int64_t)page->touched_bytes;
    struct record_held part = {.block_bytes = live, .reserved_bytes = (int64_t)page->bytes};
    if (large)
        touched = live; /* the rest of its last OS page is a guard */
    if (page->live) {
        part.alone_bytes = touched;
        part.alone_free_bytes = touched - live;
    }
    pages->own_bytes += touched;
    recorder_add_held(held_of(pages, page->context), &part);
}

static void add_mixed(struct record_pages *pages, const struct wire_page *page) {
    const struct wire_share *shares = (const void *)(page + 1);
    int64_t touched = (int64_t)page->touched_bytes;
    int64_t unused = touched - (int64_t)page->live_bytes;
    if (!page->further) { /* else the piece before counted the page */
        pages->mixed_bytes += touched;
        pages->mixed_block_bytes += (int64_t)page->live_bytes;
    }
    for (uint32_t i = 0; i < page->share_count; i++) {
        struct record_held part = {.block_bytes = (int64_t)shares[i].live * page->block_bytes};
        part.reserved_bytes = part.block_bytes;
        if (shares[i].live >= page->live) {
            part.alone_bytes = touched;
            part.alone_free_bytes = unused;
        } else {
            part.shared_free_bytes = unused * shares[i].live / page->live;
        }
        recorder_add_held(held_of(pages, shares[i].context), &part);
    }
}

static void add_piece(struct record_pages *pages, const struct answer *answer) {
    const char *at = answer->bytes + sizeof(struct wire_piece);
    while (at < answer->bytes + answer->length) {
        const struct wire_page *page = (const void *)at;
        if (page->context == WIRE_NONE)
            add_mixed(pages, page);
        else
            add_own(pages, page);
        at += sizeof *page + page->share_count * sizeof(struct wire_share);
    }
}

/* Adds the part of the time since the last call that the recording may use to its credit. Returns
 * true if the credit is enough for a look at the pages, or if the last look is long past. */
static bool is_affordable(uint64_t now) {
    int64_t most = (int64_t)recorder->paged_cpu_ns + CREDIT_NS;
    uint64_t since = recorder->credit_at_ns ? now - recorder->credit_at_ns : UINT64_MAX;
    recorder->credit_ns +=
        since / RECORD_SHARE < (uint64_t)most ? (int64_t)(since / RECORD_SHARE) : most;
    if (recorder->credit_ns > most)
        recorder->credit_ns = most;
    recorder->credit_at_ns = now;
    return recorder->credit_ns >= (int64_t)recorder->paged_cpu_ns ||
           now - recorder->paged_at_ns > LATEST_NS;
}

bool recorder_read_pages(struct record_pages *pages, uint64_t now) {
    struct wire_piece_request request = {.part = WIRE_PART_PAGES, .flags = WIRE_DUMP_LIGHT};
    struct answer answer = {.bytes = recorder->tables->moment, .capacity = MOMENT_BYTES};
    uint64_t started = os_thread_cpu_ns();
    if (!is_affordable(now))
        return false;
    *pages = (struct record_pages){0};
    __builtin_memset(recorder->tables->held, 0, recorder->count * sizeof recorder->tables->held[0]);
    do {
        answer.length = 0;
        if (piece_run(&request, &answer) != WIRE_OK)
            return false;
        add_piece(pages, &answer);
        request.from = ((const struct wire_piece *)(void *)answer.bytes)->next;
    } while (request.from);
    recorder->paged_at_ns = now;
    recorder->paged_cpu_ns = os_thread_cpu_ns() - started;
    return true;
}

uint64_t recorder_pay(uint64_t cpu_ns, bool paged) {
    bool paid = paged && recorder->credit_ns >= (int64_t)recorder->paged_cpu_ns;
    recorder->credit_ns -= (int64_t)cpu_ns;
    return paid && cpu_ns > recorder->paged_cpu_ns ? cpu_ns - recorder->paged_cpu_ns : cpu_ns;
}
