/* SPDX-License-Identifier: MIT */
/*
 * Bump: chunks that are freed all together.
 *
 * For: what is only ever reset. Chunks stand one behind the other (region/serial.h), and no empty page is kept. A free is none of its
 * business, but programs do free in contexts that they do not know of; so each chunk has a record, of four bytes, and a page that got
 * empty by frees goes.
 *
 * Source: PostgreSQL's bump contexts (David Rowley, 2024), which have no record and cannot free.
 */
#include "region/policy.h"
#include "region/serial.h"

const struct policy policy_bump = {.name = "bump", .alloc = serial_alloc, .in_order = true};
