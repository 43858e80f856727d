/* SPDX-License-Identifier: MIT */
/*
 * watch.h - what the parts of `memctx watch` share: watch_options.c reads the command line, watch.c
 * evaluates the conditions, watch_read.c reads the figures for them, watch_shared.c has the state
 * of conditions that processes share, watch_act.c runs the actions, watch_files.c keeps their
 * files, watch_list.c the list of these files, watch_log.c writes the log. All of them run in one
 * thread.
 */
#ifndef MEMCTX_VERBS_WATCH_H
#define MEMCTX_VERBS_WATCH_H

#include "diagnosis/conditions.h"
#include "target/limits.h"
#include "target/process.h"
#include "verbs/reading.h"

#define WATCH_CONDITIONS_MAX 16
#define WATCH_ACTIONS_MAX 8

enum watch_kind { WATCH_SNAPSHOT, WATCH_DOCTOR, WATCH_EXEC };

struct watch_action {
    enum watch_kind kind;
    const char *text;    /* as the user wrote it */
    const char *command; /* WATCH_EXEC: for the shell */
};

struct watch_settings {
    struct condition conditions[WATCH_CONDITIONS_MAX];
    struct watch_action actions[WATCH_ACTIONS_MAX]; /* actions of each event, in this order */
    size_t condition_count, action_count;
    /* keep: number of the newest events of a process whose files are kept */
    int64_t every_ms, cool_ms, timeout_ms, keep;
    /* limit for the data of each child that makes a snapshot or runs doctor; 0: no limit */
    int64_t memory_bytes;
    bool sets_memory;      /* --memory was given */
    const char *directory; /* NULL: --dir was not given */
    const char *match;     /* --match; NULL: every process */
    bool all, json;
    bool only_check; /* --check */
    /* some condition needs this figure */
    bool needs_target, needs_limit, needs_used, needs_pressure;
    struct reading_names names;
};

/* The files of one event. They are removed together. */
struct watch_files {
    char *snapshot, *doctor; /* NULL: there is none */
    bool earlier;            /* of an ended process of the program, or of an earlier run */
    int64_t inuse_bytes;     /* bytes in use at the event; CONDITION_UNKNOWN: not known */
};

/* The files that --keep counts together: those of one process, and of the ended processes from
 * which it took files over. */
struct watch_group {
    char *program; /* as in the names of the files */
    pid_t pid;     /* the process that had the last event */
    uint64_t start_ticks;
    struct watch_files *files; /* oldest first */
    size_t count;
    bool taken; /* a watched process has this group */
    struct watch_group *next;
};

/* One watched process. */
struct watched {
    struct process_facts facts;
    struct process_facts named; /* the facts from which `program` was made */
    char *program;
    struct condition_state *states; /* one for each condition */
    int *triggers;                  /* descriptors of the PSI triggers; -1: none */
    char *pressure;                 /* path of the pressure file; NULL: none */
    struct limits_found limit;
    bool has_limit;
    /* the limit of which the largest share was used at the last look */
    struct limits_found fullest;
    char fullest_figure[352]; /* the name of that limit, with the number of its control group */
    /* figures of the last look, without those for which the process itself has to be asked */
    struct condition_reading reading;
    bool is_read;         /* the last look read the process */
    int64_t limit_due_ms; /* when the limit is due to be read again */
    int64_t ask_due_ms;   /* when the process is due to be asked again */
    int64_t ask_pause_ms; /* grows while the process does not answer */
    unsigned failures;    /* questions in a row without an answer */
    bool silent;          /* the user was told that the process does not answer */
    bool ended;
    unsigned waiting;          /* events of this process whose actions are not done */
    struct watch_group *group; /* NULL: the process has no files yet */
    struct watched *next;
};

/* An event: a condition began to hold in a process, and actions are to be done. */
struct watch_event {
    struct watched *process;
    size_t condition;
    struct condition_result result;
    char *figure; /* watch_shared_figure; NULL: the condition's figure is the process's own */
    int64_t inuse_bytes; /* CONDITION_UNKNOWN: not known */
    char *stem;          /* path of the event's files without ending */
    struct watch_files made;
    struct watch_event *next;
};

/* --- watch_options.c ------------------------------------------------------------------------- */

/* Reads the command line. A mistake in it ends the command. */
struct watch_settings watch_parse(int argc, char **argv);

/* --- watch_log.c ----------------------------------------------------------------------------- */

/* One line of the log. Figures that are CONDITION_UNKNOWN, and texts that are NULL, are null in the
 * JSON. */
struct watch_line {
    const char *event; /* "started", "condition", "snapshot" ...: the manual lists them */
    const struct watched *process;
    const char *when; /* the condition's text */
    int64_t value, threshold, rss_bytes, inuse_bytes, limit_bytes;
    const char *limit_from; /* NULL: process->limit.from, if there is a limit */
    const char *file;
    int64_t took_ms, status;
};
#define WATCH_LINE(name, watched_process)                                                          \
    ((struct watch_line){.event = (name),                                                          \
                         .process = (watched_process),                                             \
                         .value = CONDITION_UNKNOWN,                                               \
                         .threshold = CONDITION_UNKNOWN,                                           \
                         .rss_bytes = CONDITION_UNKNOWN,                                           \
                         .inuse_bytes = CONDITION_UNKNOWN,                                         \
                         .limit_bytes = CONDITION_UNKNOWN,                                         \
                         .took_ms = CONDITION_UNKNOWN,                                             \
                         .status = CONDITION_UNKNOWN})

void watch_log_begin(bool json);
/* Writes a line: the time, the process and the text; or JSON. */
void watch_log(const struct watch_line *line, const char *format, ...) CLI_PRINTF(2, 3);
/* Writes a value of this condition with its unit into `text`, which has RENDER_NUMBER_BYTES. */
char *watch_show_value(char *text, const struct condition *condition, int64_t value);

/* --- watch_read.c ---------------------------------------------------------------------------- */

/* Reads which control groups are mounted. The other functions of watch_read.c use the settings. */
void watch_read_begin(const struct watch_settings *settings);
/* Reads the smallest memory limit of the process. `tell`: prints a line if the limit has changed
 * since the last time. */
void watch_read_limit(struct watched *process, int64_t now_ms, bool tell);
/* Finds the file of memory pressure of the process, and opens a trigger for each psi condition with
 * a window of at most TRIGGER_MS_MAX, the longest that the kernel takes. Conditions with longer
 * windows are evaluated only at each look. */
void watch_open_triggers(struct watched *process);
/* Asks the process for the bytes in use, and computes the waste. */
void watch_read_figures(struct watched *process, struct condition_reading *reading);
/* Finds the limit of which the largest share is used. */
void watch_read_used(struct watched *process, struct condition_reading *reading);
/* Reads the figures that /proc and the control group tell. */
struct condition_reading watch_read_kernel(struct watched *process, int64_t now_ms);

/* --- watch_shared.c -------------------------------------------------------------------------- */

/* Returns the name of the figure that this condition reads, if other processes may have the figure,
 * too: the use of a limit that counts several processes, or a pressure file. NULL: the figure
 * belongs to this process alone. */
const char *watch_shared_figure(const struct watched *process, const struct condition *condition);
/* Returns the state of a condition on a shared figure. The pointer is valid until
 * watch_shared_forget. */
struct condition_state *watch_shared_state(size_t condition, const char *figure, int64_t now_ms);
/* Call this if an action failed: condition_action_failed for the state, if it still exists. */
void watch_shared_failed(size_t condition, const char *figure);
/* Of the processes that have this figure, returns the one with the largest resident set. Sets
 * *count to the number of these processes. NULL: no process has the figure. */
struct watched *watch_shared_largest(struct watched *processes, const struct condition *condition,
                                     const char *figure, size_t *count);
/* Forgets states of figures that no process has had for `least_ms` and for the condition's window.
 * For shorter times a state is kept, because the fullest limit of a process may change to and fro.
 */
void watch_shared_forget(const struct condition *conditions, int64_t now_ms, int64_t least_ms);

/* --- watch_act.c ----------------------------------------------------------------------------- */

void watch_act_begin(const struct watch_settings *settings);
/* Puts an event at the end of the queue. `figure` as in struct watch_event; it is copied. One
 * action runs at a time. If the queue is full, the event is left out, and counts as a failed
 * action. */
void watch_act_add(struct watched *process, size_t condition, const struct condition_result *result,
                   const char *figure, int64_t inuse_bytes);
/* Kills the running action if it is late, finishes it if its child has ended, and begins the next
 * one. Returns true while an action runs. */
bool watch_act_step(void);
/* Returns the descriptor from which the running action's messages come; -1: none. */
int watch_act_fd(void);
/* Returns the milliseconds until the running action is late; -1: none runs, or it was killed. */
int64_t watch_act_left_ms(void);
/* Ends the running action and removes its unfinished file. */
void watch_act_cancel(void);
/* Returns the number of actions that have failed. */
size_t watch_act_failures(void);

/* --- watch_files.c --------------------------------------------------------------------------- */

/* The directory of --dir, or the current one. */
const char *watch_files_directory(const struct watch_settings *settings);
/* Returns DIR/program-pid-time-condition; with a number behind it if a file of that name exists. */
char *watch_files_make_stem(const struct watch_settings *settings, const struct watched *process,
                            const struct condition *condition);
/* Returns the group of a list, or adds it. */
struct watch_group *watch_files_group(struct watch_group **list, const char *program, pid_t pid,
                                      uint64_t start_ticks);
void watch_files_add(struct watch_group *group, const struct watch_files *files);
/* Adds the event's files to those of the process, removes files that --keep does not keep, and
 * writes the list of the files that are left. */
void watch_files_keep(const struct watch_settings *settings, struct watch_event *event);
/* Returns the file for MEMCTX_FILE: the file of this event, or else the newest file of the process.
 */
const char *watch_files_newest(const struct watch_event *event);
/* Called before a process is forgotten. The files stay; the next process of its program that gets
 * files takes the list over. */
void watch_files_forget(struct watched *process);

/* --- watch_list.c ---------------------------------------------------------------------------- */

/* Waits a moment for other commands that use the list. Returns a lock for watch_list_unlock; -1:
 * there is none, and lines of other commands may be lost. */
int watch_list_lock(const struct watch_settings *settings);
void watch_list_unlock(int lock);
/* Adds the files that earlier runs of this command made for the program. */
void watch_list_read(const struct watch_settings *settings, const char *program,
                     struct watch_group **groups);
/* Replaces the list by one that has the files of these groups, and those of other commands. */
void watch_list_write(const struct watch_settings *settings, const struct watch_group *groups);

#endif
