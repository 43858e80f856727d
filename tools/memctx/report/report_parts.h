/* SPDX-License-Identifier: MIT */
/* report_parts.h - writes the parts of a report that split memory by thread and by time. */
#ifndef MEMCTX_REPORT_PARTS_H
#define MEMCTX_REPORT_PARTS_H

#include "base/json.h"
#include "model/model.h"
#include "model/samples.h"

/* Writes the key "threads": the threads, and the figures of each in each context. Writes nothing if
 * the figures of threads are not known, or if fewer than two threads have figures. */
void report_write_threads(struct json_writer *json, const struct model *model);
/* Writes the key "series": the requested bytes of the contexts at each sample. Writes nothing if
 * the present state is the only sample. */
void report_write_series(struct json_writer *json, const struct model *model,
                         const struct samples *samples);

#endif
