/* SPDX-License-Identifier: MIT */
/* watch.c - looks at one process again and again: connects, decides what a look reads, and explains
 * why there was no answer. */
#include "live/watch_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "live/ending.h"
#include "target/recording.h"

/* pause between two attempts to connect to a process that is read from outside */
#define SOCKET_PAUSE_S 5

bool watch_is_due(struct watch_due *due, int share) {
    due->begun_s = clock_now_s();
    return due->begun_s >= due->ended_s + share * due->took_s;
}

void watch_was_done(struct watch_due *due) {
    due->ended_s = clock_now_s();
    due->took_s = due->ended_s - due->begun_s;
}

void watch_begin(struct watch *watch, const struct process_facts *facts) {
    *watch =
        (struct watch){.facts = *facts, .client = {.fd = -1}, .interval_s = 1, .recording_fd = -1};
    watch->pidfd = ending_watch(facts->pid);
    watch->program = process_program(facts);
    watch->totals = (struct watch_totals){.growth = WIRE_UNKNOWN,
                                          .alloc_rate = WIRE_UNKNOWN,
                                          .live_bytes = WIRE_UNKNOWN,
                                          .live_chunks = WIRE_UNKNOWN,
                                          .rss_bytes = WIRE_UNKNOWN,
                                          .contexts = WIRE_UNKNOWN};
}

void watch_take(struct watch *watch, const struct client *client) {
    watch->client = *client;
    watch->client.facts = &watch->facts;
    watch->client.hurry = true;
    watch->outside = true;
    watch->asked_s = clock_now_s();
}

/* Loads all contexts again if the model is stale, or the new ones if it lacks some; each only if
 * that is due. */
static bool keep_up(struct watch *watch) {
    if (watch->stale && watch_is_due(&watch->reload_due, WATCH_SHARE_CONTEXTS)) {
        bool good = watch_reload(watch);
        watch_was_done(&watch->reload_due);
        return good;
    }
    if (watch->behind && !watch->stale &&
        watch_is_due(&watch->contexts_due, WATCH_SHARE_CONTEXTS)) {
        bool good = watch_append(watch);
        watch_was_done(&watch->contexts_due);
        return good;
    }
    return true;
}

/* Keeps a descriptor of the recording in place of an earlier one. -1: closes the earlier one. */
static void keep_recording(struct watch *watch, int fd) {
    if (watch->recording_fd >= 0)
        close(watch->recording_fd);
    watch->recording_fd = fd;
}

/* True if the process has executed another program since the last look. Its stack then begins at
 * another address, which /proc shows only to those who may trace the process; and its uptime is
 * less than before, unless the new program has run for longer than the old one had. */
static bool is_other_program(const struct watch *watch, const struct wire_dump *head) {
    uint64_t before = watch->facts.stack_start, now = watch->stack_start;
    return (double)head->uptime_ns / 1e9 < watch->totals.uptime_s ||
           (before != 0 && now != 0 && now != before);
}

/* Forgets the tree of contexts if the process has executed another program. */
static void forget_other_program(struct watch *watch, const struct wire_dump *head) {
    struct process_facts now;
    if (!is_other_program(watch, head))
        return;
    watch_drop_model(watch);
    rates_clear(&watch->rates);
    watch->history.count = 0;
    watch->totals.growth = watch->totals.alloc_rate = WIRE_UNKNOWN;
    if (process_read_facts(watch->facts.pid, &now)) {
        watch->facts = now;
        free(watch->program);
        watch->program = process_program(&now);
    }
    watch->contexts_due = watch->pages_due = watch->names_due = (struct watch_due){0};
    /* as after a reload of the contexts: figures of threads are not compared across this time */
    watch->reload_due = (struct watch_due){.ended_s = clock_now_s()};
}

/* Notes the path of the program's file, so that its functions are shown with the program's name. */
static void set_exe(struct watch *watch, const struct wire_dump *head) {
    free(watch->model.exe);
    watch->model.exe = cli_clean(cli_format("%.*s", (int)sizeof head->exe, head->exe));
}

/* Reads the figures of contexts and the totals. If one look read all contexts, the totals are the
 * sums of their figures. */
static bool ask_all_figures(struct watch *watch, struct wire_dump *head) {
    bool whole = watch->from == 0;
    if (!watch_ask_figures(watch))
        return false;
    whole = whole && watch->from == 0;
    bool outside = watch->client.outside != NULL; /* then `head` has the totals of these figures */
    if (!whole && !outside && !watch_ask_head(watch, WIRE_DUMP_SUMS, head))
        return false;
    watch_set_totals(watch, head, whole && !outside ? &watch->loader.survey : NULL);
    return true;
}

static bool look(struct watch *watch) {
    struct wire_dump head;
    bool good = true;
    if (!watch_ask_head(watch, WIRE_DUMP_BEGIN, &head))
        return false;
    forget_other_program(watch, &head);
    bool first = !watch->loaded;
    if (first && !watch_load_all(watch))
        return false;
    if (first) {
        set_exe(watch, &head);
        watch_take_new(watch);
        keep_recording(watch, recording_open(&watch->facts));
    }
    rates_begin(&watch->rates);
    if (!ask_all_figures(watch, &head))
        return false;
    watch->behind |= head.contexts > watch->model.contexts[watch->model.context_count - 1].id + 1;
    good = keep_up(watch);
    if (good && !watch->stale && watch_is_due(&watch->pages_due, DUE_SHARE)) {
        good = watch_ask_pages(watch);
        watch_was_done(&watch->pages_due);
    }
    if (!watch->behind && !watch->stale)
        rates_end(&watch->rates, watch->read_s);
    if (!good || !watch_ask_head(watch, WIRE_DUMP_END, &head))
        return false;
    if (!watch->no_names && watch->loaded)
        watch_look_up_names(watch);
    return true;
}

/* Sets watch->state and watch->how: why the process did not answer. Returns false. */
static bool explain(struct watch *watch) {
    struct process_facts now;
    if (ending_tell(&watch->facts, watch->program, watch->pidfd, watch->how, sizeof watch->how)) {
        watch->state = WATCH_ENDED;
        client_close(&watch->client);
    } else {
        bool stopped = process_read_facts(watch->facts.pid, &now) && process_is_stopped(&now);
        char *resume = stopped ? process_tell_resume(&now) : NULL;
        watch->state = WATCH_SILENT;
        if (resume)
            snprintf(watch->how, sizeof watch->how, "pid %d is stopped; %s", (int)watch->facts.pid,
                     resume);
        else
            snprintf(watch->how, sizeof watch->how, "%s", watch->failure.text);
        free(resume);
    }
    return false;
}

/* Returns true if /proc shows that the process cannot answer: it has ended or is stopped. */
static bool cannot_answer(struct watch *watch) {
    struct process_facts now;
    bool unknown, there = process_read_known(watch->facts.pid, &now, &unknown);
    watch->stack_start = there ? now.stack_start : 0;
    return there ? now.start_ticks != watch->facts.start_ticks || strchr("TtZX", now.state)
                 : !unknown;
}

/* Connects to the process. If it does not answer, opens its memory, if the user named it. */
static bool open_client(struct watch *watch) {
    watch->asked_s = clock_now_s();
    if (client_connect(&watch->client, &watch->facts, true, &watch->failure))
        return true;
    struct cli_failure why = watch->failure;
    return watch->outside &&
           client_open_outside(&watch->client, &watch->facts, why.text, &watch->failure);
}

/* A process that is read from outside may have a socket by now: it is young, or was busy. */
static void try_socket(struct watch *watch) {
    struct client client;
    struct cli_failure why;
    if (!watch->client.outside || clock_now_s() - watch->asked_s < SOCKET_PAUSE_S)
        return;
    watch->asked_s = clock_now_s();
    if (client_connect(&client, &watch->facts, true, &why)) {
        client_close(&watch->client);
        watch->client = client;
    }
}

/* Asks over the open connection, or else over a new one. */
static bool ask_once(struct watch *watch, bool (*what)(struct watch *)) {
    return (watch_is_open(watch) || open_client(watch)) && what(watch);
}

/* If the process has closed the connection of the last look, asks once more over a new one: a
 * process closes a connection that was idle for a minute, or that another client needs. */
static bool run(struct watch *watch, bool (*what)(struct watch *)) {
    if (watch->state == WATCH_ENDED)
        return false;
    if (cannot_answer(watch))
        return explain(watch);
    try_socket(watch);
    bool fresh = !watch_is_open(watch);
    watch->loader.failure = &watch->failure;
    if (!ask_once(watch, what) &&
        (fresh || !watch->client.closed || cannot_answer(watch) || !ask_once(watch, what)))
        return explain(watch);
    watch->state = WATCH_RUNS;
    return true;
}

int64_t watch_not_loaded(const struct watch *watch) {
    if (!watch->loaded || (!watch->behind && !watch->stale))
        return 0;
    int64_t known = 0;
    for (size_t i = 0; i < watch->rates.count; i++)
        known = model_add(known, rates_own(&watch->rates, i)->live_bytes);
    int64_t rest = rates_less(watch->totals.live_bytes, known);
    return rest == WIRE_UNKNOWN ? 0 : rest;
}

bool watch_look(struct watch *watch) {
    return run(watch, look);
}

static bool look_at_totals(struct watch *watch) {
    struct wire_dump head;
    if (!watch_ask_head(watch, WIRE_DUMP_SUMS, &head))
        return false;
    forget_other_program(watch, &head);
    watch_set_totals(watch, &head, NULL);
    return true;
}

bool watch_look_at_totals(struct watch *watch) {
    return run(watch, look_at_totals);
}

/* Asks for the path of the process's recording, in the process's own mount namespace. */
static bool ask_recording(struct watch *watch) {
    static const char name[] = "\nrecord_file\t/";
    struct client_answer answer;
    if (!watch_ask(watch, WIRE_SELF, NULL, 0, &answer))
        return false;
    char *found = strstr(answer.body, name);
    if (found) {
        found += sizeof name - 2;
        watch->recording = cli_format("%.*s", (int)strcspn(found, "\t\n"), found);
    }
    free(answer.body);
    return true;
}

int watch_open_recording(struct watch *watch) {
    int fd = recording_open(&watch->facts);
    if (fd < 0 && !watch->client.outside && run(watch, ask_recording) && watch->recording)
        fd = recording_open_path(&watch->facts, watch->recording);
    free(watch->recording);
    watch->recording = NULL;
    if (fd >= 0)
        keep_recording(watch, fd);
    else if (watch->state != WATCH_ENDED)
        return -1;
    return watch->recording_fd < 0 ? -1 : fcntl(watch->recording_fd, F_DUPFD_CLOEXEC, 0);
}

void watch_mark(struct watch *watch) {
    rates_mark(&watch->rates);
    watch->base = watch->totals;
}

void watch_end(struct watch *watch) {
    client_close(&watch->client);
    keep_recording(watch, -1);
    if (watch->pidfd >= 0)
        close(watch->pidfd);
    if (watch->replay) /* frames share the names that the recording has */
        watch_free_model(&watch->model);
    else
        watch_drop_model(watch);
    rates_clear(&watch->rates);
    free(watch->new.list);
    free(watch->asked);
    free(watch->program);
}
