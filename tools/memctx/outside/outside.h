/* SPDX-License-Identifier: MIT */
/*
 * outside.h - answers requests for a process that does not answer itself, or for a core file.
 *
 * The library's tables are read from the target's memory, and the answers have the form of the
 * socket's (memctx/wire.h), so that they are loaded like answers of the socket. Cannot do: change
 * anything in the target; tell why a context is placed as it is, except by a rule.
 *
 * A process may run on while it is read. Every pointer, index and count is checked before it is
 * used, and every loop has a bound. A table that contradicts itself is left out, and the dump says
 * that it is incomplete.
 */
#ifndef MEMCTX_OUTSIDE_READER_H
#define MEMCTX_OUTSIDE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <memctx/wire.h>

#include "base/cli.h"

struct outside;

/* The facts about the process that the caller already knows. */
struct outside_process {
    pid_t pid;
    pid_t thread; /* /proc shows the memory under this id: the pid, unless the first thread ended */
    pid_t inner_pid; /* pid in the process's own pid namespace */
    bool stopped;
    double age_s;
    const char *why; /* for the user, why the socket is not used: "the process is stopped" */
};

/* Return NULL on a failure. */
struct outside *outside_open_process(const struct outside_process *process,
                                     struct cli_failure *failure);
struct outside *outside_open_core(const char *path, struct cli_failure *failure);
void outside_close(struct outside *outside);
/* Tells whether a mapping of a process holds the root of the library's tables. `memory`: a
 * descriptor of /proc/PID/mem. */
bool outside_has_root(int memory, uint64_t start, uint64_t end);
/* Tells whether a file begins like a core file. */
bool outside_is_core(const char *path);

/* Answers a request of the type WIRE_DUMP or WIRE_PIECE; refuses all others. Sets *body to the
 * answer's body, which is followed by a 0 byte and which the caller frees, and *status to an enum
 * wire_status. The resident set of a process is WIRE_UNKNOWN; the caller can read it from /proc.
 * Returns false if the tables cannot be read. */
bool outside_answer(struct outside *outside, enum wire_type type, const void *request,
                    size_t request_bytes, char **body, size_t *bytes, uint32_t *status,
                    struct cli_failure *failure);

/* Returns a sentence that says how the figures were read, and which memory was missing. The text
 * stays valid until the next request. */
const char *outside_how(struct outside *outside);
/* True if tables of the library were missing or damaged, so that figures are missing. */
bool outside_is_incomplete(const struct outside *outside);
const char *outside_library_version(const struct outside *outside);
/* Returns the pid that the core file names, or the pid of the process. */
int64_t outside_pid(const struct outside *outside);
/* Returns the name of a core file's program; NULL: not known. */
const char *outside_program(const struct outside *outside);

#endif
