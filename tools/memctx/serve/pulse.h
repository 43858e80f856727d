/* SPDX-License-Identifier: MIT */
/*
 * pulse.h - the child process that looks at one process again and again for the live page.
 *
 * This child process is called a pulse. If the process hangs, ends or sends damaged answers, only
 * its pulse is harmed, not the server. For each look the pulse writes a struct pulse_record and a
 * JSON object, which is the data of one event for the live page.
 */
#ifndef MEMCTX_PULSE_H
#define MEMCTX_PULSE_H

#include "target/process.h"

#define PULSE_TEXT_MAX 49152U /* with the head of its event, fits into a listener's buffer */
#define PULSE_TOP 10          /* number of contexts that hold most, in each record */
#define PULSE_GROWS 6         /* number of contexts that grow most, in each record */

#define PULSE_PAST_MAX 600 /* moments of a recording that a pulse sends at most */

enum pulse_state { PULSE_FIGURES, PULSE_SILENT, PULSE_ENDED, PULSE_PAST, PULSE_STATES };

struct pulse_record {
    uint32_t state;  /* enum pulse_state; only records FIGURES and PAST have the figures below */
    uint32_t length; /* bytes of the JSON that follows */
    int64_t ms;      /* time of the look, since 1970 */
    int64_t rss_bytes, requested_bytes, live_chunks, allocs, contexts;
};

/* Returns the milliseconds since 1970, but at least `last_ms` + 1: if the clock is set back, the
 * time axis of a live page still runs forwards. */
int64_t pulse_wall_ms(int64_t last_ms);
/* If the process has a recording, first sends its moments later than `since_ms` as records
 * PULSE_PAST, without the numbers of allocations and contexts. Then looks at the process every
 * `every_ms`, or less often if a look takes more than a tenth of that time. Exits when the process
 * has ended or the server has gone. */
_Noreturn void pulse_run(const struct process_facts *facts, int fd, int64_t every_ms,
                         int64_t since_ms);

#endif
