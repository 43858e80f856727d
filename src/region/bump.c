/* SPDX-License-Identifier: MIT */
/*
 * Bump: chunks that are freed all together.
 *
 * For: contexts that are only ever reset. Chunks stand one behind the other (region/serial.h), and
 * no empty page is kept. The policy needs no free of single chunks, but programs do free chunks in
 * contexts that they do not know of. So the place of each chunk is stored, which costs nothing when
 * the chunk is like the one before, and a page that frees made empty is given back.
 *
 * Source: PostgreSQL's bump contexts (David Rowley, 2024), which have no record and cannot free.
 */
#include "region/policy.h"
#include "region/serial.h"

const struct policy policy_bump = {.name = "bump", .alloc = serial_alloc, .in_order = true};
