/* SPDX-License-Identifier: MIT */
/* teller.c - asks a process for its figures, and writes them as lines. */
#include "serve/teller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text_file.h"
#include "model/memory.h"
#include "serve/exposition.h"
#include "serve/namer.h"
#include "serve/rule_lines.h"
#include "serve/survey.h"
#include "target/client.h"

/* greatest number of characters of a context's name or path in a label */
#define NAME_CHARACTERS 128
#define NAMES_WAIT_MS 400 /* a scrape waits for names of new paths until it has taken this long */
/* after this many scrapes the teller is replaced, which frees its memory */
#define SCRAPES_MAX 20000

struct teller {
    struct process_facts facts;
    struct client client;
    struct cli_failure failure;
    struct model model; /* the loader needs a model; no contexts are put into it */
    struct loader loader;
    struct namer namer;
    uint64_t hash;      /* hash of the path that is being read */
    uint64_t uptime_ns; /* uptime of the process at the last scrape */
};

/* The figures of one scrape. */
struct scrape {
    struct wire_dump head;
    struct survey survey;
    struct namer_wish paths[SURVEY_PATHS];
    const char *labels[SURVEY_PATHS]; /* NULL: not known */
    int64_t paged_bytes;              /* bytes in pages and large chunks */
    char *self, *rules;               /* answers to WIRE_SELF and WIRE_RULES */
};

/* --- asking ---------------------------------------------------------------------------------- */

static bool ask_head(struct teller *teller, uint32_t flags, struct wire_dump *head) {
    struct wire_dump_request request = {.flags = flags};
    struct client_answer answer;
    struct cli_failure *failure = &teller->failure;
    if (!client_read(&teller->client, WIRE_DUMP, &request, sizeof request, &answer, failure))
        return false;
    if (answer.status != WIRE_OK)
        return client_fail_refused(&teller->client, &answer, failure);
    bool good = loader_take_head(&teller->loader, answer.body, answer.length);
    if (good) /* the loader has checked the length */
        memcpy(head, answer.body, sizeof *head);
    free(answer.body);
    return good;
}

/* Asks for all pieces of one part of a dump (WIRE_PART_...). */
static bool ask_pieces(struct teller *teller, struct wire_piece_request *request) {
    uint64_t before;
    do {
        struct client_answer answer;
        before = request->from;
        if (!client_read(&teller->client, WIRE_PIECE, request, sizeof *request, &answer,
                         &teller->failure))
            return false;
        if (answer.status != WIRE_OK)
            return client_fail_refused(&teller->client, &answer, &teller->failure);
        bool good = loader_take_piece(&teller->loader, (enum wire_part)request->part, answer.body,
                                      answer.length, &request->from);
        free(answer.body);
        if (!good)
            return false;
    } while (request->from > before);
    return true;
}

static enum loader_visit visit_all(struct loader *loader, const struct wire_context *context,
                                   const struct wire_sums *sums, char *label) {
    if (sums)
        survey_add(loader->visit_argument, context, sums, label);
    return LOADER_DROP;
}

static bool ask_survey(struct teller *teller, struct scrape *scrape) {
    struct loader *loader = &teller->loader;
    struct wire_piece_request request = {.part = WIRE_PART_BEST,
                                         .figure = WIRE_FIGURE_REQUESTED,
                                         .least = INT64_MIN,
                                         .ids_below = loader->contexts};
    if (teller->client.outside) /* the answers have no survey */
        request.part = WIRE_PART_CONTEXTS;
    loader->survey = (struct wire_survey){.root_peak_bytes = WIRE_UNKNOWN};
    loader->visit = visit_all;
    loader->visit_argument = &scrape->survey;
    bool good = ask_pieces(teller, &request);
    survey_finish(&scrape->survey);
    return good;
}

static enum loader_visit visit_frame(struct loader *loader, const struct wire_context *context,
                                     const struct wire_sums *sums, char *label) {
    (void)sums;
    struct model_frame frame = {.address = context->address,
                                .module = context->module,
                                .kind = context->kind,
                                .label = label};
    uint64_t *hash = loader->visit_argument;
    *hash = namer_hash(*hash, &frame);
    return LOADER_DROP;
}

/* Sets the labels of the largest call paths whose names are known, and asks the namer for the names
 * of the others. */
static bool ask_paths(struct teller *teller, struct scrape *scrape) {
    struct namer_wish wishes[SURVEY_PATHS];
    size_t count = 0;
    teller->loader.visit = visit_frame;
    teller->loader.visit_argument = &teller->hash;
    for (size_t i = 0; i < scrape->survey.path_count; i++) {
        uint32_t id = scrape->survey.paths[i].id;
        struct wire_piece_request request = {.part = WIRE_PART_PATH, .from = WIRE_FROM_ID(id)};
        teller->hash = 0;
        if (!ask_pieces(teller, &request))
            return false;
        scrape->paths[i] = (struct namer_wish){id, teller->hash};
    }
    namer_take(&teller->namer, 0);
    for (size_t i = 0; i < scrape->survey.path_count; i++)
        if (!namer_find(&teller->namer, scrape->paths[i].hash, &scrape->labels[i]))
            wishes[count++] = scrape->paths[i];
    namer_ask(&teller->namer, teller->facts.pid, wishes, count);
    return true;
}

/* Asks for the figures of all pages, and sums the bytes in them. */
static bool ask_pages(struct teller *teller, struct scrape *scrape) {
    struct loader *loader = &teller->loader;
    struct wire_piece_request request = {.part = WIRE_PART_PAGES, .flags = WIRE_DUMP_LIGHT};
    loader->figures = (struct figures){0};
    loader->partial = true; /* the model has no contexts */
    if (!ask_pieces(teller, &request))
        return false;
    const struct wire_ledger *ledger = &loader->figures.ledger;
    scrape->paged_bytes = model_tame(ledger->pages_reserved) + model_tame(ledger->mixed_reserved);
    return true;
}

static bool ask_all(struct teller *teller, struct scrape *scrape) {
    struct wire_dump begin = {0};
    struct client *client = &teller->client;
    struct cli_failure *failure = &teller->failure;
    if (!ask_head(teller, WIRE_DUMP_BEGIN, &begin))
        return false;
    if (begin.uptime_ns < teller->uptime_ns) { /* the process has executed another program */
        namer_stop(&teller->namer);
        namer_forget(&teller->namer);
    }
    teller->uptime_ns = begin.uptime_ns;
    if (!ask_survey(teller, scrape) || !ask_paths(teller, scrape) || !ask_pages(teller, scrape) ||
        !ask_head(teller, WIRE_DUMP_END | WIRE_DUMP_SUMS | WIRE_DUMP_RESIDENT, &scrape->head))
        return false;
    if (client->outside) { /* only the process itself can tell these figures */
        scrape->self = cli_copy("");
        scrape->rules = cli_copy("");
        return true;
    }
    scrape->self = client_ask_text(client, WIRE_SELF, NULL, 0, failure);
    if (scrape->self)
        scrape->rules = client_ask_text(client, WIRE_RULES, "list", strlen("list"), failure);
    return scrape->self && scrape->rules;
}

static void end_scrape(struct scrape *scrape) {
    survey_free(&scrape->survey);
    free(scrape->self);
    free(scrape->rules);
}

/* Connects to the process. If the process has no socket, opens its memory instead; but not if it
 * does not answer on its socket, because a process that hangs would delay each scrape. */
static bool connect_teller(struct teller *teller) {
    struct rlimit memory = {CLIENT_OUTSIDE_BYTES, CLIENT_OUTSIDE_BYTES};
    struct cli_failure *failure = &teller->failure, other;
    if (client_connect(&teller->client, &teller->facts, true, failure))
        return true;
    if (!client_found_no_socket(&teller->facts, failure))
        return false;
    /* Damaged tables must not make this process take all memory. */
    setrlimit(RLIMIT_AS, &memory);
    return client_open_outside(&teller->client, &teller->facts, failure->text, &other);
}

/* Asks over the open connection. If that fails, asks over a new one, because the process may have
 * closed the old one to serve other clients. */
static bool ask_twice(struct teller *teller, struct scrape *scrape) {
    for (int attempt = 0; attempt < 2; attempt++) {
        bool fresh = teller->client.fd < 0;
        *scrape = (struct scrape){0};
        survey_begin(&scrape->survey);
        if (fresh && !connect_teller(teller)) {
            end_scrape(scrape);
            return false;
        }
        bool good = ask_all(teller, scrape);
        if (!good || teller->client.outside) /* the process may have a socket at the next scrape */
            client_close(&teller->client);
        if (good)
            return true;
        end_scrape(scrape);
        if (fresh)
            return false;
    }
    return false;
}

/* --- telling --------------------------------------------------------------------------------- */

/* Returns the figure of this name in the answer to WIRE_SELF, or WIRE_UNKNOWN. */
static int64_t self_figure(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, length) == 0 && at[length] == '\t') {
            char *end;
            int64_t value = strtoll(at + length + 1, &end, 10);
            return *end == '\t' ? value : WIRE_UNKNOWN;
        }
    }
    return WIRE_UNKNOWN;
}

static void tell_totals(FILE *file, const struct scrape *scrape) {
    const struct wire_dump *head = &scrape->head;
    exposition_put(file, FAMILY_REQUESTED, "", head->requested_bytes);
    exposition_put(file, FAMILY_CHUNKS, "", head->live_chunks);
    exposition_put(file, FAMILY_ALLOCATIONS, "", head->allocs);
    exposition_put(file, FAMILY_FREES, "", head->frees);
    exposition_put(file, FAMILY_RESIDENT, "", head->ledger.rss_bytes);
    int64_t waste = scrape->paged_bytes - model_tame(head->requested_bytes);
    exposition_put(file, FAMILY_WASTE, "", waste > 0 ? waste : 0);
    exposition_put(file, FAMILY_FREELIST, "", head->ledger.freelist_bytes);
    exposition_put(file, FAMILY_OWN, "", memory_own_bytes(&head->ledger));
    exposition_put(file, FAMILY_TABLES, "", self_figure(scrape->self, "tables_bytes"));
    exposition_put(file, FAMILY_TABLES_LIMIT, "", self_figure(scrape->self, "tables_limit_bytes"));
    exposition_put(file, FAMILY_LOST, "", self_figure(scrape->self, "lost"));
    exposition_put(file, FAMILY_RECORD_LOST, "", self_figure(scrape->self, "record_lost"));
    exposition_put(file, FAMILY_DUMPS, "", self_figure(scrape->self, "dumps"));
    exposition_put(file, FAMILY_CONTEXTS, "", scrape->survey.all.contexts);
}

struct row {
    const char *kind;
    char *labels;
    struct survey_figures figures;
};

#define ROWS_MAX (SURVEY_NAMES + SURVEY_PATHS + 1)

/* Adds figures to the row with these labels, or adds a new row. Two samples may not have equal
 * labels, but two paths may have the same functions, and two long names may be cut to the same
 * text. */
static void add_row(struct row *rows, size_t *count, const char *kind, const char *name,
                    const struct survey_figures *figures) {
    char *labels = exposition_two_labels("kind", kind, "context", name, NAME_CHARACTERS);
    size_t at = 0;
    while (at < *count && strcmp(rows[at].labels, labels) != 0)
        at++;
    if (at == *count)
        rows[(*count)++] = (struct row){.kind = kind, .labels = labels};
    else
        free(labels);
    survey_sum(&rows[at].figures, figures);
}

/* Makes the rows of the named contexts and of the paths whose names are known; the last row is the
 * sum of all other contexts. Returns the number of rows. */
static size_t make_rows(const struct scrape *scrape, struct row *rows) {
    const struct survey *survey = &scrape->survey;
    bool told[SURVEY_PATHS] = {false};
    size_t count = 0;
    for (size_t i = 0; i < survey->name_count; i++)
        add_row(rows, &count, "named", survey->names[i].name, &survey->names[i].figures);
    for (size_t i = 0; i < survey->path_count; i++) {
        told[i] = scrape->labels[i] != NULL;
        if (told[i])
            add_row(rows, &count, "path", scrape->labels[i], &survey->paths[i].figures);
    }
    struct survey_figures rest = survey_rest(survey, told);
    add_row(rows, &count, "other", "other", &rest);
    return count;
}

static void tell_contexts(FILE *file, const struct scrape *scrape) {
    struct row rows[ROWS_MAX];
    size_t count = make_rows(scrape, rows);
    for (size_t i = 0; i < count; i++)
        exposition_put(file, FAMILY_CONTEXT_REQUESTED, rows[i].labels,
                       rows[i].figures.requested_bytes);
    for (size_t i = 0; i < count; i++)
        exposition_put(file, FAMILY_CONTEXT_CHUNKS, rows[i].labels, rows[i].figures.live_chunks);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].kind, "named") == 0)
            exposition_put(file, FAMILY_CONTEXT_ALLOCATIONS, rows[i].labels,
                           rows[i].figures.allocs);
    exposition_put(file, FAMILY_CONTEXTS_CUT, "", rows[count - 1].figures.contexts);
    for (size_t i = 0; i < count; i++)
        free(rows[i].labels);
}

/* Writes the answer to a scrape. Waits for names until NAMES_WAIT_MS after the beginning, so that
 * the first scrape has them too. */
static void tell(struct teller *teller, FILE *file) {
    struct scrape scrape;
    double began_s = clock_now_s();
    if (!ask_twice(teller, &scrape)) {
        fprintf(file, "!%s", teller->failure.text);
        return;
    }
    int64_t left_ms = NAMES_WAIT_MS - (int64_t)((clock_now_s() - began_s) * 1000);
    namer_take(&teller->namer, left_ms > 0 ? (int)left_ms : 0);
    for (size_t i = 0; i < scrape.survey.path_count; i++)
        namer_find(&teller->namer, scrape.paths[i].hash, &scrape.labels[i]);
    exposition_put_seconds(file, FAMILY_SCRAPE_SECONDS, clock_now_s() - began_s);
    tell_totals(file, &scrape);
    tell_contexts(file, &scrape);
    rule_lines_tell(file, scrape.rules);
    end_scrape(&scrape);
}

static bool send_all(int fd, const void *bytes, size_t length) {
    for (size_t sent = 0; sent < length;) {
        ssize_t put = send(fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR)
            return false;
        sent += put > 0 ? (size_t)put : 0;
    }
    return true;
}

_Noreturn void teller_run(const struct process_facts *facts, int fd) {
    static struct teller teller;
    char byte;
    teller.facts = *facts;
    teller.client.fd = -1;
    namer_begin(&teller.namer);
    loader_begin(&teller.loader, &teller.model, "the process", &teller.failure);
    for (int scrapes = 0; scrapes < SCRAPES_MAX; scrapes++) {
        ssize_t got;
        while ((got = recv(fd, &byte, 1, 0)) < 0 && errno == EINTR) {
        }
        if (got <= 0)
            break;
        char *text = NULL;
        size_t length = 0;
        FILE *file = text_file_open(&text, &length);
        tell(&teller, file);
        fclose(file);
        uint32_t head = (uint32_t)(length < TELLER_ANSWER_MAX ? length : TELLER_ANSWER_MAX);
        bool sent = send_all(fd, &head, sizeof head) && send_all(fd, text, head);
        free(text);
        if (!sent)
            break;
    }
    namer_stop(&teller.namer);
    _exit(0);
}
