/* SPDX-License-Identifier: MIT */
/* watched.c - keeps the figures and moments that live pages show of processes, and sends news to
 * the clients that listen. */
#include "serve/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text_file.h"
#include "serve/child.h"

#define WATCHED_LINGER_MS 60000 /* a process is looked at for this long after its last client */
#define WATCHED_KEEP_MS 3600000 /* its figures are kept for this long after the last request */
#define LOOKS_PER_MOMENT 10     /* looks of the pulse between two snapshots */
#define MOMENT_SHARE 5          /* snapshots take at most 1/5 of the time */
#define MOMENT_MS 60000         /* longest time for a snapshot; then the child is killed */
#define PULSE_AGAIN_MS 2000     /* least time between two starts of a process's pulse */

/* --- which processes ------------------------------------------------------------------------- */

static void stop_looking(struct watched *watched) {
    if (watched->fd >= 0)
        close(watched->fd);
    if (watched->pulse > 0)
        child_end(watched->pulse);
    watched->fd = -1;
    watched->pulse = 0;
    watched->incoming_bytes = 0;
    if (watched->job.key)
        job_free(&watched->job);
}

static void drop_watched(struct watching *watching, size_t at) {
    struct watched *watched = watching->list[at];
    stop_looking(watched);
    moments_free(&watched->moments);
    free(watched->program);
    free(watched->how);
    free(watched->no_moment);
    free(watched);
    watching->list[at] = watching->list[--watching->count];
}

/* Returns true if a client listens, or the last request was less than WATCHED_LINGER_MS ago. */
static bool is_looked_at(const struct watching *watching, const struct watched *watched) {
    return listeners_of(&watching->listeners, watched) > 0 ||
           clock_now_ms() - watched->wanted_ms < WATCHED_LINGER_MS;
}

/* Among the processes without listeners, drops the one with the oldest request. Returns false if
 * every process has listeners. */
static bool make_room(struct watching *watching) {
    size_t oldest = watching->count;
    for (size_t i = 0; i < watching->count; i++)
        if (listeners_of(&watching->listeners, watching->list[i]) == 0 &&
            (oldest == watching->count ||
             watching->list[i]->wanted_ms < watching->list[oldest]->wanted_ms))
            oldest = i;
    if (oldest == watching->count)
        return false;
    drop_watched(watching, oldest);
    return true;
}

/* Takes the name and the number of the program, which change when the process executes another. */
static void take_program(struct watched *watched, const struct fleet_process *process) {
    free(watched->program);
    watched->program = cli_copy(process->program);
    watched->number = process->number;
}

struct watched *watching_begin(struct watching *watching, const struct fleet_process *process) {
    for (size_t i = 0; i < watching->count; i++) {
        struct watched *watched = watching->list[i];
        if (!watched->ended && watched->facts.pid == process->facts.pid &&
            watched->facts.start_ticks == process->facts.start_ticks) {
            take_program(watched, process);
            watched->wanted_ms = clock_now_ms();
            return watched;
        }
    }
    if (watching->count == WATCHED_MAX && !make_room(watching))
        return NULL;
    struct watched *watched = cli_alloc(1, sizeof *watched);
    watched->facts = process->facts;
    take_program(watched, process);
    watched->fd = -1;
    watched->wanted_ms = clock_now_ms();
    watching->list[watching->count++] = watched;
    return watched;
}

struct watched *watching_find(struct watching *watching, pid_t pid, const char *program) {
    struct watched *found = NULL;
    for (size_t i = 0; i < watching->count; i++) {
        struct watched *watched = watching->list[i];
        bool meant = program ? strcmp(watched->program, program) == 0 : watched->facts.pid == pid;
        if (meant && (!found || watched->facts.start_ticks > found->facts.start_ticks))
            found = watched;
    }
    if (found)
        found->wanted_ms = clock_now_ms();
    return found;
}

/* --- the pulse ------------------------------------------------------------------------------- */

static void start_pulse(const struct watching *watching, struct watched *watched) {
    int fds[2];
    watched->pulse_ms = clock_now_ms();
    if (pipe2(fds, O_CLOEXEC) != 0)
        return;
    fflush(NULL);
    pid_t child = fork();
    size_t count = watched->sample_count;
    if (child == 0)
        pulse_run(&watched->facts, child_begin(fds[1]), watching->every_ms,
                  count > 0 ? watched->samples[(count - 1) % WATCHED_SAMPLES].ms : 0);
    close(fds[1]);
    if (child < 0) {
        close(fds[0]);
        return;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    watched->pulse = child;
    watched->fd = fds[0];
}

/* Takes a record of the pulse, and sends its JSON text to the listeners as the data of an event. */
static void take_record(struct watching *watching, struct watched *watched,
                        const struct pulse_record *record, const char *text) {
    static const char *const events[] = {[PULSE_FIGURES] = "figures",
                                         [PULSE_SILENT] = "silent",
                                         [PULSE_ENDED] = "ended",
                                         [PULSE_PAST] = "past"};
    char *data = cli_format("%.*s", (int)record->length, text);
    bool has_figures = record->state == PULSE_FIGURES || record->state == PULSE_PAST;
    if (record->state != PULSE_PAST) {
        free(watched->how);
        watched->how = has_figures ? NULL : cli_copy(data);
    }
    if (has_figures)
        watched->samples[watched->sample_count++ % WATCHED_SAMPLES] = *record;
    listeners_tell(&watching->listeners, watched, events[record->state], data);
    free(data);
    if (record->state == PULSE_ENDED) {
        watched->ended = true;
        listeners_end(&watching->listeners, watched);
    }
}

static void take_records(struct watching *watching, struct watched *watched) {
    struct pulse_record record;
    while (watched->incoming_bytes >= sizeof record) {
        memcpy(&record, watched->incoming, sizeof record);
        if (record.length > PULSE_TEXT_MAX || record.state >= PULSE_STATES) {
            stop_looking(
                watched); /* its child process sends damaged records: a new one is started */
            return;
        }
        size_t whole = sizeof record + record.length;
        if (watched->incoming_bytes < whole)
            return;
        take_record(watching, watched, &record, watched->incoming + sizeof record);
        watched->incoming_bytes -= whole;
        memmove(watched->incoming, watched->incoming + whole, watched->incoming_bytes);
    }
}

static void read_pulse(struct watching *watching, struct watched *watched) {
    while (watched->fd >= 0) {
        ssize_t got = read(watched->fd, watched->incoming + watched->incoming_bytes,
                           sizeof watched->incoming - watched->incoming_bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) { /* the pulse has ended */
            stop_looking(watched);
            return;
        }
        watched->incoming_bytes += (size_t)got;
        take_records(watching, watched);
    }
}

/* --- moments --------------------------------------------------------------------------------- */

static void begin_moment(struct watched *watched) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)watched->facts.pid);
    const char *words[] = {"dump", "--threads", "--no-symbols", "-o", "-", pid, NULL};
    const struct moment *last = moments_find(&watched->moments, 0);
    watched->job_wall_ms = pulse_wall_ms(last ? last->ms : 0);
    watched->job_began_ms = clock_now_ms();
    if (!job_start(&watched->job, "moment", words, watched->job_began_ms + MOMENT_MS))
        watched->next_moment_ms = watched->job_began_ms + PULSE_AGAIN_MS;
}

/* Returns the process that loses a moment when all moments together have too many bytes: of the
 * processes with more than two moments, the one whose moments have most bytes. If no process has
 * more than two: of the processes with two moments, the one with the oldest request. NULL: no
 * process has more than one moment. */
static struct watched *choose_loser(const struct watching *watching) {
    struct watched *largest = NULL, *oldest = NULL;
    for (size_t i = 0; i < watching->count; i++) {
        struct watched *watched = watching->list[i];
        if (watched->moments.count > 2 &&
            (!largest || watched->moments.bytes > largest->moments.bytes))
            largest = watched;
        if (watched->moments.count == 2 && (!oldest || watched->wanted_ms < oldest->wanted_ms))
            oldest = watched;
    }
    return largest ? largest : oldest;
}

/* Drops moments until the limits of their number and bytes are met, and tells the listeners which
 * moments were dropped. */
static void thin(struct watching *watching, struct watched *fresh) {
    for (;;) {
        struct watched *from = choose_loser(watching);
        size_t bytes = 0;
        for (size_t i = 0; i < watching->count; i++)
            bytes += watching->list[i]->moments.bytes;
        if (fresh->moments.count > MOMENTS_MAX)
            from = fresh;
        else if (bytes <= MOMENTS_BYTES || !from)
            return;
        char *data = cli_format("{\"id\":%llu}", (unsigned long long)moments_thin(&from->moments));
        listeners_tell(&watching->listeners, from, "gone", data);
        free(data);
    }
}

/* Returns why the snapshot of an ended job cannot be kept; NULL: it can. The caller frees it. */
static char *why_not_kept(struct job *job, const struct process_facts *facts) {
    struct process_facts now;
    if (process_read_facts(facts->pid, &now) && now.start_ticks != facts->start_ticks)
        return cli_copy("the process has ended, and its pid was used again");
    if (job->late)
        return cli_copy("a snapshot took too long");
    if (job->status != CLI_DONE && !job->large) {
        const char *why = job_find_reason(job);
        return cli_format("a snapshot failed; %s", why ? why : "memctx dump ended early");
    }
    return job->large || job->out.length > MOMENTS_BYTES / 2
               ? cli_copy("a snapshot has more bytes than the server keeps; use memctx dump -o")
               : NULL;
}

static void keep_moment(struct watching *watching, struct watched *watched) {
    struct job *job = &watched->job;
    free(watched->no_moment);
    watched->no_moment = why_not_kept(job, &watched->facts);
    if (watched->no_moment)
        return;
    moments_add(&watched->moments, ++watching->last_moment, watched->job_wall_ms, job->out.bytes,
                job->out.length);
    job->out.bytes = NULL;
    const struct moment *moment = moments_find(&watched->moments, 0);
    char *data = cli_format("{\"id\":%llu,\"ms\":%lld,\"bytes\":%zu}",
                            (unsigned long long)moment->id, (long long)moment->ms, moment->length);
    listeners_tell(&watching->listeners, watched, "moment", data);
    free(data);
    thin(watching, watched);
}

static void run_moment(struct watching *watching, struct watched *watched) {
    int64_t now_ms = clock_now_ms();
    job_run(&watched->job, now_ms);
    if (!watched->job.done)
        return;
    int64_t took_ms = now_ms - watched->job_began_ms;
    int64_t pause_ms = LOOKS_PER_MOMENT * watching->every_ms;
    if (pause_ms < MOMENT_SHARE * took_ms)
        pause_ms = MOMENT_SHARE * took_ms;
    watched->next_moment_ms = watched->job_began_ms + pause_ms;
    keep_moment(watching, watched);
    job_free(&watched->job);
}

/* --- all of them ----------------------------------------------------------------------------- */

size_t watching_poll(const struct watching *watching, struct pollfd *entries) {
    size_t count = 0;
    for (size_t i = 0; i < watching->count; i++) {
        const struct watched *watched = watching->list[i];
        if (watched->fd >= 0)
            entries[count++] = (struct pollfd){.fd = watched->fd, .events = POLLIN};
        count += job_poll(&watched->job, entries + count);
    }
    return count;
}

static void run_watched(struct watching *watching, struct watched *watched) {
    int64_t now_ms = clock_now_ms();
    read_pulse(watching, watched);
    if (watched->job.key)
        run_moment(watching, watched);
    if (!is_looked_at(watching, watched) || watched->ended) {
        stop_looking(watched);
        return;
    }
    if (watched->pulse == 0 &&
        (watched->pulse_ms == 0 || now_ms - watched->pulse_ms >= PULSE_AGAIN_MS))
        start_pulse(watching, watched);
    if (!watched->job.key && now_ms >= watched->next_moment_ms)
        begin_moment(watched);
}

void watching_run(struct watching *watching) {
    for (size_t i = 0; i < watching->count; i++)
        run_watched(watching, watching->list[i]);
    for (size_t i = watching->count; i > 0; i--) {
        const struct watched *watched = watching->list[i - 1];
        if (listeners_of(&watching->listeners, watched) == 0 &&
            clock_now_ms() - watched->wanted_ms > WATCHED_KEEP_MS)
            drop_watched(watching, i - 1);
    }
}

int watching_timeout_ms(const struct watching *watching, int most) {
    int64_t now_ms = clock_now_ms();
    for (size_t i = 0; i < watching->count; i++) {
        const struct watched *watched = watching->list[i];
        if (watched->ended || !is_looked_at(watching, watched))
            continue;
        int64_t left_ms = watched->pulse == 0 ? watched->pulse_ms + PULSE_AGAIN_MS - now_ms : most;
        if (watched->pulse == 0 && watched->pulse_ms == 0)
            left_ms = 0;
        if (!watched->job.key && watched->next_moment_ms - now_ms < left_ms)
            left_ms = watched->next_moment_ms - now_ms;
        most = left_ms < 0 ? 0 : left_ms < most ? (int)left_ms : most;
    }
    return most;
}

static void write_samples(struct json_writer *json, const struct watched *watched) {
    size_t count = watched->sample_count;
    json_put_open(json, "samples", '[');
    for (size_t i = count > WATCHED_SAMPLES ? count - WATCHED_SAMPLES : 0; i < count; i++) {
        const struct pulse_record *sample = &watched->samples[i % WATCHED_SAMPLES];
        const int64_t figures[] = {sample->ms,          sample->rss_bytes, sample->requested_bytes,
                                   sample->live_chunks, sample->allocs,    sample->contexts};
        json_put_open(json, NULL, '[');
        for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++)
            json_put_integer(json, NULL, figures[k]);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
}

char *watching_write(const struct watching *watching, const struct watched *watched,
                     size_t *length) {
    char *text = NULL;
    FILE *file = text_file_open(&text, length);
    struct json_writer json = {.file = file};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-live/1");
    json_put_text(&json, "program", watched->program);
    json_put_integer(&json, "process", watched->number);
    json_put_integer(&json, "pid", watched->facts.pid);
    json_put_integer(&json, "every_ms", watching->every_ms);
    json_put_boolean(&json, "ended", watched->ended);
    json_put_text(&json, "how", watched->how);
    json_put_integer(&json, "listeners", (int64_t)listeners_of(&watching->listeners, watched));
    json_put_integer(&json, "dropped", (int64_t)watching->listeners.dropped);
    write_samples(&json, watched);
    json_put_open(&json, "moments", '[');
    for (size_t i = 0; i < watched->moments.count; i++) {
        const struct moment *moment = &watched->moments.list[i];
        json_put_open(&json, NULL, '{');
        json_put_integer(&json, "id", (int64_t)moment->id);
        json_put_integer(&json, "ms", moment->ms);
        json_put_integer(&json, "bytes", (int64_t)moment->length);
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    fclose(file);
    return text;
}

void watching_end(struct watching *watching) {
    while (watching->count > 0)
        drop_watched(watching, watching->count - 1);
}
