/* SPDX-License-Identifier: MIT */
/* garbage.c - compares buffers of JavaScript with the full collections between the looks, and the
 * objects of scripts with the garbage that an interpreter may leave. */
#include "diagnosis/garbage.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "model/frames.h"

/* V8 makes a full collection at the latest after so many bytes of new buffers. */
#define COLLECTED_AFTER (64 * MIB)
/* Chunks that survived a full collection must be 1/SURVIVED_PART of the growth or more. A smaller
 * part may have died while that collection was under way. */
#define SURVIVED_PART 2
/* Growth in each interval is no chance if there were this many full collections: each collection
 * would have had to leave more garbage than the one before. */
#define COLLECTIONS_MANY 5
/* Growth of a script's objects is not taken for garbage if it lasted LONG_S seconds, and was seen
 * in each of LONG_INTERVALS intervals. Otherwise a slow leak would never be told of a process that
 * keeps only its newest marks, because its growth between the oldest mark and now is always little.
 */
#define LONG_S 3600
#define LONG_INTERVALS 12

static const struct garbage of_v8 = {
    .means = "they are buffers of JavaScript, alive or not collected yet",
    .sure = "open: V8 frees the buffers of dead objects when it collects garbage, at the latest "
            "after 64 MiB of new buffers; a longer watch shows whether these are freed"};

/* A runtime that frees dead objects only when it collects garbage. (Python and PHP free objects at
 * once unless they refer to each other; large buffers seldom do.) It collects garbage at the latest
 * when its memory has grown by 1/part since the last time, but may always leave `least` bytes of
 * it. Growth by `most` bytes or more is not taken for garbage. */
struct collector {
    const char *module;   /* the name of its module, without "lib" and a version */
    const char *function; /* how the name of the function that allocates begins; NULL: any */
    int64_t part, least, most;
    int64_t mean; /* greatest mean size of such objects, in bytes; 0: any size */
    struct garbage garbage;
};
static const char of_script[] = "they are objects of a script, alive or not collected yet";
static const struct collector collectors[] = {
    {.module = "python",
     .part = 4,
     .least = 4 * MIB,
     .most = 16 * MIB,
     .mean = 512,
     .garbage = {of_script, "open: Python frees dead objects that refer to each other when it "
                            "collects garbage, which may be when there are a quarter more "
                            "objects; a longer watch shows whether these are freed"}},
    {.module = "php",
     .part = 4,
     .least = 8 * MIB,
     .most = 16 * MIB,
     .mean = 512,
     .garbage = {of_script, "open: PHP frees dead objects that refer to each other when it "
                            "collects garbage, which may be after 10 000 of them; a longer watch "
                            "shows whether these are freed"}},
    {.module = "lua",
     .part = 1,
     .most = 64 * MIB,
     .garbage = {of_script, "open: Lua frees dead objects when it collects garbage, which may be "
                            "when its memory has doubled; a longer watch shows whether these are "
                            "freed"}},
    {.module = "ruby",
     .part = 4,
     .least = 16 * MIB,
     .most = 32 * MIB,
     .garbage = {of_script, "open: Ruby frees dead objects when it collects garbage, which may be "
                            "after 16 MiB or more; a longer watch shows whether these are freed"}},
    {.module = "node",
     .part = 4,
     .least = 4 * MIB,
     .most = 16 * MIB,
     .garbage = {"they are memory of objects of JavaScript, alive or not collected yet",
                 "open: V8 frees the memory of dead objects when it collects garbage; a longer "
                 "watch shows whether these are freed"}},
    {.module = "jvm",
     .function = "Unsafe_AllocateMemory",
     .part = 4,
     .least = 16 * MIB,
     .most = 16 * MIB,
     .garbage = {"they are direct buffers of Java, alive or not collected yet",
                 "open: Java frees the buffers of dead objects when it collects garbage; a longer "
                 "watch shows whether these are freed"}},
};

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

/* Returns a lower bound for the number of the suspect's chunks that were allocated before sample
 * `from` and are alive at the last sample, less the number of chunks that were alive at the first
 * sample. */
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

/* True if so many buffers may still be uncollected. */
static bool buffers_may_be(const struct look *look, struct series *series,
                           const struct blame_suspect *suspect, const struct growth *growth) {
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

/* True if a module may belong to a runtime with whose name its own name begins. `rest`: the rest of
 * the name, which may be empty, a version, or the suffix in php-fpm8.2 or php-cgi. */
static bool ends_name(const char *rest) {
    return *rest == '\0' || *rest == '.' || isdigit((unsigned char)*rest) ||
           (*rest == '-' && isdigit((unsigned char)rest[1])) || strncmp(rest, "-fpm", 4) == 0 ||
           strncmp(rest, "-cgi", 4) == 0;
}

/* Returns the runtime for whose objects this path allocates; NULL: none that collects garbage. */
static const struct collector *collector_of(const struct model *model, uint32_t context) {
    uint32_t module = model->contexts[context].frame->module;
    const char *name = module != WIRE_NONE ? frames_module_name(model, module) : "";
    name += strncmp(name, "lib", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < sizeof collectors / sizeof collectors[0]; i++) {
        const struct collector *collector = &collectors[i];
        size_t length = strlen(collector->module);
        bool is_it = strncmp(name, collector->module, length) == 0 && ends_name(name + length);
        if (is_it && (!collector->function || leads_through(model, context, collector->function)))
            return collector;
    }
    return NULL;
}

/* True if the runtime may leave so much garbage. The growth of all its objects counts, because the
 * garbage of several paths is collected together. Buffers of JavaScript are not counted: garbage of
 * buffers is judged by itself. */
static bool objects_may_be(const struct look *look, const struct series *series,
                           const struct collector *collector, const struct growth *growth) {
    size_t last = series->samples->count - 1;
    int64_t first = 0, now = 0;
    for (uint32_t context = 0; context < look->model->context_count; context++) {
        uint32_t number = blame_number(&look->paths, context);
        if (number == 0 || look->paths.same[number] != number ||
            collector_of(look->model, context) != collector || is_buffer(look->model, context))
            continue;
        first = model_tame(first + series->rows[0][number].requested_bytes);
        now = model_tame(now + series->rows[last][number].requested_bytes);
    }
    if (collector->mean > 0 && growth->bytes / larger(1, growth->chunks) > collector->mean)
        return false;
    int64_t bytes = larger(growth->bytes, now - first);
    return bytes < collector->most && bytes <= larger(first / collector->part, collector->least);
}

const struct garbage *garbage_may_be(const struct look *look, struct series *series,
                                     const struct blame_suspect *suspect,
                                     const struct growth *growth) {
    if (is_buffer(look->model, suspect->members[0]))
        return buffers_may_be(look, series, suspect, growth) ? &of_v8 : NULL;
    const struct collector *collector = collector_of(look->model, suspect->members[0]);
    bool is_long = growth->kind == TREND_STEADY && growth->seconds >= LONG_S &&
                   series->samples->count > LONG_INTERVALS;
    if (!collector || is_long || !objects_may_be(look, series, collector, growth))
        return NULL;
    for (size_t i = 1; i < suspect->count; i++)
        if (collector_of(look->model, suspect->members[i]) != collector)
            return NULL;
    return &collector->garbage;
}
