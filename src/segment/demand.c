/* SPDX-License-Identifier: MIT */
/*
 * The freelist's bound, and what the library learns about it.
 *
 * For: programs that soon take again what they freed; see segment_freelist_bound. Cannot do: give
 * memory back to the kernel; purge.c and huge_cache.c do.
 */
#include "base/options.h"
#include "segment/internal.h"

#define global segment_global

/* How many bytes the program takes again shortly after they went back to the kernel. Guarded by
 * global.lock. */
static struct {
    /* bytes that went back to the kernel only because the freelist was full, and that the program
     * has not taken again since; segment_demand_fades forgets these bytes */
    int64_t early;
    /* bytes that left `early` because the program took them again; the freelist may keep this many
     * bytes more. Also read without the lock. */
    int64_t again;
    /* greatest number of bytes in use so far, lowered by segment_demand_fades; also read without
     * the lock */
    int64_t peak;
} demand START_PAGE;

void segment_note_early(int64_t bytes) {
    demand.early += bytes;
}

void segment_note_taken(int64_t fresh) {
    int64_t used = load_relaxed(&global.used_bytes);
    int64_t again = fresh < demand.early ? fresh : demand.early;
    if (used > demand.peak)
        store_owner(&demand.peak, used);
    if (again) {
        demand.early -= again;
        store_owner(&demand.again, demand.again + again);
    }
}

/* Each quarter of the decay time, segment_demand_fades forgets 1/EARLY_FORGOTTEN of demand.early,
 * 1/AGAIN_FORGOTTEN of demand.again, and 1/PEAK_FORGOTTEN of the difference between demand.peak and
 * the bytes in use. */
#define EARLY_FORGOTTEN 4
#define AGAIN_FORGOTTEN 32
#define PEAK_FORGOTTEN 16

void segment_demand_fades(bool all) {
    int64_t used = load_relaxed(&global.used_bytes), above = demand.peak - used;
    demand.early -= all ? demand.early : (demand.early + EARLY_FORGOTTEN - 1) / EARLY_FORGOTTEN;
    int64_t again = all ? demand.again : (demand.again + AGAIN_FORGOTTEN - 1) / AGAIN_FORGOTTEN;
    store_owner(&demand.again, demand.again - again);
    if (above > 0)
        store_owner(&demand.peak,
                    demand.peak - (all ? above : (above + PEAK_FORGOTTEN - 1) / PEAK_FORGOTTEN));
}

uint32_t segment_purger;

/* The bound for one part of the freelist (segment/internal.h):
 *
 *     plain = the larger of MEMCTX_FREELIST_KIB and 5 % of the bytes in use
 *     bound = plain + again, but only as far as bytes in use + others + bound <= peak + above;
 *             never less than plain
 *
 * `again`: what the program took again soon after it went back (struct demand). `others`: the bytes
 * in the other part of the freelist. `above`: by how many bytes the freelist and the bytes in use
 * may exceed the peak of the bytes in use. */
static int64_t bound_of(int64_t above, int64_t others, int64_t *plain) {
    int64_t bytes = load_relaxed(&options.freelist_kib) << 10;
    int64_t used = load_relaxed(&global.used_bytes), again = load_relaxed(&demand.again);
    int64_t below_peak = load_relaxed(&demand.peak) + above - used - others;
    *plain = bytes > used / 20 ? bytes : used / 20;
    if (!bytes || !again || !segment_is_purged())
        return *plain;
    int64_t more = *plain + again < below_peak ? *plain + again : below_peak;
    return more > *plain ? more : *plain;
}

#define MAPPINGS_ABOVE_PEAK (3L << 19) /* see segment_freelist_bound */

int64_t segment_freelist_bound(int64_t others, int64_t *plain) {
    int64_t above = load_relaxed(&demand.peak) / 16;
    return bound_of(above > MAPPINGS_ABOVE_PEAK ? above : MAPPINGS_ABOVE_PEAK, others, plain);
}

#define ABOVE_PEAK (12L << 20) /* see segment_slices_bound */

int64_t segment_slices_bound(int64_t *plain) {
    int64_t peak = load_relaxed(&demand.peak);
    int64_t above = peak / 4 < ABOVE_PEAK ? peak / 4 : ABOVE_PEAK;
    return bound_of(above > peak / 16 ? above : peak / 16, global.huge_cached_bytes, plain);
}
