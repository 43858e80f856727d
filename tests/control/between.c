/* SPDX-License-Identifier: MIT */
/* A library that stands in front of libc's poll, as some preloaded libraries do: adds 100. */
#include <dlfcn.h>
#include <poll.h>

int poll(struct pollfd *polls, nfds_t count, int timeout) {
    int (*next)(struct pollfd *, nfds_t, int) =
        (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    return next(polls, count, timeout) + 100;
}
