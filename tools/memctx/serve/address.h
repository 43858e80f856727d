/* SPDX-License-Identifier: MIT */
/* address.h - where the server listens: unix:PATH, A.B.C.D:PORT, [IPv6]:PORT or localhost:PORT. */
#ifndef MEMCTX_ADDRESS_H
#define MEMCTX_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/cli.h"

struct address {
    const char *path; /* path of a Unix socket; NULL: TCP */
    bool loopback;    /* only this machine can connect */
    struct sockaddr_storage socket;
    socklen_t length;
};

/* Reads the value of --listen. Returns false and the reason if it is no address. `word` must stay
 * valid, because the path of a Unix socket is a part of it. */
bool address_parse(struct address *address, const char *word, struct cli_failure *failure);
/* Returns a socket that listens, or -1. A Unix socket has mode 0600; a socket file on which no
 * process listens any more is replaced. If the port is 0, sets it to the port that the kernel
 * chose. */
int address_listen(struct address *address, struct cli_failure *failure);
/* Returns the address as a text, for TCP as a URL; the caller frees it. */
char *address_write(const struct address *address, bool tls);
/* Removes the file of a Unix socket. */
void address_remove(const struct address *address);

#endif
