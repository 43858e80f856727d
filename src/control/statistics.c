/* SPDX-License-Identifier: MIT */
/* statistics.c - writes the figures that the library keeps about itself, one on a line; see
 * statistics.h. */
#include "control/statistics.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "control/unfold.h"
#include "figures/sums.h"
#include "os/meta.h"
#include "path/functions.h"
#include "path/oracle.h"
#include "path/rebind.h"
#include "region/blocks.h"

static void add_line(struct text *text, const char *name, const int64_t *value, const char *help) {
    text_add(text, name);
    text_add(text, "\t");
    if (value)
        text_add_number(text, *value);
    else
        text_add(text, "-");
    text_add(text, "\t");
    text_add(text, help);
    text_add(text, "\n");
}

static void add_statistic(struct text *text, const char *name, int64_t value, const char *help) {
    add_line(text, name, &value, help);
}

/* Adds a line with the rounded mean of `count` values; "-" if there are none. */
static void add_mean(struct text *text, const char *name, uint64_t sum, uint64_t count,
                     const char *help) {
    int64_t mean = count ? (int64_t)((sum + count / 2) / count) : 0;
    add_line(text, name, count ? &mean : NULL, help);
}

/* Adds lines that tell how long an allocation takes: the number of samples, the mean over all kinds
 * of look-up, and the mean of each kind. */
static void add_times(struct text *text, const struct lookup_counts *counts, uint64_t allocs) {
    uint64_t of_kind[PATH_KINDS] = {
        [PATH_SEARCHED] = counts->guessed + counts->replayed, [PATH_WALKED] = counts->missed};
    uint64_t others = of_kind[PATH_SEARCHED] + of_kind[PATH_WALKED];
    uint64_t ns = 0, known = 0, timed = 0;
    of_kind[PATH_FOUND] = allocs > others ? allocs - others : 0;
    for (int kind = 0; kind < PATH_KINDS; kind++) {
        uint64_t count = counts->timed_count[kind];
        if (!count)
            continue;
        ns += (uint64_t)((unsigned __int128)counts->timed_ns[kind] * of_kind[kind] / count);
        known += of_kind[kind];
        timed += count;
    }
    add_statistic(text, "malloc_timed", (int64_t)timed,
                  "allocations that were timed: the next ones after some that took longer");
    add_mean(text, "malloc_ns", ns, known, "ns in malloc by these samples, the mean");
    add_mean(text, "malloc_found_ns", counts->timed_ns[PATH_FOUND], counts->timed_count[PATH_FOUND],
             "the same where the first guess was right");
    add_mean(text, "malloc_searched_ns", counts->timed_ns[PATH_SEARCHED],
             counts->timed_count[PATH_SEARCHED], "where the path was guessed");
    add_mean(text, "malloc_walked_ns", counts->timed_ns[PATH_WALKED],
             counts->timed_count[PATH_WALKED], "where it was walked");
}

uint32_t statistics_fill(const char *body, struct text *text) {
    (void)body;
    struct lookup_counts counts = context_counts();
    struct meta_usage meta = meta_usage(true);
    struct sum all = sums_all();
    int64_t allocs = all.allocs, frees = all.frees, live = all.live_bytes;
    uint64_t tracked = allocs > (int64_t)counts.walked_far ? (uint64_t)allocs : counts.walked_far;
#define ADD(name, value, help) add_statistic(text, #name, (int64_t)(value), help)
    ADD(allocs, allocs, "allocations since start");
    ADD(frees, frees, "frees since start");
    ADD(live_bytes, live, "requested bytes alive");
    ADD(paths_guessed, counts.guessed,
        "paths found in the cache, but not as the one that mostly follows");
    ADD(paths_replayed, counts.replayed,
        "paths found because the stack changed as it had changed before");
    ADD(paths_missed, counts.missed, "paths that were walked: not in the cache");
    ADD(paths_walked_far, counts.walked_far, "of these: with more than four new frames");
    ADD(paths_waited, load_relaxed(&admit_waited),
        "allocations charged to [other callers], because their path is not kept; of each thread "
        "the last few are missing");
    add_mean(text, "paths_near_permille", 1000 * (tracked - counts.walked_far), tracked,
             "allocations without such a walk");
    add_times(text, &counts, tracked);
    ADD(path_caches_flushed, counts.flushed,
        "path caches emptied (full, depth or library changed)");
    ADD(traces, counts.traces, "paths in the threads' caches");
    ADD(trace_bytes, counts.trace_bytes, "bytes of those caches");
    ADD(rules, unwind_rules_count(), "return addresses whose unwind rule is known");
    ADD(modules, unwind_rules_module_count(), "objects that frames were seen in");
    ADD(contexts, tree_nodes(), "nodes of the tree");
    ADD(paths_evicted, load_relaxed(&evict_views_all),
        "call paths that were not used any more, and whose figures went to [other callers]");
    ADD(tables_bytes, tables_held_bytes(),
        "bytes of the tables for call paths: nodes, views, traces, rules, marks");
    ADD(tables_limit_bytes, tables_limit_bytes(), "what they may be at most (MEMCTX_TABLES)");
    ADD(tables_idle_bytes, load_relaxed(&tables_idle_bytes),
        "bytes of those that evicted paths left, for new ones");
    ADD(folded_functions, load_relaxed(&function_count),
        "functions that stand on each call path once");
    ADD(unfolded_functions, unfold_count(),
        "of these: unfolded for a time (memctx set TARGET CONTEXT unfold)");
    ADD(unfolded_seconds, unfold_seconds_left(), "until the last of these is folded again");
    ADD(verify_checked, load_relaxed(&oracle_counts.checked),
        "cached paths compared with libunwind");
    ADD(verify_mismatches, load_relaxed(&oracle_counts.mismatches), "of these: different");
    ADD(verify_shorter, load_relaxed(&oracle_counts.shorter), "of these: libunwind stopped early");
    ADD(foreign_frees, load_relaxed(&heap_global.foreign_frees),
        "frees of pointers that are not ours, ignored");
    ADD(libc_names, rebind_count,
        "names of libc's own malloc family that lead here, for RTLD_DEEPBIND");
    ADD(lost, load_relaxed(&heap_global.lost_views),
        "operations that could not be accounted to their path");
    ADD(heaps, heap_global.heaps, "heaps: the most threads that had one at one time");
    ADD(own_free_bytes, load_relaxed(&heap_global.own_free),
        "free bytes in contexts' own pages: what the waste cap bounds");
    ADD(segment_bytes, segment_used_bytes(), "bytes in pages and large chunks");
    ADD(metadata_bytes, meta.mapped_bytes, "bytes mapped for the library's own tables");
    ADD(metadata_resident_bytes, meta.resident_bytes, "of these: resident");
#undef ADD
    return WIRE_OK;
}
