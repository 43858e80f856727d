/* SPDX-License-Identifier: MIT */
/*
 * look.h - struct look, the figures of a process that the rules of memctx doctor read, with their
 * findings; helpers for rules; the rules.
 */
#ifndef MEMCTX_LOOK_H
#define MEMCTX_LOOK_H

#include <stddef.h>

#include "diagnosis/blame.h"
#include "diagnosis/findings.h"
#include "pages/holders.h"

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)

struct rule;
struct look {
    const struct rule *rules; /* table of all rules */
    const struct findings_input *input;
    const struct model *model;
    struct holders holders; /* holders.list is NULL if the pages are not known */
    struct blame_paths paths;
    int64_t rss_bytes; /* the resident set without memctx's own memory */
    struct findings *findings;
};

struct rule {
    const char *id, *title, *why, *advice, *sure; /* as in struct finding */
    void (*look)(struct look *look, const struct rule *rule);
};

static inline double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static inline int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Returns the larger of two floors: bytes, and a percentage of the resident set. */
static inline int64_t floor_of(const struct look *look, int64_t bytes, int per_cent) {
    return larger(bytes, look->rss_bytes / 100 * per_cent);
}

/* Returns the own totals of the context whose figures have this number, limited by model_tame. The
 * totals are made anew by each call, which is cheaper than to keep a million of them. */
static inline struct model_totals look_totals(const struct look *look, size_t number) {
    const struct model_figures *figures = model_figures_at(look->model, number);
    struct model_totals own;
#define X(name) own.name = model_tame(figures->self.name);
    MODEL_TOTALS(X)
#undef X
    own.peak_requested_bytes = figures->context == WIRE_NONE
                                   ? WIRE_UNKNOWN
                                   : model_peak(&look->model->contexts[figures->context]);
    return own;
}

/* Returns a line of the model's ledger by its key; 0 if there is no such line. */
int64_t look_ledger_line(const struct look *look, const char *key);
/* Returns bytes as text with a unit: "1.5 MiB", or "1572864 bytes" after
 * look_use_exact_bytes(true). The text stays valid for the next seven calls. */
const char *look_bytes(int64_t bytes);
void look_use_exact_bytes(bool exact);
/* Returns a span of time as text, such as "6.2 h". The caller frees it. */
char *look_time(double seconds);
/* Returns growth as " (1.5 GiB a day at this rate)"; an empty text if it was watched for less than
 * a minute, which is too short for a rate per day. The caller frees it. */
char *look_a_day(double a_day, double seconds);
/* Sums a member of struct model_totals over the contexts of a suspect. */
#define SUM_OVER(look, suspect, figure)                                                            \
    look_sum(look, suspect, offsetof(struct model_totals, figure))
int64_t look_sum(const struct look *look, const struct blame_suspect *suspect, size_t figure);

/* Returns the counts of realloc of the context whose figures have this number, limited by
 * model_tame; all 0 if realloc resized no chunk. */
struct wire_resizes look_resizes(const struct look *look, size_t number);

/* Returns how many bytes of the process are in swap; 0 if that is not known. */
int64_t look_swapped(const struct model *model);
bool look_is_python(const struct model *model);
/* If the program's language runtime is known to map memory itself, returns true, and sets the
 * finding's advice and action to what the runtime offers: tools, or a setting for malloc. Sets no
 * action if the tool needs the process and look_may_act is false. */
bool look_mapped_by_runtime(const struct model *model, struct finding *finding);
/* True if the program's executable is a language runtime that is known to map memory itself. */
bool look_has_runtime(const struct model *model);
/* True if the program's language runtime may let its own heap grow beyond this size before it
 * collects garbage, even if few objects are alive. */
bool look_runtime_may_fill(const struct model *model, int64_t bytes);

/* Counts new threads: threads[sample] becomes the number of threads that are new since the first
 * sample. pthread_create allocates one chunk for the data of each thread. These chunks are counted
 * in the contexts that have more of them at the end than at the beginning. Returns the index of the
 * context with the most new chunks, or WIRE_NONE. */
uint32_t look_new_threads(const struct look *look, int64_t *threads);

/* Add a finding: finding_new about the whole process, finding_on about a suspect. The caller fills
 * in evidence and action. The pointer is valid until the next finding is added. */
struct finding *finding_new(struct look *look, const struct rule *rule, enum severity severity,
                            int64_t bytes, double ratio);
struct finding *finding_on(struct look *look, const struct rule *rule, enum severity severity,
                           const struct blame_suspect *suspect, int64_t bytes, double ratio);
/* Makes suspects of the figures, as blame_make does, and joins those with one cause (join.h). */
void look_blame(const struct look *look, struct blame *blame, const int64_t *figures,
                int64_t floor);
/* Call this if the finding's suspect has figures that are numbers of chunks, not bytes. */
void finding_counts_chunks(struct finding *finding);
/* True if commands can act on the process. The process of a snapshot may have ended, and its pid
 * may belong to another process now. A process that was read from outside answers no command. */
bool look_may_act(const struct model *model);
/* Sets finding->now to the command "memctx VERB TARGET --context SELECTOR WORDS", without --context
 * if the finding is about no contexts. `words` is empty or begins with a space. Sets
 * finding->now_bytes to `bytes`, and finding->now_effect to `effect`, an allocated text that the
 * finding takes over. If no command can act on the process, frees `effect` and sets nothing. */
void finding_helps(const struct look *look, struct finding *finding, const char *verb,
                   const char *words, int64_t bytes, char *effect);
/* Returns a selector (model/selector.h) for the suspect's contexts. The caller frees it. */
char *look_selector(const struct model *model, const struct blame_suspect *suspect);
/* Returns the command that shows the contexts of the finding, or all contexts if the finding is
 * about the whole process. The caller frees it. */
char *look_closer(const struct look *look, const char *verb, const char *options,
                  const struct finding *finding);

/* look_held.c: memory that the process holds but does not use. */
void look_for_empty_pages(struct look *look, const struct rule *rule);
void look_for_rounding(struct look *look, const struct rule *rule);
void look_for_thread_memory(struct look *look, const struct rule *rule);
void look_for_huge_pages(struct look *look, const struct rule *rule);
void look_for_untouched(struct look *look, const struct rule *rule);
/* look_largest.c: sets look->findings->largest. */
void look_for_largest(const struct look *look);
/* look_growth.c and look_filling.c: growth of memory from malloc. */
void look_for_growth(struct look *look, const struct rule *rule);
/* Part of look_for_growth: adds a finding for large chunks of which the program touches ever more,
 * such as an array that is not full yet. taken[number of a path's figures]: look_for_growth has
 * judged the growth of this path, so the path is left out. */
void look_filling(struct look *look, const struct rule *rule, const bool *taken);
/* look_mapped.c: growth of memory that did not come from malloc. */
void look_for_mapped_growth(struct look *look, const struct rule *rule);
/* look_marked.c: part of look_for_mapped_growth, by the resident sets at the marks. */
void look_for_marked_growth(struct look *look, const struct rule *rule);
/* look_resize.c: arrays that grow by realloc or by copying. */
void look_for_small_steps(struct look *look, const struct rule *rule);
void look_for_copies(struct look *look, const struct rule *rule);
/* look_use.c: short-lived chunks, frees by other threads. */
void look_for_temporary(struct look *look, const struct rule *rule);
void look_for_remote_frees(struct look *look, const struct rule *rule);

#endif
