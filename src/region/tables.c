/* SPDX-License-Identifier: MIT */
/* The budget of the library's own tables; see tables.h. */
#include "region/tables.h"
#include "base/options.h"
#include "region/heap.h"

int64_t tables_used_bytes START_PAGE, tables_trace_bytes START_PAGE, tables_idle_bytes START_PAGE;
uint32_t tables_heaps START_PAGE;
bool tables_want_traces START_PAGE;
int64_t tables_live_bytes START_PAGE = -1;

/* Returns that percentage of the bytes of the blocks in use. */
static int64_t share_of_blocks(int64_t percent) {
    return (segment_used_bytes() - load_relaxed(&heap_global.own_free)) / 100 * percent;
}

bool tables_ask_live(void) {
    int64_t share = load_relaxed(&options.tables);
    return share < 0 && share_of_blocks(-share) > TABLES_LEAST_BYTES;
}

int64_t tables_limit_known START_PAGE = TABLES_LEAST_BYTES;

static int64_t limit_of_rest(void) {
    int64_t limit = load_relaxed(&options.tables);
    if (limit < 0) {
        int64_t share = share_of_blocks(-limit), live = load_relaxed(&tables_live_bytes);
        if (share > TABLES_LEAST_BYTES)
            share = live < 0 ? share / 2 : live / 100 * -limit;
        limit = share;
        limit = limit < TABLES_LEAST_BYTES ? TABLES_LEAST_BYTES : limit;
    }
    limit += (TABLES_THREAD_BYTES - TABLES_HEAP_BYTES) * load_relaxed(&tables_heaps);
    store_owner(&tables_limit_known, limit); /* a lost store is made good by the next */
    return limit;
}

int64_t tables_limit_bytes(void) {
    return limit_of_rest() + TABLES_HEAP_BYTES * load_relaxed(&tables_heaps);
}

int64_t tables_held_bytes(void) {
    return load_relaxed(&tables_used_bytes) + load_relaxed(&tables_trace_bytes) +
           TABLES_HEAP_BYTES * load_relaxed(&tables_heaps);
}

bool tables_take(int64_t bytes, enum tables_share share) {
    if (share == TABLES_UNCOUNTED)
        return true;
    int64_t *used = share == TABLES_TRACE ? &tables_trace_bytes : &tables_used_bytes;
    int64_t *other = share == TABLES_TRACE ? &tables_used_bytes : &tables_trace_bytes;
    int64_t now = add_relaxed(used, bytes) + bytes, limit = limit_of_rest();
    int64_t all = now + load_relaxed(other), part = share == TABLES_TRACE ? all : now;
    if (UNLIKELY(all * TABLES_PARTS > limit * TABLES_CROWDED) && share != TABLES_TRACE)
        store_owner(&tables_want_traces, true);
    if (LIKELY(part * TABLES_PARTS <= limit * (int64_t)share) &&
        LIKELY(all + load_relaxed(&tables_idle_bytes) <= limit))
        return true;
    if (share == TABLES_MUST)
        return true;
    add_relaxed(used, -bytes);
    return false;
}
