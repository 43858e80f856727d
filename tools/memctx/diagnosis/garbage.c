/* SPDX-License-Identifier: MIT */
/* garbage.c - compares buffers of JavaScript with the full collections between the looks. */
#include "diagnosis/garbage.h"

#include <stdlib.h>
#include <string.h>

/* V8 makes a full collection at the latest after so many bytes of new buffers. */
#define COLLECTED_AFTER (64 * MIB)
/* Chunks that survived a full collection must be 1/SURVIVED_PART of the growth or more. A smaller
 * part may have died while that collection was under way. */
#define SURVIVED_PART 2
/* Growth in each interval is no chance if there were so many full collections: what they leave
 * would have to be more each time. */
#define COLLECTIONS_MANY 5

/* True if a function of the path has a name that begins so. */
static bool leads_through(const struct model *model, uint32_t context, const char *begin) {
    for (; context != WIRE_NONE; context = model->contexts[context].parent) {
        const struct model_names *names = model->contexts[context].frame->names;
        const char *name = names && names->count > 0 ? names->functions[0].name : NULL;
        if (name && strncmp(name, begin, strlen(begin)) == 0)
            return true;
    }
    return false;
}

static bool is_buffer(const struct model *model, uint32_t context) {
    return leads_through(model, context, "v8::internal::BackingStore::");
}

/* True if V8 allocates here at the end of each full collection. */
static bool is_collection(const struct model *model, uint32_t context) {
    return leads_through(model, context, "v8::internal::MarkCompactCollector::Finish") ||
           leads_through(model, context, "v8::internal::MarkCompactCollector::Sweep");
}

/* Fills in series->collected and series->buffers_grown. */
static void read_collections(const struct look *look, struct series *series) {
    const struct model *model = look->model;
    size_t last = series->samples->count - 1;
    series->collected = cli_alloc(last + 1, sizeof *series->collected);
    for (uint32_t context = 0; context < model->context_count; context++) {
        uint32_t number = blame_number(&look->paths, context);
        if (number == 0 || look->paths.same[number] != number)
            continue;
        if (is_buffer(model, context))
            series->buffers_grown =
                model_tame(series->buffers_grown + series->rows[last][number].requested_bytes -
                           series->rows[0][number].requested_bytes);
        else if (is_collection(model, context))
            for (size_t i = 1; i <= last; i++)
                series->collected[i] |=
                    series->rows[i][number].allocs > series->rows[i - 1][number].allocs;
    }
}

/* Returns the number of the suspect's chunks that were alive at sample `from` or before, and still
 * are at the last sample, at the least, less those that were alive at the first sample. */
static int64_t chunks_kept(const struct look *look, const struct series *series,
                           const struct blame_suspect *suspect, size_t from) {
    size_t last = series->samples->count - 1;
    int64_t kept = 0;
    for (size_t i = 0; i < suspect->count; i++) {
        uint32_t number = blame_number(&look->paths, suspect->members[i]);
        const struct sample_row *then = &series->rows[from][number];
        const struct sample_row *now = &series->rows[last][number];
        if (look->paths.same[number] == number && now->allocs >= then->allocs)
            kept = model_tame(kept + now->live_chunks - (now->allocs - then->allocs) -
                              series->rows[0][number].live_chunks);
    }
    return kept;
}

bool garbage_may_be(const struct look *look, struct series *series,
                    const struct blame_suspect *suspect, const struct growth *growth) {
    if (!is_buffer(look->model, suspect->members[0]))
        return false;
    if (!series->collected)
        read_collections(look, series);
    size_t collections = 0, latest = 0;
    for (size_t i = 1; i < series->samples->count; i++) {
        collections += series->collected[i];
        latest = series->collected[i] ? i : latest;
    }
    bool survived = latest > 0 && chunks_kept(look, series, suspect, latest - 1) >=
                                      larger(1, growth->chunks / SURVIVED_PART);
    return series->buffers_grown < COLLECTED_AFTER && !survived &&
           !(growth->kind == TREND_STEADY && collections >= COLLECTIONS_MANY);
}
