/* SPDX-License-Identifier: MIT */
/*
 * rule_send.h - resolves the rules of a process, and sends the process the code that they match
 * (docs/rules.md).
 */
#ifndef MEMCTX_RULE_SEND_H
#define MEMCTX_RULE_SEND_H

#include "target/target.h"

/* Resolves the rules in all objects that are not resolved yet. Returns false if the rules stay
 * unresolved in an object; a message has said why. Prints a note for each of the last `added` rules
 * that matches no function. (Adding a rule makes all objects unresolved, so all are searched.) */
bool rule_send_all(struct target *target, size_t added);

/* The objects in which rules are not resolved. */
struct rule_waiting {
    char **paths;
    size_t count;
    /* there is no regex: or file: rule, but the library cannot read the names in these objects */
    bool plain_too;
};
/* Lists these objects, and resolves nothing. */
void rule_send_list(struct target *target, struct rule_waiting *waiting);

#endif
