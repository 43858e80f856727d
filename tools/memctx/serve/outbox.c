/* SPDX-License-Identifier: MIT */
/* outbox.c - the requests that wait for the server, and when each is sent. */
#include "serve/outbox.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "serve/post.h"

#define BYTES_MOST ((size_t)64 << 20) /* of all requests together */
#define PAUSE_FIRST_MS 500
#define PAUSE_MOST_MS 60000
#define SERVER_PAUSE_MOST_MS 3600000 /* longest pause that a server may ask for */
#define LAST_TRIES 4
/* with OUTBOX_LAST, all requests are given up if the next pause would be longer than this */
#define LAST_PAUSE_MS 30000

struct outbox_item {
    struct outbox_item *next;
    struct outbox_source source; /* `program` belongs to the item */
    struct engine_request request;
    unsigned tries;
    int64_t added_ms;
};

/* --- messages and events --------------------------------------------------------------------- */

struct event {
    const char *name;
    const struct outbox_source *source; /* NULL: the event belongs to no source */
    long status;
    int64_t bytes, wait_ms; /* -1: left out of the event */
    const char *text;
};

static void put_count(struct json_writer *json, const char *key, int64_t value) {
    if (value < 0)
        json_put_null(json, key);
    else
        json_put_integer(json, key, value);
}

static void begin_event(struct json_writer *json, const char *name) {
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_put_open(json, NULL, '{');
    json_put_text(json, "schema", "memctx-push/1");
    json_put_text(json, "time", text);
    json_put_text(json, "event", name);
}

static void write_event(struct outbox *outbox, const struct event *event) {
    const struct outbox_source *source = event->source;
    if (!outbox->json)
        return;
    struct json_writer json = {.file = log_begin()};
    begin_event(&json, event->name);
    json_put_text(&json, "program", source ? source->program : NULL);
    put_count(&json, "process", source && source->program ? (int64_t)source->number : -1);
    put_count(&json, "status", event->status > 0 ? event->status : -1);
    put_count(&json, "bytes", event->bytes);
    put_count(&json, "wait_ms", event->wait_ms);
    json_put_text(&json, "text", event->text);
    json_put_close(&json, '}');
    putc('\n', json.file);
    log_end();
}

#define TOLD_KEPT_MS 3600000

/* Returns true if no message with these values was printed in this hour. After OUTBOX_TOLD_MAX
 * messages returns false for all values until the hour is over, so that a server with ever new
 * errors cannot fill the log. */
static bool is_new(struct outbox *outbox, const struct outbox_source *source, const char *text,
                   long status) {
    char *key = cli_format("%s %u %ld %s", source->program ? source->program : "", source->number,
                           status, text);
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    for (const char *at = key; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    free(key);
    if (clock_now_ms() - outbox->told_since_ms > TOLD_KEPT_MS) {
        outbox->told_count = 0;
        outbox->told_since_ms = clock_now_ms();
    }
    for (size_t i = 0; i < outbox->told_count; i++)
        if (outbox->told[i] == hash)
            return false;
    if (outbox->told_count == OUTBOX_TOLD_MAX)
        return false;
    outbox->told[outbox->told_count++] = hash;
    return true;
}

static void warn(const struct outbox_source *source, const char *text) {
    if (source->program)
        cli_warn("%s: %s", source->program, text);
    else
        cli_warn("%s", text);
}

/* Counts a failure, and prints it unless a failure with this `key` was printed within the hour. */
static void count_failure(struct outbox *outbox, const struct outbox_source *source, long status,
                          const char *key, const char *text) {
    outbox->failed++;
    write_event(outbox, &(struct event){"failed", source, status, -1, -1, text});
    if (is_new(outbox, source, key, status))
        warn(source, text);
}

void outbox_fail(struct outbox *outbox, struct outbox_source source, const char *text) {
    count_failure(outbox, &source, 0, text, text);
}

void outbox_tell_end(const struct outbox *outbox) {
    FILE *file = log_begin();
    if (outbox->json) {
        struct json_writer json = {.file = file};
        begin_event(&json, "end");
        json_put_integer(&json, "sent", (int64_t)outbox->sent);
        json_put_integer(&json, "retried", (int64_t)outbox->retried);
        json_put_integer(&json, "dropped", (int64_t)outbox->dropped);
        json_put_integer(&json, "failed", (int64_t)outbox->failed);
        json_put_close(&json, '}');
    } else
        fprintf(file, "sent %zu, retried %zu, dropped %zu, failed %zu", outbox->sent,
                outbox->retried, outbox->dropped, outbox->failed);
    putc('\n', file);
    log_end();
}

/* --- the queue ------------------------------------------------------------------------------- */

static bool is_same(const struct outbox_source *one, const struct outbox_source *other) {
    if (!one->program || !other->program)
        return one->program == other->program;
    return one->number == other->number && strcmp(one->program, other->program) == 0;
}

static void free_item(struct outbox_item *item) {
    free((char *)item->source.program);
    free(item->request.url);
    free(item->request.body);
    free(item);
}

static void drop(struct outbox *outbox, struct outbox_item **place) {
    static const char text[] = "its oldest profile or metrics were dropped; the server does not "
                               "take them fast enough";
    struct outbox_item *item = *place;
    *place = item->next;
    outbox->dropped++;
    write_event(outbox, &(struct event){"dropped", &item->source, 0, (int64_t)item->request.length,
                                        -1, text});
    if (is_new(outbox, &item->source, text, 0))
        warn(&item->source, text);
    free_item(item);
}

/* Returns the pointer to the first request that is not being sent. */
static struct outbox_item **first_waiting(struct outbox *outbox) {
    return outbox->under_way && outbox->first ? &outbox->first->next : &outbox->first;
}

/* Drops waiting requests, the oldest first, until all requests together have at most BYTES_MOST
 * bytes, and no waiting request is older than outbox->keep_ms. */
static void drop_surplus(struct outbox *outbox, int64_t now_ms) {
    size_t bytes = 0;
    struct outbox_item **oldest = first_waiting(outbox);
    for (const struct outbox_item *item = outbox->first; item; item = item->next)
        bytes += item->request.length;
    while (*oldest && (bytes > BYTES_MOST || now_ms - (*oldest)->added_ms > outbox->keep_ms)) {
        bytes -= (*oldest)->request.length;
        drop(outbox, oldest);
    }
}

void outbox_add(struct outbox *outbox, struct outbox_source source, struct engine_request request) {
    struct outbox_item *item = cli_alloc(1, sizeof *item), **oldest = NULL, **end;
    size_t waiting = 0;
    *item = (struct outbox_item){.source = source, .request = request, .added_ms = clock_now_ms()};
    if (source.program)
        item->source.program = cli_copy(source.program);
    for (end = first_waiting(outbox); *end; end = &(*end)->next) {
        if (!is_same(&(*end)->source, &source))
            continue;
        waiting++;
        if (!oldest)
            oldest = end;
    }
    *end = item;
    /* A request that is being sent counts for the room of its source, but not if the room is 1, as
     * for metrics: the newest metrics always wait, because they replace older ones in the server.
     */
    bool shares = outbox->room > 1 && outbox->under_way && is_same(&outbox->first->source, &source);
    if (oldest && waiting + shares >= outbox->room)
        drop(outbox, oldest);
    drop_surplus(outbox, clock_now_ms());
}

void outbox_drop_waiting(struct outbox *outbox) {
    struct outbox_item **place = first_waiting(outbox);
    while (*place) {
        struct outbox_item *item = *place;
        *place = item->next;
        outbox->dropped++;
        free_item(item);
    }
}

static void remove_first(struct outbox *outbox) {
    struct outbox_item *item = outbox->first;
    outbox->first = item->next;
    free_item(item);
}

void outbox_give_up(struct outbox *outbox, const char *why) {
    size_t count = 0;
    if (outbox->under_way)
        post_abandon();
    outbox->under_way = false;
    for (; outbox->first; count++) {
        outbox->failed++;
        write_event(outbox, &(struct event){"failed", &outbox->first->source, 0,
                                            (int64_t)outbox->first->request.length, -1, why});
        remove_first(outbox);
    }
    if (count > 0)
        cli_warn("%zu request%s not sent; %s", count, count == 1 ? "" : "s", why);
}

/* --- sending --------------------------------------------------------------------------------- */

/* Returns the pause after a failure (outbox.h), or the pause that the server asks for if that is
 * longer. */
static int64_t choose_pause_ms(const struct outbox *outbox, int64_t asked_ms) {
    unsigned doublings = outbox->failures < 8 ? outbox->failures : 8;
    int64_t pause_ms = (int64_t)PAUSE_FIRST_MS << (doublings > 0 ? doublings - 1 : 0);
    uint32_t chance = 0;
    if (pause_ms > PAUSE_MOST_MS)
        pause_ms = PAUSE_MOST_MS;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance)
        chance = (uint32_t)clock() * 2654435761U;
    pause_ms = pause_ms / 2 + (int64_t)chance % (pause_ms / 2 + 1);
    if (asked_ms > SERVER_PAUSE_MOST_MS)
        asked_ms = SERVER_PAUSE_MOST_MS;
    return asked_ms > pause_ms ? asked_ms : pause_ms;
}

/* After a failure: plans another try of the first request, or gives up all requests. */
static void try_later(struct outbox *outbox, const struct post_result *result, int64_t now_ms) {
    struct outbox_item *item = outbox->first;
    outbox->failures++;
    int64_t pause_ms = choose_pause_ms(outbox, result->wait_ms);
    if (outbox->haste == OUTBOX_NOW ||
        (outbox->haste == OUTBOX_LAST && (item->tries >= LAST_TRIES || pause_ms > LAST_PAUSE_MS))) {
        outbox_give_up(outbox, result->text);
        return;
    }
    outbox->resume_ms = now_ms + pause_ms;
    write_event(outbox, &(struct event){"retry", &item->source, result->status,
                                        (int64_t)item->request.length, pause_ms, result->text});
    if (!outbox->down) {
        char *text = cli_format("%s; trying again", result->text);
        warn(&item->source, text);
        free(text);
    }
    outbox->down = true;
}

static void take_answer(struct outbox *outbox, const struct post_result *result, int64_t now_ms) {
    struct outbox_item *item = outbox->first;
    outbox->under_way = false;
    if (result->outcome == POST_AGAIN) {
        try_later(outbox, result, now_ms);
        return;
    }
    outbox->failures = 0;
    outbox->down = false;
    outbox->resume_ms = 0;
    if (result->outcome == POST_SENT) {
        outbox->sent++;
        write_event(outbox, &(struct event){"sent", &item->source, result->status,
                                            (int64_t)item->request.length, -1, NULL});
    } else
        count_failure(outbox, &item->source, result->status, "", result->text);
    remove_first(outbox);
}

void outbox_run(struct outbox *outbox, int64_t now_ms) {
    struct post_result result;
    if (outbox->under_way && post_end(&result)) {
        cli_clean(result.text);
        take_answer(outbox, &result, now_ms);
    }
    drop_surplus(outbox, now_ms);
    struct outbox_item *item = outbox->first;
    if (!item || outbox->under_way || (now_ms < outbox->resume_ms && outbox->haste != OUTBOX_NOW))
        return;
    const struct engine_request *request = &item->request;
    struct post post = {.method = request->method,
                        .url = request->url,
                        .type = request->type,
                        .token = outbox->token,
                        .tls = &outbox->tls,
                        .encoding = request->encoding,
                        .otlp = request->otlp,
                        .body = request->body,
                        .length = request->length};
    if (!post_begin(&post)) {
        outbox_give_up(outbox, "out of memory");
        return;
    }
    outbox->retried += item->tries > 0;
    item->tries++;
    outbox->under_way = true;
}

int64_t outbox_rest_ms(const struct outbox *outbox, int64_t now_ms) {
    if (!outbox->first || outbox->under_way)
        return -1;
    return outbox->haste == OUTBOX_NOW || outbox->resume_ms <= now_ms ? 0
                                                                      : outbox->resume_ms - now_ms;
}
