/* SPDX-License-Identifier: MIT */
/* look_mapped.c - finds growth of memory that did not come from malloc. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/forecast.h"
#include "diagnosis/look.h"
#include "diagnosis/look_mapped.h"

#define DAY_S 86400.0
/* anonymous growth is reported only if the library's memory grew by at most OURS_MOST times as much
 */
#define OURS_MOST 10
#define THREADS_MIN 4 /* fewer new threads do not explain growth */

#define GO                                                                                         \
    "go" /* a program of Go is recognised by its functions: its executable may have any name */

/* Language runtimes that map memory for objects themselves, by the name of their executable. PID in
 * a command is replaced by the pid. */
static const struct runtime {
    const char *pattern, *advice, *command;
    /* The runtime may let its heap grow to this size before it collects garbage, even if few
     * objects are alive. */
    int64_t fills_to;
} runtimes[] = {
    {"python*",
     "Python maps memory for small objects itself. With PYTHONMALLOC=malloc, each object has a "
     "call path.",
     "start the program again, with PYTHONMALLOC=malloc, then look again", 0},
    {"php*",
     "PHP itself maps memory for the script's values. With USE_ZEND_ALLOC=0, each string, "
     "array and object has a call path.",
     "start the program again, with USE_ZEND_ALLOC=0, then look again", 0},
    {"ruby*", "Ruby maps memory for its objects itself. ObjectSpace tells which classes they are.",
     "paste this line at the start of the script and start it again; it prints twice, after 30 s "
     "and after 60 s, the classes that have the most objects:\n"
     "Thread.new { 2.times { sleep 30; p "
     "ObjectSpace.each_object(Object).map(&:class).tally.max_by(9, &:last) } }",
     32 * MIB},
    {"node",
     "node maps memory for the objects of the script itself. Two heap snapshots, some time apart, "
     "show which objects became more, and which objects refer to them.",
     "kill -USR1 PID, then open chrome://inspect in Chromium: Memory, Heap snapshot", 128 * MIB},
    {"java", "Java maps memory for its objects itself. Its own tools tell which classes they are.",
     "jcmd PID GC.class_histogram, twice, some time apart", INT64_MAX},
    {"beam*",
     "Erlang maps memory for its processes, binaries and tables itself. With ERL_FLAGS=\"+Mea "
     "min\", "
     "all of it has call paths.",
     "start the program again, with ERL_FLAGS=\"+Mea min\", then look again", 0},
    {GO,
     "Go maps memory for its objects itself. Its profile (package net/http/pprof) tells which call "
     "paths allocated the live objects.",
     "go tool pprof -base earlier.pb.gz http://HOST:PORT/debug/pprof/heap, some time after the "
     "earlier profile",
     0},
};

/* True if Go's runtime called malloc, as it does to start threads and to call C. */
static bool is_go(const struct model *model) {
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next)
        if (frame->names && frame->names->count > 0 && frame->names->functions[0].name &&
            strncmp(frame->names->functions[0].name, "runtime.asmcgocall", 18) == 0)
            return true;
    return false;
}

/* Returns the program's runtime, or NULL if it has no known one. */
static const struct runtime *runtime_of(const struct model *model) {
    const char *slash = strrchr(model->exe, '/'), *name = slash ? slash + 1 : model->exe;
    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
        if (strcmp(runtimes[i].pattern, GO) == 0 ? is_go(model)
                                                 : fnmatch(runtimes[i].pattern, name, 0) == 0)
            return &runtimes[i];
    return NULL;
}

/* The heap of Java's collector ZGC is shared memory. */
static bool is_java_heap(const struct model_place *place) {
    return place && place->path && strncmp(place->path, "/memfd:java_heap", 16) == 0;
}

bool look_has_runtime(const struct model *model) {
    return runtime_of(model) != NULL;
}

bool look_runtime_may_fill(const struct model *model, int64_t bytes) {
    const struct runtime *runtime = runtime_of(model);
    return runtime && bytes < runtime->fills_to;
}

/* True if the growth may be a heap that the runtime fills before it collects garbage. `place`: the
 * mapping that grew most. */
static bool may_be_filling(const struct look *look, enum model_place_kind kind,
                           const struct model_place *place) {
    const struct samples *samples = look->input->samples;
    return (kind == MODEL_PLACE_ANONYMOUS || is_java_heap(place)) &&
           look_runtime_may_fill(look->model,
                                 samples->mapped[samples->mapped_count - 1].mapped.sums[kind]);
}

/* True if the growth may be machine code that the runtime generates, and keeps up to a bound. */
static bool is_generated_code(const struct look *look, enum model_place_kind kind) {
    return kind == MODEL_PLACE_CODE && look_has_runtime(look->model);
}

/* Growth along a line that begins after the first look has this many intervals, at least. A heap
 * that is collected now and then rises straight for some intervals, too. */
#define LINE_INTERVALS 6
#define MANY_LOOKS 7 /* from this many on, a few of the looks decide whether growth slows down */

/* True if the part of a series in which it grew becomes slower. */
static bool slows_down(const double *seconds, const int64_t *values, size_t count) {
    size_t few[TREND_FEW], chosen = count < MANY_LOOKS ? 0 : trend_few(seconds, count, few);
    double x[TREND_FEW];
    int64_t y[TREND_FEW];
    for (size_t i = 0; i < chosen; i++) {
        x[i] = seconds[few[i]];
        y[i] = values[few[i]];
    }
    return trend_slows(seconds, values, count) ||
           (chosen > 0 &&
            (trend_slows(x, y, chosen) || trend_bends(x, y, chosen) ||
             trend_eases(seconds, values, count) || trend_wanes(seconds, values, count)));
}

/* Returns the first element of a straight rise that ends at the last element. A series may have
 * such a rise although it does not grow as a whole: a server fills its heap at the start, and leaks
 * from then on. Returns 0 if there is no such rise, or if it only leads back to where the series
 * was before. */
static size_t begin_of_line(const struct mapped_trend *growth) {
    size_t last = growth->count - 1, from = growth->line.from;
    if (!growth->line.steady || last - from < LINE_INTERVALS)
        return 0;
    int64_t highest = growth->values[from];
    for (size_t i = 0; i < from; i++)
        highest = larger(highest, growth->values[i]);
    int64_t rise = growth->values[last] - growth->values[from];
    return growth->values[last] - highest >= rise / 2 ? from : 0;
}

bool mapped_trend_find(struct mapped_trend *growth) {
    struct trend trend = trend_of(growth->seconds, growth->values, growth->count);
    growth->line = trend_line(growth->seconds, growth->values, growth->count);
    size_t begin = begin_of_line(growth), last = growth->count - 1;
    bool late = begin > 0 && (trend.kind == TREND_NONE || begin <= growth->count / 2);
    if (trend.kind == TREND_NONE && !late)
        return false;
    growth->from = late ? begin : trend.from;
    growth->to = late ? last : trend.to;
    const double *seconds = growth->seconds + growth->from;
    const int64_t *values = growth->values + growth->from;
    size_t count = growth->to - growth->from + 1;
    growth->bytes = values[count - 1] - values[0];
    growth->watched_s = seconds[count - 1] - seconds[0];
    growth->a_day = growth->watched_s > 0 ? (double)growth->bytes / growth->watched_s * DAY_S : 0;
    growth->slowing = slows_down(seconds, values, count);
    growth->stopped = trend_stopped(seconds, values, count);
    return true;
}

void mapped_trend_make(struct mapped_trend *growth, size_t capacity) {
    *growth = (struct mapped_trend){.seconds = cli_alloc(capacity, sizeof *growth->seconds),
                                    .values = cli_alloc(capacity, sizeof *growth->values)};
}

void mapped_trend_free(struct mapped_trend *growth) {
    free(growth->seconds);
    free(growth->values);
}

/* Collects the figures of one kind at the looks of --watch. */
static void collect(const struct samples *samples, enum model_place_kind kind,
                    struct mapped_trend *growth) {
    mapped_trend_make(growth, samples->mapped_count);
    for (size_t i = 0; i < samples->mapped_count; i++) {
        growth->values[growth->count] = samples->mapped[i].mapped.sums[kind];
        growth->seconds[growth->count++] = samples->mapped[i].uptime_s;
    }
}

/* Returns by how much the figures grew without the interval in which they grew most. */
static int64_t grown_besides_largest(const struct mapped_trend *growth) {
    int64_t largest = 0;
    for (size_t i = growth->from + 1; i <= growth->to; i++)
        largest = larger(largest, growth->values[i] - growth->values[i - 1]);
    return growth->bytes - largest;
}

/* Growth below an old peak is no warning, because a heap grows like that between two garbage
 * collections. What is in swap counts as resident here: the process has not given it back. Nor is
 * growth a warning if nearly all of it was in one interval, as when a program starts. */
bool mapped_is_alarming(const struct look *look, const struct mapped_trend *growth) {
    const struct samples *samples = look->input->samples;
    const struct mapped *now = &samples->mapped[samples->mapped_count - 1].mapped;
    int64_t held = model_tame(now->rss_bytes + look_swapped(look->model));
    int64_t floor = floor_of(look, 4 * MIB, 5);
    return !growth->slowing && growth->count >= 4 && growth->a_day >= 64.0 * (double)MIB &&
           growth->bytes >= floor && grown_besides_largest(growth) >= floor / 2 &&
           now->peak_bytes - held <= growth->bytes / 4 + MIB;
}

/* Growth of pages of files is no warning, because the kernel can drop them at any time. */
static enum severity severity_of_growth(const struct look *look, enum model_place_kind kind,
                                        const struct model_place *place,
                                        const struct mapped_trend *growth) {
    bool harmless = kind == MODEL_PLACE_FILE || may_be_filling(look, kind, place) ||
                    is_generated_code(look, kind);
    return !harmless && mapped_is_alarming(look, growth) ? SEVERITY_WARNING : SEVERITY_INFO;
}

/* Returns a text that names the mapping that grew most. The caller frees it. */
static char *tell_where(const struct mapped_growth *most, int64_t grown) {
    const struct model_place *place = most->place;
    if (!place)
        return cli_copy("");
    char *fresh = most->new_places > 1 ? cli_format("%zu mappings are new; ", most->new_places)
                                       : cli_copy("");
    char *text = cli_format("; %s%s, %s, is in %" PRIx64 "-%" PRIx64 " %s", fresh,
                            most->bytes > grown / 2 ? "most of it" : "the largest part",
                            look_bytes(most->bytes), place->start, place->end,
                            place->path ? place->path : "[anon]");
    free(fresh);
    return text;
}

bool mapped_has_room(const struct look *look, const struct model_place *place) {
    const struct limits_found *limit = look->input->limit;
    int64_t rest = model_tame((int64_t)(place->end - place->start) - place->bytes);
    return limit && rest < limit->left_bytes;
}

/* True if most of the growth is in one mapping that was there before, and has kept its size. A
 * database touches more and more of its buffers in this way. The growth ends when the whole mapping
 * is touched. A private mapping counts only if the limit leaves room for its untouched part,
 * because an allocator may reserve a heap that is larger than any limit. */
static bool fills_mapping(const struct look *look, const struct mapped *earlier,
                          const struct mapped_growth *most, int64_t grown) {
    const struct model_place *place = most->place;
    if (!place || most->bytes <= grown / 2)
        return false;
    if (place->kind != MODEL_PLACE_SHARED &&
        (place->kind != MODEL_PLACE_ANONYMOUS || !mapped_has_room(look, place)))
        return false;
    for (size_t i = 0; i < earlier->place_count; i++)
        if (earlier->places[i].start == place->start && earlier->places[i].end == place->end)
            return true;
    return false;
}

/* Called when fills_mapping is true: makes the finding one of severity info, and says why. */
static void tell_filling(struct finding *finding, const struct model_place *place) {
    char *evidence = finding->evidence;
    finding->evidence = cli_format("%s; this mapping keeps its size of %s", evidence,
                                   look_bytes((int64_t)(place->end - place->start)));
    free(evidence);
    finding->severity = SEVERITY_INFO;
    finding->why = "The program touches more of a mapping that it made before, as a database does "
                   "while its buffers fill. The mapping cannot take more memory than its size.";
    finding->advice = NULL;
    finding->sure = "hardly a leak: the mapping does not become larger";
}

/* Judges by the name of the executable. A program that embeds Python has another name. */
bool look_is_python(const struct model *model) {
    const char *slash = strrchr(model->exe, '/');
    return strncmp(slash ? slash + 1 : model->exe, "python", 6) == 0;
}

bool look_mapped_by_runtime(const struct model *model, struct finding *finding) {
    const struct runtime *runtime = runtime_of(model);
    if (!runtime)
        return false;
    const char *command = runtime->command, *pid = strstr(command, "PID");
    finding->advice = runtime->advice;
    free(finding->action);
    finding->action = !pid                  ? cli_copy(command)
                      : look_may_act(model) ? cli_format("%.*s%" PRId64 "%s", (int)(pid - command),
                                                         command, model->pid, pid + strlen("PID"))
                                            : NULL;
    return true;
}

/* Returns how sure the conclusion is that the growth does not stop. */
static const char *how_sure(const struct look *look, enum model_place_kind kind,
                            const struct model_place *place, const struct mapped_trend *growth) {
    const struct samples *samples = look->input->samples;
    return may_be_filling(look, kind, place)
               ? "open: this runtime lets its heap grow up to a bound before it collects garbage"
           : is_generated_code(look, kind)
               ? "open: this runtime keeps the code that it generates, up to a bound"
           : growth->slowing           ? "hardly a leak: it grows less each time, like a cache "
                                         "that fills"
           : samples->mapped_count < 4 ? "open: fewer than four looks show no trend"
           : kind == MODEL_PLACE_FILE ? "open: the kernel drops pages of files when it needs memory"
                                      : "likely: it grew while memctx watched; whether the "
                                        "program still uses the memory is not known";
}

/* Returns for each context, by its index, whether its path leads through pthread_create. NULL: no
 * path does. The caller frees the array. */
static bool *find_thread_starts(const struct model *model) {
    bool *starts = cli_alloc(model->frame_count, sizeof *starts), *below = NULL, found = false;
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next) {
        const char *name =
            frame->names && frame->names->count > 0 ? frame->names->functions[0].name : NULL;
        starts[frame->number] = name && strstr(name, "pthread_create");
        found = found || starts[frame->number];
    }
    if (found) {
        below = cli_alloc(model->context_count, sizeof *below);
        for (size_t i = 1; i < model->context_count; i++) { /* parents stand before children */
            const struct model_context *context = &model->contexts[i];
            below[i] = starts[context->frame->number] || below[context->parent];
        }
    }
    free(starts);
    return below;
}

uint32_t look_new_threads(const struct look *look, int64_t *threads) {
    const struct model *model = look->model;
    const struct samples *samples = look->input->samples;
    const struct sample_row *first = samples->samples[0].rows;
    bool *below = find_thread_starts(model);
    uint32_t starter = WIRE_NONE;
    int64_t most = 0;
    memset(threads, 0, samples->count * sizeof *threads);
    for (size_t i = 1; i < model->figures_count && below; i++) {
        int64_t chunks =
            samples->samples[samples->count - 1].rows[i].live_chunks - first[i].live_chunks;
        uint32_t context = chunks > 0 ? model_figures_at(model, i)->context : WIRE_NONE;
        if (context == WIRE_NONE || !below[context])
            continue;
        for (size_t k = 0; k < samples->count; k++)
            threads[k] = model_tame(threads[k] + samples->samples[k].rows[i].live_chunks -
                                    first[i].live_chunks);
        starter = chunks > most ? context : starter;
        most = larger(most, chunks);
    }
    free(below);
    return starter;
}

/* Returns how many threads were new since the first look, at the newest look that is not later than
 * `uptime_s`. */
static int64_t threads_at(const struct look *look, const int64_t *threads, double uptime_s) {
    const struct samples *samples = look->input->samples;
    size_t i = samples->count - 1;
    while (i > 0 && samples->samples[i].uptime_s > uptime_s)
        i--;
    return threads[i];
}

/* Returns the number of new threads if each interval between two looks has new threads and about as
 * much growth for each of them; else 0. */
static int64_t threads_followed(const struct look *look, const struct mapped_trend *growth,
                                const int64_t *threads) {
    int64_t all = threads_at(look, threads, growth->seconds[growth->to]) -
                  threads_at(look, threads, growth->seconds[growth->from]);
    if (all < THREADS_MIN)
        return 0;
    int64_t each = growth->bytes / all;
    for (size_t i = growth->from + 1; i <= growth->to; i++) {
        int64_t bytes = growth->values[i] - growth->values[i - 1];
        int64_t started = threads_at(look, threads, growth->seconds[i]) -
                          threads_at(look, threads, growth->seconds[i - 1]);
        if (started < 1 || bytes < each * started / 2 || bytes > 2 * each * started)
            return 0;
    }
    return all;
}

/* Sets the call path of a finding about memory of threads to the path that starts the threads.
 * Their stacks and heaps are not from malloc, but pthread_create also allocates chunks for each
 * thread. */
static void tell_starter(const struct look *look, struct finding *finding, uint32_t starter) {
    const struct model_context *context = &look->model->contexts[starter];
    finding->example = finding->context = starter;
    finding->frames = context->level;
    finding->contexts = 1;
    free(finding->action);
    finding->action =
        cli_format("memctx dump %s --flat --context %" PRIu32, look->input->target, context->id);
}

/* pthread_create allocates a small chunk for each thread. If both these chunks and the stacks of
 * the threads grow, they have one cause. (A stack of another size than the default may count as a
 * mapping of the program's own.) The stacks are larger, so the finding about the stacks takes the
 * severity of the finding about the chunks, and the finding about the chunks becomes info. The
 * finding about the chunks then tells no time at which memory is used up, because that time would
 * leave out the stacks. */
static void take_warning_of_chunks(struct look *look, struct finding *stacks) {
    for (size_t i = 0; i < look->findings->count; i++) {
        struct finding *chunks = &look->findings->list[i];
        if (strcmp(chunks->id, "growth") != 0 || chunks->contexts != 1 ||
            chunks->context != stacks->context || chunks->severity == SEVERITY_INFO ||
            chunks->bytes >= stacks->bytes)
            continue;
        if (stacks->severity < chunks->severity)
            stacks->severity = chunks->severity;
        chunks->severity = SEVERITY_INFO;
        chunks->use.ends = false;
    }
}

void mapped_tell_threads(struct look *look, struct finding *finding, enum model_place_kind kind,
                         const struct mapped_trend *growth) {
    int64_t *threads = cli_alloc(look->input->samples->count, sizeof *threads);
    uint32_t starter = look_new_threads(look, threads);
    int64_t followed = threads_followed(look, growth, threads);
    free(threads);
    if (starter == WIRE_NONE)
        return;
    if (kind == MODEL_PLACE_STACK) {
        tell_starter(look, finding, starter);
        finding->why = "Each thread has a stack of its own. The stack of a thread that has ended "
                       "stays until another thread joins it, unless it was detached.";
        finding->advice = "Join or detach each thread (pthread_join, pthread_detach), or let a "
                          "fixed number of threads do the work.";
    } else if (followed > 0) {
        tell_starter(look, finding, starter);
        char *evidence = finding->evidence;
        finding->evidence = cli_format("%s; about %" PRId64 " threads are new, with %s for each",
                                       evidence, followed, look_bytes(growth->bytes / followed));
        free(evidence);
        finding->why = "The memory grew as the number of threads did. A thread of a language "
                       "runtime may map a heap of its own, which it keeps until it ends.";
        finding->advice = "Find out why threads are started and do not end, or let a fixed number "
                          "of threads do the work.";
    }
    bool told = kind == MODEL_PLACE_STACK || followed > 0;
    if (told && !growth->slowing && growth->count >= 4)
        take_warning_of_chunks(look, finding);
}

void mapped_tell_forecast(const struct look *look, struct finding *finding,
                          const struct mapped_trend *growth) {
    const struct limits_found *limit = look->input->limit;
    if (limit && limits_counts_addresses(limit))
        return;
    const struct forecast forecast = {.bytes_per_s = growth->line.slope,
                                      .since_s = growth->seconds[growth->line.from],
                                      .blocks = 1,
                                      .memory = 1};
    forecast_use(finding, &forecast);
    finding->use.ends = true;
}

static void tell_growth(struct look *look, const struct rule *rule, enum model_place_kind kind,
                        const struct mapped_trend *growth) {
    const struct samples *samples = look->input->samples;
    const struct mapped *from = &samples->mapped[growth->from].mapped;
    const struct mapped *to = &samples->mapped[growth->to].mapped;
    const struct mapped *now = &samples->mapped[samples->mapped_count - 1].mapped;
    const struct model *model = look->model;
    int64_t all = now->sums[kind];
    struct mapped_growth most = mapped_compare(from, to, kind);
    struct finding *finding =
        finding_new(look, rule, severity_of_growth(look, kind, most.place, growth), growth->bytes,
                    share(growth->bytes, all));
    char *where = tell_where(&most, growth->bytes);
    char *a_day = look_a_day(growth->a_day, growth->watched_s);
    finding->evidence = cli_format(
        "%s grew by %s to %s in %.1f s%s, over %zu looks%s%s", mapped_kinds[kind].name,
        look_bytes(growth->bytes), look_bytes(all), growth->watched_s, a_day, samples->mapped_count,
        where, growth->slowing ? "; it grows less each time, like a cache that fills" : "");
    free(where);
    free(a_day);
    char *time = look_time(growth->watched_s);
    finding->since = cli_format("at least %s ago", time);
    finding->action = most.place ? cli_format("grep '^0*%" PRIx64 "-' /proc/%" PRId64 "/maps",
                                              most.place->start, model->pid)
                                 : cli_format("less /proc/%" PRId64 "/maps", model->pid);
    if (fills_mapping(look, from, &most, growth->bytes)) {
        tell_filling(finding, most.place);
        free(time);
        return;
    }
    finding->verdict = cli_format("in %s, %s were added to %s", time, look_bytes(growth->bytes),
                                  mapped_kinds[kind].name);
    finding->sure = how_sure(look, kind, most.place, growth);
    finding->overshadows = kind != MODEL_PLACE_FILE;
    finding->now_effect = cli_copy("no command returns memory that is not from malloc");
    free(time);
    if (kind == MODEL_PLACE_ANONYMOUS || is_java_heap(most.place))
        look_mapped_by_runtime(model, finding);
    if (kind == MODEL_PLACE_ANONYMOUS || kind == MODEL_PLACE_STACK)
        mapped_tell_threads(look, finding, kind, growth);
    if (finding->severity > SEVERITY_INFO && growth->line.steady)
        mapped_tell_forecast(look, finding, growth);
}

/* Compares the process's maps at the looks of `memctx doctor --watch`. */
static void look_at_maps(struct look *look, const struct rule *rule) {
    const struct samples *samples = look->input->samples;
    const struct mapped *first = &samples->mapped[0].mapped;
    const struct mapped *last = &samples->mapped[samples->mapped_count - 1].mapped;
    /* The kernel's map and the library's pages are read one after the other. If the library's
     * memory grows much faster, the apparent growth may come from that delay. */
    int64_t ours = larger(0, last->segments_bytes - first->segments_bytes) / OURS_MOST;
    for (int kind = 0; kind < MODEL_PLACE_KINDS; kind++) {
        struct mapped_trend growth;
        int64_t least = floor_of(look, MIB, 2);
        if (kind == MODEL_PLACE_ANONYMOUS)
            least = larger(least, ours);
        collect(samples, (enum model_place_kind)kind, &growth);
        if (mapped_trend_find(&growth) && growth.bytes >= least)
            tell_growth(look, rule, (enum model_place_kind)kind, &growth);
        mapped_trend_free(&growth);
    }
}

void look_for_mapped_growth(struct look *look, const struct rule *rule) {
    const struct samples *samples = look->input->samples;
    size_t findings = look->findings->count;
    if (samples->mapped_count >= 2)
        look_at_maps(look, rule);
    if (look->findings->count == findings) /* marks reach further back than --watch */
        look_for_marked_growth(look, rule);
}
