/* SPDX-License-Identifier: MIT */
/*
 * target.h - what a TARGET on the command line means: a pid, a unique process name or a snapshot.
 *
 * Digits are a pid. A word with a slash is a file. Any other word is first the name of a process
 * that has the library, then a file in the current directory. If the target cannot be used, these
 * functions end the process with a message and an exit code.
 */
#ifndef MEMCTX_TARGET_H
#define MEMCTX_TARGET_H

#include <stdbool.h>

#include "model/model.h"
#include "model/wire_load.h"
#include "target/client.h"

struct target {
    bool is_snapshot;
    const char *path; /* of a snapshot */
    struct process_facts facts;
    struct client client; /* connected; of a process */
    struct loader loader; /* while its model is loaded */
    struct cli_failure failure;
};

/* Finds the target and connects to a process. `live`: refuses a snapshot. */
void target_open(struct target *target, const char *word, bool live);
/* The target's dump. flags are WIRE_DUMP_*; every_mark: with the counters of each mark, as a
 * snapshot needs them; mark: with the counters of this one (NULL: none). */
struct target_load_options {
    uint32_t flags;
    bool every_mark;
    bool mappings;  /* with the kernel's map of the process */
    bool pages;     /* with what stands in which page */
    bool sums_only; /* without what only pages tell */
};
void target_load(struct target *target, struct model *model,
                 const struct target_load_options *options);
/* The same in two steps. The first loads everything but pages and mappings, which take longest;
 * the second loads these. Totals exist only after the second step. */
void target_load_contexts(struct target *target, struct model *model,
                          const struct target_load_options *options);
void target_load_rest(struct target *target, struct model *model,
                      const struct target_load_options *options);
/* Loads the counters of one mark (NULL: the latest) unless they are loaded already. Ends the
 * process if the target has no such mark. */
struct model_mark *target_load_mark(struct target *target, struct model *model, const char *name);
/* For callers that load parts of a dump themselves: ask for its head, and for a piece of it; the
 * request then tells where the next piece begins. Both end the process on a failure. */
void target_ask_head(struct target *target, uint32_t flags);
void target_ask_piece(struct target *target, struct wire_piece_request *request);
/* Asks for that piece and all pieces behind it. */
void target_ask_pieces(struct target *target, struct wire_piece_request *request);
/* Asks for all pieces of a part. */
void target_ask_part(struct target *target, enum wire_part part, uint32_t flags);
/* Loads the rest after the contexts and modules have been loaded. */
void target_load_begun(struct target *target, struct model *model,
                       const struct target_load_options *options);
/* Asks a live target. Ends the process if the target refuses. */
char *target_ask_text(struct target *target, enum wire_type type, const void *body, size_t length);

#endif
