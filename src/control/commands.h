/* SPDX-License-Identifier: MIT */
/* commands.h - runs the requests of wire.h. */
#ifndef MEMCTX_CONTROL_COMMANDS_H
#define MEMCTX_CONTROL_COMMANDS_H

#include "figures/buffers.h"

/* Handles a request: reads `length` bytes of body, behind which a 0 stands, and writes the answer.
 * Returns enum wire_status. Control thread, and for WIRE_SELF any thread. */
uint32_t command_run(uint16_t type, const char *body, size_t length, struct answer *answer);
/* True when wire.h has this type of request, and its body may have `length` bytes. False: the
 * server closes the connection. */
bool command_is_known(uint16_t type, size_t length);

#endif
