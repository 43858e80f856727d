/* SPDX-License-Identifier: MIT */
/*
 * policy_rules.h - which call paths are placed how, by the names of the functions on them.
 *
 * A rule is "PATTERN=POLICY"; several are separated by ';'. PATTERN is the name of a function, or module:NAME, the file
 * name of an object; in both, * stands for any characters and ? for one. Of a C++ function it is the name without what
 * is around it (session_open for _Z12session_openv). A rule holds for every path that has such a frame anywhere; of those that
 * hold the first one counts. MEMCTX_RULES has the rules that a program starts with; memctx rules adds to them.
 *
 * The control thread looks at what is new in the tree ten times a second, so that a path that is new at a place that
 * somebody chose is placed before it has much alive. Symbols are read from the objects' files, once for each object and
 * set of rules; of them only the address ranges of functions that match are kept.
 *
 * Threads: the control thread, but for policy_rules_init. A context that was placed by hand (memctx set, isolate,
 * merge) stays as it is.
 */
#ifndef MEMCTX_POLICY_RULES_H
#define MEMCTX_POLICY_RULES_H

#include "control/control.h"

#define POLICY_RULES_MAX 64U

/* The rules of MEMCTX_RULES; what is not understood is said in `warnings`. In the constructor. */
void policy_rules_init(const char *rules, struct text *warnings);
bool policy_rules_exist(void);
/* Places what is new in the tree. */
void policy_rules_apply(void);
/* "" -> a line for each rule: text, contexts, live bytes and chunks, separated by tabs; "clear" -> no rules; else
 * a rule that is added behind the others. */
uint32_t policy_rules_run(const char *body, struct text *text);
/* The rule that a context is placed by, from 1 on; 0: none. */
unsigned policy_rules_of(uint32_t context);

#endif
