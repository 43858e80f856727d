/* SPDX-License-Identifier: MIT */
/*
 * look_marked.c - finds growth of memory that did not come from malloc, by the figures that marks
 * keep of it (struct wire_elsewhere), and by the kernel's counters now.
 *
 * A mark has no map of the process, so it does not say which mapping grew. The finding names the
 * mappings that are large now. A mapping that is not full counts as a buffer that the program
 * fills, which is no leak. A saved dump has no list of mappings, so for a saved dump the finding is
 * no warning.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/forecast.h"
#include "diagnosis/look_mapped.h"

#define FULL_PART 32 /* a mapping is full if less than 1/FULL_PART of it is not resident */
/* Only a mapping with 1/LARGE_PART of the growth may be a buffer that fills. */
#define LARGE_PART 8
/* Memory of malloc that grows this many times as fast may look like growth of other memory. */
#define SKEW_PART 10
/* The last mark is left out if it was set less than AT_ONCE_S ago, and less than 1/EMPTY_PART of
 * the time between the mark before it and this mark. */
#define AT_ONCE_S 2.0
#define EMPTY_PART 16
/* Growth over LONG_INTERVALS intervals and LONG_S seconds, or more, is no garbage. */
#define LONG_INTERVALS 12
#define LONG_S 3600.0

/* The figures of struct wire_elsewhere that are resident, in the order of the findings. */
enum marked_kind { MARKED_PRIVATE, MARKED_SHARED, MARKED_FILES, MARKED_KINDS };

static const char *const kind_names[MARKED_KINDS] = {
    "private memory that did not come from malloc",
    "shared memory",
    "mapped files",
};

static int64_t figure_of(const struct wire_elsewhere *elsewhere, enum marked_kind kind) {
    return kind == MARKED_PRIVATE  ? elsewhere->private_bytes
           : kind == MARKED_SHARED ? elsewhere->shared_bytes
                                   : elsewhere->file_bytes;
}

/* Returns the figures of now; private_bytes is WIRE_UNKNOWN if they are not known. */
static struct wire_elsewhere find_now(const struct model *model) {
    const struct model_mappings *counted = &model->mappings;
    const struct wire_ledger *ledger = &model->ledger;
    if (!model->has_mappings || counted->counted_anonymous_bytes == WIRE_UNKNOWN ||
        ledger->segments_resident == WIRE_UNKNOWN || ledger->metadata_resident == WIRE_UNKNOWN)
        return (struct wire_elsewhere){.private_bytes = WIRE_UNKNOWN};
    int64_t ours = model_tame(ledger->segments_resident) + model_tame(ledger->metadata_resident) +
                   model_tame(ledger->control_bytes);
    return (struct wire_elsewhere){
        .private_bytes = larger(0, model_tame(counted->counted_anonymous_bytes) - ours),
        .shared_bytes = model_tame(counted->counted_shared_bytes),
        .file_bytes = model_tame(counted->counted_file_bytes),
        .data_bytes = larger(0, model_tame(counted->counted_data_bytes) -
                                    model_tame(ledger->segments_mapped) -
                                    model_tame(ledger->metadata_mapped)),
        .swap_bytes = model_tame(counted->counted_swap_bytes)};
}

/* The figures of one moment from which count_swapped infers whose pages went to swap. */
struct moment {
    int64_t swap_bytes;
    int64_t resident_bytes;  /* of the library: chunks, free memory, tables */
    int64_t requested_bytes; /* of all chunks */
};

static struct moment moment_of_mark(const struct model_mark *mark) {
    const struct wire_elsewhere *then = &mark->elsewhere;
    int64_t requested = mark->left_out.contexts > 0 ? mark->left_out.requested_bytes : 0;
    for (size_t i = 0; i < mark->entry_count; i++)
        requested = model_tame(requested + mark->entries[i].requested_bytes);
    return (struct moment){.swap_bytes = then->swap_bytes,
                           .resident_bytes = model_tame(mark->rss_bytes) - then->private_bytes -
                                             then->shared_bytes - then->file_bytes,
                           .requested_bytes = model_tame(requested)};
}

static struct moment moment_now(const struct model *model, const struct wire_elsewhere *now) {
    return (struct moment){.swap_bytes = now->swap_bytes,
                           .resident_bytes = model_tame(model->ledger.segments_resident) +
                                             model_tame(model->ledger.metadata_resident),
                           .requested_bytes = model_tame(model->totals.requested_bytes)};
}

/* Returns how much of the memory that did not come from malloc went to swap between two moments; a
 * negative number if it came back. The kernel counts only the swap of the whole process. If the
 * library's resident memory shrank by more than the chunks did, the difference is taken for memory
 * of the library in swap. Free memory that the library gave back to the kernel is taken for memory
 * in swap, too, so the result may be too small, but seldom too large. */
static int64_t count_swapped(const struct moment *first, const struct moment *then) {
    int64_t all = then->swap_bytes - first->swap_bytes;
    int64_t wanted = first->resident_bytes + then->requested_bytes - first->requested_bytes;
    int64_t ours = wanted - then->resident_bytes;
    if (all >= 0)
        return all - (ours < 0 ? 0 : ours > all ? all : ours);
    return all - (ours > 0 ? 0 : ours < all ? all : ours);
}

/* Adds what went to swap since the first element to all elements. */
static void add_swapped(const struct look *look, const struct wire_elsewhere *now,
                        struct mapped_trend *growth) {
    struct moment first = {0};
    size_t next = 0;
    for (size_t i = 0; i < look->model->mark_count && next + 1 < growth->count; i++) {
        const struct model_mark *mark = &look->model->marks[i];
        if (mark->uptime_s != growth->seconds[next])
            continue;
        const struct moment then = moment_of_mark(mark);
        if (next == 0)
            first = then;
        growth->values[next] = larger(0, growth->values[next] + count_swapped(&first, &then));
        next++;
    }
    const struct moment last = moment_now(look->model, now);
    if (next > 0 && next + 1 == growth->count)
        growth->values[next] = larger(0, growth->values[next] + count_swapped(&first, &last));
}

/* Collects the figures of one kind at the marks and now. If the last mark was set just now, the
 * interval behind it shows nothing. Private memory that went to swap counts as resident. */
static void collect(const struct look *look, const struct wire_elsewhere *now,
                    enum marked_kind kind, struct mapped_trend *growth) {
    const struct model *model = look->model;
    mapped_trend_make(growth, model->mark_count + 1);
    for (size_t i = 0; i < model->mark_count; i++) { /* the oldest first */
        const struct model_mark *mark = &model->marks[i];
        if (mark->elsewhere.private_bytes == WIRE_UNKNOWN || mark->uptime_s >= model->uptime_s)
            continue;
        growth->seconds[growth->count] = mark->uptime_s;
        growth->values[growth->count++] = figure_of(&mark->elsewhere, kind);
    }
    if (growth->count > 1) {
        const double *last = growth->seconds + growth->count - 1;
        double since_s = model->uptime_s - last[0];
        if (since_s < AT_ONCE_S && since_s < (last[0] - last[-1]) / EMPTY_PART)
            growth->count--;
    }
    growth->seconds[growth->count] = model->uptime_s;
    growth->values[growth->count++] = figure_of(now, kind);
    if (kind == MARKED_PRIVATE)
        add_swapped(look, now, growth);
}

/* Returns the mark of the first element of the growth. */
static const struct model_mark *first_mark(const struct look *look,
                                           const struct mapped_trend *growth) {
    size_t i = 0;
    while (look->model->marks[i].uptime_s != growth->seconds[growth->from])
        i++;
    return &look->model->marks[i];
}

/* True if the place holds memory of this kind. "[anon:NAME]" is private memory with a name. */
static bool is_of_kind(const struct model_place *place, enum marked_kind kind) {
    bool shared = place->kind == MODEL_PLACE_SHARED;
    bool named = shared && place->path && strncmp(place->path, "[anon:", 6) == 0;
    return kind == MARKED_FILES || place->kind == MODEL_PLACE_FILE
               ? kind != MARKED_PRIVATE && place->kind == MODEL_PLACE_FILE
               : (kind == MARKED_SHARED) == (shared && !named);
}

/* Returns how much of the growth may be in large mappings that the program made before, and fills
 * now. */
static int64_t count_filling(const struct look *look, const struct mapped *now,
                             enum marked_kind kind, int64_t grown) {
    int64_t sum = 0;
    for (size_t i = 0; i < now->place_count; i++) {
        const struct model_place *place = &now->places[i];
        int64_t size = model_tame((int64_t)(place->end - place->start));
        bool judged = is_of_kind(place, kind) && place->kind != MODEL_PLACE_HEAP &&
                      place->kind != MODEL_PLACE_STACK;
        if (judged && place->bytes < size - size / FULL_PART &&
            place->bytes >= grown / LARGE_PART &&
            (kind == MARKED_SHARED || mapped_has_room(look, place)))
            sum += place->bytes;
    }
    return sum;
}

/* The mappings of one kind. */
struct group {
    const char *name;
    enum model_place_kind kind;
    int64_t bytes;
    size_t count;
    const struct model_place *largest; /* NULL: there is no list of mappings */
};

/* Adds the mappings of one kind to the group; `bytes` of the group becomes their sum. */
static void add_places(struct group *group, const struct mapped *now, enum marked_kind kind) {
    for (size_t i = 0; i < now->place_count; i++) {
        const struct model_place *place = &now->places[i];
        if (!is_of_kind(place, kind) || place->kind != group->kind || place->bytes <= 0)
            continue;
        group->count++;
        group->bytes += place->bytes;
        if (!group->largest || place->bytes > group->largest->bytes)
            group->largest = place;
    }
}

/* Finds the group of mappings that have most memory of this kind now. Shared memory may be a file
 * in a tmpfs, too. For private memory and files the sums are better known than the single mappings.
 */
static struct group find_group(const struct mapped *now, enum marked_kind kind, int64_t grown) {
    static const enum model_place_kind kinds[MARKED_KINDS][6] = {
        [MARKED_PRIVATE] = {MODEL_PLACE_ANONYMOUS, MODEL_PLACE_HEAP, MODEL_PLACE_STACK,
                            MODEL_PLACE_CODE, MODEL_PLACE_SHARED, MODEL_PLACE_KINDS},
        [MARKED_SHARED] = {MODEL_PLACE_SHARED, MODEL_PLACE_FILE, MODEL_PLACE_KINDS},
        [MARKED_FILES] = {MODEL_PLACE_FILE, MODEL_PLACE_KINDS},
    };
    struct group most = {.bytes = -1};
    for (size_t i = 0; kinds[kind][i] != MODEL_PLACE_KINDS; i++) {
        bool named = kind == MARKED_PRIVATE && kinds[kind][i] == MODEL_PLACE_SHARED;
        struct group group = {.name = named ? "named mappings" : mapped_kinds[kinds[kind][i]].name,
                              .kind = kinds[kind][i]};
        add_places(&group, now, kind);
        if (!named && group.kind != MODEL_PLACE_SHARED)
            group.bytes = now->sums[group.kind];
        if (group.bytes > most.bytes && (kind != MARKED_SHARED || most.bytes < grown / 2))
            most = group;
    }
    return most;
}

/* Returns a clause that names the mappings. The caller frees it. */
static char *tell_group(const struct group *group) {
    const struct model_place *place = group->largest;
    if (!place)
        return cli_format("; %s are in %s now", look_bytes(group->bytes), group->name);
    if (place->kind == MODEL_PLACE_STACK) /* there is a stack for each thread */
        return cli_format("; %s are in %s now, in %zu mappings", look_bytes(group->bytes),
                          group->name, group->count);
    char *largest = cli_format("%s, is in %" PRIx64 "-%" PRIx64 " %s", look_bytes(place->bytes),
                               place->start, place->end, place->path ? place->path : "[anon]");
    char *text = group->count == 1
                     ? cli_format("; now %s, %s", group->name, largest)
                     : cli_format("; %s are in %s now, in %zu mappings; the largest part, %s",
                                  look_bytes(group->bytes), group->name, group->count, largest);
    free(largest);
    return text;
}

/* True if the growth may be normal for the program's language runtime: a heap before its garbage is
 * collected, or machine code that it generates and keeps up to a bound. In the course of long
 * growth a runtime has collected garbage if look_mapped.c knows a bound for its heap; Java, for
 * which it knows none, may not have. */
static bool may_be_runtime(const struct look *look, const struct mapped *now, enum marked_kind kind,
                           const struct mapped_trend *growth) {
    const struct model *model = look->model;
    bool long_watched = growth->to - growth->from >= LONG_INTERVALS && growth->watched_s >= LONG_S;
    int64_t bytes = long_watched ? INT64_MAX - 1 : growth->values[growth->count - 1];
    int64_t besides_code = growth->bytes - now->sums[MODEL_PLACE_CODE];
    return kind == MARKED_PRIVATE &&
           (look_runtime_may_fill(model, bytes) ||
            (look_has_runtime(model) && besides_code < floor_of(look, 4 * MIB, 5)));
}

/* Says for how long the memory has grown; for steady growth also its rate, and when memory will be
 * used up. */
static void tell_since(const struct look *look, struct finding *finding, enum marked_kind kind,
                       const struct mapped_trend *growth) {
    const struct trend_line *line = &growth->line;
    const double *seconds = growth->seconds;
    char *time = look_time(growth->watched_s);
    finding->since = cli_format("at least %s ago", time);
    finding->verdict =
        cli_format("in %s, %s were added to %s", time, look_bytes(growth->bytes), kind_names[kind]);
    free(time);
    if (finding->severity == SEVERITY_INFO || !line->steady)
        return;
    const struct forecast forecast = {.bytes_per_s = line->slope,
                                      .since_s = seconds[line->from],
                                      .step_s = seconds[line->from + 1] - seconds[line->from],
                                      .began = line->from > 0};
    forecast_tell_rate(look, finding, &forecast);
    char *rate = finding->verdict;
    finding->verdict = cli_format("%s in %s", rate, kind_names[kind]);
    free(rate);
    mapped_tell_forecast(look, finding, growth);
}

static const char *how_sure(const struct mapped *now, enum marked_kind kind, bool runtime,
                            const struct mapped_trend *growth) {
    return growth->slowing ? "hardly a leak: it grows less each time, like a cache that fills"
           : runtime ? "open: this runtime lets its heap grow up to a bound before it collects "
                       "garbage, and keeps the code that it generates"
           : kind == MARKED_FILES ? "open: the kernel drops pages of files when it needs memory"
           : now->place_count == 0
               ? "open: a saved dump does not tell which mappings the program fills"
           : growth->count < 4 ? "open: fewer than four looks show no trend"
                               : "likely: it grew from mark to mark; whether the program still "
                                 "uses the memory is not known";
}

/* `bytes`: the growth without mappings that the program fills. */
static void tell(struct look *look, const struct rule *rule, enum marked_kind kind,
                 const struct mapped_trend *growth, int64_t bytes, int64_t swapped) {
    const struct samples *samples = look->input->samples;
    const struct mapped *now = &samples->mapped[samples->mapped_count - 1].mapped;
    struct group group = find_group(now, kind, growth->bytes);
    bool runtime = may_be_runtime(look, now, kind, growth);
    bool alarming = kind != MARKED_FILES && now->place_count > 0 && !runtime &&
                    bytes >= floor_of(look, 4 * MIB, 5) && mapped_is_alarming(look, growth);
    int64_t all = growth->values[growth->to];
    struct finding *finding = finding_new(look, rule, alarming ? SEVERITY_WARNING : SEVERITY_INFO,
                                          bytes, share(bytes, all));
    char *where = tell_group(&group), *time = look_time(growth->watched_s);
    char *a_day = look_a_day(growth->a_day, growth->watched_s);
    char *swap =
        swapped < MIB
            ? cli_copy("")
            : cli_format("; %s more of the process are in swap than then%s", look_bytes(swapped),
                         kind == MARKED_PRIVATE ? ", which counts here as far as it did not come "
                                                  "from malloc"
                                                : "");
    finding->evidence = cli_format(
        "%s grew by %s to %s in %s%s, over %zu marks and now%s%s%s", kind_names[kind],
        look_bytes(growth->bytes), look_bytes(all), time, a_day, growth->count - 1, where, swap,
        growth->slowing ? "; it grows less each time, like a cache that fills" : "");
    free(swap);
    free(where);
    free(time);
    free(a_day);
    finding->sure = how_sure(now, kind, runtime, growth);
    if (group.largest && look_may_act(look->model))
        finding->action = cli_format("grep '^0*%" PRIx64 "-' /proc/%" PRId64 "/maps",
                                     group.largest->start, look->model->pid);
    finding->now_effect = cli_copy("no command returns memory that is not from malloc");
    finding->overshadows = kind != MARKED_FILES;
    tell_since(look, finding, kind, growth);
    if (kind == MARKED_PRIVATE && group.kind == MODEL_PLACE_ANONYMOUS)
        look_mapped_by_runtime(look->model, finding);
    if (group.kind == MODEL_PLACE_ANONYMOUS || group.kind == MODEL_PLACE_STACK)
        mapped_tell_threads(look, finding, group.kind, growth);
}

static void look_at_kind(struct look *look, const struct rule *rule,
                         const struct wire_elsewhere *at_now, enum marked_kind kind) {
    const struct samples *samples = look->input->samples;
    const struct mapped *now = &samples->mapped[samples->mapped_count - 1].mapped;
    struct mapped_trend growth;
    collect(look, at_now, kind, &growth);
    if (growth.count >= 2 && mapped_trend_find(&growth) && !growth.stopped) {
        const struct model_mark *mark = first_mark(look, &growth);
        const struct wire_elsewhere *then = &mark->elsewhere;
        int64_t ours = now->segments_bytes - (model_tame(mark->rss_bytes) - then->private_bytes -
                                              then->shared_bytes - then->file_bytes);
        bool extended =
            kind == MARKED_PRIVATE && at_now->data_bytes - then->data_bytes >= growth.bytes / 2;
        int64_t filling = extended ? 0 : count_filling(look, now, kind, growth.bytes);
        int64_t bytes = growth.bytes - filling, least = floor_of(look, MIB, 2);
        if (kind == MARKED_PRIVATE)
            least = larger(least, ours / SKEW_PART);
        if (bytes >= least && bytes >= growth.bytes / 2)
            tell(look, rule, kind, &growth, bytes, at_now->swap_bytes - then->swap_bytes);
    }
    mapped_trend_free(&growth);
}

void look_for_marked_growth(struct look *look, const struct rule *rule) {
    struct wire_elsewhere now = find_now(look->model);
    if (look->input->samples->mapped_count == 0 || now.private_bytes == WIRE_UNKNOWN)
        return;
    for (int kind = 0; kind < MARKED_KINDS; kind++)
        look_at_kind(look, rule, &now, (enum marked_kind)kind);
}
