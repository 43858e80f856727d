/* SPDX-License-Identifier: MIT */
/* tasks.h - reads from /proc whether the threads of a process run, and their names. */
#ifndef MEMCTX_OUTSIDE_TASKS_H
#define MEMCTX_OUTSIDE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tasks {
    pid_t pid, inner_pid; /* inner_pid: in the process's own pid namespace */
    /* Ids of the threads in that namespace, and in this command's. NULL: not read yet, or not
     * needed. */
    struct tasks_id {
        uint32_t inner, here;
    } * ids;
    size_t count;
};

/* True if all threads of the process are stopped or have ended. Sets *runs to a number that changes
 * if a thread ran, started or ended meanwhile: the context switches of the threads and their ids,
 * added up. */
bool tasks_are_stopped(pid_t pid, uint64_t *runs);
/* Writes the name of a thread; its id is that of the process's own pid namespace. Leaves `name`
 * alone if the thread has ended. */
void tasks_read_name(struct tasks *tasks, uint32_t tid, char name[16]);
void tasks_forget(struct tasks *tasks);

#endif
