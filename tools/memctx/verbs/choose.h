/* SPDX-License-Identifier: MIT */
/*
 * choose.h - the contexts that a verb acts on: ids on the command line, each with all contexts
 * below it, --context or --site.
 */
#ifndef MEMCTX_CHOOSE_H
#define MEMCTX_CHOOSE_H

#include "verbs/reading.h"

/* The command line of a verb that acts on contexts: TARGET, then CONTEXT..., --context or --site.
 */
struct choice {
    const char *target;
    char *const *ids; /* words that should be numbers */
    size_t id_count;
    const char *site;     /* a regular expression or NULL */
    const char *selector; /* the value of --context (model/selector.h) or NULL */
    struct reading_names names;
    bool json, human;
    bool units; /* --human or --bytes was given */
};
/* The options of these verbs that reading.h does not have. The values are no printable characters,
 * so the options have no short form. choose_take handles one option of any of these verbs. */
enum { CHOOSE_SITE = 1, CHOOSE_CONTEXT };
void choose_take(struct choice *choice, int option);
/* Reads the whole command line. A mistake in it ends the command. */
void choose_parse(struct choice *choice, int argc, char **argv);
/* Ends the command with a usage error if contexts are chosen in two ways. choose_parse calls it. */
void choose_check(const struct choice *choice);

/* Returns true if the choice names any contexts. */
bool choose_chooses(const struct choice *choice);
/* Returns the words of a command line that name these contexts. The caller frees them. */
char *choose_write(const struct choice *choice);

struct chosen {
    /* members[index of a context]: true for chosen contexts with figures of their own */
    bool *members;
    size_t count;
    uint32_t first; /* id of the first chosen context */
};

/* Finds the chosen contexts. Loads the target with its pages, and with names if --site needs them.
 * Ends the command with a message if a context does not exist, or if no context is chosen in which
 * anything was allocated. */
void choose_contexts(struct chosen *chosen, struct target *target, struct model *model,
                     const struct choice *choice);
/* Sends a request about all chosen contexts: several requests of at most WIRE_CONTEXTS_MAX
 * contexts, of which all but the last have the flag WIRE_MORE. *answer is the answer to the last
 * one; the caller frees its body. Ends the command if the target refuses. */
void choose_send(struct target *target, const struct model *model, const struct chosen *chosen,
                 enum wire_type type, uint32_t verb, struct client_answer *answer);

#endif
