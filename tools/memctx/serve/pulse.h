/* SPDX-License-Identifier: MIT */
/*
 * pulse.h - the child process that looks at one process again and again for the live page.
 *
 * A process that hangs, ends or sends damaged answers harms its pulse at most, not the server. For
 * each look the pulse writes a struct pulse_record and a JSON object, which is the data of an
 * event of the live page.
 */
#ifndef MEMCTX_PULSE_H
#define MEMCTX_PULSE_H

#include "target/process.h"

#define PULSE_TEXT_MAX 49152U /* fits into the buffer of a listener, with the head of its event */
#define PULSE_TOP 10          /* contexts that hold most, in each record */
#define PULSE_GROWS 6         /* contexts that grow most */

#define PULSE_PAST_MAX 600 /* moments of a recording that a pulse sends at most */

enum pulse_state { PULSE_FIGURES, PULSE_SILENT, PULSE_ENDED, PULSE_PAST, PULSE_STATES };

struct pulse_record {
    uint32_t state;  /* enum pulse_state; the figures below are those of FIGURES and PAST */
    uint32_t length; /* bytes of the JSON that follows */
    int64_t ms;      /* time of the look, since 1970 */
    int64_t rss_bytes, requested_bytes, live_chunks, allocs, contexts;
};

/* Returns the milliseconds since 1970, but more than `last_ms`: the clock may be set back, and the
 * time axis of a live page must go on. */
int64_t pulse_wall_ms(int64_t last_ms);
/* First sends the moments later than `since_ms` of the process's recording, if it has one, in
 * records PULSE_PAST, which have no number of allocations and contexts. Then looks every
 * `every_ms`, or less often if a look takes more than a tenth of that time. Ends when the process
 * has ended, or with the server. */
_Noreturn void pulse_run(const struct process_facts *facts, int fd, int64_t every_ms,
                         int64_t since_ms);

#endif
