/* SPDX-License-Identifier: MIT */
/*
 * teller.h - the child process that asks one process for its metrics.
 *
 * Each served process has a teller. If the process hangs, ends in mid-answer or sends damaged
 * answers, only its teller is harmed, not the server. A teller keeps its connection and the names
 * of call paths. So a scrape costs one look at all contexts, and one request for each of the
 * SURVEY_PATHS largest call paths.
 *
 * The server sends one byte for each scrape. The teller answers with a uint32_t, the length of the
 * text, and the text: lines as in exposition.h, or "!" and the reason why it has no figures.
 */
#ifndef MEMCTX_TELLER_H
#define MEMCTX_TELLER_H

#include "target/process.h"

#define TELLER_ANSWER_MAX (4U << 20)

/* Serves until the other end of `fd` is closed. */
_Noreturn void teller_run(const struct process_facts *facts, int fd);

#endif
