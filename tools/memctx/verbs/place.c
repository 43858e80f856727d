/* SPDX-License-Identifier: MIT */
/* place.c - `memctx isolate` and `memctx merge`: give the next chunks of contexts pages of their
 * own, or put them into shared pages. */
#include "verbs/place.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "formats/render.h"
#include "pages/holders.h"
#include "target/notes.h"
#include "verbs/verbs.h"

static const struct placing placings[] = {
    {"default", "default", "where the allocator decides or, if they are named, the program",
     WIRE_PLACE_DEFAULT},
    {"aset", "isolate", "to pages without other contexts", WIRE_PLACE_APART},
    {"mixed", "merge", "to pages shared with other contexts", WIRE_PLACE_SHARED},
    {"slab", "slab", "to blocks of exactly their size", WIRE_PLACE_SLAB},
    {"generation", "generation", "one after another, in the order of allocation",
     WIRE_PLACE_GENERATION},
    {"bump", "bump", "one after another, and no empty page is kept", WIRE_PLACE_BUMP},
    {"simple", "simple", "each to a place of its own, in a list", WIRE_PLACE_SIMPLE},
};
#define PLACING_COUNT (sizeof placings / sizeof placings[0])

const struct placing *placing_by_policy(const char *policy) {
    for (size_t i = 0; i < PLACING_COUNT; i++)
        if (strcmp(placings[i].policy, policy) == 0)
            return &placings[i];
    return NULL;
}

const struct placing *placing_by_action(const char *action) {
    for (size_t i = 0; i < PLACING_COUNT; i++)
        if (strcmp(placings[i].action, action) == 0)
            return &placings[i];
    return NULL;
}

bool placing_is_shared(const struct placing *placing) {
    return placing->placement <= WIRE_PLACE_SHARED;
}

int64_t placing_waste(const struct placing *placing, const struct model *model,
                      const bool *members) {
    return placing_is_shared(placing) ? holders_free_around(model, members)
                                      : holders_waste(model, members);
}

/* Returns the bytes that the placement is expected to save once the live chunks of these contexts
 * have been freed; WIRE_UNKNOWN: it cannot be predicted. */
static int64_t predict(const struct model *model, const struct chosen *chosen,
                       const struct placing *placing) {
    struct holders holders;
    int64_t sum = 0;
    if (placing->placement == WIRE_PLACE_APART)
        return holders_isolate(model, chosen->members);
    holders_make(&holders, model);
    for (size_t i = 0; i < model->context_count; i++) {
        const struct holder *holder = holders_of(&holders, model, (uint32_t)i);
        const struct holder_own *own = holders_own(&holders, model->contexts[i].figures->number);
        if (!chosen->members[i])
            continue;
        switch (placing->placement) {
        /* free memory in these contexts' own pages will serve other contexts */
        case WIRE_PLACE_SHARED:
            if (model->contexts[i].figures->self.pages > 0)
                sum = model_tame(sum + holder->alone_free + own->kept_bytes);
            break;
        case WIRE_PLACE_SLAB: sum = model_tame(sum + own->slab_bytes); break;
        case WIRE_PLACE_GENERATION:
        case WIRE_PLACE_BUMP: sum = model_tame(sum + own->generation_bytes); break;
        default: break;
        }
    }
    return sum;
}

static void print_json(const struct target *target, const struct placing *placing,
                       const struct note *note) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-place/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_text(&json, "action", note->action);
    json_put_integer(&json, "contexts", note->contexts);
    json_put_integer(&json, "predicted_bytes", note->predicted_bytes);
    json_put_text(&json, "policy", placing->policy);
    json_put_integer(&json, placing_is_shared(placing) ? "free_around_bytes" : "waste_bytes",
                     note->before_bytes);
    json_put_integer(&json, "released_bytes",
                     0); /* no live chunk moves, so no memory comes back now */
    json_put_close(&json, '}');
    putchar('\n');
}

static void print_text(const struct target *target, const struct choice *choice,
                       const struct placing *placing, const struct note *note) {
    bool human = choice->human;
    char predicted[RENDER_NUMBER_BYTES], before[RENDER_NUMBER_BYTES];
    printf("the next chunks of %" PRId64 " context%s go %s\n", note->contexts,
           note->contexts == 1 ? "" : "s", placing->where);
    if (placing->placement != WIRE_PLACE_DEFAULT && note->predicted_bytes == WIRE_UNKNOWN) {
        printf("the saving cannot be predicted; several threads use these contexts, or they freed\n"
               "blocks of several sizes, so how much they once held is not known. When the live "
               "chunks\n"
               "have been freed, see memctx verify %d\n",
               (int)target->facts.pid);
    } else if (placing->placement != WIRE_PLACE_DEFAULT && note->predicted_bytes < 0) {
        char *words = choose_write(choice);
        printf("no saving is predicted: with this policy from the start, these contexts\n"
               "would hold %s%s more. memctx set %d %s policy=default ends it\n",
               render_bytes(predicted, -note->predicted_bytes, human), human ? "" : " bytes",
               (int)target->facts.pid, words);
        free(words);
    } else if (placing->placement != WIRE_PLACE_DEFAULT) {
        printf("predicted saving: %s of %s, %s. No live chunk is moved, so nothing is\nsaved yet "
               "(0 bytes); when the live chunks have been freed, see memctx verify %d\n",
               render_bytes(predicted, note->predicted_bytes, human),
               render_bytes(before, note->before_bytes, human),
               placing_is_shared(placing) ? "the free bytes in these pages"
                                          : "their rounding and holes",
               (int)target->facts.pid);
    }
}

void place_contexts(const struct choice *choice, const struct placing *placing) {
    struct target target;
    struct model model;
    struct chosen chosen;
    struct client_answer answer;
    target_open_socket(&target, choice->target);
    choose_contexts(&chosen, &target, &model, choice);
    struct note note = {.uptime_s = model.uptime_s,
                        .contexts = (int64_t)chosen.count,
                        .first = chosen.first,
                        .predicted_bytes = predict(&model, &chosen, placing),
                        .before_bytes = placing_waste(placing, &model, chosen.members)};
    snprintf(note.action, sizeof note.action, "%s", placing->action);
    for (size_t i = 0; i < model.context_count; i++)
        if (chosen.members[i])
            note_add_id(&note, model.contexts[i].id);
    choose_send(&target, &model, &chosen, WIRE_PLACE, placing->placement, &answer);
    free(answer.body);
    if (placing->placement != WIRE_PLACE_DEFAULT)
        note_write(&target, &note);
    if (choice->json)
        print_json(&target, placing, &note);
    else
        print_text(&target, choice, placing, &note);
}

static int place_main(int argc, char **argv, const char *action) {
    struct choice choice;
    choose_parse(&choice, argc, argv);
    if (!choose_chooses(&choice)) {
        cli_usage("missing contexts; give their numbers (memctx frag shows them), --context "
                  "ID,... or --site REGEX");
    }
    place_contexts(&choice, placing_by_action(action));
    return cli_finish_output(CLI_DONE);
}

int isolate_main(int argc, char **argv) {
    return place_main(argc, argv, "isolate");
}

int merge_main(int argc, char **argv) {
    return place_main(argc, argv, "merge");
}
