/* SPDX-License-Identifier: MIT */
/*
 * exposition.h - the metrics of `memctx serve`, and the two text formats that they are written in.
 *
 * The teller of a process sends its figures as lines "FAMILY<tab>LABELS<tab>VALUE", sorted by
 * family. FAMILY is a number of enum exposition_family. LABELS are written as in the format,
 * without braces, or are empty. exposition_write merges the lines of all processes by family,
 * because both formats want the samples of a family side by side.
 */
#ifndef MEMCTX_EXPOSITION_H
#define MEMCTX_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* FAMILY(constant, name, type, unit, help). A counter's samples end in _total. */
#define EXPOSITION_FAMILIES(FAMILY)                                                                \
    FAMILY(UP, "memctx_up", "gauge", "", "1: the process answered this scrape; 0: it did not.")    \
    FAMILY(SCRAPE_SECONDS, "memctx_scrape_duration_seconds", "gauge", "seconds",                   \
           "Time that it took to ask the process.")                                                \
    FAMILY(REQUESTED, "memctx_requested_bytes", "gauge", "bytes",                                  \
           "Bytes of live chunks, as the program requested them.")                                 \
    FAMILY(CHUNKS, "memctx_live_chunks", "gauge", "", "Chunks that are allocated and not freed.")  \
    FAMILY(ALLOCATIONS, "memctx_allocations", "counter", "",                                       \
           "Allocations since the process started.")                                               \
    FAMILY(FREES, "memctx_frees", "counter", "", "Frees since the process started.")               \
    FAMILY(RESIDENT, "memctx_resident_bytes", "gauge", "bytes",                                    \
           "Resident set of the process, as the kernel counts it.")                                \
    FAMILY(WASTE, "memctx_waste_bytes", "gauge", "bytes",                                          \
           "Bytes in pages that hold chunks, less the requested bytes.")                           \
    FAMILY(FREELIST, "memctx_freelist_bytes", "gauge", "bytes",                                    \
           "Empty memory that is kept for reuse.")                                                 \
    FAMILY(OWN, "memctx_own_resident_bytes", "gauge", "bytes",                                     \
           "Resident memory that memctx takes for itself.")                                        \
    FAMILY(TABLES, "memctx_tables_used_bytes", "gauge", "bytes",                                   \
           "Bytes of the tables for call paths.")                                                  \
    FAMILY(TABLES_LIMIT, "memctx_tables_limit_bytes", "gauge", "bytes",                            \
           "Limit of the tables for call paths (MEMCTX_TABLES).")                                  \
    FAMILY(LOST, "memctx_lost_operations", "counter", "",                                          \
           "Operations that could not be charged to their call path.")                             \
    FAMILY(RECORD_LOST, "memctx_recording_lost", "counter", "",                                    \
           "Parts of the recording that could not be written.")                                    \
    FAMILY(DUMPS, "memctx_dumps", "counter", "",                                                   \
           "Dumps and sums that the process was asked for, by every client.")                      \
    FAMILY(CONTEXTS, "memctx_contexts", "gauge", "", "Contexts in which something is alive.")      \
    FAMILY(CONTEXT_REQUESTED, "memctx_context_requested_bytes", "gauge", "bytes",                  \
           "Bytes of live chunks of one context. Contexts of kind other are summed in one.")       \
    FAMILY(CONTEXT_CHUNKS, "memctx_context_live_chunks", "gauge", "",                              \
           "Live chunks of one context.")                                                          \
    FAMILY(CONTEXT_ALLOCATIONS, "memctx_context_allocations", "counter", "",                       \
           "Allocations in contexts to which the program gave a name.")                            \
    FAMILY(CONTEXTS_CUT, "memctx_contexts_cut", "gauge", "",                                       \
           "Contexts with live chunks that are summed as the one of kind other.")                  \
    FAMILY(RULE_REQUESTED, "memctx_rule_requested_bytes", "gauge", "bytes",                        \
           "Bytes of live chunks that one placement rule placed.")                                 \
    FAMILY(RULE_CHUNKS, "memctx_rule_live_chunks", "gauge", "",                                    \
           "Live chunks that one placement rule placed.")                                          \
    FAMILY(RULES_CUT, "memctx_rules_cut", "gauge", "", "Placement rules that are not listed.")     \
    FAMILY(PROCESSES, "memctx_serve_processes", "gauge", "", "Processes that are served.")         \
    FAMILY(PROCESSES_CUT, "memctx_serve_processes_cut", "gauge", "",                               \
           "Processes that are not served, because there are too many.")

enum exposition_family {
#define FAMILY(constant, ...) FAMILY_##constant,
    EXPOSITION_FAMILIES(FAMILY)
#undef FAMILY
        FAMILIES
};

enum exposition_format { EXPOSITION_PROMETHEUS, EXPOSITION_OPENMETRICS, EXPOSITION_FORMATS };

/* The value of the Content-Type header. */
extern const char *const exposition_types[EXPOSITION_FORMATS];
/* Returns the format that an Accept header prefers. `accept` is NULL if there is no such header. */
enum exposition_format exposition_choose(const char *accept);

/* Writes NAME="VALUE", with the value escaped and at most `most` characters of it. Bytes that are
 * not UTF-8 are replaced. */
void exposition_put_label(FILE *file, const char *name, const char *value, size_t most);
/* Returns FIRST="VALUE",SECOND="OTHER", written by exposition_put_label. The caller frees the
 * text. */
char *exposition_two_labels(const char *first, const char *value, const char *second,
                            const char *other, size_t most);
/* Writes one line of a process's figures. `labels` may be "". Writes nothing for WIRE_UNKNOWN. */
void exposition_put(FILE *file, enum exposition_family family, const char *labels, int64_t value);
/* Writes one line of a process's figures, without labels: a number of seconds. */
void exposition_put_seconds(FILE *file, enum exposition_family family, double seconds);

/* The figures of one process. */
struct exposition_source {
    const char *labels; /* labels of the process; may be "" */
    const char *text;   /* lines of the process's figures */
};
/* Returns the metrics of all sources in a format. The caller frees the text. */
char *exposition_write(const struct exposition_source *sources, size_t count,
                       enum exposition_format format, size_t *length);

#endif
