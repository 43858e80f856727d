/* SPDX-License-Identifier: MIT */
/* between.c - a preloaded library whose poll calls the next poll in the search order, and adds 100
 * to the result. */
#include <dlfcn.h>
#include <poll.h>

int poll(struct pollfd *polls, nfds_t count, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) =
        (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    return next(polls, count, timeout) + 100;
}
