/* SPDX-License-Identifier: MIT */
/* unfold.c - asks a target to leave the functions of a recursion unfolded for a time. */
#include "verbs/unfold.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/json.h"
#include "model/view.h"

/* A struct wire_contexts_request with room for WIRE_CONTEXTS_MAX contexts. */
struct unfolding {
    uint32_t verb, count;
    uint32_t contexts[WIRE_CONTEXTS_MAX];
};
_Static_assert(offsetof(struct unfolding, verb) == offsetof(struct wire_contexts_request, verb) &&
                   offsetof(struct unfolding, count) ==
                       offsetof(struct wire_contexts_request, count) &&
                   offsetof(struct unfolding, contexts) == sizeof(struct wire_contexts_request),
               "the library reads a struct wire_contexts_request");

static void add_by_number(struct unfolding *unfolding, const struct choice *choice) {
    if (choice->id_count > WIRE_CONTEXTS_MAX) {
        cli_usage("one command can unfold at most %u contexts; got %zu", WIRE_CONTEXTS_MAX,
                  choice->id_count);
    }
    for (size_t i = 0; i < choice->id_count; i++) {
        int64_t id;
        if (!cli_is_number(choice->ids[i], &id) || id < 0 || id >= WIRE_NONE) {
            cli_usage("a CONTEXT is a number that memctx dump --json shows; got \"%.100s\"",
                      choice->ids[i]);
        }
        unfolding->contexts[unfolding->count++] = (uint32_t)id;
    }
}

static const struct model *sorting; /* argument of the comparison function */

static int by_falling_bytes(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int64_t x = sorting->contexts[left].total->requested_bytes;
    int64_t y = sorting->contexts[right].total->requested_bytes;
    return x != y ? (x > y ? -1 : 1) : (left > right) - (left < right);
}

/* Adds the recursive contexts whose function matches; if there are too many, those that hold most.
 */
static void add_by_site(struct unfolding *unfolding, const struct choice *choice,
                        struct target *target) {
    struct model model;
    struct target_load_options load = {.held = true};
    regex_t regex;
    size_t count = 0;
    view_compile_site(&regex, choice->site);
    target_load(target, &model, &load);
    reading_resolve(&model, target, &choice->names);
    uint32_t *found = cli_alloc(model.context_count, sizeof *found);
    for (size_t i = 0; i < model.context_count; i++) {
        const struct model_context *context = &model.contexts[i];
        if ((context->flags & WIRE_CONTEXT_RECURSIVE) != 0 &&
            view_matches_frame(&model, context->frame, &regex))
            found[count++] = (uint32_t)i;
    }
    regfree(&regex);
    if (count == 0) {
        cli_die(CLI_REFUSED,
                "%s has no recursive context whose function matches \"%.100s\"; choose one that "
                "memctx dump shows as (recursive: ...)",
                model.source, choice->site);
    }
    sorting = &model;
    qsort(found, count, sizeof *found, by_falling_bytes);
    for (size_t i = 0; i < count && i < WIRE_CONTEXTS_MAX; i++)
        unfolding->contexts[unfolding->count++] = model.contexts[found[i]].id;
    sorting = NULL;
    free(found);
}

static void print_json(const struct target *target, const struct unfolding *unfolding,
                       const int64_t *figures) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-unfold/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_open(&json, "contexts", '[');
    for (uint32_t i = 0; i < unfolding->count; i++)
        json_put_integer(&json, NULL, unfolding->contexts[i]);
    json_put_close(&json, ']');
    json_put_integer(&json, "seconds", unfolding->verb);
    json_put_integer(&json, "functions", figures[0]);
    json_put_integer(&json, "unfolded_functions", figures[1]);
    json_put_integer(&json, "unfolded_seconds", figures[2]);
    json_put_close(&json, '}');
    putchar('\n');
}

static void print_text(const struct target *target, const struct unfolding *unfolding,
                       const int64_t *figures) {
    const char *several = figures[0] == 1 ? "" : "s";
    if (unfolding->verb == 0 && figures[0] == 0) {
        printf("nothing was unfolded there; memctx dump --self shows whether functions are "
               "unfolded\n");
    } else if (unfolding->verb == 0) {
        printf("%" PRId64 " function%s folded again\n", figures[0],
               figures[0] == 1 ? " is" : "s are");
    } else {
        printf("for %u s, new call paths keep every call of %" PRId64
               " recursive function%s, whoever calls it;\nsee memctx dump %d\n",
               unfolding->verb, figures[0], several, (int)target->facts.pid);
    }
    if (figures[1] > (unfolding->verb == 0 ? 0 : figures[0])) {
        printf("in all, %" PRId64 " functions are unfolded now; the last one is folded again in "
               "%" PRId64 " s\n",
               figures[1], figures[2]);
    }
}

void unfold_contexts(const struct choice *choice, int64_t seconds) {
    struct target target;
    struct unfolding unfolding = {.verb = (uint32_t)seconds};
    int64_t figures[3]; /* the numbers of the answer to WIRE_UNFOLD (memctx/wire.h) */
    if (!choice->site)
        add_by_number(&unfolding, choice);
    target_open_socket(&target, choice->target);
    if (choice->site)
        add_by_site(&unfolding, choice, &target);
    char *text = target_ask_text(&target, WIRE_UNFOLD, &unfolding,
                                 offsetof(struct unfolding, contexts) +
                                     unfolding.count * sizeof unfolding.contexts[0]);
    if (sscanf(text, "%" SCNd64 "\t%" SCNd64 "\t%" SCNd64, &figures[0], &figures[1], &figures[2]) !=
        3)
        cli_die(CLI_REFUSED,
                "%s: unexpected answer; use the memctx that was built with its library",
                target.client.source);
    free(text);
    if (choice->json)
        print_json(&target, &unfolding, figures);
    else
        print_text(&target, &unfolding, figures);
}
