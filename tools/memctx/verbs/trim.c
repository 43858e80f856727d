/* SPDX-License-Identifier: MIT */
/* trim.c - `memctx trim`: gives empty memory back to the kernel now; for chosen contexts, also
 * empty OS pages inside pages that are in use. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "formats/render.h"
#include "pages/holders.h"
#include "target/notes.h"
#include "verbs/choose.h"
#include "verbs/verbs.h"

static void print_json(const struct target *target, const struct wire_trim *trim,
                       int64_t predicted) {
    struct json_writer json = {.file = stdout};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-trim/1");
    json_put_integer(&json, "pid", target->facts.pid);
    json_put_integer(&json, "released_bytes", trim->released_bytes);
    json_put_integer(&json, "punched_bytes", trim->punched_bytes);
    json_put_integer(&json, "predicted_bytes", predicted);
    json_put_integer(&json, "rss_before_bytes", trim->rss_before);
    json_put_integer(&json, "rss_after_bytes", trim->rss_after);
    json_put_integer(&json, "threads", trim->threads);
    json_put_integer(&json, "threads_waiting", trim->threads_waiting);
    json_put_close(&json, '}');
    putchar('\n');
}

static void print_text(const struct wire_trim *trim, int64_t predicted, bool human) {
    char released[RENDER_NUMBER_BYTES], before[RENDER_NUMBER_BYTES];
    char after[RENDER_NUMBER_BYTES], wanted[RENDER_NUMBER_BYTES];
    printf("returned %s to the kernel; resident set %s -> %s\n",
           render_bytes(released, trim->released_bytes, human),
           render_bytes(before, trim->rss_before, human),
           render_bytes(after, trim->rss_after, human));
    if (predicted != WIRE_UNKNOWN)
        printf("predicted: %s\n", render_bytes(wanted, predicted, human));
    if (trim->threads_waiting > 0) {
        printf(
            "%u of %u threads have not allocated since; each returns the rest of its memory with "
            "its next malloc\n",
            trim->threads_waiting, trim->threads);
    }
}

static void read_trim(const struct target *target, struct client_answer *answer,
                      struct wire_trim *trim) {
    if (answer->length != sizeof *trim) {
        cli_die(CLI_REFUSED,
                "%s: damaged answer; the answer to a trim has %zu bytes, not %zu" CLI_ASK_AGAIN,
                target->client.source, answer->length, sizeof *trim);
    }
    memcpy(trim, answer->body, sizeof *trim);
    free(answer->body);
    struct process_facts now;
    /* A process that sees no /proc answers -1, so this command reads the resident set itself. */
    if (trim->rss_after < 0 && process_read_facts(target->facts.pid, &now)) {
        trim->rss_before = target->facts.rss_bytes;
        trim->rss_after = now.rss_bytes;
    }
}

static void trim_all(struct target *target, struct wire_trim *trim) {
    struct wire_contexts_request request = {.verb = 0};
    struct client_answer answer;
    struct cli_failure failure;
    if (!client_ask(&target->client, WIRE_TRIM, &request, sizeof request, &answer, &failure))
        cli_die_failure(&failure);
    if (answer.status != WIRE_OK) {
        client_fail_refused(&target->client, &answer, &failure);
        cli_die_failure(&failure);
    }
    read_trim(target, &answer, trim);
}

/* Trims the chosen contexts. Returns the predicted bytes. */
static int64_t trim_some(struct target *target, struct wire_trim *trim,
                         const struct choice *choice) {
    struct model model;
    struct chosen chosen;
    struct client_answer answer;
    choose_contexts(&chosen, target, &model, choice);
    int64_t predicted =
        model_tame(holders_trim(&model, chosen.members) + model_tame(model.ledger.freelist_bytes));
    choose_send(target, &model, &chosen, WIRE_TRIM, WIRE_TRIM_CONTEXTS, &answer);
    read_trim(target, &answer, trim);
    struct note note = {.action = "trim",
                        .uptime_s = model.uptime_s,
                        .contexts = (int64_t)chosen.count,
                        .first = chosen.first,
                        .predicted_bytes = predicted,
                        .before_bytes = trim->rss_before,
                        .after_bytes = trim->rss_after,
                        .waiting = trim->threads_waiting};
    note_write(target, &note);
    return predicted;
}

int trim_main(int argc, char **argv) {
    struct choice choice;
    struct target target;
    struct wire_trim trim;
    int64_t predicted = WIRE_UNKNOWN;
    choose_parse(&choice, argc, argv);
    target_open_socket(&target, choice.target);
    if (choose_chooses(&choice))
        predicted = trim_some(&target, &trim, &choice);
    else
        trim_all(&target, &trim);
    if (choice.json)
        print_json(&target, &trim, predicted);
    else
        print_text(&trim, predicted, choice.human);
    return cli_finish_output(CLI_DONE);
}
