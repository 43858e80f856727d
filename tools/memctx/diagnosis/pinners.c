/* SPDX-License-Identifier: MIT */
/* pinners.c - finds and prints the contexts that keep otherwise empty pages in use. */
#include "diagnosis/pinners.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnosis/look.h"
#include "formats/emit.h"
#include "formats/render.h"
#include "formats/wrap.h"

#define TEXT_COLUMN 18 /* column of texts that follow a number */
#define SHARE 100      /* a pinner keeps at least 1/SHARE of the resident set */

static void add_holder(struct holder *sum, const struct holder *part) {
    sum->chunks = model_tame(sum->chunks + part->chunks);
    sum->block_bytes = model_tame(sum->block_bytes + part->block_bytes);
    sum->alone_bytes = model_tame(sum->alone_bytes + part->alone_bytes);
    sum->alone_free = model_tame(sum->alone_free + part->alone_free);
    sum->shared_free = model_tame(sum->shared_free + part->shared_free);
    sum->oldest = part->oldest > sum->oldest ? part->oldest : sum->oldest;
    sum->median_most = part->median_most; /* only used for a pinner with a single member */
    sum->median_least = part->median_least;
}

static void add_own(struct holder_own *sum, const struct holder_own *part) {
    sum->kept_bytes = model_tame(sum->kept_bytes + part->kept_bytes);
    sum->slab_bytes = model_tame(sum->slab_bytes + part->slab_bytes);
    sum->generation_bytes = model_tame(sum->generation_bytes + part->generation_bytes);
}

static void make_pinner(struct pinner *pinner, const struct blame_paths *paths,
                        const struct holders *holders, const struct blame_suspect *suspect) {
    const struct model *model = paths->model;
    *pinner = (struct pinner){.suspect = suspect};
    pinner->members = cli_alloc(model->context_count, sizeof *pinner->members);
    blame_widen(paths, suspect, pinner->members);
    for (size_t i = 0; i < suspect->count; i++) {
        uint32_t index = suspect->members[i];
        pinner->requested_bytes =
            model_tame(pinner->requested_bytes +
                       model_tame(model->contexts[index].figures->self.requested_bytes));
        struct holder holder = holders_look(holders, model, index);
        add_holder(&pinner->sum, &holder);
        if (holders->list)
            add_own(&pinner->own, holders_own(holders, model->contexts[index].figures->number));
    }
    /* Pages with chunks of several members come back when all members free their chunks. */
    int64_t held = pinner->sum.alone_free + pinner->sum.shared_free;
    pinner->sum.alone_bytes = holders_alone(model, pinner->members, &pinner->sum.alone_free);
    pinner->sum.shared_free = held > pinner->sum.alone_free ? held - pinner->sum.alone_free : 0;
    pinner->partner_count = holders_partners(model, pinner->members, pinner->partners);
    pinner->isolate_bytes = holders_isolate(model, pinner->members);
    pinner->punch_bytes = holders_punch(model, pinner->members);
}

/* Returns true if the free memory in the pages of each context is known. */
static bool is_known(const struct model *model, const struct holders *holders) {
    return holders->list || holders_recorded(model);
}

static int by_coming_back(const void *a, const void *b) {
    const struct pinner *left = a, *right = b;
    int64_t l = left->sum.alone_bytes, r = right->sum.alone_bytes;
    return l != r ? (l > r ? -1 : 1)
                  : (left->suspect > right->suspect) - (left->suspect < right->suspect);
}

void pinners_make(struct pinners *pinners, const struct model *model, const struct holders *holders,
                  int64_t rss_bytes) {
    *pinners = (struct pinners){.count = 0};
    if (!is_known(model, holders))
        return;
    int64_t *figures = cli_alloc(model->figures_count, sizeof *figures);
    for (size_t i = 0; i < model->figures_count; i++)
        figures[i] = holders->list ? holders->list[i].alone_free + holders->list[i].shared_free
                                   : model_tame(model_figures_at(model, i)->self.pinned_bytes);
    struct blame_paths paths;
    blame_paths_make(&paths, model);
    blame_make(&pinners->blame, &paths, figures, rss_bytes / SHARE > 0 ? rss_bytes / SHARE : 1);
    for (size_t i = 0; i < pinners->blame.count && pinners->count < PINNERS_MAX; i++)
        make_pinner(&pinners->list[pinners->count++], &paths, holders, &pinners->blame.suspects[i]);
    qsort(pinners->list, pinners->count, sizeof pinners->list[0], by_coming_back);
    blame_paths_free(&paths);
    free(figures);
}

/* --- text ------------------------------------------------------------------------------------ */

/* Returns the argument of --context that chooses the members. */
static char *name_members(const struct pinner *pinner, const struct model *model) {
    if (pinner->suspect->count == 1)
        return cli_format("%" PRIu32, model->contexts[pinner->suspect->members[0]].id);
    char *selector = look_selector(model, pinner->suspect);
    char *words = cli_format("--context %s", selector);
    free(selector);
    return words;
}

/* Prints the saving of a remedy, and its command unbroken in a line of its own. Prints no command
 * if none can act on the process. */
static void print_line(const char *remedy, int64_t bytes, bool human, const char *verb,
                       const struct model *model, const char *members, const char *words) {
    char text[RENDER_NUMBER_BYTES];
    printf("%*s%s would save %s%s\n", TEXT_COLUMN, "", remedy, render_bytes(text, bytes, human),
           look_may_act(model) ? ":" : "");
    if (look_may_act(model))
        printf("%*smemctx %s %" PRId64 " %s%s\n", TEXT_COLUMN + 2, "", verb, model->pid, members,
               words);
}

static void print_what_if(const struct pinner *pinner, const struct model *model, bool human) {
    int64_t floor = (pinner->sum.alone_free + pinner->sum.shared_free) / 16;
    char *members = name_members(pinner, model);
    if (pinner->punch_bytes > floor)
        print_line("pages of 4 KiB", pinner->punch_bytes, human, "trim", model, members, "");
    if (pinner->isolate_bytes > floor) {
        print_line("pages without other contexts, from the start,", pinner->isolate_bytes, human,
                   "isolate", model, members, "");
    }
    if (pinner->own.slab_bytes > floor) {
        print_line("blocks of exactly the chunk size", pinner->own.slab_bytes, human, "set", model,
                   members, " policy=slab");
    } else if (pinner->own.generation_bytes > floor) {
        print_line("chunks one after another, if freed in the order of allocation,",
                   pinner->own.generation_bytes, human, "set", model, members,
                   " policy=generation");
    }
    free(members);
}

/* Prints a text in the column of texts, and frees it. */
static void print_wrapped(char *text) {
    wrap_print(text, TEXT_COLUMN, TEXT_COLUMN);
    free(text);
}

static void print_path(const struct pinner *pinner, const struct model *model, int64_t functions) {
    const struct blame_suspect *suspect = pinner->suspect;
    struct who_part part = who_frames(model, suspect->members[0], suspect->frames);
    char *path = who_write(model, &part, functions);
    if (suspect->count > 1)
        print_wrapped(cli_format("%zu contexts: %s", suspect->count, path));
    else
        print_wrapped(
            cli_format("context %" PRIu32 ": %s", model->contexts[suspect->members[0]].id, path));
    free(path);
}

/* Returns the age of the oldest chunk, and for a single member the age of the median chunk, as a
 * range if it is not exact. The caller frees the text. */
static char *write_ages(const struct pinner *pinner, const struct model *model) {
    const struct holder *sum = &pinner->sum;
    const char *oldest = holders_age(model, sum->oldest),
               *median = holders_age(model, sum->median_most);
    if (pinner->suspect->count > 1)
        return cli_format("age of the oldest: %s", oldest);
    if (sum->median_least < sum->median_most / 2)
        return cli_format("age of the oldest: %s, of the median: %s to %s", oldest,
                          holders_age(model, sum->median_least), median);
    return cli_format("age of the oldest: %s, of the median: %s", oldest, median);
}

/* Returns true if more than alone_bytes may come back: a recording does not say which pages only
 * the members share. */
static bool is_least(const struct pinner *pinner, const struct model *model) {
    return pinner->sum.shared_free > 0 &&
           holders_know_least(model, pinner->suspect->members, pinner->suspect->count);
}

static void print_pinner(const struct pinner *pinner, const struct model *model, int64_t functions,
                         bool human) {
    char back[RENDER_NUMBER_BYTES], asked[RENDER_NUMBER_BYTES], empty[RENDER_NUMBER_BYTES];
    char shared[RENDER_NUMBER_BYTES];
    const struct holder *sum = &pinner->sum;
    char *mark = cli_format("%s%s", is_least(pinner, model) ? ">= " : "",
                            render_bytes(back, sum->alone_bytes, human));
    printf("%*s  ", TEXT_COLUMN - 2, mark);
    free(mark);
    print_path(pinner, model, functions);
    char *together = sum->shared_free > 0
                         ? cli_format(is_least(pinner, model)
                                          ? ", and %s together with each other or with other "
                                            "contexts (the recording does not say with which)"
                                          : ", and %s together with other contexts",
                                      render_bytes(shared, sum->shared_free, human))
                         : cli_copy("");
    char *age = holders_recorded(model) ? cli_copy("") : write_ages(pinner, model);
    printf("%*s", TEXT_COLUMN, "");
    print_wrapped(cli_format(
        "%" PRId64 " chunk%s, %s in all, keep%s %s of otherwise empty pages in "
        "use%s%s%s",
        sum->chunks, render_plural(sum->chunks),
        render_bytes(asked, pinner->requested_bytes, human), sum->chunks == 1 ? "s" : "",
        render_bytes(empty, sum->alone_free, human), together, age[0] != '\0' ? "; " : "", age));
    free(together);
    free(age);
    for (size_t i = 0; i < pinner->partner_count && sum->shared_free > sum->alone_free / 8; i++) {
        const struct holder_partner *partner = &pinner->partners[i];
        char bytes[RENDER_NUMBER_BYTES];
        struct who_part part = who_frames(model, partner->context, UINT32_MAX);
        char *path = who_write(model, &part, 2);
        printf("%*s", TEXT_COLUMN, "");
        print_wrapped(cli_format("these pages also hold %s of context %" PRIu32 ": %s",
                                 render_bytes(bytes, partner->block_bytes, human),
                                 model->contexts[partner->context].id, path));
        free(path);
    }
    if (!holders_recorded(model))
        print_what_if(pinner, model, human);
}

/* Returns what memctx trim gives back of the empty memory that memctx keeps: all of it, or, if
 * threads that sleep keep a tenth or more, a number of bytes. The caller frees the text. */
static char *tell_trim(const struct model *model, const struct holders *holders, bool human) {
    char bytes[RENDER_NUMBER_BYTES];
    int64_t freelist = memory_freelist_held(model);
    int64_t back = model_tame(freelist + holders->returned_bytes);
    int64_t all = model_tame(freelist + holders->kept_bytes);
    if (!look_may_act(model) || all <= 0)
        return cli_copy("");
    if (back <= 0)
        return cli_copy("; threads that sleep keep it");
    if (back / 9 >= all / 10)
        return cli_format("; memctx trim %" PRId64 " returns it", model->pid);
    return cli_format("; memctx trim %" PRId64
                      " returns %s of it; threads that sleep keep the rest",
                      model->pid, render_bytes(bytes, back, human));
}

void pinners_print(const struct pinners *pinners, const struct model *model,
                   const struct holders *holders, int64_t functions, bool human) {
    char freelist[RENDER_NUMBER_BYTES], kept[RENDER_NUMBER_BYTES];
    if (!is_known(model, holders))
        return;
    bool recorded = holders_recorded(model);
    if (pinners->count > 0)
        printf("Who keeps otherwise empty pages, and how much freeing all its chunks returns:\n");
    for (size_t i = 0; i < pinners->count; i++)
        print_pinner(&pinners->list[i], model, functions, human);
    if (pinners->count == 0)
        wrap_print("no call path keeps a hundredth of the resident set in otherwise empty pages", 0,
                   0);
    char *command = tell_trim(model, holders, human);
    const char *why = model_tame(model->ledger.freelist_bytes) > 0
                          ? ". Memory of the freelist that is not used for MEMCTX_DECAY_MS "
                            "milliseconds goes back by itself; memctx keeps more of it if the "
                            "program lately took freed memory again"
                          : "";
    char *pages = recorded ? cli_copy("")
                           : cli_format(", %s in empty pages",
                                        render_bytes(kept, holders->kept_bytes, human));
    char *text =
        cli_format("empty memory that memctx keeps for reuse: %s in the freelist%s%s%s",
                   render_bytes(freelist, memory_freelist_held(model), human), pages, command, why);
    wrap_print(text, 0, 0);
    free(text);
    free(pages);
    free(command);
    putchar('\n');
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void write_pinner(struct json_writer *json, const struct pinner *pinner,
                         const struct model *model) {
    const struct blame_suspect *suspect = pinner->suspect;
    const struct holder *sum = &pinner->sum;
    bool single = suspect->count == 1;
    uint32_t at = suspect->members[0];
    json_put_newline(json);
    json_put_open(json, NULL, '{');
    json_put_integer(json, "context", single ? model->contexts[at].id : WIRE_UNKNOWN);
    json_put_integer(json, "contexts", (int64_t)suspect->count);
    emit_path(json, model, at, suspect->frames);
    json_put_integer(json, "chunks", sum->chunks);
    json_put_integer(json, "requested_bytes", pinner->requested_bytes);
    json_put_integer(json, "alone_bytes", sum->alone_bytes);
    json_put_integer(json, "alone_free_bytes", sum->alone_free);
    json_put_integer(json, "shared_free_bytes", sum->shared_free);
    json_put_boolean(json, "alone_exact", !is_least(pinner, model));
    bool ages = !holders_recorded(model);
    if (ages)
        json_put_decimal(json, "oldest_age_s", holders_seconds(sum->oldest));
    else
        json_put_null(json, "oldest_age_s");
    if (single && ages) {
        json_put_decimal(json, "median_age_most_s", holders_seconds(sum->median_most));
        json_put_decimal(json, "median_age_least_s", holders_seconds(sum->median_least));
    } else {
        json_put_null(json, "median_age_most_s");
        json_put_null(json, "median_age_least_s");
    }
    json_put_open(json, "partners", '[');
    for (size_t i = 0; i < pinner->partner_count; i++) {
        json_put_open(json, NULL, '{');
        json_put_integer(json, "context", model->contexts[pinner->partners[i].context].id);
        json_put_integer(json, "block_bytes", pinner->partners[i].block_bytes);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
    const struct holder_own *own = &pinner->own;
    const int64_t savings[] = {pinner->punch_bytes, pinner->isolate_bytes, own->slab_bytes,
                               own->generation_bytes, own->generation_bytes};
    static const char *const keys[] = {"trim_bytes", "isolate_bytes", "slab_bytes",
                                       "generation_bytes", "bump_bytes"};
    json_put_open(json, "what_if", '{');
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        json_put_integer(json, keys[i], ages ? savings[i] : WIRE_UNKNOWN);
    json_put_close(json, '}');
    json_put_close(json, '}');
}

void pinners_write(const struct pinners *pinners, const struct model *model,
                   struct json_writer *json) {
    json_put_open(json, "pinners", '[');
    for (size_t i = 0; i < pinners->count; i++)
        write_pinner(json, &pinners->list[i], model);
    json_put_close(json, ']');
}
