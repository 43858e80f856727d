/* SPDX-License-Identifier: MIT */
/* The budget of the library's own tables; see tables.h. */
#include "region/tables.h"
#include "base/options.h"
#include "region/heap.h"

int64_t tables_used_bytes FORK_PAGE;
uint32_t tables_threads FORK_PAGE;
int64_t tables_limit_known FORK_PAGE = TABLES_LEAST_BYTES;

int64_t tables_limit_bytes(void) {
    int64_t limit = load_relaxed(&options.tables);
    if (limit < 0) {
        int64_t blocks = segment_used_bytes() - load_relaxed(&heap_global.own_free);
        limit = blocks * 4 / 5 / 100 * -limit;
        limit = limit < TABLES_LEAST_BYTES ? TABLES_LEAST_BYTES : limit;
    }
    limit += TABLES_THREAD_BYTES * load_relaxed(&tables_threads);
    store_owner(&tables_limit_known, limit); /* a lost store is made good by the next */
    return limit;
}

bool tables_take(int64_t bytes, enum tables_share share) {
    if (share == TABLES_UNCOUNTED)
        return true;
    int64_t used = add_relaxed(&tables_used_bytes, bytes) + bytes;
    if (LIKELY(used * 16 <= tables_limit_bytes() * (int64_t)share) || share == TABLES_MUST)
        return true;
    add_relaxed(&tables_used_bytes, -bytes);
    return false;
}
