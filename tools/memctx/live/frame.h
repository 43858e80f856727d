/* SPDX-License-Identifier: MIT */
/*
 * frame.h - prints the figures of one look at a process or at several processes, as text or as one
 * line of JSON.
 */
#ifndef MEMCTX_FRAME_H
#define MEMCTX_FRAME_H

#include "live/herd.h"
#include "live/rows.h"
#include "live/threads.h"
#include "live/watch.h"

#define FRAME_NUMBER_BYTES 16

struct frame_options {
    struct rows_options rows;
    bool human;
    int64_t number, of; /* numbers of this frame (from 1) and of the last frame */
    double interval_s;
};

/* Print the totals and the rows of one process: as text, or as one line of JSON. */
void frame_print_text(struct watch *watch, struct rows *rows, const struct frame_options *options);
void frame_print_json(struct watch *watch, struct rows *rows, const struct frame_options *options);
/* Reads the figures of all threads and prints each thread with its call paths, as text or as one
 * line of JSON. Returns false if the process did not answer. */
bool frame_print_threads(struct watch *watch, struct threads *threads,
                         const struct frame_options *options, bool json);
/* Print the totals of several processes: as text, or as one line of JSON. */
void frame_print_herd_text(const struct herd *herd, const struct frame_options *options);
void frame_print_herd_json(const struct herd *herd, const struct frame_options *options);

/* For a watch of a recording: writes date and time of the moment that it shows. Returns `text`. */
#define FRAME_CLOCK_BYTES 40
char *frame_clock(char text[FRAME_CLOCK_BYTES], const struct watch *watch);
/* Writes a number in at most 6 characters: "999", "12.3K", "-4.56M"; "?" for WIRE_UNKNOWN. `units`:
 * K is 1024, not 1000. `sign`: a number above 0 has a plus. Returns `text`. */
char *frame_short(char text[FRAME_NUMBER_BYTES], int64_t value, bool units, bool sign);

#endif
