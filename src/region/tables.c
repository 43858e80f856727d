/* SPDX-License-Identifier: MIT */
/* The budget of the library's own tables; see tables.h. */
#include "region/tables.h"
#include "base/options.h"
#include "region/heap.h"

int64_t tables_used_bytes START_PAGE, tables_trace_bytes START_PAGE, tables_idle_bytes START_PAGE;
uint32_t tables_heaps START_PAGE;
bool tables_want_traces START_PAGE;
int64_t tables_live_bytes START_PAGE = -1;

/* Returns `percent` percent of the bytes in pages and large chunks, less the free bytes in pages of
 * single contexts (heap_global.own_free). */
static int64_t share_of_blocks(int64_t percent) {
    return (segment_used_bytes() - load_relaxed(&heap_global.own_free)) / 100 * percent;
}

/* greatest number of parts of the limit that tables_ends_bytes returns */
#define ENDS_PARTS 4

bool tables_ask_live(void) {
    int64_t share = load_relaxed(&options.tables);
    return share < 0 && share_of_blocks(-share) > TABLES_LEAST_BYTES;
}

int64_t tables_limit_known START_PAGE = TABLES_LEAST_BYTES;

/* Returns the limit without TABLES_THREAD_BYTES for threads, and stores it in tables_limit_known. A
 * share of the live bytes is computed from the control thread's last sum (tables_live_bytes), or by
 * share_of_blocks if that gives less. */
static int64_t limit_without_threads(void) {
    int64_t limit = load_relaxed(&options.tables);
    if (limit < 0) {
        int64_t percent = -limit, blocks = share_of_blocks(percent);
        int64_t live = load_relaxed(&tables_live_bytes) / 100 * percent;
        limit = live < blocks ? live : blocks;
        limit = limit / 8 * TABLES_LIVE_PARTS;
        limit = limit < TABLES_LEAST_BYTES ? TABLES_LEAST_BYTES : limit;
    }
    store_owner(&tables_limit_known, limit); /* if two threads store, either value will do */
    return limit;
}

int64_t tables_limit_bytes(void) {
    return limit_without_threads() + TABLES_THREAD_BYTES * load_relaxed(&tables_heaps);
}

int64_t tables_held_bytes(int64_t *limit) {
    int64_t heaps = TABLES_THREAD_BYTES * load_relaxed(&tables_heaps);
    *limit = limit_without_threads() + heaps;
    return load_relaxed(&tables_used_bytes) + load_relaxed(&tables_trace_bytes) + heaps;
}

void tables_count_heap(int change, int64_t kept) {
    add_relaxed(&tables_heaps, (uint32_t)change);
    tables_add(change > 0 ? -kept : kept);
}

/* Returns how many parts of the limit (TABLES_PARTS) the bytes in use and the idle bytes
 * (tables_idle_bytes) may have together after a request. Idle bytes of one table cannot serve
 * another table or another heap, so they must not take the room of sites. */
static int64_t parts_with_idle(enum tables_share share) {
    if (share == TABLES_TRACE)
        return TABLES_PARTS;
    return share <= TABLES_PATH   ? (int64_t)share
           : share < TABLES_NEAR  ? TABLES_ADMITTED_IDLE
           : share < TABLES_LARGE ? TABLES_NEAR_IDLE
           : share < TABLES_SITE  ? TABLES_LARGE_IDLE
                                  : TABLES_PARTS;
}

/* Returns the bytes of the limit that a request must leave free. A request for a site may leave
 * less free: traces of other threads may have the room, and these threads give it back only later.
 */
static int64_t kept_free(int64_t limit, enum tables_share share) {
    int64_t reserve = tables_reserve(limit);
    return share == TABLES_SITE ? reserve / 4 : reserve;
}

int64_t tables_ends_bytes(void) {
    int64_t bytes = (int64_t)load_relaxed(&tables_heaps) * TABLES_PARKED_BYTES;
    int64_t most = load_relaxed(&tables_limit_known) / TABLES_PARTS * ENDS_PARTS;
    return bytes < most ? bytes : most;
}

/* Returns the bytes that are compared with the share's part of the limit. These are the bytes in
 * use and, in the shares above TABLES_PATH and below TABLES_RULE, the bytes that the tables need
 * when threads end. Paths that had to wait have these shares. They leave that room free, because
 * sites need room at the ends of threads, too. */
static int64_t with_ends(int64_t now, enum tables_share share) {
    return share > TABLES_PATH && share < TABLES_RULE ? now + tables_ends_bytes() : now;
}

/* The sum of the bytes in use and the idle bytes does not change, so only the share is checked. */
bool tables_reuse(int64_t bytes, enum tables_share share) {
    if (share == TABLES_UNCOUNTED)
        return true;
    int64_t limit = limit_without_threads(), before = load_relaxed(&tables_used_bytes);
    do {
        int64_t now = with_ends(before + bytes, share);
        if (share != TABLES_MUST && now * TABLES_PARTS > limit * (int64_t)share)
            return false;
    } while (!cas_acq_rel(&tables_used_bytes, &before, before + bytes));
    tables_add_idle(-bytes);
    return true;
}

/* True if a request of this share may be granted. `now`: the bytes that are in use after the
 * request, of traces if the share is TABLES_TRACE, else of all other tables. `all`: the bytes of
 * both kinds. */
static bool fits(int64_t now, int64_t all, enum tables_share share) {
    int64_t limit = load_relaxed(&tables_limit_known), idle = load_relaxed(&tables_idle_bytes);
    int64_t part = share == TABLES_TRACE ? all : with_ends(now, share);
    return part * TABLES_PARTS <= limit * (int64_t)share &&
           (with_ends(now, share) + idle) * TABLES_PARTS <= limit * parts_with_idle(share) &&
           all + idle <= limit - kept_free(limit, share);
}

bool tables_have_room(int64_t bytes, enum tables_share share) {
    limit_without_threads();
    int64_t now = load_relaxed(&tables_used_bytes) + bytes;
    return fits(now, now + load_relaxed(&tables_trace_bytes), share);
}

bool tables_take(int64_t bytes, enum tables_share share) {
    if (share == TABLES_UNCOUNTED)
        return true;
    int64_t *used = share == TABLES_TRACE ? &tables_trace_bytes : &tables_used_bytes;
    int64_t *other = share == TABLES_TRACE ? &tables_used_bytes : &tables_trace_bytes;
    int64_t limit = limit_without_threads(), before = load_relaxed(used), now, all;
    /* The bytes are taken only once they are known to fit, so that a reader never sees bytes that
     * are refused. Traces must leave a part of the limit free (kept_free). So the sum stays below
     * the limit even if another thread takes bytes for traces at the same time. */
    do {
        now = before + bytes;
        all = now + load_relaxed(other);
        if (UNLIKELY(all * TABLES_PARTS > limit * TABLES_CROWDED) && share != TABLES_TRACE)
            store_owner(&tables_want_traces, true);
        if (!fits(now, all, share) && share != TABLES_MUST)
            return false;
    } while (!cas_acq_rel(used, &before, now));
    return true;
}
