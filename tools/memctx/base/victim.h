/* SPDX-License-Identifier: MIT */
/* victim.h - lets the kernel kill the command, and not the process under observation. */
#ifndef MEMCTX_VICTIM_H
#define MEMCTX_VICTIM_H

/* Asks the kernel to kill this process first when memory is short (oom_score_adj 1000): in a
 * container whose limit is near, the memory of the command could otherwise cost the life of the
 * container's largest process, which is the one that the command looks at. It helps less where the
 * other processes have a high oom_score_adj, too. Children inherit this. */
void victim_offer(void);

#endif
