/* SPDX-License-Identifier: MIT */
/* place.c - `memctx isolate` and `memctx merge`: a context's next chunks apart from others, or among them. */
#include "place.h"

#include <inttypes.h>
#include <stdlib.h>

#include "holders.h"
#include "json.h"
#include "notes.h"
#include "render.h"

static const char *const actions[] = {[WIRE_PLACE_DEFAULT] = "default",
                                      [WIRE_PLACE_APART] = "isolate",
                                      [WIRE_PLACE_SHARED] = "merge"};

static int64_t predict(const struct model *model, const struct chosen *chosen,
                       enum wire_placement placement) {
    struct holders holders;
    int64_t sum = 0;
    if (placement == WIRE_PLACE_APART) {
        return holders_isolate(model, chosen->members);
    }
    if (placement == WIRE_PLACE_DEFAULT) {
        return 0;
    }
    holders_make(&holders, model); /* what is free in their own pages serves others then */
    for (size_t i = 0; i < model->context_count; i++) {
        if (chosen->members[i] && model->contexts[i].self.pages > 0) {
            sum = model_tame(sum + holders.list[i].alone_free + holders.list[i].kept_bytes);
        }
    }
    return sum;
}

static void print_json(const struct target *target, const struct note *note) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-place/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_text(&json, "action", note->action);
    json_put_integer(&json, "contexts", note->contexts);
    json_put_integer(&json, "predicted_bytes", note->predicted_bytes);
    json_put_integer(&json, "free_around_bytes", note->before_bytes);
    json_put_integer(&json, "released_bytes",
                     0); /* no chunk moves: it takes until they are freed */
    json_put_close(&json, '}');
    putchar('\n');
}

static void print_text(const struct target *target, const struct note *note, bool human) {
    static const char *const done[] = {"placed as the allocator decides", "apart from all others",
                                       "among all others"};
    size_t which = note->action[0] == 'i' ? 1 : note->action[0] == 'm' ? 2 : 0;
    char predicted[RENDER_NUMBER_BYTES], around[RENDER_NUMBER_BYTES];
    printf("the next chunks of %" PRId64 " context%s stand %s\n", note->contexts,
           note->contexts == 1 ? "" : "s", done[which]);
    if (which != 0) {
        printf(
            "predicted saving: %s, of %s that are free in these pages now. No chunk is moved, so "
            "nothing came\nback yet (0 bytes); when those that are alive have been freed: memctx "
            "verify %d\n",
            render_bytes(predicted, note->predicted_bytes, human),
            render_bytes(around, note->before_bytes, human), (int)target->facts.pid);
    }
}

void place_contexts(const struct choice *choice, enum wire_placement placement) {
    struct target target;
    struct model model;
    struct chosen chosen;
    struct client_answer answer;
    target_open(&target, choice->target, true);
    choose_contexts(&chosen, &target, &model, choice);
    struct note note = {.uptime_s = model.uptime_s,
                        .contexts = (int64_t)chosen.count,
                        .first = chosen.first,
                        .predicted_bytes = predict(&model, &chosen, placement),
                        .before_bytes = holders_free_around(&model, chosen.members)};
    snprintf(note.action, sizeof(note.action), "%s", actions[placement]);
    choose_send(&target, &model, &chosen, WIRE_PLACE, placement, &answer);
    free(answer.body);
    if (placement != WIRE_PLACE_DEFAULT) {
        note_write(&target, &note);
    }
    if (choice->json) {
        print_json(&target, &note);
    } else {
        print_text(&target, &note, choice->human);
    }
}

static int place_main(int argc, char **argv, enum wire_placement placement) {
    struct choice choice;
    choose_parse(&choice, argc, argv);
    if (choice.id_count == 0 && choice.site == NULL) {
        cli_usage("which contexts? Give their numbers, or --site REGEX; memctx frag shows them");
    }
    place_contexts(&choice, placement);
    return cli_finish_output(CLI_DONE);
}

int isolate_main(int argc, char **argv) {
    return place_main(argc, argv, WIRE_PLACE_APART);
}

int merge_main(int argc, char **argv) {
    return place_main(argc, argv, WIRE_PLACE_SHARED);
}
