/* SPDX-License-Identifier: MIT */
/* tell_growth.c - the words of a finding about memory that grows. */
#include "diagnosis/tell_growth.h"

#include <inttypes.h>
#include <stdlib.h>

#include "diagnosis/arrival.h"
#include "diagnosis/forecast.h"
#include "diagnosis/garbage.h"
#include "diagnosis/origin.h"

/* If growth may be a cache or data that the program loads (growth_may_be_filling), a look after
 * LOOK_AGAIN times the time that was watched, and after LEAST_S seconds or more, shows whether it
 * is. */
#define LOOK_AGAIN 10.0
#define LEAST_S 60.0

/* Returns a text that says beside which path the path grew. The caller frees it. */
static char *beside_what(const struct look *look, const struct growth *growth, bool many) {
    const struct model_figures *figures = model_figures_at(look->model, growth->beside);
    struct who_part part = who_frames(look->model, figures->context, UINT32_MAX);
    char *other = who_write(look->model, &part, 1);
    char *text =
        cli_format("%s with the load, but %s ever more chunks than %s, which allocates as "
                   "often; the difference grew",
                   many ? "rise and fall" : "rises and falls", many ? "keep" : "keeps", other);
    free(other);
    return text;
}

/* Returns a text that says in which intervals the path grew. The caller frees it. */
static char *when_it_grew(const struct look *look, const struct growth *growth, size_t intervals,
                          bool many) {
    if (growth->beside != 0)
        return beside_what(look, growth, many);
    switch (growth->kind) {
    case TREND_WAVES:
        return cli_copy("rises and falls, and each of its low points was higher than the one "
                        "before; it grew");
    case TREND_STEPS: return cli_copy("grew in steps, each by a quarter or more:");
    case TREND_DIPS:
        return cli_format("grew over %zu intervals, with pauses or small dips:", intervals);
    default:
        if (growth->even_end > 0)
            return cli_format("grew fast at first, and then evenly in each of the last %zu "
                              "intervals:",
                              growth->even_end);
        return intervals == 1 ? cli_copy("grew in the one interval:")
                              : cli_format("grew in each of %zu intervals:", intervals);
    }
}

/* True if the growth is that of an arena, which takes one more, larger chunk whenever it is full.
 */
static bool is_arena(const struct growth *growth) {
    return growth->kind == TREND_STEPS && growth->chunks > 1;
}

/* Returns how sure the conclusion is that the growth does not stop. */
static const char *how_sure(const struct growth *growth, size_t intervals) {
    return growth->beside ? "likely: other chunks that are probably of the same objects were freed"
           : growth->by_load ? "hardly a leak: the memory follows the number of allocations"
           : growth->slowing ? "hardly a leak: it grows less each time, like a cache that fills"
           : growth->garbage ? growth->garbage->sure
           : intervals < 3   ? "open: fewer than four looks show no trend"
           : growth->swings
               ? "open: a longer watch shows whether it goes on beyond its earlier peak"
           : growth->seldom
               ? "open: nearly all of the growth was in one or two intervals; a longer watch shows "
                 "whether it goes on"
           : growth->kind == TREND_STEPS && !growth->line.steady
               ? "open: an array or arena that grows by a factor asks for memory seldom; a longer "
                 "watch shows whether it goes on"
           : growth->kind == TREND_STEPS
               ? "likely: the times between the steps fit an array or arena that fills evenly"
           : growth->kind == TREND_STEADY
               ? "likely a leak, but a cache that is not full yet grows like this, too; whether "
                 "the program still uses the memory is not known"
               : "likely: it grew in spite of pauses or dips; whether the program still uses the "
                 "memory is not known";
}

/* Returns a text that says how many of the chunks that the path allocates stay alive. The caller
 * frees it. */
static char *what_stays(const struct growth *growth) {
    if (growth_made_chunks_larger(growth))
        return growth->live == 1
                   ? cli_copy("it is one chunk, which became larger")
                   : cli_format("the number of chunks %s, so the chunks are larger: %" PRId64
                                " chunks with a mean of %s",
                                growth->chunks <= 0 ? "did not grow" : "hardly grew", growth->live,
                                look_bytes(growth->mean_bytes));
    int64_t kept_of = growth->allocs / growth->chunks;
    return kept_of > 1 ? cli_format("one of %" PRId64 " chunks stays", kept_of)
                       : cli_copy("nearly every chunk stays");
}

/* Returns what the growth may be. The caller frees the text. */
static char *what_it_means(const struct growth *growth, size_t intervals) {
    if (growth->beside > 0)
        return cli_copy("it is a leak: some of these chunks are forgotten when others are freed");
    if (growth->by_load)
        return cli_copy("the path allocates more often, too, and each chunk lives about as long as "
                        "at the beginning, so the load grew");
    if (growth->slowing)
        return cli_copy("it grows less each time, like a cache that fills, so it is hardly a leak");
    if (growth->garbage)
        return cli_copy(growth->garbage->means);
    if (growth->swings)
        return cli_copy("the chunks live for a short time, and the path has had more of them than "
                        "now, so it may rise and fall between the looks");
    if (growth->per_thread > 0)
        return growth->per_thread == 1
                   ? cli_format("about %" PRId64 " threads are new, one for each of these chunks",
                                growth->threads)
                   : cli_format("about %" PRId64 " threads are new, and there are %" PRId64
                                " of these chunks for each new thread",
                                growth->threads, growth->per_thread);
    if (is_arena(growth))
        return cli_copy("it is an arena, from which the program takes memory, and which takes a "
                        "larger chunk whenever its chunks are used up");
    if (growth->kind == TREND_STEPS)
        return cli_copy("it is a list, a table or a buffer to which the program adds, and which it "
                        "makes larger whenever it is full");
    if (intervals < 3)
        return cli_copy("two more marks show whether the growth goes on");
    if (growth_may_be_filling(growth) && !growth->seldom) {
        double again_s = growth->seconds * LOOK_AGAIN;
        char *time = look_time(again_s > LEAST_S ? again_s : LEAST_S);
        char *text = cli_format("it is a leak, a queue that is not drained, or a cache that is not "
                                "full yet; look again in %s: by then a cache, or data that the "
                                "program loads, has stopped or become slower, and a leak goes on",
                                time);
        free(time);
        return text;
    }
    return cli_copy(growth->live == 1 && growth_made_chunks_larger(growth)
                        ? "the program adds more to it than it removes, as to a buffer or a list "
                          "that is not emptied"
                    : growth_made_chunks_larger(growth)
                        ? "the program adds more to them than it removes, as to a buffer, a list "
                          "or a table that is not emptied"
                    : growth->kind == TREND_STEADY
                        ? "it is a leak, a queue that is not drained, or a cache that is not "
                          "full yet"
                        : "it is a leak, or a queue that is not drained");
}

/* Returns the command or step that the user should take next. The caller frees it. */
static char *what_is_next(const struct look *look, const struct finding *finding, size_t intervals,
                          bool tracemalloc_shows) {
    if (intervals < 3 && !look->model->from_snapshot && look->model->how)
        return cli_format(
            "memctx dump %s -o FILE now and some time later, then memctx diff FILE FILE",
            look->input->target);
    if (intervals < 3 && !look->model->from_snapshot)
        return cli_format("memctx mark %s NAME some time later, then memctx doctor %s",
                          look->input->target, look->input->target);
    if (tracemalloc_shows) /* contexts would only show functions of the interpreter */
        return cli_copy(
            "paste these two lines at the start of the script and start it again; after 60 s they "
            "print where memory grew most, with the lines of the script that led there:\n"
            "import threading, tracemalloc as t; t.start(9); a = t.take_snapshot()\n"
            "threading.Timer(60, lambda: [print(s, *s.traceback.format(), sep=\"\\n\") for s in "
            "t.take_snapshot().compare_to(a, \"traceback\")[:5]]).start()");
    if (origin_is_java(look, finding) && look_may_act(look->model))
        return cli_format("jcmd %" PRId64 " GC.class_histogram, twice, some time apart",
                          look->model->pid);
    if (origin_is_javascript(look, finding) && look_may_act(look->model))
        return cli_format("kill -USR1 %" PRId64
                          ", then open chrome://inspect in Chromium: Memory, Heap snapshot",
                          look->model->pid);
    return look_closer(look, "dump", " --flat", finding);
}

/* Returns the text that says what to change in the program. NULL: the rule's own advice fits. */
static const char *advice_for(const struct look *look, const struct finding *finding,
                              const struct blame_suspect *suspect, const struct growth *growth,
                              bool tracemalloc_shows) {
    if (tracemalloc_shows)
        return "The call paths show the functions of the interpreter, not the lines of the script; "
               "tracemalloc shows these. Then free these objects, or give the container that keeps "
               "them a limit.";
    if (look_is_python(look->model))
        return "A library, or a module in C, allocated most of this memory. tracemalloc shows only "
               "memory from the allocators of Python, so this memory may be missing there. Find "
               "out which objects of the script own this memory, and what should free it.";
    if (origin_is_java(look, finding))
        return "Objects of Java own this memory: a direct buffer, or a stream or compressor that "
               "was not closed. The call path shows the native method that they called, but no "
               "Java method. A histogram of classes tells which objects become more as these "
               "chunks do; close these objects, or give the collection that keeps them a limit.";
    if (origin_is_javascript(look, finding))
        return "Objects of JavaScript own this memory, such as a Buffer. The call path shows "
               "functions "
               "of V8, but no function of the script. Two heap snapshots, some time apart, show "
               "which "
               "objects became more, and which objects refer to them; remove these references, or "
               "give the container that keeps them a limit.";
    if (origin_is_go(look, suspect))
        return "Code of Go allocated this memory with C.CString, C.CBytes or C.malloc, so Go does "
               "not collect it. The call path shows no function of Go. Search the source for these "
               "calls, and pass each result to C.free when it is no longer used.";
    if ((suspect->joined && who_kind_of(look->model, suspect->common) == WHO_INTERPRETER) ||
        origin_is_script(look, suspect))
        return "The call paths show the functions of the interpreter, not the lines of the script. "
               "Find out which objects of the script become more, and what should free them; or "
               "give the container that keeps them a limit.";
    if (growth->per_thread > 0)
        return "If the number of threads has a limit, this growth has a limit, too. Otherwise find "
               "out why threads are started and do not end, or why nobody joins them. The figures "
               "of "
               "this finding do not contain the threads' stacks.";
    if (growth->beside > 0)
        return "Find the way on which such an object is freed, but not this chunk of it: an error, "
               "a "
               "branch that returns early, or a chunk that is replaced.";
    if (growth_made_chunks_larger(growth))
        return "Find out what should make these chunks smaller, or free them, and when; or give "
               "the buffer, list or table a limit.";
    return NULL;
}

/* Growth that slows down may stop by itself, so it gets other words than those of the rule. Growth
 * that fewer than four looks show, that was in few intervals, that is below an earlier peak, or
 * that may be garbage, gets another title only. */
static void tell_doubt(struct finding *finding, const struct growth *growth, size_t intervals) {
    if (growth->by_load) {
        finding->title = "growth with the load";
        finding->why = "The program has more of these chunks at the same time, and frees them as "
                       "soon as before. More load takes more memory.";
        finding->advice = "Nothing needs to be done if the load has a limit. Otherwise limit how "
                          "much the program does at the same time.";
    } else if (growth->slowing) {
        char *before = finding->verdict;
        finding->verdict = cli_format("%s, which slows down", before);
        free(before);
        finding->title = "growth that slows down";
        finding->why = "A cache that fills grows like this, and stops when it holds all entries "
                       "that are asked for. Memory runs out only if the program adds new entries "
                       "without end.";
        finding->advice = "Nothing needs to be done if the number of entries has a limit. "
                          "Otherwise give the container that keeps these chunks a limit.";
    } else if (intervals < 3 || growth->garbage || growth->swings || growth->seldom) {
        finding->title = "growth that may go on";
    }
}

/* Says how long the growth took, and since when it lasts. A program that had nothing to do at the
 * first looks began to grow later. */
static void tell_when(const struct look *look, struct finding *finding,
                      const struct blame_suspect *suspect, const struct growth *growth) {
    const struct sample *samples = look->input->samples->samples;
    bool idle = growth->kind != TREND_WAVES && growth->beside == 0 && growth->even_end == 0;
    size_t begin = idle ? arrival_find_begin(look, suspect) : 0;
    double begin_s = samples[begin].uptime_s;
    char *time = look_time(begin > 0 ? look->model->uptime_s - begin_s : growth->seconds);
    finding->verdict = cli_format("growth of %s in %s", look_bytes(growth->bytes), time);
    if (begin > 0) {
        char *since = forecast_write_moment(look, begin_s);
        char *step = look_time(samples[begin + 1].uptime_s - begin_s);
        finding->since = cli_format("%s, or up to %s later", since, step);
        free(since);
        free(step);
    } else {
        finding->since = cli_format("at least %s ago", time);
    }
    free(time);
}

struct finding *tell_growth(struct look *look, const struct rule *rule, enum severity severity,
                            const struct blame_suspect *suspect, const struct growth *growth) {
    size_t intervals = look->input->samples->count - 1;
    int64_t chunks = larger(growth->chunks, 0);
    struct finding *finding = finding_on(look, rule, severity, suspect, growth->bytes,
                                         growth->allocs > 0 ? share(chunks, growth->allocs) : 1);
    char *when = when_it_grew(look, growth, intervals, suspect->count > 1),
         *stays = what_stays(growth);
    char *count = chunks > 0
                      ? cli_format("%" PRId64 " chunk%s and ", chunks, chunks == 1 ? "" : "s")
                      : cli_copy("");
    finding->overshadows = severity > SEVERITY_INFO;
    tell_when(look, finding, suspect, growth);
    finding->sure = how_sure(growth, intervals);
    tell_doubt(finding, growth, intervals);
    /* the mean of the whole time, which the text names; growth->a_day may be a later rate */
    double mean = growth->seconds > 0 ? (double)growth->bytes / growth->seconds * 86400 : 0;
    char *a_day = look_a_day(mean, growth->seconds);
    char *ends = what_it_means(growth, intervals);
    finding->evidence = cli_format(
        "%s %s by %s%s in %.1f s%s; %s; %s%s",
        suspect->count > 1 ? "together, these call paths" : "this call path", when, count,
        look_bytes(growth->bytes), growth->seconds, a_day, stays, ends,
        suspect->companions ? "; these call paths have no function in common, as those of "
                              "different threads, but at each look there were as many chunks of "
                              "one as of another, so the same objects probably own them"
                            : "");
    free(ends);
    free(when);
    free(count);
    free(stays);
    free(a_day);
    bool tracemalloc_shows = look_is_python(look->model) && !origin_is_libraries(look, suspect);
    const char *advice = advice_for(look, finding, suspect, growth, tracemalloc_shows);
    finding->advice = advice && !growth->slowing && !growth->by_load ? advice : finding->advice;
    finding->action = what_is_next(look, finding, intervals, tracemalloc_shows);
    return finding;
}
