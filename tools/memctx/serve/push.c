/* SPDX-License-Identifier: MIT */
/* push.c - the rounds of `memctx push`. */
#include "serve/push.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/job.h"
#include "serve/post.h"

#define SCRAPE_MS 2000    /* a process that takes longer is told as down */
#define PROFILE_MS 60000  /* the most for making a profile */
#define PAUSE_DOUBLINGS 3 /* of the pause, after failures */

struct push {
    const struct push_options *options;
    struct fleet fleet;
    char host[256];
    char told[1024];     /* the last failure that was told; "": none since the last success */
    size_t sent, failed; /* in this round */
};

static volatile sig_atomic_t ended;

static void note_end(int signal) {
    (void)signal;
    ended = 1;
}

/* Tells a failure, unless it is the one that was told last. */
static void tell_failure(struct push *push, const char *what, const char *text) {
    push->failed++;
    if (ended || strcmp(push->told, text) == 0)
        return;
    snprintf(push->told, sizeof push->told, "%s", text);
    cli_warn("%s: %s", what, text);
}

static void send_body(struct push *push, const char *what, const char *method, const char *url,
                      const char *type, const void *body, size_t length) {
    struct cli_failure failure;
    struct post post = {.method = method,
                        .url = url,
                        .type = type,
                        .token = push->options->token,
                        .body = body,
                        .length = length,
                        .ended = &ended};
    if (post_send(&post, &failure))
        push->sent++;
    else
        tell_failure(push, what, failure.text);
}

/* --- profiles, for Pyroscope ----------------------------------------------------------------- */

/* Replaces what the name of an application or the value of a label may not have. */
static char *plain_name(const char *text) {
    char *name = cli_copy(text);
    for (char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".-_", *at))
            *at = '_';
    return name;
}

static char *profile_url(const struct push *push, const struct fleet_process *process) {
    char *program = plain_name(process->program), *host = plain_name(push->host);
    char *name = cli_format("%s{process=%u,host=%s}", program, process->number, host);
    char *escaped = post_escape(name);
    long long now = (long long)time(NULL);
    char *url = cli_format("%s/ingest?name=%s&from=%lld&until=%lld&format=pprof&spyName=memctx",
                           push->options->url, escaped, now - push->options->every_s, now);
    free(program);
    free(host);
    free(name);
    free(escaped);
    return url;
}

static void push_profile(struct push *push, const struct fleet_process *process) {
    struct job job = {0};
    char pid[16], samples[24];
    snprintf(pid, sizeof pid, "%d", (int)process->facts.pid);
    snprintf(samples, sizeof samples, "%lld", (long long)push->options->limit_samples);
    const char *words[] = {"export", "--pprof", "-", "--limit-samples", samples, pid, NULL};
    if (!job_start(&job, "profile", words, clock_now_ms() + PROFILE_MS)) {
        tell_failure(push, process->program, strerror(errno));
        return;
    }
    while (!job.done && !ended) {
        struct pollfd entries[JOB_FDS];
        poll(entries, job_poll(&job, entries), 200);
        job_run(&job, clock_now_ms());
    }
    if (job.done && job.status == CLI_DONE) {
        char *url = profile_url(push, process);
        send_body(push, process->program, "POST", url, "application/octet-stream", job.out.bytes,
                  job.out.length);
        free(url);
    } else if (job.done) {
        char *why = job.error.length > 0 ? job.error.bytes : NULL;
        if (why)
            why[strcspn(why, "\n")] = '\0';
        tell_failure(push, process->program,
                     job.late ? "the profile took too long"
                     : why    ? why + (strncmp(why, "memctx: ", 8) == 0 ? 8 : 0)
                              : "the profile could not be made");
    }
    job_free(&job);
}

/* --- metrics, for a Pushgateway -------------------------------------------------------------- */

static char *group_url(const struct push *push) {
    char *host = post_escape(push->host);
    char *url = cli_format("%s/metrics/job/memctx/instance/%s", push->options->url, host);
    free(host);
    return url;
}

static void push_metrics(struct push *push) {
    struct pollfd entries[FLEET_MAX];
    int64_t began_ms = clock_now_ms();
    fleet_ask(&push->fleet, began_ms);
    while (!ended && fleet_waits(&push->fleet, began_ms) && clock_now_ms() - began_ms < SCRAPE_MS) {
        size_t count = fleet_poll(&push->fleet, entries);
        if (poll(entries, count, 200) > 0)
            fleet_read(&push->fleet, entries, count);
    }
    size_t length;
    char *text = fleet_write(&push->fleet, EXPOSITION_PROMETHEUS, &length);
    char *url = group_url(push);
    if (!ended)
        send_body(push, push->options->url, "PUT", url, exposition_types[EXPOSITION_PROMETHEUS],
                  text, length);
    free(url);
    free(text);
}

/* A group stays in the Pushgateway for ever, so it is removed at the end. */
static void remove_metrics(struct push *push) {
    char *url = group_url(push);
    ended = 0;
    send_body(push, push->options->url, "DELETE", url, "text/plain", "", 0);
    free(url);
}

/* --- rounds ---------------------------------------------------------------------------------- */

static void run_round(struct push *push) {
    push->sent = push->failed = 0;
    fleet_refresh(&push->fleet);
    if (push->options->format == PUSH_PUSHGATEWAY)
        push_metrics(push);
    else
        for (size_t i = 0; i < push->fleet.count && !ended; i++)
            push_profile(push, push->fleet.processes[i]);
    if (push->failed == 0)
        push->told[0] = '\0';
}

static void pause_ms(int64_t ms) {
    for (int64_t end_ms = clock_now_ms() + ms; !ended && clock_now_ms() < end_ms;) {
        int64_t left = end_ms - clock_now_ms();
        poll(NULL, 0, left > 1000 ? 1000 : left > 0 ? (int)left : 0);
    }
}

/* Returns true if only pids were named, and all of these processes have ended. */
static bool all_ended(const struct push *push) {
    const struct fleet_wanted *wanted = &push->options->wanted;
    int64_t pid;
    for (size_t i = 0; i < wanted->word_count; i++)
        if (!cli_is_number(wanted->words[i], &pid))
            return false;
    return wanted->word_count > 0 && push->fleet.count == 0;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = note_end};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int push_run(const struct push_options *options) {
    static struct push push;
    struct cli_failure failure;
    unsigned doublings = 0;
    push = (struct push){.options = options, .fleet = {.wanted = options->wanted}};
    if (gethostname(push.host, sizeof push.host - 1) != 0 || push.host[0] == '\0')
        snprintf(push.host, sizeof push.host, "localhost");
    if (!post_load(&failure))
        cli_die_failure(&failure);
    catch_signals();
    while (!ended) {
        int64_t began_ms = clock_now_ms();
        run_round(&push);
        if (options->once || all_ended(&push))
            break;
        doublings = push.failed == 0 ? 0 : doublings < PAUSE_DOUBLINGS ? doublings + 1 : doublings;
        pause_ms((options->every_s * 1000 << doublings) - (clock_now_ms() - began_ms));
    }
    size_t sent = push.sent, failed = push.failed;
    if (options->format == PUSH_PUSHGATEWAY && !options->once)
        remove_metrics(&push);
    fleet_end(&push.fleet);
    if (!options->once)
        return CLI_DONE;
    printf("sent %zu, failed %zu\n", sent, failed);
    return cli_finish_output(failed > 0 ? CLI_REFUSED : CLI_DONE);
}
