/* SPDX-License-Identifier: MIT */
/*
 * stream.c - writes the answers of a process into a snapshot file as they come.
 *
 * target_stream asks in the order in which target_load asks. It keeps only the list of marks in
 * memory, because this list says which entries to ask for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "snapshot/stream.h"
#include "target/mappings.h"
#include "target/target.h"

struct streaming {
    struct target *target;
    struct stream_writer *writer;
    struct model marks;             /* a model that has nothing but marks */
    const struct stream_mark *mark; /* written before the next piece; NULL: none */
    struct loader loader;
};

/* Sends a request, and ends the command if no answer comes. Returns false if the target refuses. */
static bool ask(struct streaming *streaming, enum wire_type type, const void *request, size_t bytes,
                struct client_answer *answer) {
    struct target *target = streaming->target;
    struct cli_failure *failure = &target->failure;
    if (!client_read(&target->client, type, request, bytes, answer, failure))
        cli_die_failure(failure);
    return answer->status == WIRE_OK || client_fail_refused(&target->client, answer, failure);
}

static void put_head(struct streaming *streaming, uint32_t flags) {
    struct wire_dump_request request = {.flags = flags};
    struct client_answer answer;
    if (!ask(streaming, WIRE_DUMP, &request, sizeof request, &answer))
        cli_die_failure(&streaming->target->failure);
    struct wire_dump *head = (struct wire_dump *)answer.body;
    const struct client *client = &streaming->target->client;
    if (answer.length == sizeof *head && client->paused && !client->outside)
        head->exact = 0;
    stream_put(streaming->writer, STREAM_HEAD, 0, answer.body, answer.length);
    free(answer.body);
}

static bool put_pieces(struct streaming *streaming, struct wire_piece_request *request) {
    uint64_t before;
    do {
        struct client_answer answer;
        struct wire_piece piece;
        before = request->from;
        if (!ask(streaming, WIRE_PIECE, request, sizeof *request, &answer))
            return false;
        if (answer.length < sizeof piece || answer.length > WIRE_ANSWER_MAX) {
            cli_die(CLI_REFUSED, "%s: damaged answer; a piece of %zu bytes" CLI_ASK_AGAIN,
                    streaming->target->client.source, answer.length);
        }
        memcpy(&piece, answer.body, sizeof piece);
        if (streaming->mark)
            stream_put(streaming->writer, STREAM_MARK, 0, streaming->mark, sizeof *streaming->mark);
        streaming->mark = NULL;
        stream_put(streaming->writer, STREAM_PIECE, request->part, answer.body, answer.length);
        if (request->part == WIRE_PART_MARKS &&
            !loader_take_piece(&streaming->loader, WIRE_PART_MARKS, answer.body, answer.length,
                               &piece.next))
            cli_die_failure(&streaming->target->failure);
        request->from = piece.next;
        free(answer.body);
    } while (request->from > before);
    return true;
}

static void put_part(struct streaming *streaming, enum wire_part part, uint32_t flags) {
    struct wire_piece_request request = {.part = part, .flags = flags};
    if (!put_pieces(streaming, &request))
        cli_die_failure(&streaming->target->failure);
}

static void put_facts(struct streaming *streaming) {
    const struct target *target = streaming->target;
    struct stream_facts facts = {.pid = target->facts.pid,
                                 .start_ticks = target->facts.start_ticks};
    char *program = process_program(&target->facts);
    snprintf(facts.program, sizeof facts.program, "%s", program ? program : "");
    snprintf(facts.library_version, sizeof facts.library_version, "%s",
             target->client.hello.library_version);
    free(program);
    stream_put(streaming->writer, STREAM_FACTS, 0, &facts, sizeof facts);
}

/* Writes the entries of each mark. Leaves out a mark that has been removed meanwhile. */
static void put_marks(struct streaming *streaming) {
    model_sort_marks(&streaming->marks);
    for (size_t i = 0; i < streaming->marks.mark_count; i++) {
        const struct model_mark *mark = &streaming->marks.marks[i];
        struct wire_piece_request request = {.part = WIRE_PART_ENTRIES,
                                             .mark_uptime_ns = mark->uptime_ns};
        struct stream_mark which = {.uptime_ns = mark->uptime_ns};
        snprintf(request.mark, sizeof request.mark, "%s", mark->name);
        snprintf(which.name, sizeof which.name, "%s", mark->name);
        streaming->mark = &which;
        if (!put_pieces(streaming, &request) && !streaming->mark) /* some entries are written */
            cli_die_failure(&streaming->target->failure);
        streaming->mark = NULL;
    }
}

static void put_mappings(struct streaming *streaming) {
    struct model_mappings mappings;
    struct mapped_places places = {0};
    if (mappings_of_process(streaming->target->facts.thread, &mappings, &places))
        stream_put(streaming->writer, STREAM_MAPPINGS, 0, &mappings, sizeof mappings);
    for (size_t i = 0; i < places.count; i++)
        free(places.list[i].path);
    free(places.list);
}

void target_stream(struct target *target, FILE *file) {
    struct streaming streaming = {.target = target, .writer = stream_begin(file)};
    progress_tell("asking %s", target->client.source);
    loader_begin(&streaming.loader, &streaming.marks, target->client.source, &target->failure);
    put_facts(&streaming);
    put_head(&streaming, WIRE_DUMP_BEGIN);
    put_part(&streaming, WIRE_PART_CONTEXTS, 0);
    put_part(&streaming, WIRE_PART_MODULES, 0);
    put_part(&streaming, WIRE_PART_MARKS, 0);
    put_part(&streaming, WIRE_PART_NOTES, 0);
    put_part(&streaming, WIRE_PART_RESIZES, 0);
    put_marks(&streaming);
    put_mappings(&streaming);
    put_part(&streaming, WIRE_PART_PAGES, WIRE_DUMP_RESIDENT);
    put_head(&streaming, WIRE_DUMP_RESIDENT | WIRE_DUMP_END);
    if (target->client.paused && !target->client.outside)
        cli_warn(
            "%s: this command paused while it read the process, so some figures in the file may "
            "belong to other call paths; write the file anew",
            target->client.source);
    if (target->client.outside) {
        const char *how = outside_how(target->client.outside);
        stream_put(streaming.writer, STREAM_HOW, 0, how, strlen(how) + 1);
    }
    stream_finish(streaming.writer);
    model_drop(&streaming.marks);
    progress_end();
}
