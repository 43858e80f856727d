/* SPDX-License-Identifier: MIT */
/* look_held.c - finds memory that is held and not used. */
#include <inttypes.h>
#include <stdlib.h>

#include "diagnosis/look.h"

static enum severity empty_severity(const struct look *look, int64_t bytes) {
    return bytes >= floor_of(look, 64 * MIB, 40)                         ? SEVERITY_CRITICAL
           : bytes >= floor_of(look, 16 * MIB, 20) || bytes >= KIB * MIB ? SEVERITY_WARNING
                                                                         : SEVERITY_INFO;
}

/* The figures of a suspect that come from the page records. */
struct pages_look {
    uint32_t oldest;
    int64_t alone;         /* bytes of pages that come back when the suspect frees all its chunks */
    int64_t trim, isolate; /* bytes that these verbs would save */
};

static struct pages_look look_at_pages(const struct look *look,
                                       const struct blame_suspect *suspect) {
    struct pages_look pages = {0};
    int64_t free_bytes;
    bool *members = cli_alloc(look->model->context_count, sizeof *members);
    blame_widen(&look->paths, suspect, members);
    for (size_t i = 0; i < suspect->count; i++) {
        const struct holder *holder = holders_of(&look->holders, look->model, suspect->members[i]);
        pages.oldest = holder->oldest > pages.oldest ? holder->oldest : pages.oldest;
        pages.trim = model_tame(pages.trim + holder->empty_os_bytes);
    }
    pages.alone = holders_alone(look->model, members, &free_bytes);
    pages.isolate = holders_isolate(look->model, members);
    free(members);
    return pages;
}

/* Returns a text with the age of the oldest chunk and the verb that would help. */
static char *tell_of_pages(const struct pages_look *pages, int64_t held) {
    const char *age = holders_age(pages->oldest);
    return pages->isolate > held / 4
               ? cli_format("; the oldest chunk is %s old; in pages of their own (memctx isolate) "
                            "these chunks would keep %s less",
                            age, look_bytes(pages->isolate))
           : pages->trim > held / 10
               ? cli_format(
                     "; the oldest chunk is %s old; memctx trim of these contexts returns %s "
                     "at once",
                     age, look_bytes(pages->trim))
               : cli_format("; the oldest chunk is %s old", age);
}

/* Finds contexts whose pages have more free than used bytes. */
void look_for_empty_pages(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *pinned = cli_alloc(model->figures_count, sizeof *pinned);
    for (size_t i = 0; i < model->figures_count; i++) {
        const struct model_totals *self = &look->totals[i];
        int64_t bytes = self->pinned_bytes;
        if (look->holders.list) {
            const struct holder *holder = &look->holders.list[i];
            bytes = holder->alone_free + holder->shared_free;
        }
        pinned[i] = bytes > self->block_bytes ? bytes : 0;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, pinned, floor_of(look, 8 * MIB, 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t blocks = SUM_OVER(look, suspect, block_bytes), bytes = suspect->figure;
        int64_t alone = SUM_OVER(look, suspect, sole_pinned_bytes);
        struct finding *finding = finding_on(look, rule, empty_severity(look, bytes), suspect,
                                             bytes, share(bytes, bytes + blocks));
        bool known = look->holders.list != NULL;
        struct pages_look pages = known ? look_at_pages(look, suspect) : (struct pages_look){0};
        char *more = known ? tell_of_pages(&pages, bytes) : cli_copy("");
        alone = known ? pages.alone : alone;
        finding->evidence = cli_format(
            "%" PRId64
            " chunks, %s in all, keep %s of otherwise empty pages in use, %.0f %% of the resident "
            "set; freeing them all returns %s of pages%s",
            SUM_OVER(look, suspect, live_chunks),
            look_bytes(SUM_OVER(look, suspect, requested_bytes)), look_bytes(bytes),
            100 * share(bytes, look->rss_bytes), look_bytes(alone), more);
        free(more);
        finding->action = look_closer(look, "frag", "", finding);
    }
    blame_free(&blame);
    free(pinned);
}

/* Larger chunks take whole OS pages, whatever the policy. */
#define BLOCK_MAX 8192

/* Returns a text that says what would save the rounding of the suspect, or that no policy does. The
 * caller frees it. */
static char *cure_of_rounding(const struct look *look, const struct blame_suspect *suspect,
                              int64_t mean_bytes) {
    int64_t slab = 0, serial = 0;
    if (!look->holders.list)
        return cli_copy("");
    for (size_t i = 0; i < suspect->count; i++) {
        const struct holder *holder = holders_of(&look->holders, look->model, suspect->members[i]);
        slab = model_tame(slab + holder->slab_bytes);
        serial = model_tame(serial + holder->generation_bytes);
    }
    if (slab > suspect->figure / 2) {
        return cli_format("; blocks of exactly their size (policy=slab, see memctx set --help) "
                          "would save %s",
                          look_bytes(slab));
    }
    if (serial > suspect->figure / 2) {
        return cli_format("; one behind the other (policy=generation, see memctx set --help) they "
                          "would save %s, if they are freed in the order of allocation",
                          look_bytes(serial));
    }
    return mean_bytes > BLOCK_MAX
               ? cli_format("; no policy saves it, because chunks above %d bytes take whole OS "
                            "pages; %" PRId64 " bytes less in each chunk would",
                            BLOCK_MAX, mean_bytes % 4096)
               : cli_copy("; no policy is known to save it, other sizes would");
}

/* Finds chunks that are much smaller than their blocks. */
void look_for_rounding(struct look *look, const struct rule *rule) {
    const struct model *model = look->model;
    int64_t *rounding = cli_alloc(model->figures_count, sizeof *rounding);
    for (size_t i = 0; i < model->figures_count; i++) {
        const struct model_totals *self = &look->totals[i];
        int64_t bytes = self->block_bytes - self->requested_bytes;
        rounding[i] = bytes > self->block_bytes / 8 ? bytes : 0;
    }
    struct blame blame;
    blame_make(&blame, &look->paths, rounding, floor_of(look, 8 * MIB, 5));
    for (size_t i = 0; i < blame.count; i++) {
        const struct blame_suspect *suspect = &blame.suspects[i];
        int64_t chunks = larger(1, SUM_OVER(look, suspect, live_chunks));
        int64_t blocks = SUM_OVER(look, suspect, block_bytes);
        struct finding *finding = finding_on(look, rule, SEVERITY_WARNING, suspect, suspect->figure,
                                             share(suspect->figure, blocks));
        int64_t mean = SUM_OVER(look, suspect, requested_bytes) / chunks;
        char *cure = cure_of_rounding(look, suspect, mean);
        finding->evidence = cli_format(
            "%" PRId64 " chunks of %" PRId64 " bytes on average occupy blocks of %" PRId64
            " bytes; the difference is %s in all, %.0f %% of the resident set%s",
            chunks, mean, blocks / chunks, look_bytes(suspect->figure),
            100 * share(suspect->figure, look->rss_bytes), cure);
        free(cure);
        finding->action = look_closer(look, "frag", " --sort waste", finding);
    }
    blame_free(&blame);
    free(rounding);
}

void look_for_thread_memory(struct look *look, const struct rule *rule) {
    /* Only bytes that are in memory: a page that a thread has just begun is mostly untouched. */
    int64_t bytes = look->holders.list ? look->holders.mixed_free_bytes
                                       : look_ledger_line(look, "mixed_free_bytes");
    size_t threads = look->model->thread_count;
    if (threads < 32 || bytes < floor_of(look, 32 * MIB, 20))
        return;
    struct finding *finding =
        finding_new(look, rule, SEVERITY_WARNING, bytes, share(bytes, look->rss_bytes));
    finding->evidence = cli_format("%zu threads have mixed pages of their own, which call paths "
                                   "share; %s in these pages is free, %.0f %% of the resident set",
                                   threads, look_bytes(bytes), 100 * finding->ratio);
    finding->action = cli_format("memctx dump %s --threads", look->input->target);
}

void look_for_huge_pages(struct look *look, const struct rule *rule) {
    const struct model_mappings *mappings = &look->model->mappings;
    int64_t bytes = look_ledger_line(look, "not_resident_bytes");
    if (!look->model->has_mappings || model_tame(mappings->huge_bytes) < bytes ||
        bytes < floor_of(look, 32 * MIB, 20))
        return;
    struct finding *finding =
        finding_new(look, rule, SEVERITY_WARNING, bytes, share(bytes, look->rss_bytes));
    finding->evidence =
        cli_format("%s more is resident than the program ever touched; %s of the process is in "
                   "huge pages",
                   look_bytes(bytes), look_bytes(mappings->huge_bytes));
    finding->action = cli_copy("start the program with MEMCTX_THP=never, then compare");
}
