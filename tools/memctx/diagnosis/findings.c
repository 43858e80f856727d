/* SPDX-License-Identifier: MIT */
/* findings.c - the table of all rules, and the rules about harmless memory and memory not from
 * malloc. */
#include "diagnosis/findings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/forecast.h"
#include "diagnosis/look.h"

/* --- a limit that is near -------------------------------------------------------------------- */

/* a limit is near if less than 1/NEAR_PART of it is left, and less than NEAR_BYTES */
#define NEAR_PART 20
#define NEAR_BYTES (256 * MIB)
/* a process holds much of a limit if its resident set is at least 1/HOLDER_PART of the limit */
#define HOLDER_PART 4

/* True if a warning already tells when the limit will be reached (forecast_tell_ends). */
static bool is_forecast(const struct look *look) {
    bool ends = false;
    for (size_t i = 0; i < look->findings->count; i++) {
        const struct finding *finding = &look->findings->list[i];
        ends |= finding->use.ends && finding->severity > SEVERITY_INFO;
    }
    return ends && look->input->now_s;
}

/* Returns true if little room is left below the limit. A limit of a control group or of the machine
 * counts only if this process holds much of it: otherwise other processes are to blame, and each
 * process would get the finding. */
static bool is_near(const struct limits_found *limit, int64_t rss) {
    bool own = strncmp(limit->from, "RLIMIT_", 7) == 0;
    return limit->left_bytes >= 0 && limit->left_bytes < NEAR_BYTES &&
           limit->left_bytes < limit->bytes / NEAR_PART &&
           (own || rss >= limit->bytes / HOLDER_PART);
}

/* Returns the limits that are near, the one that leaves least first, for the evidence. *first is
 * the first of them; NULL: none is near. The caller frees the text. */
static char *list_near_limits(const struct look *look, int64_t rss,
                              const struct limits_found **first) {
    char *text = NULL;
    *first = NULL;
    for (size_t i = 0; i < look->input->limit_count; i++) {
        const struct limits_found *limit = &look->input->limit[i];
        if (!is_near(limit, rss))
            continue;
        char *before = text;
        text =
            cli_format("%s%s%s are left of %s (%s)", before ? before : "", before ? ", and " : "",
                       look_bytes(limit->left_bytes), look_bytes(limit->bytes), limit->from);
        free(before);
        if (!*first)
            *first = limit;
    }
    return text;
}

/* Finds little room below one limit or more. */
static void look_for_near_limit(struct look *look, const struct rule *rule) {
    const struct limits_found *limit;
    int64_t rss = model_tame(look->input->ledger->rss_bytes);
    if (is_forecast(look))
        return;
    char *near = list_near_limits(look, rss, &limit);
    if (!limit)
        return;
    struct blame blame;
    int64_t *live = cli_alloc(look->model->figures_count, sizeof *live);
    for (size_t i = 1; i < look->model->figures_count; i++)
        live[i] = larger(0, look_totals(look, i).requested_bytes);
    look_blame(look, &blame, live, limit->bytes / HOLDER_PART);
    double left = share(limit->left_bytes, limit->bytes);
    struct finding *finding =
        blame.count > 0
            ? finding_on(look, rule, SEVERITY_WARNING, &blame.suspects[0], limit->left_bytes, left)
            : finding_new(look, rule, SEVERITY_WARNING, limit->left_bytes, left);
    char *holds = blame.count == 0
                      ? cli_copy("")
                      : cli_format("; %s %s in use",
                                   blame.suspects[0].count > 1 ? "these call paths have"
                                                               : "this call path has",
                                   look_bytes(blame.suspects[0].figure));
    finding->evidence =
        cli_format("%s; the resident set of the process is %s%s", near, look_bytes(rss), holds);
    finding->verdict =
        cli_format("only %s are left of %s", look_bytes(limit->left_bytes), limit->from);
    finding->action = look_closer(look, "dump", " --flat", finding);
    free(near);
    free(holds);
    blame_free(&blame);
    free(live);
}

/* Finds that the kernel makes the threads of the process wait, because its control group is above
 * memory.high. */
static void look_for_throttling(struct look *look, const struct rule *rule) {
    const struct limits_throttled *group = look->input->throttled;
    if (!group)
        return;
    int64_t rss = model_tame(look->input->ledger->rss_bytes);
    bool holds = rss >= group->high_bytes / HOLDER_PART; /* else other processes are to blame */
    struct finding *finding = finding_new(look, rule, holds ? SEVERITY_WARNING : SEVERITY_INFO,
                                          rss < group->used_bytes ? rss : group->used_bytes,
                                          share(rss, group->high_bytes));
    finding->evidence = cli_format(
        "memory.high of cgroup %s is %s, and its processes use %s without what the kernel can "
        "drop; "
        "in the last minute, tasks of the group waited for memory %d %% of the time; the resident "
        "set of this process is %s",
        group->group, look_bytes(group->high_bytes), look_bytes(group->used_bytes),
        group->waited_percent, look_bytes(rss));
    finding->verdict = cli_format("the kernel slows this process down, because its control group "
                                  "uses %s, and memory.high is %s",
                                  look_bytes(group->used_bytes), look_bytes(group->high_bytes));
    finding->action = look_closer(look, "dump", " --flat", finding);
}

/* --- harmless memory, and memory that is not from malloc ------------------------------------- */

/* Returns the highest resident set of the process so far; for a recording, the highest one in its
 * moments. WIRE_UNKNOWN: not known. */
static int64_t find_peak(const struct model *model) {
    const struct model_recording *recording = model->recording;
    int64_t peak = WIRE_UNKNOWN;
    if (model->has_mappings)
        return model->mappings.peak_rss_bytes;
    for (size_t i = 0; recording && i <= recording->chosen; i++)
        peak = larger(peak, recording->moments[i].rss_bytes);
    return peak;
}

/* Finds memory that is returned to the kernel and soon needed again. Each such OS page costs a page
 * fault of some microseconds. */
static void look_for_thrashing(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t returned = model_tame(model->ledger.returned_bytes), peak = find_peak(model);
    /* How far the resident set is below its peak. At most this much of the returned memory was not
     * needed again. */
    int64_t fell = larger(0, model_tame(peak) - model_tame(model->ledger.rss_bytes));
    int64_t bytes = peak == WIRE_UNKNOWN ? 0 : returned - fell;
    double rate = model->uptime_s > 0 ? (double)bytes / model->uptime_s : 0;
    if (bytes < KIB * MIB || bytes / 4 < look->rss_bytes || rate < 64.0 * (double)MIB)
        return;
    struct finding *finding =
        finding_new(look, rule, rate < (double)(KIB * MIB) ? SEVERITY_INFO : SEVERITY_WARNING,
                    bytes, share(bytes, look->rss_bytes));
    finding->evidence = cli_format(
        "memctx returned %s to the kernel in %.1f s, and %s of that were needed again, "
        "%s per second; for reuse it keeps at most MEMCTX_FREELIST_KIB, or 5 %% of the "
        "bytes in use if that is more, and as much as the program lately took again at "
        "once",
        look_bytes(returned), model->uptime_s, look_bytes(bytes), look_bytes((int64_t)rate));
    int64_t freelist_kib = 4 * larger(8 * KIB, look->rss_bytes / KIB / 4);
    finding->verdict = cli_format("%s per second go back to the kernel and are needed again",
                                  look_bytes((int64_t)rate));
    if (look_may_act(model))
        finding->action =
            cli_format("memctx set %s freelist_kib=%" PRId64 ", then compare its processor time",
                       look->input->target, freelist_kib);
    char *setting = cli_format(" freelist_kib=%" PRId64, freelist_kib);
    finding_helps(look, finding, "set", setting, 0,
                  cli_format("keeps up to %s for reuse; compare the processor time",
                             look_bytes(freelist_kib * KIB)));
    free(setting);
}

static void look_for_freelist(struct look *look, const struct rule *rule) {
    int64_t bytes = memory_freelist_held(look->model);
    if (bytes < floor_of(look, 32 * MIB, 20))
        return;
    struct finding *finding =
        finding_new(look, rule, SEVERITY_INFO, bytes, share(bytes, look->rss_bytes));
    finding->evidence =
        cli_format("memctx keeps %s of empty memory for the next allocations, %.0f %% of the "
                   "resident set",
                   look_bytes(bytes), 100 * finding->ratio);
    if (look_may_act(look->model))
        finding->action = cli_format("memctx trim %s", look->input->target);
    /* a trim returns empty pages, too */
    int64_t back = model_tame(bytes + (look->holders.list ? look->holders.returned_bytes : 0));
    finding_helps(look, finding, "trim", "", back,
                  cli_format("returns %s at once", look_bytes(back)));
}

/* Returns the most bytes that the context of these figures is known to have had. Its own peak is
 * not known if several threads used it. */
static int64_t highest_of(const struct look *look, size_t number) {
    const struct samples *samples = look->input->samples;
    int64_t highest = model_tame(look_totals(look, number).peak_requested_bytes);
    for (size_t i = 0; i < samples->count; i++)
        highest = larger(highest, samples->samples[i].rows[number].requested_bytes);
    return highest;
}

static void look_for_past_peak(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    /* The kernel's peak includes what memctx itself used at that time, which is not known. */
    int64_t peak = model_tame(model->mappings.peak_rss_bytes) - memory_own_most(&model->ledger);
    int64_t now = look->rss_bytes;
    int64_t held = model_tame(now + look_swapped(model)); /* what is in swap was not given back */
    if (!model->has_mappings || peak - held < 64 * MIB || peak / 2 < held)
        return;
    struct blame blame;
    int64_t *above = cli_alloc(model->figures_count, sizeof *above);
    for (size_t i = 1; i < model->figures_count; i++) {
        const struct model_totals self = look_totals(look, i);
        if (model_figures_at(model, i)->context == 0)
            continue; /* the root's peak is the peak of the whole process */
        above[i] = larger(0, highest_of(look, i) - self.requested_bytes);
    }
    look_blame(look, &blame, above, (peak - now) / 4);
    struct finding *finding =
        blame.count > 0
            ? finding_on(look, rule, SEVERITY_INFO, &blame.suspects[0], peak - now,
                         share(peak - now, peak))
            : finding_new(look, rule, SEVERITY_INFO, peak - now, share(peak - now, peak));
    finding->evidence = cli_format(
        "the program's resident set was %s at its peak and is %s now%s%s%s", look_bytes(peak),
        look_bytes(now),
        blame.count == 0              ? ""
        : blame.suspects[0].count > 1 ? "; at their own peaks, not all at the same time, these "
                                        "call paths held "
                                      : "; at its own peak, this call path held ",
        blame.count > 0 ? look_bytes(blame.suspects[0].figure) : "",
        blame.count > 0 ? " more than now" : "");
    if (blame.count == 0)
        finding->sure = "certain for the peak; no single call path is known to have caused it, and "
                        "the peak of a path that several threads used is not known; marks would "
                        "show what such a path held (memctx set TARGET marks=10m,24)";
    finding->action = cli_format("memctx dump %s --flat --sort peak", look->input->target);
    blame_free(&blame);
    free(above);
}

static void look_for_others_memory(struct look *look, const struct rule *rule) {
    static const char *const lines[][2] = {
        {"files_bytes", "mapped files"},
        {"stacks_bytes", "thread stacks"},
        {"brk_heap_bytes", "the brk heap"},
        {"shared_bytes", "shared memory and named mappings"},
        {"runtime_code_bytes", "code generated at run time"},
        {"own_mappings_bytes", "mappings that the program made itself"},
        {"residue_bytes", "memory that the ledger does not explain"},
    };
    int64_t sum = 0, most = 0;
    size_t largest = 0;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        int64_t bytes = larger(0, look_ledger_line(look, lines[i][0]));
        sum += bytes;
        if (bytes > most) {
            most = bytes;
            largest = i;
        }
    }
    if (!look->model->has_mappings || sum < floor_of(look, 64 * MIB, 50))
        return;
    struct finding *finding =
        finding_new(look, rule, SEVERITY_INFO, sum, share(sum, look->rss_bytes));
    finding->evidence = cli_format(
        "%s, %.0f %% of the resident set, did not come from malloc; the largest part is %s of %s",
        look_bytes(sum), 100 * finding->ratio, look_bytes(most), lines[largest][1]);
    bool own = strcmp(lines[largest][0], "own_mappings_bytes") == 0;
    bool runtime = own && look_mapped_by_runtime(look->model, finding);
    if (!runtime && !look->model->from_snapshot)
        finding->action = cli_format("less /proc/%" PRId64 "/maps", look->model->pid);
}

static void look_for_foreign_frees(struct look *look, const struct rule *rule) {
    int64_t count = model_tame(look->input->foreign_frees);
    if (count == 0)
        return;
    struct finding *finding = finding_new(look, rule, SEVERITY_INFO, 0, 0);
    finding->evidence =
        cli_format("the program passed %" PRId64 " pointers to free or realloc that memctx did not "
                   "allocate; memctx ignored them",
                   count);
    if (!look->model->from_snapshot)
        finding->action = cli_format("memctx dump --self %s", look->input->target);
}

static void look_for_lost(struct look *look, const struct rule *rule) {
    if (look->model->exact)
        return;
    bool paused = look->model->paused && !look->model->lost;
    bool read_badly = look->model->how || paused;
    struct finding *finding =
        finding_new(look, rule, read_badly ? SEVERITY_INFO : SEVERITY_WARNING, 0, 0);
    if (paused) {
        finding->title = "figures that were read with a pause";
        finding->why = "The process went on while this command stood still, so the figures are "
                       "from several moments, and some may belong to other call paths.";
        finding->sure = NULL;
        finding->verdict = cli_copy("the figures are not exact, because this command paused");
        finding->evidence = cli_copy("this command paused while it read the process; run it again");
        return;
    }
    if (look->model->how) {
        finding->title = "figures that were read from outside";
        finding->why = "memctx copied the tables one after the other, and the process may have "
                       "changed them meanwhile; or a part was missing.";
        finding->sure = NULL;
        finding->verdict =
            cli_copy("the figures are not exact, because they were read from outside");
        finding->evidence = cli_copy(look->model->how);
        return;
    }
    finding->verdict = cli_copy("some operations were not charged to their call path");
    finding->evidence =
        cli_copy("the dump is not exact: some operations were not charged to their call path");
    if (!look->model->from_snapshot)
        finding->action = cli_format("memctx dump --self %s", look->input->target);
}

#define COUNTED "certain: counted, not estimated"

static const struct rule rules[] = {
    {"nearly-empty-pages", "nearly empty pages",
     "memctx returns a page to the kernel only when no chunk in it is live, so a few live chunks "
     "keep much memory.",
     "Free these chunks together, or allocate them apart from short-lived chunks.", COUNTED,
     look_for_empty_pages},
    {"growth", "growth that does not stop",
     "The program allocates this memory and does not free it. If that goes on, memory runs out.",
     "Find out what should free these chunks and when, or give the container that keeps them a "
     "limit.",
     NULL, look_for_growth},
    {"growth-not-malloc", "growth of memory that is not from malloc",
     "The program, its libraries or its language runtime mapped this memory and keep it. memctx "
     "has "
     "no call paths for it. If that goes on, memory runs out.",
     "Find out which code maps this memory, and what should unmap it and when.", NULL,
     look_for_mapped_growth},
    {"near-limit", "little memory left below a limit",
     "If the process needs more than that at once, malloc fails, or the kernel kills the process.",
     "Raise the limit, or let the program hold less.", COUNTED, look_for_near_limit},
    {"throttled", "the kernel slows the process down",
     "Above memory.high the kernel does not refuse memory. It makes each thread that allocates "
     "wait "
     "while it takes memory back from the group.",
     "Raise memory.high (MemoryHigh= of systemd), or let the processes of the group hold less.",
     "certain: figures of the kernel", look_for_throttling},
    {"rounding", "sizes just above a block size",
     "Each chunk occupies a whole block of the next larger size.",
     "Slightly smaller chunks, or several objects in one chunk, would save the difference.",
     COUNTED, look_for_rounding},
    {"thread-memory", "free memory in the pages of many threads",
     "Each thread that allocates has pages of its own.",
     "With fewer threads, less of the memory in such pages would be free.", COUNTED,
     look_for_thread_memory},
    {"huge-pages", "partly used huge pages",
     "When the program touches the first byte of a huge page, the kernel makes all of its 2 MiB "
     "resident.",
     "Nothing in the source: this is a setting of the system or of memctx.",
     "likely: the kernel counts more than was touched, and has huge pages", look_for_huge_pages},
    {"not-exact", "operations not charged to a call path",
     "Memory ran short while memctx counted these operations. The figures of single call paths "
     "may be slightly too low.",
     NULL, COUNTED, look_for_lost},
    {"foreign-frees", "pointers from another allocator",
     "A library that is bound to libc's own malloc (RTLD_DEEPBIND), or a second malloc in the "
     "program, allocated these chunks. They are not freed.",
     NULL, COUNTED, look_for_foreign_frees},
    {"thrashing", "memory that is returned to the kernel and soon needed again",
     "Each OS page that the kernel hands out again costs a page fault and is filled with zeros. "
     "Memory that memctx keeps for reuse costs neither.",
     "Keep buffers and use them again, instead of freeing much memory and allocating it again.",
     COUNTED, look_for_thrashing},
    {"past-peak", "a peak in the past",
     "Nothing needs to be done now. The program may need as much memory again.", NULL,
     "certain for the peak; the call path is the one that shrank most", look_for_past_peak},
    {"freelist", "empty memory that is kept for reuse",
     "Harmless: the next allocations use this memory first, and the rest goes back to the kernel "
     "after MEMCTX_DECAY_MS milliseconds.",
     NULL, COUNTED, look_for_freelist},
    {"not-malloc", "memory that is not from malloc",
     "The program, its libraries or its language runtime mapped this memory. memctx has no call "
     "paths for it.",
     NULL, COUNTED, look_for_others_memory},
    {"small-steps", "growth by realloc in small steps",
     "Each call costs the time of a realloc and, if the chunk has to move, of a copy of the whole "
     "chunk. Growing to twice the size takes twice as many calls, and copies four times the bytes.",
     "Keep the size of the chunk beside the part that is used, and let realloc make it larger by a "
     "factor, such as 1.5 or 2; some dozen calls are then enough. If the final size is known "
     "beforehand, allocate it at once.",
     COUNTED, look_for_small_steps},
    {"temporary", "short-lived chunks",
     "Each of these chunks costs the time of a malloc and a free.",
     "A buffer that is kept and reused costs neither.", COUNTED, look_for_temporary},
    {"copies", "arrays that grow by copying",
     "During each copy, the old and the new array both take memory, and copying takes time.",
     "If the program knows the final size beforehand, one allocation of that size (reserve, or one "
     "larger realloc) avoids the copies and the old chunks.",
     "likely: many smaller chunks were freed for each one that stays", look_for_copies},
    {"remote-frees", "chunks that another thread frees",
     "This is usual in a pipeline of threads. Each such free costs an atomic operation, and chunks "
     "pile up when one thread lags behind.",
     NULL, COUNTED, look_for_remote_frees},
    {"untouched", "memory that was asked for and is not used",
     "It takes no memory now, but counts towards limits of the address space (RLIMIT_AS, "
     "vm.overcommit_memory=2). The program may write there at any time.",
     "Ask for as much as is used: a smaller reserve, or an array that grows by a factor.", COUNTED,
     look_for_untouched},
};

/* Growth below 1/SMALL_BESIDE of the largest growth is no warning. Such growth is often a side
 * effect of the largest growth, such as an engine's notes about each page of its heap, or the keys
 * of a growing table. */
#define SMALL_BESIDE 100

/* If the largest growth itself is only of severity info, it may be harmless. Then it plays down
 * only growth below this size, so that it does not hide a larger leak. */
#define SMALL_BESIDE_INFO (4 * MIB)

static void play_down_small_growth(struct findings *findings) {
    int64_t alarming = 0, most = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        if (finding->overshadows)
            most = larger(most, finding->bytes);
        if (finding->overshadows && finding->severity > SEVERITY_INFO)
            alarming = larger(alarming, finding->bytes);
    }
    for (size_t i = 0; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];
        bool small = finding->bytes < alarming / SMALL_BESIDE ||
                     (finding->bytes < most / SMALL_BESIDE && finding->bytes < SMALL_BESIDE_INFO);
        if (strncmp(finding->id, "growth", 6) == 0 && small)
            finding->severity = SEVERITY_INFO;
    }
}

/* True if both findings are about the same contexts. */
static bool share_contexts(const struct finding *a, const struct finding *b) {
    return a->selector && b->selector && strcmp(a->selector, b->selector) == 0;
}

/* Call paths that leak may also waste memory by rounding. If at least half of their requested bytes
 * came with the growth, the finding about rounding becomes an info, because it ends with the leak.
 */
static void play_down_rounding_of_growth(struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        struct finding *rounding = &findings->list[i];
        if (strcmp(rounding->id, "rounding") != 0 || rounding->ratio <= 0)
            continue;
        double requested = (double)rounding->bytes / rounding->ratio - (double)rounding->bytes;
        for (size_t k = 0; k < findings->count; k++) {
            const struct finding *growth = &findings->list[k];
            if (strcmp(growth->id, "growth") == 0 && growth->severity > SEVERITY_INFO &&
                share_contexts(growth, rounding) && (double)growth->bytes >= requested / 2)
                rounding->severity = SEVERITY_INFO;
        }
    }
}

/* Sorts by severity. Warnings and critical findings are sorted by bytes; findings of severity info
 * keep the order of the rules. */
static int by_weight(const void *a, const void *b) {
    const struct finding *left = a, *right = b;
    if (left->severity != right->severity)
        return left->severity > right->severity ? -1 : 1;
    if (left->rule != right->rule && left->severity == SEVERITY_INFO)
        return left->rule < right->rule ? -1 : 1;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return left->rule != right->rule
               ? (left->rule < right->rule ? -1 : 1)
               : (left->example > right->example) - (left->example < right->example);
}

/* Returns the resident set without memctx's own memory. */
static int64_t resident_without_us(const struct findings_input *input) {
    int64_t rss = model_tame(input->ledger->rss_bytes);
    return larger(rss - memory_own_bytes(&input->model->ledger), 1);
}

void findings_make(struct findings *findings, const struct findings_input *input) {
    *findings = (struct findings){0};
    look_use_exact_bytes(input->exact_bytes);
    struct samples samples = samples_to_judge(input->samples);
    struct findings_input judged = *input;
    judged.samples = &samples;
    struct look look = {.rules = rules,
                        .input = &judged,
                        .model = input->model,
                        .rss_bytes = resident_without_us(input),
                        .findings = findings};
    holders_make(&look.holders, input->model);
    blame_paths_make(&look.paths, input->model);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        rules[i].look(&look, &rules[i]);
    look_for_largest(&look);
    forecast_tell_ends(&look);
    play_down_small_growth(findings);
    play_down_rounding_of_growth(findings);
    free(samples.samples);
    holders_free(&look.holders);
    blame_paths_free(&look.paths);
    if (findings->count > 0)
        qsort(findings->list, findings->count, sizeof *findings->list, by_weight);
}

struct who_part finding_who(const struct model *model, const struct finding *finding) {
    if (finding->common.context != WIRE_NONE)
        return (struct who_part){
            .from = finding->common, .end = {WIRE_NONE, 0}, .keeps_first = true};
    return who_frames(model, finding->example, finding->frames);
}

static const char *const severity_words[SEVERITIES] = {"info", "warning", "critical"};

const char *severity_word(enum severity severity) {
    return severity_words[severity];
}

enum severity severity_of(const char *word) {
    int severity = 0;
    while (severity < SEVERITIES && strcmp(word, severity_words[severity]) != 0)
        severity++;
    return (enum severity)severity;
}
