/* SPDX-License-Identifier: MIT */
/* rules_request.h - answers WIRE_RULES. */
#ifndef MEMCTX_CONTROL_RULES_REQUEST_H
#define MEMCTX_CONTROL_RULES_REQUEST_H

#include "base/text.h"

/* Runs a request about rules. "list" writes a line for each rule, with the fields that wire.h
 * lists. "clear" removes all rules. "unresolved" lists the objects in which the command has not
 * resolved all rules yet. "check", a newline and a rule tells whether the rule is understood. Any
 * other body is a rule, which is added after the existing ones. Returns enum wire_status. Control
 * thread only. */
uint32_t rules_run(const char *body, struct text *text);

#endif
