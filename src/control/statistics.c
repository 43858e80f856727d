/* SPDX-License-Identifier: MIT */
/* statistics.c - writes the figures that the library keeps about itself, one on a line; see
 * statistics.h. */
#include "control/statistics.h"
#include "context/evict.h"
#include "context/lookup.h"
#include "context/tree.h"
#include "control/record.h"
#include "control/server.h"
#include "control/unfold.h"
#include "figures/sums.h"
#include "os/meta.h"
#include "path/functions.h"
#include "path/oracle.h"
#include "path/rebind.h"
#include "region/blocks.h"
#include "region/resizes.h"

/* Adds a line. The value is a number or a word; "-" if both are NULL. */
static void add_line(struct text *text, const char *name, const int64_t *value, const char *word,
                     const char *help) {
    text_add(text, name);
    text_add(text, "\t");
    if (value)
        text_add_number(text, *value);
    else
        text_add(text, word ? word : "-");
    text_add(text, "\t");
    text_add(text, help);
    text_add(text, "\n");
}

static void add_statistic(struct text *text, const char *name, int64_t value, const char *help) {
    add_line(text, name, &value, NULL, help);
}

/* Adds a line with the rounded mean of `count` values; "-" if there are none. */
static void add_mean(struct text *text, const char *name, uint64_t sum, uint64_t count,
                     const char *help) {
    int64_t mean = count ? (int64_t)((sum + count / 2) / count) : 0;
    add_line(text, name, count ? &mean : NULL, NULL, help);
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
                  "allocations that were timed: one after every 16 that left the fast path");
    add_mean(text, "malloc_ns", ns, known,
             "mean ns in malloc, estimated from the timed allocations");
    add_mean(text, "malloc_found_ns", counts->timed_ns[PATH_FOUND], counts->timed_count[PATH_FOUND],
             "mean ns if the first guess of the path was right");
    add_mean(text, "malloc_searched_ns", counts->timed_ns[PATH_SEARCHED],
             counts->timed_count[PATH_SEARCHED], "mean ns if another known path was right");
    add_mean(text, "malloc_walked_ns", counts->timed_ns[PATH_WALKED],
             counts->timed_count[PATH_WALKED], "mean ns if the stack was walked");
}

#define ADD(name, value, help) add_statistic(text, #name, (int64_t)(value), help)

/* Adds lines that tell how the call paths of allocations were found. `counts` was read before
 * `allocs`. */
static void add_paths(struct text *text, const struct lookup_counts *counts, int64_t allocs) {
    uint64_t far = counts->walked_far, tracked = allocs > (int64_t)far ? (uint64_t)allocs : far;
    ADD(paths_guessed, counts->guessed,
        "allocations whose path was in the cache, but was not the first guess");
    ADD(paths_replayed, counts->replayed,
        "allocations whose stack changed in a known way, which gave the path");
    ADD(paths_missed, counts->missed,
        "allocations whose stack was walked: their path was not known");
    ADD(paths_walked_far, far, "of these: walks over more than four new frames");
    ADD(paths_waited, load_relaxed(&admit_waited),
        "allocations charged to [other callers], because the tables have no room for their path; "
        "the last few of each thread are missing");
    add_mean(text, "paths_near_permille", 1000 * (tracked - far), tracked,
             "allocations in a thousand without a walk over more than four new frames");
    add_times(text, counts, tracked);
    ADD(path_caches_flushed, counts->flushed,
        "path caches that were emptied (full, or the depth or a library changed)");
    ADD(traces, counts->traces, "paths in the threads' caches");
    ADD(trace_bytes, counts->trace_bytes, "bytes of the threads' path caches");
    ADD(rules, unwind_rules_count(), "return addresses whose unwind rule is known");
    ADD(modules, unwind_rules_module_count(), "executables and libraries that have frames");
    ADD(contexts, tree_nodes(), "contexts: nodes of the tree of call paths");
    ADD(paths_evicted, load_relaxed(&evict_views_all),
        "unused call paths that were removed, and whose figures went to [other callers]");
}

/* Adds lines about the tables for call paths, and about folded functions. */
static void add_tables(struct text *text) {
    int64_t limit, held = tables_held_bytes(&limit);
    ADD(tables_bytes, held,
        "bytes of the tables for call paths: nodes, views, traces, rules, marks");
    ADD(tables_limit_bytes, limit, "limit of these bytes (MEMCTX_TABLES)");
    ADD(tables_idle_bytes, load_relaxed(&tables_idle_bytes),
        "bytes in these tables that removed paths left free for new ones");
    ADD(folded_functions, load_relaxed(&function_count),
        "recursive functions that appear once on each call path");
    ADD(unfolded_functions, unfold_count(),
        "of these: unfolded for a time (memctx set TARGET CONTEXT unfold)");
    ADD(unfolded_seconds, unfold_seconds_left(), "seconds until the last of these is folded again");
}

/* Adds lines about comparisons with libunwind, frees and functions of other allocators, and calls
 * that could not be counted. */
static void add_checks(struct text *text) {
    ADD(verify_checked, load_relaxed(&oracle_counts.checked),
        "cached paths compared with libunwind");
    ADD(verify_mismatches, load_relaxed(&oracle_counts.mismatches), "of these: different");
    ADD(verify_shorter, load_relaxed(&oracle_counts.shorter), "of these: libunwind stopped early");
    ADD(foreign_frees, load_relaxed(&heap_global.foreign_frees),
        "frees of pointers that memctx did not allocate, which it ignored");
    ADD(libc_names, rebind_count,
        "functions of libc's malloc family that lead to memctx (RTLD_DEEPBIND)");
    ADD(lost, load_relaxed(&heap_global.lost_views),
        "operations that could not be charged to their call path");
    ADD(lost_reallocs, load_relaxed(&resizes_lost),
        "calls of realloc that are missing in the counts, because the tables have no room");
}

uint32_t statistics_fill(const char *body, struct text *text) {
    (void)body;
    struct lookup_counts counts = context_counts();
    struct meta_usage meta = meta_usage(true);
    struct sum all = sums_all();
    struct record_counts record = record_counts();
    if (tables_ask_live())
        store_owner(&tables_live_bytes, all.live_bytes);
    ADD(allocs, all.allocs, "allocations since start");
    ADD(frees, all.frees, "frees since start");
    ADD(live_bytes, all.live_bytes, "requested bytes of live chunks");
    add_paths(text, &counts, all.allocs);
    add_tables(text);
    add_checks(text);
    ADD(dumps, server_dumps_asked(), "dumps and sums that clients of the socket asked for");
    ADD(record_moments, record.moments, "moments written to the recording (MEMCTX_RECORD)");
    ADD(record_lost, record.lost, "parts of the recording that could not be written");
    ADD(record_error, record.error,
        "number of the error (errno) of the last of these; 0: the last write succeeded");
    ADD(record_bytes, record.bytes, "bytes written to the recording");
    ADD(heaps, heap_global.heaps,
        "heaps: one for each thread with its own, and those of ended threads that wait");
    ADD(own_free_bytes, load_relaxed(&heap_global.own_free),
        "free bytes in pages of single contexts, bounded by the waste cap");
    ADD(segment_bytes, segment_usage().used_bytes, "bytes in pages and large chunks");
    ADD(metadata_bytes, meta.mapped_bytes, "bytes mapped for the library's own tables");
    ADD(metadata_resident_bytes, meta.resident_bytes, "of these: resident");
    /* The last line, because a long path may exceed the room of the answer. */
    add_line(text, "record_file", NULL, record_last_file(),
             "file of the recording, or of the last one that was switched off");
    return WIRE_OK;
}
