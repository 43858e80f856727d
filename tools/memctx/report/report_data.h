/* SPDX-License-Identifier: MIT */
/*
 * report_data.h - the figures of a report: one JSON object of schema memctx-report/1, which
 * formats/page/model.js reads.
 */
#ifndef MEMCTX_REPORT_DATA_H
#define MEMCTX_REPORT_DATA_H

#include <stdio.h>
#include <time.h>

#include "diagnosis/findings.h"
#include "model/compare.h"
#include "model/memory.h"
#include "model/model.h"

/* A state of memory: the present state of the target, or the state with which it is compared. */
struct report_state {
    struct model *model; /* NULL: the state is a mark */
    struct memory_ledger ledger;
    const char *title;
};

struct report_input {
    struct report_state *now;          /* making the findings changes now->model */
    const struct report_state *before; /* NULL: nothing is compared; `compare` is NULL, too */
    const struct compare *compare;
    /* Input for the rules of doctor, in addition to the model, ledger and samples of `now`. */
    struct findings_input findings;
    time_t taken_s; /* seconds since 1970 */
};

/* Writes the figures as one object. */
void report_write_data(FILE *file, const struct report_input *input);

#endif
