/* SPDX-License-Identifier: MIT */
/* render.c - writes a model as text. */
#include "formats/render.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/terminal.h"
#include "model/folding.h"
#include "model/frames.h"
#include "model/memory.h"
#include "model/shorten.h"

/* The foot prints the share of full call paths if it is below this many thousandths. If paths were
 * merged, it prints any share below 1000. */
#define FULL_ENOUGH 990

bool render_wants_color(void) {
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return terminal_is_output() && (!no_color || no_color[0] == '\0') &&
           (!terminal || strcmp(terminal, "dumb") != 0);
}

char *render_bytes(char *text, int64_t bytes, bool human) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (bytes == WIRE_UNKNOWN)
        return strcpy(text, "?");
    if (!human || (bytes > -1024 && bytes < 1024)) {
        snprintf(text, RENDER_NUMBER_BYTES, "%" PRId64 "%s", bytes, human ? " B" : "");
        return text;
    }
    double value = (double)bytes;
    int unit = 0;
    /* from 1023.95 on, the number would be rounded to 1024.0 */
    while ((value >= 1023.95 || value <= -1023.95) && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(text, RENDER_NUMBER_BYTES, "%.1f %s", value, units[unit]);
    return text;
}

const char *render_plural(int64_t count) {
    return count == 1 || count == -1 ? "" : "s";
}

static char *render_count(char *text, int64_t count) {
    return render_bytes(text, count, false);
}

/* --- lines ------------------------------------------------------------------------------- */

static int64_t difference(int64_t a, int64_t b) {
    return b == WIRE_UNKNOWN ? WIRE_UNKNOWN : model_add(a, -b);
}

/* is_own: these are a context's own figures. A subtree with several contexts never has a peak. */
static void print_figures(const struct model_totals *totals, bool is_own,
                          const struct render_options *options) {
    char reserved[RENDER_NUMBER_BYTES], pages[RENDER_NUMBER_BYTES], unused[RENDER_NUMBER_BYTES];
    char chunks[RENDER_NUMBER_BYTES], used[RENDER_NUMBER_BYTES], requested[RENDER_NUMBER_BYTES];
    bool human = options->human;
    /* a moment of a recording always has requested bytes, but often no figures of pages */
    if (totals->reserved_bytes == WIRE_UNKNOWN) {
        printf("%s requested in %s chunk%s",
               render_bytes(requested, totals->requested_bytes, human),
               render_count(chunks, totals->live_chunks), render_plural(totals->live_chunks));
    } else
        printf("%s total in %s page%s; %s free (%s chunk%s); %s used; %s requested",
               render_bytes(reserved, totals->reserved_bytes, human),
               render_count(pages, totals->pages), render_plural(totals->pages),
               render_bytes(unused, difference(totals->reserved_bytes, totals->block_bytes), human),
               render_count(chunks, totals->live_chunks), render_plural(totals->live_chunks),
               render_bytes(used, totals->block_bytes, human),
               render_bytes(requested, totals->requested_bytes, human));
    if (options->peak && totals->peak_requested_bytes != WIRE_UNKNOWN) {
        printf("; Maximum Storage: %s",
               render_bytes(requested, totals->peak_requested_bytes, human));
    } else if (options->peak && is_own) {
        printf("; Maximum Storage: not known");
    }
    putchar('\n');
}

/* Prints "NAME: ... total in N pages; ..." for these figures. */
static void print_line(const char *name, const struct model_totals *totals,
                       const struct render_options *options) {
    printf("%s%s%s: ", options->color ? "\033[1m" : "", name, options->color ? "\033[0m" : "");
    print_figures(totals, false, options);
}

/* partial, late: the marks ">=" and "since admitted" were printed, so the foot explains them. */
static struct {
    bool partial, late;
    int64_t bound_bytes; /* largest error that a partial context's figures may have */
} marked;

/* Prints a context's figures, with the marks ">=" (partial) and "since admitted" (late). */
static void print_context(const struct model *model, uint32_t index, const char *name,
                          const struct model_totals *totals, const struct render_options *options) {
    const struct model_context *context = &model->contexts[index];
    printf("%s%s%s: ", options->color ? "\033[1m" : "", name, options->color ? "\033[0m" : "");
    if (context->flags & WIRE_CONTEXT_PARTIAL) {
        int64_t bound_bytes = folding_find_bound(model, index);
        if (!marked.partial || bound_bytes > marked.bound_bytes)
            marked.bound_bytes = bound_bytes;
        marked.partial = true;
        fputs(">= ", stdout);
    }
    if (context->flags & WIRE_CONTEXT_LATE) {
        marked.late = true;
        fputs("since admitted ", stdout);
    }
    print_figures(totals, totals == &context->figures->self, options);
}

/* Prints a line for each of the user's marks, and a single line for all marks of MEMCTX_MARKS. A
 * recording has its moments as marks; they get a single line, too. */
static void print_marks(const struct model *model) {
    const struct model_mark *first = NULL, *last = NULL;
    size_t kept = 0;
    const struct model_recording *recording = model->recording;
    if (recording && model->mark_count > 0) {
        const char *oldest = model->marks[0].name,
                   *newest = model->marks[model->mark_count - 1].name;
        printf("%zu moments recorded, the first at %.3f s; ", recording->moment_count,
               recording->moments[0].uptime_s);
        if (model->mark_count == 1)
            printf("an earlier one is a mark for memctx diff FILE -- MARK: \"%s\"\n", oldest);
        else
            printf("%zu earlier ones are marks for memctx diff FILE -- MARK: \"%s\" to \"%s\"\n",
                   model->mark_count, oldest, newest);
        return;
    }
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        if (model_is_kept_mark(mark)) {
            first = kept++ ? first : mark;
            last = mark;
        } else {
            printf("mark \"%s\" at %.3f s\n", mark->name, mark->uptime_s);
        }
    }
    if (kept == 1)
        printf("mark \"%s\" at %.3f s\n", last->name, last->uptime_s);
    if (kept > 1)
        printf("%zu marks from \"%s\" at %.3f s to \"%s\" at %.3f s\n", kept, first->name,
               first->uptime_s, last->name, last->uptime_s);
}

void render_nothing(const struct model *model, const struct view *view,
                    const struct view_options *options) {
    bool any = !view->included || model->left_out_leaves > 0;
    for (size_t i = 0; i < model->context_count && !any; i++) {
        const struct model_totals *self = &model->contexts[i].figures->self;
        any = view->included[i] && (model_totals_any(self) || self->allocs > 0);
    }
    if (!any)
        printf("nothing was allocated in the contexts that were asked for; %s\n",
               options->site ? VIEW_SITE_HINT : "--context leaves out the contexts below them");
}

void render_head(const struct model *model, const struct render_options *options) {
    char rss[RENDER_NUMBER_BYTES], own[RENDER_NUMBER_BYTES];
    printf("%s (pid %" PRId64 "): up %.3f s, resident set %s (memctx itself: %s), depth %" PRId64
           ", %zu contexts%s%s\n",
           model_program(model), model->pid, model->uptime_s,
           render_bytes(rss, model->ledger.rss_bytes, options->human),
           render_bytes(own, memory_own_bytes(&model->ledger), options->human), model->depth,
           model->context_count + model->left_out_count,
           model->exact ? ""
           : model->how ? "; not exact"
                        : "; not exact: ",
           model->exact || model->how ? "" : model_doubt(model));
    if (model->how)
        printf("%s\n", model->how);
    print_marks(model);
}

static void print_reason(const struct model_context *context, int indent) {
    if (context->why)
        printf("%*splaced by %s\n", indent, "", context->why);
}

/* Prints how often realloc resized the context's chunks, if it did. */
static void print_resizes(const struct model *model, uint32_t index,
                          const struct render_options *options) {
    const struct wire_resizes *resizes = model_resizes_of(model, index);
    char copied[RENDER_NUMBER_BYTES];
    if (!resizes || model_tame(resizes->reallocs) <= 0)
        return;
    printf("    realloc: %" PRId64 " calls, of which %" PRId64 " copied the chunk, %s%s in all\n",
           model_tame(resizes->reallocs), model_tame(resizes->copies),
           render_bytes(copied, model_tame(resizes->copied_bytes), options->human),
           options->human ? "" : " bytes");
}

static void print_threads(const struct model *model, const struct model_context *context,
                          const struct render_options *options, int indent) {
    for (uint32_t i = 0; i < context->figures->view_count; i++) {
        struct model_view view = model_view_at(model, context->figures, i);
        const struct model_thread *thread = &model->threads[view.thread];
        char requested[RENDER_NUMBER_BYTES], chunks[RENDER_NUMBER_BYTES];
        char allocs[RENDER_NUMBER_BYTES], frees[RENDER_NUMBER_BYTES];
        printf("%*s", indent, "");
        if (thread->tid == 0)
            printf("- exited and new threads: ");
        else
            printf("- thread %u (%s): ", thread->tid, thread->name);
        printf("%s requested; %s chunk%s; %s alloc%s; %s free%s\n",
               render_bytes(requested, view.totals.requested_bytes, options->human),
               render_count(chunks, view.totals.live_chunks),
               render_plural(view.totals.live_chunks), render_count(allocs, view.totals.allocs),
               render_plural(view.totals.allocs), render_count(frees, view.totals.frees),
               render_plural(view.totals.frees));
    }
}

/* --- the tree ---------------------------------------------------------------------------- */

struct tree {
    const struct model *model;
    const struct view *view;
    const struct render_options *options;
};

static bool is_shown(const struct tree *tree, uint32_t index) {
    return (!tree->view->shown || tree->view->shown[index]) &&
           tree->view->weights[index] >= tree->view->threshold;
}

/* Counts a context and all contexts below it. If the user chose contexts, counts only chosen
 * contexts that have figures of their own. */
static size_t count_below(const struct tree *tree, uint32_t index) {
    const struct model_context *contexts = tree->model->contexts;
    const bool *included = tree->view->included;
    size_t count =
        !included || (included[index] && model_totals_any(&contexts[index].figures->self));
    for (uint32_t at = contexts[index].first_child; at != WIRE_NONE; at = contexts[at].next_sibling)
        count += count_below(tree, at);
    return count;
}

/* Prints one line for all hidden children of a node. Children of weight 0 are not counted: all
 * their chunks were freed. */
static void print_hidden(const struct tree *tree, const uint32_t *children, size_t count,
                         int indent) {
    size_t contexts = 0;
    int64_t bytes = 0, weight = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_shown(tree, children[i]) && tree->view->weights[children[i]] > 0) {
            contexts += count_below(tree, children[i]);
            bytes = model_add(bytes, tree->model->contexts[children[i]].total->requested_bytes);
            weight = model_add(weight, tree->view->weights[children[i]]);
        }
    }
    if (contexts == 0)
        return;
    char text[RENDER_NUMBER_BYTES];
    printf("%*s... %zu more context%s, %s%s", indent, "", contexts,
           render_plural((int64_t)contexts), render_bytes(text, bytes, tree->options->human),
           tree->options->human ? "" : " bytes");
    if (tree->view->sort != VIEW_SORT_REQUESTED) {
        bool counts = view_counts(tree->view->sort);
        printf(", %s %s", render_bytes(text, weight, tree->options->human && !counts),
               view_sort_word(tree->view->sort));
    }
    putchar('\n');
}

/* Returns true if a node has no figures of its own, and only one child that is shown or has a
 * weight. The node's line is printed without figures, above the child's line and with the child's
 * indentation. */
static bool is_step(const struct tree *tree, uint32_t index, const uint32_t *children,
                    size_t count) {
    bool included = !tree->view->included || tree->view->included[index];
    if (count == 0 || !is_shown(tree, children[0]) ||
        (included && model_totals_any(&tree->model->contexts[index].figures->self)))
        return false;
    return count == 1 || (tree->view->weights[children[1]] <= 0 && !is_shown(tree, children[1]));
}

static void print_node(const struct tree *tree, uint32_t index, int64_t level, int indent) {
    const struct model *model = tree->model;
    const struct model_context *context = &model->contexts[index];
    bool bottom = tree->options->levels >= 0 && level >= tree->options->levels;
    size_t count;
    uint32_t *children = view_sort_children(tree->view, model, index, &count);
    if (is_step(tree, index, children, count)) {
        char *name = frames_write_step(model, index);
        printf("%*s%s >\n", indent, "", name);
        uint32_t only = children[0];
        free(name);
        free(children);
        print_node(tree, only, level, indent);
        return;
    }
    printf("%*s", indent, "");
    char *step = frames_write_step(model, index);
    print_context(model, index, step, context->total, tree->options);
    free(step);
    print_reason(context, indent + 2);
    if (tree->options->threads)
        print_threads(model, context, tree->options, indent + 2);
    for (size_t i = 0; i < count && !bottom; i++)
        if (is_shown(tree, children[i]))
            print_node(tree, children[i], level + 1, indent + 2);
    if (!bottom)
        print_hidden(tree, children, count, indent + 2);
    free(children);
}

void render_tree(const struct model *model, const struct view *view,
                 const struct render_options *options) {
    struct tree tree = {model, view, options};
    size_t count;
    uint32_t *children = view_sort_children(view, model, 0, &count);
    if (!view->included && model_totals_any(&model->contexts[0].figures->self)) {
        print_line("[no call path]", &model->contexts[0].figures->self, options);
        if (options->threads)
            print_threads(model, &model->contexts[0], options, 2);
    }
    for (size_t i = 0; i < count; i++)
        if (is_shown(&tree, children[i]))
            print_node(&tree, children[i], 1, 0);
    print_hidden(&tree, children, count, 0);
    free(children);
}

void render_flat(const struct model *model, const struct view *view,
                 const struct render_options *options) {
    size_t count;
    uint32_t *leaves = view_sort_leaves(view, model, &count);
    size_t limit =
        options->limit > 0 && (size_t)options->limit < count ? (size_t)options->limit : count;
    size_t printed = 0;
    for (; printed < limit; printed++) {
        const struct model_context *context = &model->contexts[leaves[printed]];
        /* The list is sorted: after the first context below the threshold, all contexts are below
         * it. Peaks that are not known come last. */
        int64_t key = view_key(&context->figures->self, view->sort);
        if (key < view->threshold && (key != WIRE_UNKNOWN || view->threshold > 0))
            break;
        struct frames_path path;
        frames_make_path(&path, model, leaves[printed], options->levels);
        print_context(model, leaves[printed], path.steps[0], &context->figures->self, options);
        print_reason(context, 4);
        print_resizes(model, leaves[printed], options);
        for (size_t i = 1; i < path.count; i++)
            printf("    < %s\n", path.steps[i]);
        if (path.cut)
            printf("    ...\n");
        frames_free_path(&path);
        if (options->threads)
            print_threads(model, context, options, 4);
    }
    int64_t bytes = model->left_out_bytes;
    for (size_t i = printed; i < count; i++)
        bytes = model_add(bytes, model->contexts[leaves[i]].figures->self.requested_bytes);
    size_t more = count - printed + model->left_out_leaves;
    if (more > 0) {
        char text[RENDER_NUMBER_BYTES];
        printf("... %zu more context%s, %s%s\n", more, render_plural((int64_t)more),
               render_bytes(text, bytes, options->human), options->human ? "" : " bytes");
    }
    free(leaves);
}

/* --- the foot ---------------------------------------------------------------------------- */

/* Returns a share in thousandths, rounded down, so that only the whole is 100.0 %. If a figure is
 * unknown, returns 1000. */
static int64_t permille(int64_t part, int64_t whole) {
    return part == WIRE_UNKNOWN || whole == WIRE_UNKNOWN || whole <= 0 || part >= whole
               ? 1000
               : model_share(part > 0 ? part : 0, 1000, whole);
}

/* Prints the share of full call paths, if it is low, and explains the marks ">=" and "since
 * admitted". */
static void print_folding(const struct model *model, const struct render_options *options) {
    struct folding_shares shares =
        model->left_out_count > 0 ? model->left_out_shares : folding_add_shares(model);
    int64_t bytes = permille(shares.full_bytes, model->totals.requested_bytes);
    int64_t allocs = permille(shares.full_allocs, model->totals.allocs);
    bool merged = shares.merged_bytes != 0 || shares.merged_allocs != 0;
    /* Without merged paths, a small missing share is not printed: in any program, a few allocations
     * of the loader have the path [no unwind information]. */
    if ((merged && (bytes < 1000 || allocs < 1000)) || bytes < FULL_ENOUGH ||
        allocs < FULL_ENOUGH) {
        printf("full call paths: %" PRId64 ".%" PRId64 " %% of live bytes, %" PRId64 ".%" PRId64
               " %% of allocations; the rest is under %s\n",
               bytes / 10, bytes % 10, allocs / 10, allocs % 10,
               merged ? "[other callers]; a larger MEMCTX_TABLES gives more paths room"
                      : "labels such as [truncated]");
    }
    if (marked.partial && model->left_out_count == 0) {
        char text[RENDER_NUMBER_BYTES];
        printf(">= marks figures that may be too low, by at most %s; the rest is under [other "
               "callers] of an outer function\n",
               render_bytes(text, marked.bound_bytes, options->human));
    } else if (marked.partial) {
        printf(
            ">= marks figures that may be too low; the rest is under [other callers] of an outer "
            "function\n");
    }
    if (marked.late) {
        printf("\"since admitted\" marks call paths whose earlier allocations are under [other "
               "callers] of an outer function\n");
    }
}

void render_foot(const struct model *model, const struct render_options *options) {
    const struct wire_ledger *ledger = &model->ledger;
    char a[RENDER_NUMBER_BYTES], b[RENDER_NUMBER_BYTES], c[RENDER_NUMBER_BYTES];
    bool human = options->human;
    print_folding(model, options);
    if (!model_has_sums_only(model)) {
        printf(
            "mixed pages: %s total; %s free; %s used\n",
            render_bytes(a, ledger->mixed_reserved, human),
            render_bytes(b, difference(ledger->mixed_reserved, ledger->mixed_block_bytes), human),
            render_bytes(c, ledger->mixed_block_bytes, human));
    }
    printf("freelist: %s in %s items\n", render_bytes(a, ledger->freelist_bytes, human),
           render_count(b, ledger->freelist_items));
    printf("page headers: %s\n", render_bytes(a, ledger->segment_headers, human));
    printf("metadata: %s mapped; %s used\n", render_bytes(a, ledger->metadata_mapped, human),
           render_bytes(b, ledger->metadata_used, human));
    printf("control thread: %s\n", render_bytes(a, ledger->control_bytes, human));
    print_line("Grand total", &model->totals, options);
}
