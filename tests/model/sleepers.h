/* SPDX-License-Identifier: MIT */
/* sleepers.h - scenarios of the control thread: it punches quiet pages, and collects freed
 * chunks for owners that sleep. */
#ifndef MEMCTX_MODEL_SLEEPERS_H
#define MEMCTX_MODEL_SLEEPERS_H

/* For each scenario: what prepares it, what thread `id` does, what checks the state at its end. */
void quiet_page(void);
void thread_quiet(unsigned id);
void thread_quiet_goes(unsigned id);
void thread_quiet_becomes_large(unsigned id);
void quiet_page_and_gate(void);
void thread_quiet_between(unsigned id);
void check_quiet(void);
void check_large(void);
void handed_page(void);
void thread_collects(unsigned id);
void thread_collects_last(unsigned id);
void check_collected(void);

#endif
