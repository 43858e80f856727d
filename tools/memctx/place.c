/* SPDX-License-Identifier: MIT */
/* place.c - `memctx isolate` and `memctx merge`: a context's next chunks apart from others, or among them. */
#include "place.h"

#include <inttypes.h>
#include <stdlib.h>

#include "holders.h"
#include "json.h"
#include "notes.h"
#include "render.h"

enum { OPTION_SITE = 1 };

static const struct option options_list[] = {{"json", no_argument, NULL, READING_JSON},
                                             {"human", no_argument, NULL, READING_HUMAN},
                                             {"site", required_argument, NULL, OPTION_SITE},
                                             READING_NAME_OPTIONS,
                                             CLI_COMMON_OPTIONS};

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

void place_contexts(struct target *target, const struct place_request *request) {
    struct model model;
    struct chosen chosen;
    struct client_answer answer;
    struct target_load_options load = {.flags = WIRE_DUMP_PINNED, .pages = true};
    struct note note = {.uptime_s = 0};
    target_load(target, &model, &load);
    if (request->site != NULL) {
        reading_resolve(&model, target, &request->names);
    }
    choose_contexts(&chosen, &model, request->ids, request->id_count, request->site);
    snprintf(note.action, sizeof(note.action), "%s", actions[request->placement]);
    note.uptime_s = model.uptime_s;
    note.contexts = (int64_t)chosen.count;
    for (size_t i = model.context_count; i-- > 0;) {
        note.first = chosen.members[i] ? model.contexts[i].id : note.first;
    }
    note.predicted_bytes = predict(&model, &chosen, request->placement);
    note.before_bytes = holders_free_around(&model, chosen.members);
    choose_send(target, &model, &chosen, WIRE_PLACE, request->placement, &answer);
    free(answer.body);
    if (request->placement != WIRE_PLACE_DEFAULT) {
        note_write(target, &note);
    }
    if (request->json) {
        print_json(target, &note);
    } else {
        print_text(target, &note, request->human);
    }
}

static int place_main(int argc, char **argv, enum wire_placement placement) {
    struct place_request request = {.placement = placement};
    struct target target;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case READING_JSON: request.json = true; break;
        case READING_HUMAN: request.human = true; break;
        case OPTION_SITE: request.site = optarg; break;
        default: reading_take(&request.names, option); break;
        }
    }
    const char *word = reading_target_word(argc, argv, INT32_MAX);
    request.ids = argv + optind + 1;
    request.id_count = (size_t)(argc - optind - 1);
    if (request.id_count == 0 && request.site == NULL) {
        cli_usage("which contexts? Give their numbers, or --site REGEX; memctx frag shows them");
    }
    target_open(&target, word, true);
    place_contexts(&target, &request);
    return cli_finish_output(CLI_DONE);
}

int isolate_main(int argc, char **argv) {
    return place_main(argc, argv, WIRE_PLACE_APART);
}

int merge_main(int argc, char **argv) {
    return place_main(argc, argv, WIRE_PLACE_SHARED);
}
