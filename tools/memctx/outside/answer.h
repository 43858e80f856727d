/* SPDX-License-Identifier: MIT */
/*
 * answer.h - a process or core file that is read, and an answer under construction; shared by
 * outside.c, answer.c and answer_contexts.c.
 */
#ifndef MEMCTX_OUTSIDE_ANSWER_H
#define MEMCTX_OUTSIDE_ANSWER_H

#include <time.h>

#include "outside/outside.h"
#include "outside/tables.h"
#include "outside/tasks.h"

struct outside {
    struct tables tables;
    char *source; /* the process or the file, for messages */
    char *path;   /* path of the core file; NULL: a process */
    struct outside_process process;
    uint64_t runs;    /* result of tasks_are_stopped before the tables were read */
    uint64_t born_ns; /* when the process started, by CLOCK_BOOTTIME */
    struct tasks tasks;
    char *why, *how;
    size_t ledger_missing; /* the part of tables.missing that the last ledger added */
    bool is_read, pages_are_read;
    bool pages_are_light; /* the pages were read in the form of WIRE_DUMP_LIGHT */
};

struct answer {
    char *bytes;
    size_t length;
    uint64_t next;
    uint32_t count;
};

uint64_t outside_clock_ns(clockid_t clock);
/* Returns false, and makes the failure, if the memory of the process is gone. Memory that is gone
 * looks like damaged tables, or like a process that holds nothing. */
bool outside_check_lives(const struct outside *outside, struct cli_failure *failure);

/* Appends a zeroed record. Returns NULL if the answer has no room for it. */
void *answer_add_record(struct answer *answer, size_t bytes);
/* Adds the records of the contexts from request->from on. */
void answer_contexts(struct outside *outside, const struct wire_piece_request *request,
                     struct answer *answer);
/* Adds the contexts of a path from the root on, so that a parent comes before its children.
 * request->from holds the context and the number of contexts in earlier answers. */
void answer_path(struct outside *outside, const struct wire_piece_request *request,
                 struct answer *answer);

#endif
