/* SPDX-License-Identifier: MIT */
/*
 * watch_internal.h - shared by the files that watch one process (watch.h).
 *
 * All functions that ask the process return false, and set watch->failure, if it did not answer.
 */
#ifndef MEMCTX_WATCH_INTERNAL_H
#define MEMCTX_WATCH_INTERNAL_H

#include "live/watch.h"

/* Pages and names are loaded again after a pause of DUE_SHARE times the duration of the last
 * loading. If new frames have no names, names are loaded after DUE_SHARE_NAMELESS times the
 * duration. */
#define DUE_SHARE 100
#define DUE_SHARE_NAMELESS 10

/* --- requests (watch_ask.c) --- */

/* True if there is a connection, or the process's memory is open. */
bool watch_is_open(const struct watch *watch);
/* Asks one question. A refusal by the process is a failure, too. The caller frees answer->body. */
bool watch_ask(struct watch *watch, enum wire_type type, const void *body, size_t length,
               struct client_answer *answer);
/* Asks for the head of a dump; `flags` are those of struct wire_dump_request. Sets watch->read_s.
 */
bool watch_ask_head(struct watch *watch, uint32_t flags, struct wire_dump *head);
/* Asks for one piece of a dump, and gives it to the loader. Sets request->from to the place where
 * the next piece begins. watch_ask_pieces asks for all pieces from request->from on. */
bool watch_ask_piece(struct watch *watch, struct loader *loader,
                     struct wire_piece_request *request);
bool watch_ask_pieces(struct watch *watch, struct loader *loader,
                      struct wire_piece_request *request);

/* --- the contexts and their names (watch_tree.c) --- */

/* Frees a model, but not the names of its frames. */
void watch_free_model(struct model *model);
/* Frees the model of a process, with the names. */
void watch_drop_model(struct watch *watch);
/* Makes room for new contexts, and sets the figures that came with their records. */
void watch_take_new(struct watch *watch);
/* Loads all contexts and modules into watch->model. */
bool watch_load_all(struct watch *watch);
/* Loads all contexts again, because the library has given ids of removed contexts to other paths. A
 * path that was in the old model keeps its figures, its base and its names. */
bool watch_reload(struct watch *watch);
/* Loads the contexts with higher ids than the model's last one. */
bool watch_append(struct watch *watch);
/* Looks up the names of new contexts. Blocks SIGWINCH, because it would interrupt a read from the
 * child that finds the names, and the names would be lost. */
void watch_look_up_names(struct watch *watch);

/* --- figures (watch_figures.c) --- */

/* Sets the figures of the whole process: from `survey`, if one look has read all contexts; else
 * (`survey` is NULL) from the head of a dump. */
void watch_set_totals(struct watch *watch, const struct wire_dump *head,
                      const struct wire_survey *survey);
/* Reads the figures of up to WATCH_RECORDS contexts, from the place where the last look ended.
 * From outside, reads the figures of all contexts: the command has them in memory already. */
bool watch_ask_figures(struct watch *watch);
/* Reads the pages, from which the waste of each context is computed. */
bool watch_ask_pages(struct watch *watch);

#endif
