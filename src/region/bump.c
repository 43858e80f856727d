/* SPDX-License-Identifier: MIT */
/*
 * Bump: chunks that are freed all together.
 *
 * For: what is only ever reset. Chunks stand one behind the other (region/serial.h), and no empty
 * page is kept. A free is none of its business, but programs do free in contexts that they do not
 * know of; so it is known where each chunk stands, for nothing where it is like the one before, and
 * a page that got empty by frees goes.
 *
 * Source: PostgreSQL's bump contexts (David Rowley, 2024), which have no record and cannot free.
 */
#include "region/policy.h"
#include "region/serial.h"

const struct policy policy_bump = {.name = "bump", .alloc = serial_alloc, .in_order = true};
