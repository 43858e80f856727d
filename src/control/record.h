/* SPDX-License-Identifier: MIT */
/*
 * record.h - the black box: writes what the contexts hold into a file that outlives the process
 * (MEMCTX_RECORD=DIR; include/memctx/record.h has the format, docs/record.md the reasons).
 *
 * Cost: a walk over all contexts every 10 s and at each 5 % of growth, and one pwrite of some KiB.
 * The pauses are longer if the walks would take more than 1/500 of the time. About 510 KiB of
 * address space while the process is recorded, and nothing without MEMCTX_RECORD.
 *
 * Each process has a file of its own: a forked child never writes into its parent's. A process that
 * restricted its system calls is not recorded.
 *
 * Threads: the control thread, except record_init, record_await_file, record_end, record_forget.
 * The exit handler also reads record_counts and record_last_file.
 */
#ifndef MEMCTX_CONTROL_RECORD_H
#define MEMCTX_CONTROL_RECORD_H

#include "base/text.h"

/* Reads MEMCTX_RECORD. `at_once`: `memctx run` started this program, so its recording begins soon
 * after the start. The recording of any other process begins when the process has lived for two
 * seconds. */
void record_init(const char *directory, bool at_once);
/* Ends the recording if `directory` is "off". Else begins a new file in the directory, also if the
 * process is recorded already; the path must be absolute. False: nothing has changed, and `answer`
 * says why. */
bool record_switch(const char *directory, struct text *answer);
/* Makes the directory. With MEMCTX_VERBOSE, prints why it cannot be written to. */
void record_begin(void);
/* Writes a moment if one is due. In a program of root that `memctx run` started, one is due at
 * once: the file is made before the program changes its user or its root directory. */
void record_look(void);
/* In a program of root that `memctx run` started: waits, at most 0.1 s, until the control thread
 * has made the file. Called by the constructor, so that the program cannot change its user or root
 * directory before. */
void record_await_file(void);
/* Returns the ms until record_look wants to be called, at most `wait`. */
int record_wait_ms(int wait);
/* Closes the file, because the control thread ends. If it starts again, it reopens the file. */
void record_pause(void);
/* Called by the exit handler: writes that the program ended by itself. Any thread. */
void record_end(void);
/* Drops the parent's recording in a forked child, which will make a file of its own. */
void record_forget(void);
/* Protects the watched contexts from eviction; called after TREE_MARKED was taken from all nodes.
 * Under heap_global.lock. */
void record_pin(void);

struct record_counts {
    /* Moments written; parts of the recording lost; bytes written; number of the error of the last
     * loss (errno), 0: the last moment was written. */
    int64_t moments, lost, bytes, error;
};
struct record_counts record_counts(void);
/* Returns the path of the file that this process records into, or recorded into until the recording
 * was switched off; NULL if there is none. */
const char *record_last_file(void);

#endif
