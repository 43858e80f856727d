/* SPDX-License-Identifier: MIT */
/*
 * process.h - what /proc says of a process: who owns it, when it started, whether the library is
 * in it, and, where it has no socket, why.
 */
#ifndef MEMCTX_PROCESS_H
#define MEMCTX_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cli.h"

struct process_facts {
    pid_t pid;
    pid_t inner_pid; /* in its own pid namespace */
    uid_t uid, effective_uid;
    char state; /* 'Z' has exited already */
    uint64_t start_ticks;
    double age_s;
    int64_t rss_bytes;
    int seccomp; /* 0: system calls are not filtered; 1: strict mode; 2: by filters */
    bool no_new_privileges;
    char name[32];     /* the kernel's, cut at 15 characters */
    char command[256]; /* the command line with spaces, or the name in brackets */
};

enum process_library { PROCESS_WITHOUT, PROCESS_WITH, PROCESS_UNREADABLE };

/* False where there is no such process (any more). */
bool process_read_facts(pid_t pid, struct process_facts *facts);
/* Whether libmemctx.so is mapped into it. */
enum process_library process_find_library(pid_t pid);
/* The value that a variable had when the program started, in static storage; NULL: not set, or
 * not readable. Programs may overwrite it. */
const char *process_find_variable(pid_t pid, const char *name);
/* True where `word` names the process: the kernel's name, the program's or the first argument's. */
bool process_has_name(const struct process_facts *facts, const char *word);
/* Why a process that has the library has no socket, as far as it can be told. */
void process_explain_no_socket(const struct process_facts *facts, char *reason, size_t bytes);
/* Calls back for every process there is; stops where the callback returns false. */
void process_for_each(bool (*visit)(pid_t pid, void *argument), void *argument);
/* "name (uid N)" of a user, in static storage. */
const char *process_user_name(uid_t uid);

#endif
