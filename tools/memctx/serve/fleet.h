/* SPDX-License-Identifier: MIT */
/*
 * fleet.h - the processes that are served, and their tellers (teller.h).
 *
 * Each scrape searches for new processes first. The labels of a process are its program's name and
 * a number, the lowest that no other process with this name has. So a program that is started again
 * gets the number of its ended process. No function of this header waits: the caller polls the
 * descriptors of the tellers.
 */
#ifndef MEMCTX_FLEET_H
#define MEMCTX_FLEET_H

#include <poll.h>
#include <stdbool.h>

#include "serve/exposition.h"
#include "target/search.h"

#define FLEET_MAX 200

/* The choice of the processes to serve. */
struct fleet_wanted {
    bool all;
    const char *glob;         /* a pattern for the names of programs, also with `all`; NULL: none */
    const char *const *words; /* pids and names */
    size_t word_count;
};

struct fleet_process {
    struct process_facts facts;
    char *program;
    unsigned number;
    char *labels;
    bool found; /* the present fleet_refresh has found the process */
    pid_t teller;
    int fd; /* socket to the teller; -1: no teller runs */
    bool asked, up;
    int64_t asked_ms;
    char *answer; /* the text of the last answer, while `up` is true; else the reason, or NULL */
    char *incoming;
    size_t incoming_bytes;
};

struct fleet {
    struct fleet_wanted wanted;
    struct fleet_process *processes[FLEET_MAX];
    size_t count;
    size_t cut;    /* number of processes that are not served, because FLEET_MAX others are */
    bool cut_told; /* the user knows that there are such processes */
    /* start_ticks[word]: start time of the process, if the word is a pid; 0: not found yet */
    uint64_t *start_ticks;
    struct search search;
};

/* Finds new processes and drops those that have ended. Prints a message when there are more than
 * FLEET_MAX for the first time. */
void fleet_refresh(struct fleet *fleet);
/* Asks every process for its figures. */
void fleet_ask(struct fleet *fleet, int64_t now_ms);
/* Returns true if a process that was asked at `asked_ms` or later has not answered yet. */
bool fleet_waits(const struct fleet *fleet, int64_t asked_ms);
/* Adds the descriptors of tellers to a poll list, which must have room for FLEET_MAX more. */
size_t fleet_poll(const struct fleet *fleet, struct pollfd *entries);
/* Reads the answers that the descriptors of the poll list have. */
void fleet_read(struct fleet *fleet, const struct pollfd *entries, size_t count);
/* Returns the metrics of all processes. A process that has not answered the scrape is reported as
 * down; a process that was found after the scrape began is left out. The caller frees the text. */
char *fleet_write(const struct fleet *fleet, enum exposition_format format, size_t *length);
/* Returns a process that `word` names; if there are several, the one that was found last. `word` is
 * a pid, a program's name, or NULL for every process. `number` is the number that the process must
 * have (0: any number). Sets *count to the number of processes that `word` and `number` name.
 * Returns NULL if there is none. */
struct fleet_process *fleet_find(const struct fleet *fleet, const char *word, unsigned number,
                                 size_t *count);
/* Ends all tellers. */
void fleet_end(struct fleet *fleet);

#endif
