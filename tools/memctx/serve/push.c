/* SPDX-License-Identifier: MIT */
/* push.c - the rounds of `memctx push`: makes profiles or metrics, and gives them to the outbox. */
#include "serve/push.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/job.h"
#include "serve/outbox.h"
#include "serve/post.h"

/* a process that takes longer to answer a scrape is reported as down */
#define SCRAPE_MS 2000
#define PROFILE_MS 60000 /* longest time for making a profile */
/* A profile that takes longer than this does not keep the next one waiting: the process may hang,
 * and it takes some seconds to find that out. */
#define OVERLAP_MS 1000
#define AT_ONCE_MOST 8 /* greatest number of profiles that are made at the same time */
/* greatest number of bytes of a profile, uncompressed: the default limit of Pyroscope and gRPC */
#define PROFILE_MOST_BYTES (4U << 20)
#define PROFILES_MOST 8 /* greatest number of profiles of a process that wait for the server */
#define KEEP_MS 600000  /* a waiting profile that is younger is not dropped for its age */
/* after a signal, the waiting requests may still be sent for this long */
#define END_MS 5000
#define WAIT_MOST_MS 60000

/* The present step of a round. */
enum round { ROUND_NONE, ROUND_PROFILES, ROUND_METRICS };

/* A profile that is made. */
struct making {
    struct job job;
    size_t process;  /* index in the fleet */
    int64_t samples; /* greatest number of samples */
};

struct push {
    const struct push_options *options;
    struct fleet fleet;
    struct outbox outbox;
    enum round round;
    int64_t next_ms; /* when the next round begins */
    size_t at;       /* index in the fleet of the process that is profiled next */
    struct making making[AT_ONCE_MOST];
    int64_t begun_ms; /* when the last profile was begun */
    int64_t asked_ms;
    bool ending;        /* no further round begins */
    bool has_group;     /* the Pushgateway has metrics of this host */
    int64_t give_up_ms; /* when the requests that still wait are given up; 0: never */
};

static volatile sig_atomic_t signals;
/* a pipe: each signal makes its first end readable, so that no signal is missed */
static int wake_fds[2];
static pid_t own_pid;

static void note_signal(int signal) {
    int error = errno;
    (void)signal;
    if (getpid() != own_pid) /* in a child process this descriptor number is another file */
        return;
    signals++;
    if (write(wake_fds[1], "", 1) < 0) {
        /* a full pipe is readable, so poll returns anyway */
    }
    errno = error;
}

/* --- profiles -------------------------------------------------------------------------------- */

/* Returns true if a profile is made in this place. */
static bool is_busy(const struct making *making) {
    return making->job.key;
}

/* Starts to make the profile of making->process. False: there is no memory or process for it, which
 * the outbox has counted. */
static bool start_profile(struct push *push, struct making *making) {
    const struct fleet_process *process = push->fleet.processes[making->process];
    char pid[16], samples[24], *format[ENGINE_WORDS_MAX];
    snprintf(pid, sizeof pid, "%d", (int)process->facts.pid);
    snprintf(samples, sizeof samples, "%lld", (long long)making->samples);
    const char *words[ENGINE_WORDS_MAX + 4] = {"export", pid, "--limit-samples", samples};
    size_t count =
        engine_choose_format(&push->options->server, process->program, process->number, format);
    memcpy(words + 4, format, (count + 1) * sizeof *words);
    push->begun_ms = clock_now_ms();
    bool started = job_start(&making->job, "profile", words, push->begun_ms + PROFILE_MS);
    if (!started)
        outbox_fail(&push->outbox, (struct outbox_source){process->program, process->number},
                    strerror(errno));
    engine_free_words(format);
    return started;
}

/* Returns the uncompressed length of a gzip file, which stands in its last four bytes. */
static size_t plain_length(const struct job_output *out) {
    const unsigned char *end = (const unsigned char *)out->bytes + out->length;
    return out->length < 4
               ? 0
               : end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
}

static const char *find_failure(struct job *job) {
    const char *why = job_find_reason(job);
    return job->late ? "the profile took too long" : why ? why : "the profile could not be made";
}

/* Returns true if the process has ended since the round began. Another process may have its pid by
 * now, and the profile may be of that process. A process that ends has no memory before its state
 * says so. */
static bool has_ended(const struct fleet_process *process) {
    struct process_facts now;
    bool unknown, there = process_read_known(process->facts.pid, &now, &unknown);
    return there ? now.start_ticks != process->facts.start_ticks || now.state == 'Z' ||
                       now.state == 'X' || process_find_library(&now) == PROCESS_NO_MEMORY
                 : !unknown;
}

static void finish_profile(struct push *push, struct making *making) {
    const struct push_options *options = push->options;
    const struct fleet_process *process = push->fleet.processes[making->process];
    struct outbox_source source = {process->program, process->number};
    struct job *job = &making->job;
    if (has_ended(process)) {
        /* the profile may be of another process; that the process ended is no failure */
    } else if (job->status != CLI_DONE)
        outbox_fail(&push->outbox, source, find_failure(job));
    else if (plain_length(&job->out) > PROFILE_MOST_BYTES && making->samples > 1) {
        /* Try again with half the samples. memctx export sums the samples that it leaves out, so no
         * byte is lost. */
        making->samples /= 2;
        job_free(job);
        start_profile(push, making);
        return;
    } else {
        outbox_add(&push->outbox, source,
                   engine_send_profile(&options->server, process->program, process->number,
                                       job->out.bytes, job->out.length, (int64_t)time(NULL),
                                       options->every_ms / 1000));
        job->out.bytes = NULL;
    }
    job_free(job);
}

/* Returns a place in which the next profile may be begun now. NULL: there is no next profile, or it
 * has to wait. *until_ms: when it need not wait any more; this is not set if the end of another
 * profile is waited for. */
static struct making *find_place(struct push *push, int64_t *until_ms) {
    struct making *place = NULL;
    bool busy = false;
    for (size_t i = 0; i < AT_ONCE_MOST; i++) {
        busy = busy || is_busy(&push->making[i]);
        place = is_busy(&push->making[i]) ? place : &push->making[i];
    }
    if (push->at == push->fleet.count || !place)
        return NULL;
    if (busy && clock_now_ms() - push->begun_ms < OVERLAP_MS) {
        *until_ms = push->begun_ms + OVERLAP_MS;
        return NULL;
    }
    return place;
}

/* Begins and finishes profiles. Ends the round after the last one. */
static void run_profiles(struct push *push) {
    struct making *place;
    int64_t until_ms;
    size_t busy = 0;
    for (size_t i = 0; i < AT_ONCE_MOST; i++)
        if (is_busy(&push->making[i])) {
            job_run(&push->making[i].job, clock_now_ms());
            if (push->making[i].job.done)
                finish_profile(push, &push->making[i]);
        }
    while ((place = find_place(push, &until_ms))) {
        place->process = push->at++;
        place->samples = push->options->limit_samples;
        start_profile(push, place);
    }
    for (size_t i = 0; i < AT_ONCE_MOST; i++)
        busy += is_busy(&push->making[i]);
    if (busy == 0)
        push->round = ROUND_NONE;
}

/* Adds what the profiles wait for to a poll list, and moves *until_ms forward to the moment when
 * run_profiles has work without it. Returns the number of entries added. */
static size_t poll_profiles(struct push *push, struct pollfd *entries, int64_t *until_ms) {
    size_t count = 0;
    if (find_place(push, until_ms))
        *until_ms = 0;
    for (size_t i = 0; i < AT_ONCE_MOST; i++) {
        const struct job *job = &push->making[i].job;
        if (!is_busy(&push->making[i]))
            continue;
        count += job_poll(job, entries + count);
        if (job->deadline_ms + 1 < *until_ms)
            *until_ms = job->deadline_ms + 1;
    }
    return count;
}

/* --- metrics --------------------------------------------------------------------------------- */

static void run_metrics(struct push *push) {
    size_t length;
    if (fleet_waits(&push->fleet, push->asked_ms) && clock_now_ms() - push->asked_ms < SCRAPE_MS)
        return;
    char *text = fleet_write(&push->fleet, EXPOSITION_PROMETHEUS, &length);
    outbox_add(&push->outbox, (struct outbox_source){NULL, 0},
               engine_send_metrics(&push->options->server, text, length));
    push->has_group = true;
    push->round = ROUND_NONE;
}

/* --- rounds ---------------------------------------------------------------------------------- */

/* Returns true if only pids were named, and all of these processes have ended. */
static bool all_ended(const struct push *push) {
    const struct fleet_wanted *wanted = &push->options->wanted;
    int64_t pid;
    for (size_t i = 0; i < wanted->word_count; i++)
        if (!cli_is_number(wanted->words[i], &pid))
            return false;
    return wanted->word_count > 0 && push->fleet.count == 0;
}

/* Begins the end: no new round begins. Removes the metrics of this host from the Pushgateway, which
 * would keep them for ever; with --once they stay. */
static void begin_end(struct push *push, enum outbox_haste haste) {
    if (push->outbox.haste < haste)
        push->outbox.haste = haste;
    if (push->ending)
        return;
    push->ending = true;
    if (push->has_group && !push->options->once) {
        outbox_drop_waiting(&push->outbox);
        outbox_add(&push->outbox, (struct outbox_source){NULL, 0},
                   engine_send_metrics(&push->options->server, NULL, 0));
    }
}

static void begin_round(struct push *push) {
    push->next_ms = clock_now_ms() + push->options->every_ms;
    fleet_refresh(&push->fleet);
    if (all_ended(push)) {
        begin_end(push, OUTBOX_LAST);
        return;
    }
    push->at = 0;
    if (push->options->server.engine == ENGINE_PUSHGATEWAY) {
        push->round = ROUND_METRICS;
        /* after the search, which takes long on a machine with thousands of processes */
        push->asked_ms = clock_now_ms();
        fleet_ask(&push->fleet, push->asked_ms);
    } else {
        push->round = ROUND_PROFILES;
    }
}

static void run_round(struct push *push) {
    if (push->round == ROUND_NONE && !push->ending && clock_now_ms() >= push->next_ms)
        begin_round(push);
    if (push->round == ROUND_METRICS)
        run_metrics(push);
    if (push->round == ROUND_PROFILES)
        run_profiles(push);
    if (push->round == ROUND_NONE && push->options->once && !push->ending)
        begin_end(push, OUTBOX_LAST);
}

/* After a signal: ends the round that is under way. Only the requests that wait already are sent.
 */
static void take_signal(struct push *push) {
    if (push->give_up_ms > 0)
        return;
    push->give_up_ms = clock_now_ms() + END_MS;
    for (size_t i = 0; i < AT_ONCE_MOST; i++)
        if (is_busy(&push->making[i]))
            job_free(&push->making[i].job);
    push->round = ROUND_NONE;
    begin_end(push, OUTBOX_NOW);
}

/* Waits until the server, a process, a child or a signal needs attention, or a pause or deadline
 * ends. */
static void wait_for_work(struct push *push) {
    struct pollfd entries[FLEET_MAX + AT_ONCE_MOST * JOB_FDS + 1];
    int64_t now = clock_now_ms(), until = now + WAIT_MOST_MS;
    int64_t rest_ms = outbox_rest_ms(&push->outbox, now);
    /* Polls the tellers in every round, because an answer may come after its round is over. Such an
     * answer is not published. But if it stayed unread, the teller would seem to hang. */
    size_t tellers = fleet_poll(&push->fleet, entries), count = tellers;
    if (push->round == ROUND_METRICS)
        until = push->asked_ms + SCRAPE_MS;
    else if (push->round == ROUND_PROFILES)
        count += poll_profiles(push, entries + count, &until);
    else if (!push->ending)
        until = push->next_ms;
    if (push->give_up_ms > 0 && push->give_up_ms < until)
        until = push->give_up_ms;
    if (rest_ms >= 0 && now + rest_ms < until)
        until = now + rest_ms;
    entries[count++] = (struct pollfd){.fd = wake_fds[0], .events = POLLIN};
    int64_t left = until - now;
    post_wait(entries, count, left < 0 ? 0 : left > WAIT_MOST_MS ? WAIT_MOST_MS : (int)left);
    fleet_read(&push->fleet, entries, tellers);
    char bytes[16];
    while (read(wake_fds[0], bytes, sizeof bytes) > 0) {
    }
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = note_signal};
    if (pipe2(wake_fds, O_CLOEXEC | O_NONBLOCK) != 0)
        cli_die(CLI_REFUSED, "cannot make a pipe; %s; raise the limit of descriptors (ulimit -n)",
                strerror(errno));
    own_pid = getpid();
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!cli_ignores_signal(SIGHUP))
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int push_run(const struct push_options *options) {
    static struct push push;
    push = (struct push){.options = options, .fleet = {.wanted = options->wanted}};
    push.outbox.token = options->token;
    push.outbox.tls = options->tls;
    push.outbox.json = options->json;
    push.outbox.room = options->server.engine == ENGINE_PUSHGATEWAY ? 1 : PROFILES_MOST;
    /* A waiting profile of a process that still runs is never older than this, because newer
     * profiles of the process push it out. */
    int64_t oldest_ms = (PROFILES_MOST + 1) * options->every_ms;
    push.outbox.keep_ms = oldest_ms > KEEP_MS ? oldest_ms : KEEP_MS;
    catch_signals();
    while (signals < 2 && !log_is_broken()) {
        if (signals > 0)
            take_signal(&push);
        run_round(&push);
        outbox_run(&push.outbox, clock_now_ms());
        if (push.ending && !push.outbox.first)
            break;
        if (push.give_up_ms > 0 && clock_now_ms() >= push.give_up_ms)
            break;
        wait_for_work(&push);
    }
    outbox_give_up(&push.outbox, "the server did not answer in time");
    fleet_end(&push.fleet);
    outbox_tell_end(&push.outbox);
    fflush(stderr);
    return log_finish(options->once && push.outbox.failed > 0 ? CLI_REFUSED : CLI_DONE);
}
