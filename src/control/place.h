/* SPDX-License-Identifier: MIT */
/* place.h - where the socket stands, and that the directory is fit for it. */
#ifndef MEMCTX_PLACE_H
#define MEMCTX_PLACE_H

#include "base/text.h"
#include <sys/un.h>

struct place {
    struct sockaddr_un final, temporary; /* bound under the second name, then renamed */
};

/* Keeps $XDG_RUNTIME_DIR; from the constructor, because the program may rewrite its environment. */
void place_init(void);

/* Finds or makes DIR (0700, ours, no link) and names DIR/PID.sock in it. False: no directory will
 * do; `why` says so of the last one tried. */
bool place_find(struct place *place, uint32_t pid, struct text *why);

#endif
