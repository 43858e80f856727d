/* SPDX-License-Identifier: MIT */
/*
 * job.h - a command that runs for requests, such as `memctx export`, and its output.
 *
 * Work that takes long or may fail badly runs in a process of its own, with a time limit. Requests
 * for the same thing share one job. Nothing here waits: the caller polls the descriptors.
 */
#ifndef MEMCTX_JOB_H
#define MEMCTX_JOB_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOBS_MAX 4
#define JOB_FDS 2

struct job {
    char *key; /* names the output; NULL: the job is free */
    pid_t child;
    int64_t deadline_ms;
    bool done;  /* the fields below are complete */
    bool late;  /* the job was ended at its deadline */
    int status; /* the command's exit status, or -1 */
    struct job_output {
        int fd;
        char *bytes; /* ends with a 0 that `length` does not count */
        size_t length, most;
    } out, error;
};

/* Starts a job that executes this command with other arguments. `words` ends with NULL. */
bool job_start(struct job *job, const char *key, const char *const *words, int64_t deadline_ms);
/* Starts a job that calls `write` in a child process, with the descriptor of its output. */
bool job_start_call(struct job *job, const char *key, void (*write)(int fd, const void *argument),
                    const void *argument, int64_t deadline_ms);
/* Adds the job's descriptors to a poll list. Returns how many it added. */
size_t job_poll(const struct job *job, struct pollfd *entries);
/* Reads what the descriptors have. Ends the job if it is late. */
void job_run(struct job *job, int64_t now_ms);
/* Ends the job and frees what it has. */
void job_free(struct job *job);

/* Executes this command with other arguments. Returns only if that failed. */
void job_execute(const char *const *words);

#endif
