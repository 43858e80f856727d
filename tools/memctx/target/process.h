/* SPDX-License-Identifier: MIT */
/*
 * process.h - reads from /proc who owns a process, when it started, whether the library is loaded
 * into it, and why it has no socket.
 */
#ifndef MEMCTX_PROCESS_H
#define MEMCTX_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cli.h"

#define PROCESS_NAME_BYTES 32

struct process_facts {
    pid_t pid;
    pid_t thread; /* /proc shows memory and files of the process under this id: the pid, or the id
                   * of another thread if the first one has ended */
    pid_t parent; /* pid of the process that is its parent now */
    pid_t inner_pid; /* pid in the process's own pid namespace */
    uid_t uid, effective_uid;
    char state; /* state of `thread`, as in /proc/PID/stat; 'Z': the process has exited */
    uint64_t start_ticks;
    /* The address at which the kernel put the stack. exec keeps pid and start_ticks, and changes
     * this address, unless addresses are not random. 0: this user may not see it. */
    uint64_t stack_start;
    double age_s;
    int64_t rss_bytes;
    int64_t anonymous_bytes; /* part of the resident set that is in no file; -1: not known */
    int seccomp;             /* 0: system calls are not filtered; 1: strict mode; 2: by filters */
    bool no_new_privileges;
    char name[PROCESS_NAME_BYTES]; /* name in the kernel, cut at 15 characters */
    char command[256];             /* the command line with spaces, or the name in brackets */
};

/* PROCESS_NO_MEMORY: the process has no address space (any more). The process is ending or has
 * ended, or is a thread of the kernel. */
enum process_library { PROCESS_WITHOUT, PROCESS_WITH, PROCESS_UNREADABLE, PROCESS_NO_MEMORY };

/* Returns the pid of the process to which the thread `id` belongs; `id` itself if it is a pid, or
 * if there is no such thread. The user may have read the id of a thread in top or ps -L. */
pid_t process_of_thread(pid_t id);
/* Returns false if the process does not exist (any more), or if this command lacks the descriptor
 * or the memory to find out. */
bool process_read_facts(pid_t pid, struct process_facts *facts);
/* Returns true if the process started at the tick `ticks` of its own clock. In a time namespace
 * this clock differs from the clock of this command, to which facts->start_ticks belongs. */
bool process_started_at(const struct process_facts *facts, uint64_t ticks);
/* Returns the id that the user `uid` has in the user namespace of the process; (uid_t)-1: the user
 * has no id there. */
uid_t process_inner_user(const struct process_facts *facts, uid_t uid);
/* Reads the name in the kernel only, which costs less than all facts. Returns false if the process
 * does not exist, or cannot be read. */
bool process_read_name(pid_t pid, char name[PROCESS_NAME_BYTES]);
/* Like process_read_facts, but sets *unknown if this command cannot find out whether the process
 * exists. */
bool process_read_known(pid_t pid, struct process_facts *facts, bool *unknown);
/* Reads a small file of /proc/PID into `buffer`, with a 0 byte behind it. Returns its length; -1 on
 * failure. */
ssize_t process_read_file(pid_t pid, const char *name, char *buffer, size_t bytes);
/* Tells whether libmemctx.so is mapped into the process. */
enum process_library process_find_library(const struct process_facts *facts);
/* Like process_find_library, but also returns PROCESS_WITH for a process that has a socket and
 * whose memory map this user may not read. Such a process may have changed its user, and still
 * answers. */
enum process_library process_find_answerer(const struct process_facts *facts);
/* Returns true if the process executes the file that this process executes: it is a child of this
 * one, or another memctx. Where all programs have the library, a command that serves or watches all
 * processes would otherwise find its own children, and each child would find more children. */
bool process_is_command(const struct process_facts *facts);
/* Reads the facts of a process that this user may ask: it has the library, has not ended, belongs
 * to this user (root: to anyone) and is not this process. Returns false for any other process. */
bool process_read_askable(pid_t pid, struct process_facts *facts);
/* Returns the value that an environment variable had when the program started; NULL: not set, or
 * not readable. A program may have overwritten its environment since. The text stays valid until
 * the next call. */
const char *process_find_variable(const struct process_facts *facts, const char *name);
/* Returns the name of the program as the user started it, without folders: the script of an
 * interpreter, or else argument 0, which may be a symbolic link. If a program writes a title into
 * its arguments ("nginx: worker process"), the name is the word before the colon. The caller frees
 * the text. */
char *process_program(const struct process_facts *facts);
/* True if a signal or a debugger has stopped the process. */
bool process_is_stopped(const struct process_facts *facts);
/* For a stopped process: says what lets it run again. The caller frees the text. */
char *process_tell_resume(const struct process_facts *facts);
/* Returns true if `word` is the process's name in the kernel, the file name of its program or of
 * its argument 0, or the name that process_program returns. */
bool process_has_name(const struct process_facts *facts, const char *word);
/* Returns true if the shell pattern matches the name of the program (process_program) or the
 * process's name in the kernel. */
bool process_matches(const struct process_facts *facts, const char *glob);
/* Writes why a process that has the library has no socket, as far as that can be found out. */
void process_explain_no_socket(const struct process_facts *facts, char *reason, size_t bytes);
/* Ends the command if /proc is not mounted, as in a container with no files but the command: no
 * process can be seen then. */
void process_need_proc(void);
/* True if the process runs, but /proc does not show it to this user: it was mounted with the option
 * hidepid. */
bool process_is_hidden(pid_t pid);
/* Calls `visit` for every process, until it returns false. */
void process_for_each(bool (*visit)(pid_t pid, void *argument), void *argument);
/* Returns "name (uid N)" for a user. The text stays valid until the next call. */
const char *process_user_name(uid_t uid);

#endif
