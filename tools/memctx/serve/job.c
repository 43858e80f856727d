/* SPDX-License-Identifier: MIT */
/* job.c - child processes whose output is the answer to requests. */
#include "serve/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli.h"
#include "serve/child.h"

#define WORDS_MAX 64
#define OUTPUT_MAX ((size_t)256 << 20) /* job_find_reason names it */
#define ERROR_MAX ((size_t)4096)

/* Executes memctx with the arguments `words`, which end with NULL. Returns only on failure. */
static void execute(const char *const *words) {
    char *arguments[WORDS_MAX + 2];
    size_t count = 0;
    arguments[count++] = cli_copy("memctx");
    for (size_t i = 0; words[i] && count <= WORDS_MAX; i++)
        arguments[count++] = cli_copy(words[i]);
    arguments[count] = NULL;
    execv("/proc/self/exe", arguments);
    cli_warn("cannot execute /proc/self/exe; %s; see that /proc is mounted and the file of memctx "
             "exists",
             strerror(errno));
}

/* Forks the child of a job; its standard error and its output go to pipes. Also returns true in the
 * child, where job->child is 0 and *out is the descriptor for the output. */
static bool begin(struct job *job, const char *key, int64_t deadline_ms, int *out) {
    int outs[2] = {-1, -1}, errors[2] = {-1, -1};
    if (pipe2(outs, O_CLOEXEC) != 0)
        return false;
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(outs[0]);
        close(outs[1]);
        return false;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(errors[1], STDERR_FILENO);
        *out = child_begin(outs[1]);
        *job = (struct job){.child = 0};
        return true;
    }
    close(outs[1]);
    close(errors[1]);
    if (child < 0) {
        close(outs[0]);
        close(errors[0]);
        return false;
    }
    fcntl(outs[0], F_SETFL, O_NONBLOCK);
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    *job = (struct job){.key = cli_copy(key),
                        .child = child,
                        .deadline_ms = deadline_ms,
                        .status = -1,
                        .out = {.fd = outs[0], .most = OUTPUT_MAX},
                        .error = {.fd = errors[0], .most = ERROR_MAX}};
    return true;
}

bool job_start(struct job *job, const char *key, const char *const *words, int64_t deadline_ms) {
    int out = -1;
    if (!begin(job, key, deadline_ms, &out))
        return false;
    if (job->child > 0)
        return true;
    dup2(out, STDOUT_FILENO);
    execute(words);
    _exit(CLI_REFUSED);
}

bool job_start_call(struct job *job, const char *key, void (*write)(int fd, const void *argument),
                    const void *argument, int64_t deadline_ms) {
    int out = -1;
    if (!begin(job, key, deadline_ms, &out))
        return false;
    if (job->child > 0)
        return true;
    write(out, argument);
    _exit(CLI_DONE);
}

size_t job_poll(const struct job *job, struct pollfd *entries) {
    size_t count = 0;
    const int fds[JOB_FDS] = {job->out.fd, job->error.fd};
    for (size_t i = 0; job->key && !job->done && i < JOB_FDS; i++)
        if (fds[i] >= 0)
            entries[count++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    return count;
}

/* Reads all bytes that have come. At the end of the file sets output->fd to -1. */
static void read_output(struct job_output *output) {
    char buffer[65536];
    while (output->fd >= 0) {
        ssize_t got = read(output->fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            close(output->fd);
            output->fd = -1;
            return;
        }
        size_t room = output->most - output->length;
        size_t kept = (size_t)got < room ? (size_t)got : room;
        output->bytes = cli_grow(output->bytes, output->length + kept + 1, 1);
        memcpy(output->bytes + output->length, buffer, kept);
        output->length += kept;
        output->bytes[output->length] = '\0';
    }
}

static void close_output(struct job_output *output) {
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
}

void job_run(struct job *job, int64_t now_ms) {
    int status = -1;
    if (!job->key || job->done)
        return;
    read_output(&job->out);
    read_output(&job->error);
    job->large = job->out.length == job->out.most;
    job->late = !job->large && now_ms > job->deadline_ms;
    if (job->late || job->large)
        kill(job->child, SIGKILL);
    else if (job->out.fd >= 0 || job->error.fd >= 0)
        return;
    while (waitpid(job->child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!job->late && !job->large && WIFEXITED(status))
        job->status = WEXITSTATUS(status);
    close_output(&job->out);
    close_output(&job->error);
    job->child = 0;
    job->done = true;
}

const char *job_find_reason(struct job *job) {
    if (job->large)
        return "the answer has more than 256 MiB; ask for less, or use memctx on this machine";
    return job->error.length > 0 ? cli_find_reason(job->error.bytes) : NULL;
}

void job_free(struct job *job) {
    if (job->child > 0)
        child_end(job->child);
    if (!job->done) {
        close_output(&job->out);
        close_output(&job->error);
    }
    free(job->key);
    free(job->out.bytes);
    free(job->error.bytes);
    *job = (struct job){0};
}
