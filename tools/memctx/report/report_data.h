/* SPDX-License-Identifier: MIT */
/*
 * report_data.h - the figures of a report: one JSON object of schema memctx-report/1, which
 * formats/page/report.js draws.
 */
#ifndef MEMCTX_REPORT_DATA_H
#define MEMCTX_REPORT_DATA_H

#include <stdio.h>
#include <time.h>

#include "diagnosis/findings.h"
#include "model/compare.h"
#include "model/memory.h"
#include "model/model.h"

/* One state of memory: the present state of the target, or the state that it is compared with. */
struct report_state {
    struct model *model; /* NULL: the state is a mark */
    struct memory_ledger ledger;
    const char *title;
};

struct report_input {
    struct report_state *now;          /* the findings are made from now->model, and change it */
    const struct report_state *before; /* NULL together with `compare`: nothing is compared */
    const struct compare *compare;
    /* What the rules of doctor need beside the model, the ledger and the samples of `now`. */
    struct findings_input findings;
    time_t taken_s; /* seconds since 1970 */
};

void report_write_data(FILE *file, const struct report_input *input);

#endif
