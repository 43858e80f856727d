/* SPDX-License-Identifier: MIT */
/* victim.h - lets the kernel kill the command, and not the process under observation. */
#ifndef MEMCTX_VICTIM_H
#define MEMCTX_VICTIM_H

/* Asks the kernel to kill this process before all others when memory is short: in a container whose
 * limit is near, the memory of the command could otherwise cost the life of the container's largest
 * process, which is the one that the command looks at. Children inherit this. */
void victim_offer(void);

#endif
