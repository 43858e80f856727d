/* SPDX-License-Identifier: MIT */
/*
 * rule_send.h - resolves the rules of a process, and sends the process the code that they match
 * (docs/rules.md).
 */
#ifndef MEMCTX_RULE_SEND_H
#define MEMCTX_RULE_SEND_H

#include "target/target.h"

/* Resolves the rules in all objects in which they are not resolved yet. Returns false if rules stay
 * unresolved in an object; a message has then said why. Prints a note for each of the last `added`
 * rules that matches no function. (Adding a rule makes the rules unresolved in all objects, so all
 * objects are searched.) */
bool rule_send_all(struct target *target, size_t added);

/* The paths of the objects in which rules wait to be resolved by the command. */
struct rule_waiting {
    char **paths;
    size_t count;
    /* there is no rule with regex: or file:, but the library cannot read the names in these
     * objects, so other rules wait, too */
    bool plain_too;
};
/* Lists these objects, and resolves nothing. */
void rule_send_list(struct target *target, struct rule_waiting *waiting);

#endif
