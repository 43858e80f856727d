/* SPDX-License-Identifier: MIT */
/* findings.c - the rules. */
#include "findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "blame.h"
#include "holders.h"
#include "render.h"

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)
#define DAY_S 86400.0

/* One look at the process: what the rules read and where they write. */
struct rule;
struct look {
    const struct rule *rules; /* all of them */
    const struct findings_input *input;
    const struct model *model;
    struct wire_totals *totals; /* the contexts' own, tamed */
    struct holders holders;     /* list NULL: the pages are not known */
    struct blame_paths paths;
    int64_t rss_bytes;
    struct findings *findings;
};

struct rule {
    const char *id, *title, *why;
    void (*look)(struct look *look, const struct rule *rule);
};

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* A floor in bytes, and as a share of the resident set in per cent. */
static int64_t floor_of(const struct look *look, int64_t bytes, int per_cent) {
    return larger(bytes, look->rss_bytes / 100 * per_cent);
}

static int64_t ledger_line(const struct look *look, const char *key) {
    const struct memory_ledger *ledger = look->input->ledger;
    for (size_t i = 0; i < ledger->count; i++) {
        if (strcmp(ledger->lines[i].key, key) == 0) {
            return model_tame(ledger->lines[i].bytes);
        }
    }
    return 0;
}

/* Numbers for people, several in one sentence. */
static const char *human(int64_t bytes) {
    static char texts[8][RENDER_NUMBER_BYTES];
    static unsigned next;
    return render_bytes(texts[next++ % 8], bytes, true);
}

static struct finding *report(struct look *look, const struct rule *rule, enum severity severity,
                              int64_t bytes, double ratio) {
    struct findings *findings = look->findings;
    if (findings->count == findings->capacity) {
        findings->capacity = 2 * findings->capacity + 16;
        findings->list = cli_grow(findings->list, findings->capacity, sizeof(*findings->list));
    }
    struct finding *finding = &findings->list[findings->count++];
    *finding = (struct finding){.id = rule->id,
                                .title = rule->title,
                                .why = rule->why,
                                .rule = (size_t)(rule - look->rules),
                                .severity = severity,
                                .context = WIRE_NONE,
                                .example = WIRE_NONE,
                                .bytes = bytes,
                                .ratio = ratio};
    return finding;
}

static struct finding *report_suspect(struct look *look, const struct rule *rule,
                                      enum severity severity, const struct blame_suspect *suspect,
                                      int64_t bytes, double ratio) {
    struct finding *finding = report(look, rule, severity, bytes, ratio);
    finding->example = suspect->members[0];
    finding->frames = suspect->frames;
    finding->contexts = suspect->count;
    if (suspect->count == 1) {
        finding->context = suspect->members[0];
    }
    return finding;
}

/* The command that shows the suspect's site; without its name, all of them. */
static char *look_closer(const struct look *look, const char *verb, const char *options,
                         const struct finding *finding) {
    const struct model_names *names =
        finding->example != WIRE_NONE ? look->model->contexts[finding->example].names : NULL;
    const char *name = names != NULL ? names->functions[0].name : NULL;
    if (name == NULL) {
        return cli_format("memctx %s %s%s", verb, look->input->target, options);
    }
    int length = (int)strcspn(name, "(<"); /* a regular expression: the plain part of the name */
    return cli_format("memctx %s %s%s --site '%.*s'", verb, look->input->target, options, length,
                      name);
}

static int64_t sum_over(const struct look *look, const struct blame_suspect *suspect,
                        int64_t (*figure)(const struct wire_totals *totals)) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count; i++) {
        sum = model_add(sum, figure(&look->totals[suspect->members[i]]));
    }
    return model_tame(sum);
}

#define FIGURE(name)                                                                               \
    static int64_t get_##name(const struct wire_totals *totals) {                                  \
        return totals->name;                                                                       \
    }
FIGURE(requested_bytes)
FIGURE(block_bytes)
FIGURE(live_chunks)
FIGURE(sole_pinned_bytes)
FIGURE(allocs)
FIGURE(frees)
FIGURE(requested_cum_bytes)

/* --- memory that is held and not used ------------------------------------------------------------ */

static enum severity empty_severity(const struct look *look, int64_t bytes) {
    return bytes >= floor_of(look, 64 * MIB, 40)                         ? SEVERITY_CRITICAL
           : bytes >= floor_of(look, 16 * MIB, 20) || bytes >= KIB * MIB ? SEVERITY_WARNING
                                                                         : SEVERITY_INFO;
}

/* What the pages themselves tell of a suspect. */
struct pages_look {
    uint32_t oldest;
    int64_t alone; /* would come back if they freed all */
    int64_t trim, isolate;
};

static struct pages_look look_at_pages(const struct look *look,
                                       const struct blame_suspect *suspect) {
    struct pages_look pages = {0};
    int64_t free_bytes;
    bool *members = cli_alloc(look->model->context_count, sizeof(*members));
    blame_widen(&look->paths, suspect, members);
    for (size_t i = 0; i < suspect->count; i++) {
        const struct holder *holder = &look->holders.list[suspect->members[i]];
        pages.oldest = holder->oldest > pages.oldest ? holder->oldest : pages.oldest;
        pages.trim = model_tame(pages.trim + holder->empty_os_bytes);
    }
    pages.alone = holders_alone(look->model, members, &free_bytes);
    pages.isolate = holders_isolate(look->model, members);
    free(members);
    return pages;
}

/* Since when, and what would help. */
static char *tell_of_pages(const struct pages_look *pages, int64_t held) {
    const char *age = holders_age(pages->oldest);
    return pages->isolate > held / 4
               ? cli_format("; the oldest is %s old; apart from others (memctx isolate) they would "
                            "hold %s less",
                            age, human(pages->isolate))
           : pages->trim > held / 10
               ? cli_format("; the oldest is %s old; memctx trim of them gives %s back at once",
                            age, human(pages->trim))
               : cli_format("; the oldest is %s old", age);
}

/* Contexts of whose pages more is empty than used. */
static void look_for_empty_pages(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *pinned = cli_alloc(model->context_count, sizeof(*pinned));
    for (size_t i = 0; i < model->context_count; i++) {
        const struct wire_totals *self = &look->totals[i];
        pinned[i] = self->pinned_bytes > self->block_bytes ? self->pinned_bytes : 0;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, pinned, floor_of(look, 8 * MIB, 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t blocks = sum_over(look, suspect, get_block_bytes), bytes = suspect->figure;
        int64_t alone = sum_over(look, suspect, get_sole_pinned_bytes);
        struct finding *finding = report_suspect(look, rule, empty_severity(look, bytes), suspect,
                                                 bytes, share(bytes, bytes + blocks));
        bool known = look->holders.list != NULL;
        struct pages_look pages = known ? look_at_pages(look, suspect) : (struct pages_look){0};
        char *more = known ? tell_of_pages(&pages, bytes) : cli_copy("");
        alone = known ? pages.alone : alone;
        finding->evidence = cli_format(
            "%" PRId64
            " chunks, %s, hold %s of otherwise empty pages, %.0f %% of the resident set; "
            "%s of pages would come back if they were freed%s",
            sum_over(look, suspect, get_live_chunks),
            human(sum_over(look, suspect, get_requested_bytes)), human(bytes),
            100 * share(bytes, look->rss_bytes), human(alone), more);
        free(more);
        finding->action = look_closer(look, "frag", "", finding);
    }
    blame_free(&blame);
    free(pinned);
}

static int64_t saved_by_slabs(const struct look *look, const struct blame_suspect *suspect) {
    int64_t sum = 0;
    for (size_t i = 0; i < suspect->count && look->holders.list != NULL; i++) {
        sum = model_add(sum, look->holders.list[suspect->members[i]].slab_bytes);
    }
    return model_tame(sum);
}

/* Sizes just above a block's. */
static void look_for_rounding(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *rounding = cli_alloc(model->context_count, sizeof(*rounding));
    for (size_t i = 0; i < model->context_count; i++) {
        const struct wire_totals *self = &look->totals[i];
        int64_t bytes = self->block_bytes - self->requested_bytes;
        rounding[i] = bytes > self->block_bytes / 8 ? bytes : 0;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, rounding, floor_of(look, 8 * MIB, 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t chunks = larger(1, sum_over(look, suspect, get_live_chunks));
        int64_t blocks = sum_over(look, suspect, get_block_bytes);
        struct finding *finding = report_suspect(look, rule, SEVERITY_WARNING, suspect,
                                                 suspect->figure, share(suspect->figure, blocks));
        int64_t slab = saved_by_slabs(look, suspect);
        char *cure =
            slab > suspect->figure / 2
                ? cli_format("; in blocks of their very size (policy=slab, see memctx set) "
                             "it would be %s less",
                             human(slab))
                : cli_copy("");
        finding->evidence = cli_format(
            "%" PRId64 " chunks of %" PRId64 " bytes on average stand in blocks of %" PRId64
            ": %s, %.0f %% of the resident set, is the difference%s",
            chunks, sum_over(look, suspect, get_requested_bytes) / chunks, blocks / chunks,
            human(suspect->figure), 100 * share(suspect->figure, look->rss_bytes), cure);
        free(cure);
        finding->action = look_closer(look, "frag", " --sort waste", finding);
    }
    blame_free(&blame);
    free(rounding);
}

static void look_for_thread_memory(struct look *look, const struct rule *rule) {
    const struct wire_ledger *ledger = &look->model->ledger;
    int64_t bytes = model_tame(ledger->mixed_reserved) - model_tame(ledger->mixed_block_bytes);
    size_t threads = look->model->thread_count;
    if (threads < 32 || bytes < floor_of(look, 32 * MIB, 20)) {
        return;
    }
    struct finding *finding =
        report(look, rule, SEVERITY_WARNING, bytes, share(bytes, look->rss_bytes));
    finding->evidence = cli_format("%zu threads have mixed pages of their own, of which %s are "
                                   "free, %.0f %% of the resident set",
                                   threads, human(bytes), 100 * finding->ratio);
    finding->action = cli_format("memctx dump %s --threads", look->input->target);
}

static void look_for_huge_pages(struct look *look, const struct rule *rule) {
    const struct model_mappings *mappings = &look->model->mappings;
    int64_t bytes = ledger_line(look, "not_resident_bytes");
    if (!look->model->has_mappings || model_tame(mappings->huge_bytes) < bytes ||
        bytes < floor_of(look, 32 * MIB, 20)) {
        return;
    }
    struct finding *finding =
        report(look, rule, SEVERITY_WARNING, bytes, share(bytes, look->rss_bytes));
    finding->evidence =
        cli_format("%s more is resident than was ever used; %s of the process stand in huge pages",
                   human(bytes), human(mappings->huge_bytes));
    finding->action = cli_copy("start it with MEMCTX_THP=never, and compare");
}

/* --- growth ---------------------------------------------------------------------------------------- */

struct growth {
    int64_t bytes, chunks, allocs;
    bool
        slowing; /* less and less of what is allocated stays, in the end less than half: a cache that fills */
};

/* How the contexts of one folded path together stood at each sample. */
static struct sample_row *sum_alike(const struct look *look, const struct sample *sample) {
    struct sample_row *rows = cli_alloc(look->model->context_count, sizeof(*rows));
    for (size_t i = 0; i < look->model->context_count; i++) {
        struct sample_row *sum = &rows[look->paths.same[i]];
        sum->requested_bytes = model_tame(sum->requested_bytes + sample->rows[i].requested_bytes);
        sum->live_chunks = model_tame(sum->live_chunks + sample->rows[i].live_chunks);
        sum->allocs = model_tame(sum->allocs + sample->rows[i].allocs);
    }
    return rows;
}

/* Bytes that stay of what is allocated; by chunks, because the sizes of what was freed are not known. */
static double kept_between(const struct sample_row *from, const struct sample_row *to) {
    int64_t allocs = to->allocs - from->allocs;
    return (double)(to->requested_bytes - from->requested_bytes) /
           (allocs > 0 ? (double)allocs : 1);
}

/* What a path grew by if it grew in each interval, or shrank in each; zeros otherwise. `rows`: by sample. */
static struct growth steady_growth(struct sample_row *const *rows, size_t samples, size_t context) {
    const struct sample_row *first = &rows[0][context], *last = first;
    size_t up = 0, down = 0, slower = 0;
    double kept_first = 0, kept_last = 0;
    for (size_t i = 1; i < samples; i++) {
        const struct sample_row *row = &rows[i][context];
        double kept = kept_between(last, row);
        up += row->requested_bytes > last->requested_bytes && row->live_chunks > last->live_chunks;
        down +=
            row->requested_bytes < last->requested_bytes && row->live_chunks < last->live_chunks;
        slower += i > 1 && kept < kept_last;
        kept_first = i == 1 ? kept : kept_first;
        kept_last = kept;
        last = row;
    }
    if (up != samples - 1 && down != samples - 1) {
        return (struct growth){0};
    }
    return (struct growth){last->requested_bytes - first->requested_bytes,
                           last->live_chunks - first->live_chunks,
                           larger(0, last->allocs - first->allocs),
                           samples > 3 && slower == samples - 2 && 2 * kept_last < kept_first};
}

/* Entries of a cache may be made from one place at first, and replaced from another later: what shrinks as steadily,
 * from the same site, is no less than half of the growth. */
static bool is_replacement(const struct look *look, const struct growth *growths,
                           const struct blame_suspect *suspect) {
    const struct model *model = look->model;
    const struct model_context *site = &model->contexts[suspect->members[0]];
    int64_t gone = 0;
    for (size_t i = 1; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        if (growths[i].bytes < 0 && context->kind == site->kind &&
            context->address == site->address) {
            gone = model_tame(gone - growths[i].bytes);
        }
    }
    return gone >= suspect->figure / 2;
}

static enum severity growth_severity(const struct look *look, size_t intervals, int64_t bytes,
                                     double a_day) {
    if (intervals < 3 || a_day < 64.0 * (double)MIB) {
        return SEVERITY_INFO; /* it may be the program's start, or its cache */
    }
    return bytes >= floor_of(look, 16 * MIB, 10) ? SEVERITY_CRITICAL : SEVERITY_WARNING;
}

static void look_for_growth(struct look *look, const struct rule *rule) {
    const struct samples *samples = look->input->samples;
    const struct model *model = look->model;
    size_t intervals = samples->count - 1;
    if (intervals == 0) {
        return;
    }
    struct growth *growths = cli_alloc(model->context_count, sizeof(*growths));
    int64_t *figures = cli_alloc(model->context_count, sizeof(*figures));
    struct sample_row **rows = cli_alloc(samples->count, sizeof(struct sample_row *));
    for (size_t i = 0; i < samples->count; i++) {
        rows[i] = sum_alike(look, &samples->samples[i]);
    }
    for (size_t i = 0; i < model->context_count; i++) {
        if (look->paths.same[i] == i) {
            growths[i] = steady_growth(rows, samples->count, i);
        }
        figures[i] = growths[i].chunks >= 16 ? growths[i].bytes : 0;
    }
    for (size_t i = 0; i < samples->count; i++) {
        free(rows[i]);
    }
    free(rows);
    double seconds = model->uptime_s - samples->samples[0].uptime_s;
    struct blame blame;
    blame_make(&blame, &look->paths, figures, 4 * KIB);
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t bytes = suspect->figure;
        double a_day = seconds > 0 ? (double)bytes / seconds * DAY_S : 0;
        bool slowing = true;
        for (size_t k = 0; k < suspect->count; k++) {
            slowing = slowing && growths[suspect->members[k]].slowing;
        }
        enum severity severity =
            slowing ? SEVERITY_INFO : growth_severity(look, intervals, bytes, a_day);
        if ((severity == SEVERITY_INFO && bytes < floor_of(look, MIB, 1)) ||
            is_replacement(look, growths, suspect)) {
            continue;
        }
        struct growth sum = {0};
        for (size_t k = 0; k < suspect->count; k++) {
            const struct growth *part = &growths[suspect->members[k]];
            sum.chunks = model_tame(sum.chunks + part->chunks);
            sum.allocs = model_tame(sum.allocs + part->allocs);
        }
        int64_t kept_of = sum.chunks > 0 ? sum.allocs / sum.chunks : 0;
        char *kept = kept_of > 1
                         ? cli_format("of what it allocates one in %" PRId64 " stays", kept_of)
                         : cli_copy("nearly all that it allocates stays");
        struct finding *finding =
            report_suspect(look, rule, severity, suspect, bytes,
                           sum.allocs > 0 ? share(sum.chunks, sum.allocs) : 1);
        finding->evidence = cli_format(
            "grew in each of %zu interval%s: %" PRId64 " chunks, %s in %.1f s (%s a day at that "
            "rate); %s; %s",
            intervals, intervals == 1 ? "" : "s", sum.chunks, human(bytes), seconds,
            human(a_day < 9e18 ? (int64_t)a_day : INT64_MAX), kept,
            slowing          ? "less each time: a cache that fills, rather than a leak"
            : intervals >= 3 ? "a leak, or a queue that is not drained"
                             : "two marks more would tell whether it goes on");
        size_t alike = look->paths.alike[suspect->members[0]];
        if (suspect->count == 1 && alike > 1) { /* of one folded path */
            finding->context = WIRE_NONE;
            finding->contexts = alike;
            finding->frames = look->paths.plain[suspect->members[0]];
        }
        free(kept);
        finding->action = intervals >= 3
                              ? look_closer(look, "dump", " --flat --sort chunks", finding)
                              : cli_format("memctx mark %s AGAIN, later, then memctx doctor %s",
                                           look->input->target, look->input->target);
    }
    blame_free(&blame);
    free(growths);
    free(figures);
}

/* --- how it is used -------------------------------------------------------------------------------- */

/* Of one thread's contexts it is known how much was alive at once. Where that is a handful of chunks, each was freed
 * before as many others of its path were made. */
static void look_for_temporary(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *allocs = cli_alloc(model->context_count, sizeof(*allocs));
    for (size_t i = 1; i < model->context_count; i++) {
        const struct wire_totals *self = &look->totals[i];
        int64_t peak = self->peak_requested_bytes;
        int64_t mean = self->allocs > 0 ? self->requested_cum_bytes / self->allocs : 0;
        allocs[i] = peak != WIRE_UNKNOWN && peak <= 4 * mean ? self->allocs : 0;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, allocs, larger(1000000, model_tame(model->totals.allocs) / 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t bytes = sum_over(look, suspect, get_requested_cum_bytes);
        struct finding *finding = report_suspect(look, rule, SEVERITY_INFO, suspect, bytes,
                                                 share(suspect->figure, model->totals.allocs));
        finding->evidence = cli_format(
            "%" PRId64 " chunks, %.0f %% of all allocations, were each freed before four others of "
            "the same path were made; %s went through in all",
            suspect->figure, 100 * finding->ratio, human(bytes));
        finding->action = look_closer(look, "dump", " --flat --sort allocs", finding);
    }
    blame_free(&blame);
    free(allocs);
}

/* What was freed was much smaller than what stayed, and there was much of it: arrays that grow by being copied. */
static void look_for_copies(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *copied = cli_alloc(model->context_count, sizeof(*copied));
    for (size_t i = 0; i < model->context_count; i++) {
        const struct wire_totals *self = &look->totals[i];
        int64_t freed = self->requested_cum_bytes - self->requested_bytes;
        if (self->live_chunks > 0 && self->frees >= 4 * self->live_chunks && freed > 0) {
            int64_t mean_freed = freed / self->frees;
            int64_t mean_live = self->requested_bytes / self->live_chunks;
            copied[i] = mean_freed * 3 < mean_live && freed > self->requested_bytes / 2 ? freed : 0;
        }
    }
    struct blame blame;
    blame_make(&blame, &look->paths, copied, floor_of(look, 8 * MIB, 10));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t live = sum_over(look, suspect, get_requested_bytes);
        int64_t chunks = larger(1, sum_over(look, suspect, get_live_chunks));
        int64_t frees = sum_over(look, suspect, get_frees);
        struct finding *finding = report_suspect(look, rule, SEVERITY_INFO, suspect,
                                                 suspect->figure, share(suspect->figure, live));
        finding->evidence = cli_format(
            "%" PRId64 " chunks of %s on average were reached through %" PRId64
            " smaller ones (%s), each copied into the next; while it is copied both are there",
            chunks, human(live / chunks), frees, human(suspect->figure));
        finding->action = look_closer(look, "dump", " --flat --sort allocs", finding);
    }
    blame_free(&blame);
    free(copied);
}

/* What threads freed that others had allocated, context by context. */
/* Which thread frees most of another one's chunks; empty where that is not known. */
static char *tell_who_frees(const struct model *model) {
    const struct model_remote *most = NULL;
    for (size_t i = 0; i < model->remote_count; i++) {
        if (most == NULL || model->remotes[i].frees > most->frees) {
            most = &model->remotes[i];
        }
    }
    if (most == NULL) {
        return cli_copy("");
    }
    const struct model_thread *by = &model->threads[most->freed_by];
    const struct model_thread *of = &model->threads[most->owner];
    return cli_format("; most by thread %u (%s), of memory that is thread %u's (%s) now: %" PRId64,
                      by->tid, by->name, of->tid, of->name, most->frees);
}

static void look_for_remote_frees(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *crossed = cli_alloc(model->context_count, sizeof(*crossed));
    for (size_t i = 0; i < model->context_count && model->has_threads; i++) {
        const struct model_context *context = &model->contexts[i];
        for (uint32_t k = 0; k < context->view_count; k++) {
            const struct wire_totals *totals = &model->views[context->first_view + k].totals;
            crossed[i] = model_tame(
                crossed[i] + larger(0, model_tame(totals->frees) - model_tame(totals->allocs)));
        }
        crossed[i] = crossed[i] > look->totals[i].frees / 2 ? crossed[i] : 0;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, crossed, larger(1000000, model_tame(model->totals.frees) / 4));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t allocs = sum_over(look, suspect, get_allocs);
        int64_t frees = sum_over(look, suspect, get_frees);
        int64_t live = sum_over(look, suspect, get_requested_bytes);
        struct finding *finding =
            report_suspect(look, rule, SEVERITY_INFO, suspect, live, share(suspect->figure, frees));
        char *who = tell_who_frees(model);
        finding->evidence =
            cli_format("of %" PRId64 " allocated and %" PRId64 " freed chunks %" PRId64
                       " were freed by another thread than allocated them; %s are alive%s",
                       allocs, frees, suspect->figure, human(live), who);
        free(who);
        finding->action = look_closer(look, "dump", " --flat --threads", finding);
    }
    blame_free(&blame);
    free(crossed);
}

/* --- what is harmless, or not ours ----------------------------------------------------------------- */

/* Memory that is given back and faulted in again, over and over. Each OS page costs a fault, some microseconds with what
 * the kernel does besides. */
static void look_for_thrashing(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t bytes = model_tame(model->ledger.returned_bytes);
    double rate = model->uptime_s > 0 ? (double)bytes / model->uptime_s : 0;
    if (bytes < KIB * MIB || bytes / 4 < look->rss_bytes || rate < 64.0 * (double)MIB) {
        return;
    }
    struct finding *finding =
        report(look, rule, rate < (double)(KIB * MIB) ? SEVERITY_INFO : SEVERITY_WARNING, bytes,
               share(bytes, look->rss_bytes));
    finding->evidence = cli_format(
        "%s were given back to the kernel in %.1f s, %s a second; the freelist holds at most "
        "MEMCTX_FREELIST_KIB, or 5 %% of what is in use",
        human(bytes), model->uptime_s, human((int64_t)rate));
    finding->action =
        cli_format("memctx set %s freelist_kib=%" PRId64 ", and look at its processor time",
                   look->input->target, 4 * larger(8 * KIB, look->rss_bytes / KIB / 4));
}

static void look_for_freelist(struct look *look, const struct rule *rule) {
    int64_t bytes = model_tame(look->model->ledger.freelist_bytes);
    if (bytes < floor_of(look, 32 * MIB, 20)) {
        return;
    }
    struct finding *finding =
        report(look, rule, SEVERITY_INFO, bytes, share(bytes, look->rss_bytes));
    finding->evidence =
        cli_format("%s, %.0f %% of the resident set, is empty and kept for what comes next",
                   human(bytes), 100 * finding->ratio);
    finding->action = cli_format("memctx trim %s", look->input->target);
}

static void look_for_past_peak(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t peak = model_tame(model->mappings.peak_rss_bytes), now = look->rss_bytes;
    if (!model->has_mappings || peak - now < 64 * MIB || peak / 2 < now) {
        return;
    }
    struct blame blame;
    int64_t *above = cli_alloc(model->context_count, sizeof(*above));
    for (size_t i = 1; i < model->context_count; i++) {
        const struct wire_totals *self = &look->totals[i];
        above[i] = larger(0, model_tame(self->peak_requested_bytes) - self->requested_bytes);
    }
    blame_make(&blame, &look->paths, above, (peak - now) / 4);
    struct finding *finding =
        blame.count > 0 ? report_suspect(look, rule, SEVERITY_INFO, &blame.suspects[0], peak - now,
                                         share(peak - now, peak))
                        : report(look, rule, SEVERITY_INFO, peak - now, share(peak - now, peak));
    finding->evidence =
        cli_format("the resident set was %s at its most and is %s now%s%s", human(peak), human(now),
                   blame.count > 0 ? "; this path alone once had so much more: " : "",
                   blame.count > 0 ? human(blame.suspects[0].figure) : "");
    finding->action = cli_format("memctx dump %s --flat --sort peak", look->input->target);
    blame_free(&blame);
    free(above);
}

static void look_for_others_memory(struct look *look, const struct rule *rule) {
    static const char *const keys[] = {"files_bytes",  "stacks_bytes",       "brk_heap_bytes",
                                       "shared_bytes", "runtime_code_bytes", "own_mappings_bytes",
                                       "residue_bytes"};
    static const char *const names[] = {"files",
                                        "stacks",
                                        "the brk heap",
                                        "shared and named mappings",
                                        "code made at run time",
                                        "mappings that the program made itself"};
    int64_t sum = 0, most = 0;
    size_t largest = 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        int64_t bytes = larger(0, ledger_line(look, keys[i]));
        sum += bytes;
        if (bytes > most) {
            most = bytes;
            largest = i;
        }
    }
    if (!look->model->has_mappings || sum < floor_of(look, 64 * MIB, 50)) {
        return;
    }
    struct finding *finding = report(look, rule, SEVERITY_INFO, sum, share(sum, look->rss_bytes));
    finding->evidence = cli_format(
        "%s, %.0f %% of the resident set, did not come from malloc; the largest part, %s, is %s",
        human(sum), 100 * finding->ratio, human(most), names[largest]);
    finding->action = cli_format("less /proc/%" PRId64 "/smaps", look->model->pid);
}

static void look_for_foreign_frees(struct look *look, const struct rule *rule) {
    int64_t count = model_tame(look->input->foreign_frees);
    if (count == 0) {
        return;
    }
    struct finding *finding = report(look, rule, SEVERITY_INFO, 0, 0);
    finding->evidence =
        cli_format("%" PRId64 " pointers that libmemctx did not hand out were given "
                   "to free or realloc, and ignored",
                   count);
    finding->action = cli_format("memctx dump --self %s", look->input->target);
}

static void look_for_lost(struct look *look, const struct rule *rule) {
    if (look->model->exact) {
        return;
    }
    struct finding *finding = report(look, rule, SEVERITY_WARNING, 0, 0);
    finding->evidence = cli_copy("the dump says that it is not exact");
    finding->action = cli_format("memctx dump --self %s", look->input->target);
}

static const struct rule rules[] = {
    {"nearly-empty-pages", "nearly empty pages",
     "A page goes back only when nothing in it is alive, so few chunks that stay hold much memory. "
     "Free them together, or make them from another place than what is short-lived.",
     look_for_empty_pages},
    {"growth", "growth that does not stop",
     "What is allocated and not freed adds up until memory runs out.", look_for_growth},
    {"rounding", "sizes just above a block's",
     "A chunk takes a whole block of the next size. A little less, or several things in one "
     "chunk, saves the difference.",
     look_for_rounding},
    {"thread-memory", "pages of many threads",
     "Each thread that allocates has pages of its own for small contexts. Fewer threads share "
     "better.",
     look_for_thread_memory},
    {"huge-pages", "huge pages that are used in part",
     "The kernel gives 2 MiB for the first byte used in them.", look_for_huge_pages},
    {"not-exact", "operations that were not charged",
     "Memory ran short while they were counted; the figures of single paths may be a little low.",
     look_for_lost},
    {"foreign-frees", "pointers of another allocator",
     "A library that was bound to libc's own malloc (RTLD_DEEPBIND), or a second malloc in the "
     "program: what it allocated there was not freed.",
     look_for_foreign_frees},
    {"thrashing", "memory that comes and goes",
     "Each OS page that the kernel gives anew costs a fault, in which it is filled with zeros; "
     "what is kept for reuse costs "
     "none.",
     look_for_thrashing},
    {"past-peak", "a peak that is over",
     "Nothing needs to be done now; the same may be needed again.", look_for_past_peak},
    {"freelist", "empty memory that is kept",
     "Harmless: it is used first, and goes back to the kernel after MEMCTX_DECAY_MS.",
     look_for_freelist},
    {"not-malloc", "memory that is not from malloc",
     "The program, its libraries or its run-time system mapped it; call paths cannot tell of it.",
     look_for_others_memory},
    {"temporary", "chunks that live for a moment",
     "Each costs the time of a malloc and a free; a buffer that is kept would not.",
     look_for_temporary},
    {"copies", "arrays that grow by being copied",
     "Where the size can be told beforehand (reserve, one larger realloc), neither the copies nor "
     "the old chunks are needed.",
     look_for_copies},
    {"remote-frees", "chunks that other threads free",
     "Usual in a pipeline. It costs an atomic operation each, and memory where one side lags "
     "behind.",
     look_for_remote_frees},
};

/* By severity; what is only told stands in the order of the rules, the rest by bytes. */
static int by_weight(const void *a, const void *b) {
    const struct finding *left = a, *right = b;
    if (left->severity != right->severity) {
        return left->severity > right->severity ? -1 : 1;
    }
    if (left->rule != right->rule && left->severity == SEVERITY_INFO) {
        return left->rule < right->rule ? -1 : 1;
    }
    if (left->bytes != right->bytes) {
        return left->bytes > right->bytes ? -1 : 1;
    }
    return left->rule != right->rule
               ? (left->rule < right->rule ? -1 : 1)
               : (left->example > right->example) - (left->example < right->example);
}

/* What this look itself needs in the target is gone a moment later: with a million contexts more than the rest. */
static int64_t resident_without_us(const struct findings_input *input) {
    int64_t rss = model_tame(input->ledger->rss_bytes);
    int64_t control = model_tame(input->model->ledger.control_bytes);
    return control < rss / 2 ? rss - control : larger(rss / 2, 1);
}

void findings_make(struct findings *findings, const struct findings_input *input) {
    *findings = (struct findings){0};
    struct look look = {.rules = rules,
                        .input = input,
                        .model = input->model,
                        .rss_bytes = resident_without_us(input),
                        .findings = findings};
    holders_make(&look.holders, input->model);
    blame_paths_make(&look.paths, input->model);
    look.totals = cli_alloc(input->model->context_count, sizeof(*look.totals));
    for (size_t i = 0; i < input->model->context_count; i++) {
        const struct wire_totals *self = &input->model->contexts[i].self;
#define X(name) look.totals[i].name = model_tame(self->name);
        MODEL_TOTALS(X)
#undef X
        if (self->peak_requested_bytes == WIRE_UNKNOWN) {
            look.totals[i].peak_requested_bytes = WIRE_UNKNOWN;
        }
    }
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        rules[i].look(&look, &rules[i]);
    }
    free(look.totals);
    free(look.holders.list);
    blame_paths_free(&look.paths);
    if (findings->count > 0) {
        qsort(findings->list, findings->count, sizeof(*findings->list), by_weight);
    }
}

static const char *const severity_words[SEVERITIES] = {"info", "warning", "critical"};

const char *severity_word(enum severity severity) {
    return severity_words[severity];
}

enum severity severity_of(const char *word) {
    int severity = 0;
    while (severity < SEVERITIES && strcmp(word, severity_words[severity]) != 0) {
        severity++;
    }
    return (enum severity)severity;
}
