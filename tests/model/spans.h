/* SPDX-License-Identifier: MIT */
/* spans.h - scenarios of segments, the freelist, span caches and huge chunks. */
#ifndef MEMCTX_MODEL_SPANS_H
#define MEMCTX_MODEL_SPANS_H

/* For each scenario: what prepares it, what thread `id` does, what checks the state at its end. */
void dirty_slices(void);
void thread_slices(unsigned id);
void check_slices(void);
void two_span_caches(void);
void thread_span_caches(unsigned id);
void check_span_caches(void);
void two_segments(void);
void thread_segments(unsigned id);
void thread_huge(unsigned id);

#endif
