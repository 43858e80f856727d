/* SPDX-License-Identifier: MIT */
/*
 * choose.h - the contexts that a verb is to act on: ids on the command line, each with all below it, or --site.
 */
#ifndef MEMCTX_CHOOSE_H
#define MEMCTX_CHOOSE_H

#include "reading.h"

struct chosen {
    bool *members; /* by index of the model's contexts: those with figures of their own */
    size_t count;
};

/* ids: words that should be numbers, id_count of them; site: a regular expression or NULL. Ends the process with
 * a message where one does not exist, or nothing is left. The names must be there for a site. */
void choose_contexts(struct chosen *chosen, const struct model *model, char *const *ids,
                     size_t id_count, const char *site);
/* Sends the request with all chosen contexts, in parts; the last answer, whose body the caller frees. */
void choose_send(struct target *target, const struct model *model, const struct chosen *chosen,
                 enum wire_type type, uint32_t verb, struct client_answer *answer);

#endif
