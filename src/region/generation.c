/* SPDX-License-Identifier: MIT */
/*
 * Generations: chunks that die in the order in which they were born.
 *
 * For: queues, logs, tuples of a sort. Chunks stand one behind the other (region/serial.h). A page
 * is given back when all its chunks were freed, except for one page that is kept, so that a queue
 * of constant length needs no new pages. Cannot do: use freed memory again in a page that still has
 * a chunk.
 *
 * Source: PostgreSQL's generation contexts (Tomas Vondra, 2017).
 */
#include "region/policy.h"
#include "region/serial.h"

const struct policy policy_generation = {
    .name = "generation", .alloc = serial_alloc, .in_order = true, .keeps_spare = true};
