/* SPDX-License-Identifier: MIT */
/* target_load.c - asks an opened target for the parts of a dump, and loads them into a model. */
#include "target/target.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/progress.h"
#include "snapshot/snapshot.h"
#include "target/mappings.h"

void target_ask_head(struct target *target, uint32_t flags) {
    struct wire_dump_request request = {.flags = flags};
    struct client_answer answer;
    struct cli_failure *failure = &target->failure;
    if (!client_read(&target->client, WIRE_DUMP, &request, sizeof request, &answer, failure) ||
        (answer.status != WIRE_OK && !client_fail_refused(&target->client, &answer, failure)) ||
        !loader_take_head(&target->loader, answer.body, answer.length))
        cli_die_failure(failure);
    free(answer.body);
}

/* Asks for one piece. Returns false if the target refuses; target->failure has the reason. */
static bool ask_piece(struct target *target, struct wire_piece_request *request) {
    struct cli_failure *failure = &target->failure;
    struct client_answer answer;
    if (!client_read(&target->client, WIRE_PIECE, request, sizeof *request, &answer, failure))
        cli_die_failure(failure);
    if (answer.status != WIRE_OK)
        return client_fail_refused(&target->client, &answer, failure);
    if (!loader_take_piece(&target->loader, (enum wire_part)request->part, answer.body,
                           answer.length, &request->from))
        cli_die_failure(failure);
    free(answer.body);
    return true;
}

void target_ask_piece(struct target *target, struct wire_piece_request *request) {
    if (!ask_piece(target, request))
        cli_die_failure(&target->failure);
}

static void tell_progress(const struct target *target, const struct wire_piece_request *request) {
    if (request->part == WIRE_PART_CONTEXTS || request->part == WIRE_PART_BEST) {
        uint64_t all = target->loader.contexts > 0 ? target->loader.contexts : 1;
        progress_tell("reading contexts, %d %%", (int)(100 * (request->from >> 16) / all));
    } else {
        progress_tell("reading %s", request->part == WIRE_PART_PAGES     ? "pages"
                                    : request->part == WIRE_PART_ENTRIES ? "a mark"
                                                                         : "paths");
    }
}

/* Asks for pieces until the last one. The size of an answer is bounded, but the number of
 * answers is not. Each piece goes on where the last one ended, even over a new connection. */
static bool ask_pieces(struct target *target, struct wire_piece_request *request) {
    uint64_t before;
    bool good;
    do {
        before = request->from;
        tell_progress(target, request);
        good = ask_piece(target, request);
    } while (good && request->from > before);
    return good;
}

void target_ask_pieces(struct target *target, struct wire_piece_request *request) {
    if (!ask_pieces(target, request))
        cli_die_failure(&target->failure);
}

void target_ask_part(struct target *target, enum wire_part part, uint32_t flags) {
    struct wire_piece_request request = {.part = part, .flags = flags};
    if (!ask_pieces(target, &request))
        cli_die_failure(&target->failure);
}

/* Returns the name of the target for messages. */
static const char *source_of(const struct target *target) {
    return target->is_snapshot ? target->path : target->client.source;
}

static void load_entries(struct target *target, struct model_mark *mark) {
    struct wire_piece_request request = {.part = WIRE_PART_ENTRIES,
                                         .mark_uptime_ns = mark->uptime_ns};
    snprintf(request.mark, sizeof request.mark, "%s", mark->name);
    target->loader.mark = mark;
    target->loader.entry_room = 0;
    mark->has_entries = true;
    if (!ask_pieces(target, &request)) {
        cli_die(CLI_REFUSED, "%s no longer has the mark \"%s\"; %s", source_of(target), mark->name,
                target->failure.text);
    }
}

/* Reading the kernel's map takes tens of milliseconds for each GiB, so a thread reads it while
 * the target prepares its answers. */
struct map_reader {
    pthread_t thread;
    pid_t pid;
    struct model_mappings mappings;
    struct mapped_places places;
    bool started, good;
};

static void *read_map(void *argument) {
    struct map_reader *reader = argument;
    reader->good = mappings_of_process(reader->pid, &reader->mappings, &reader->places);
    return NULL;
}

static void start_map_reader(struct map_reader *reader, pid_t pid) {
    *reader = (struct map_reader){.pid = pid};
    reader->started = pthread_create(&reader->thread, NULL, read_map, reader) == 0;
    if (!reader->started)
        read_map(reader);
}

static void load_process(struct target *target, struct model *model,
                         const struct target_load_options *options) {
    progress_tell("asking %s", source_of(target));
    uint32_t threads = options->flags & MODEL_THREADS ? WIRE_DUMP_THREADS : 0;
    struct loader *loader = &target->loader;
    loader_begin(loader, model, source_of(target), &target->failure);
    loader->lone_views = threads != 0;
    loader->keep_pages = options->pages || options->light_pages;
    target_ask_head(target, WIRE_DUMP_BEGIN);
    target_ask_part(target, WIRE_PART_CONTEXTS, threads);
    /* after the contexts, so that no context's module is missing */
    target_ask_part(target, WIRE_PART_MODULES, 0);
    target_load_begun(target, model, options);
}

void target_load_begun(struct target *target, struct model *model,
                       const struct target_load_options *options) {
    if (!loader_link(&target->loader))
        cli_die_failure(&target->failure);
    if (options->flags & MODEL_THREADS) {
        target_ask_part(target, WIRE_PART_THREADS, 0);
        target_ask_part(target, WIRE_PART_REMOTES, 0);
    }
    target_ask_part(target, WIRE_PART_MARKS, 0);
    model_sort_marks(model);
    target_ask_part(target, WIRE_PART_NOTES, 0);
    target_ask_part(target, WIRE_PART_RESIZES, 0);
    model->pid = target->facts.pid;
    model->start_ticks = target->facts.start_ticks;
    model->from_snapshot = target->is_snapshot;
    if (target->is_snapshot)
        model->program = outside_program(target->client.outside)
                             ? cli_copy(outside_program(target->client.outside))
                             : NULL;
    else
        model->program = process_program(&target->facts);
    model->library_version = cli_copy(target->client.hello.library_version);
    for (size_t i = 0; options->every_mark && i < model->mark_count; i++)
        load_entries(target, &model->marks[i]);
}

/* greatest change of the control thread's buffers between the map and the ledger */
#define BUFFERS_CHANGE_BYTES (64 << 10)

/* The map is read some milliseconds before the ledger. Meanwhile the control thread takes memory
 * for its answer, or gives memory back. A change of the resident set that is this small counts as a
 * change of anonymous memory, so that both figures are of one moment. */
static void follow_buffers(struct model *model) {
    struct model_mappings *mappings = &model->mappings;
    int64_t change = model_tame(model->ledger.rss_bytes) - model_tame(mappings->rss_bytes);
    if (!model->has_mappings || model->ledger.rss_bytes == WIRE_UNKNOWN ||
        change < -BUFFERS_CHANGE_BYTES || change > BUFFERS_CHANGE_BYTES ||
        mappings->anonymous_bytes + change < 0)
        return;
    mappings->anonymous_bytes += change;
    mappings->rss_bytes += change;
}

void target_load_rest(struct target *target, struct model *model,
                      const struct target_load_options *options) {
    struct map_reader reader;
    uint32_t resident = options->flags & MODEL_RESIDENT ? WIRE_DUMP_RESIDENT : 0;
    progress_end();
    if (target->is_snapshot && !target->client.outside) /* a file was loaded as a whole */
        return;
    bool mappings = options->mappings && !target->is_snapshot;
    if (mappings) /* started here, so that the map is read soon after the sums */
        start_map_reader(&reader, target->facts.thread);
    target_ask_part(target, WIRE_PART_PAGES, resident | (options->pages ? 0 : WIRE_DUMP_LIGHT));
    /* always asks for residency: counting the resident tables costs little */
    target_ask_head(target, WIRE_DUMP_RESIDENT | (options->held ? 0 : WIRE_DUMP_END));
    loader_finish(&target->loader, options->flags);
    model->paused = target->client.paused && !target->client.outside;
    model->lost = !model->exact;
    model->exact &= !model->paused;
    if (target->client.outside)
        model->how = cli_copy(outside_how(target->client.outside));
    if (mappings) {
        progress_tell("reading the kernel's map of the process");
        if (reader.started)
            pthread_join(reader.thread, NULL);
        model->has_mappings = reader.good;
        model->mappings = reader.mappings;
        model->places = reader.places.list;
        model->place_count = reader.places.count;
        follow_buffers(model);
    }
    progress_end();
}

void target_load(struct target *target, struct model *model,
                 const struct target_load_options *options) {
    target_load_contexts(target, model, options);
    target_load_rest(target, model, options);
}

void target_load_contexts(struct target *target, struct model *model,
                          const struct target_load_options *options) {
    struct cli_failure failure;
    if (target->is_snapshot)
        progress_tell("reading %s", target->path);
    if (!target->is_snapshot || target->client.outside) {
        load_process(target, model, options);
    } else if (!snapshot_load(model, target->path, target->when, &failure)) {
        cli_die_failure(&failure);
    } else if ((options->flags & MODEL_THREADS) != 0 && !model->has_threads) {
        cli_die(CLI_REFUSED,
                "%s: holds no figures of threads; take it again with memctx dump --threads -o FILE",
                model->source);
    }
}

void target_load_marks(struct target *target, struct model *model) {
    struct target_load_options none = {.flags = 0};
    if (target->is_snapshot) {
        target_load(target, model, &none);
        return;
    }
    loader_begin(&target->loader, model, target->client.source, &target->failure);
    target_ask_head(target, 0);
    target_ask_part(target, WIRE_PART_MARKS, 0);
    model_sort_marks(model);
    model->pid = target->facts.pid;
}

/* Returns the part of a message that says how to compare a target without marks. */
static const char *advise_mark(const struct target *target) {
    int pid = (int)target->facts.pid;
    return target->is_snapshot ? "compare it with another file"
           : target->client.outside
               ? cli_format("a process that is read from outside takes no marks; compare it with a "
                            "snapshot, which memctx dump %d -o FILE writes: memctx diff FILE %d",
                            pid, pid)
               : cli_format("set one with memctx mark %d", pid);
}

/* Returns the part of a message that names the command that lists the target's marks. */
static const char *advise_list(const struct target *target) {
    if (!target->is_snapshot)
        return cli_format("; see memctx mark --list %d", (int)target->facts.pid);
    char *file = cli_format("%s%s%s", target->path, target->when ? "@" : "",
                            target->when ? target->when : "");
    return cli_format("; see memctx mark --list %s", cli_quote(file));
}

/* Ends the command, because the model has no mark of this name. */
static _Noreturn void die_without_mark(const struct target *target, const struct model *model,
                                       const char *name) {
    struct nearest nearest = nearest_begin(name);
    for (size_t i = 0; i < model->mark_count; i++)
        nearest_offer(&nearest, model->marks[i].name);
    const char *advice =
        model->mark_count > 0 ? advise_list(target) : cli_format("; %s", advise_mark(target));
    advice = nearest_text(&nearest, "", advice);
    if (!target->is_snapshot && target_is_file(name))
        advice = cli_format("%s; if you mean the file, name it first", advise_list(target));
    else if (target_is_process_name(name))
        advice = cli_format("; to compare with the process, name a snapshot first, which memctx "
                            "dump -o FILE writes: memctx diff FILE %s",
                            name);
    cli_die(CLI_REFUSED, "%s has no mark \"%s\"%s", model->source, name, advice);
}

struct model_mark *target_load_mark(struct target *target, struct model *model, const char *name) {
    struct model_mark *mark = model_find_mark(model, name);
    if (!mark && name)
        die_without_mark(target, model, name);
    if (!mark) {
        cli_die(CLI_REFUSED, "%s has no mark to compare with; %s", model->source,
                advise_mark(target));
    }
    if (!mark->has_entries && target->is_snapshot && !target->client.outside) {
        cli_die(CLI_REFUSED,
                "%s: holds the mark \"%s\" without its counters; take it again with "
                "memctx dump -o FILE",
                model->source, mark->name);
    }
    if (!mark->has_entries)
        load_entries(target, mark);
    return mark;
}

char *target_ask_text(struct target *target, enum wire_type type, const void *body, size_t length) {
    struct cli_failure failure;
    char *text = client_ask_text(&target->client, type, body, length, &failure);
    if (!text)
        cli_die_failure(&failure);
    return text;
}
