/* SPDX-License-Identifier: MIT */
/*
 * control_client - connects to a control socket as whoever runs it, and says what came of it.
 *
 * `control_client PATH` prints "denied", or "got N": the bytes that the server sent before it
 * waited for us or closed. `control_client PATH COUNT` opens so many connections, one after the
 * other, keeps them, and prints "got N" for all of them together.
 * In C, because a test's interpreter may lie where other users cannot go.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Returns the number of bytes that came on one connection, which stays open; -1: not permitted to
 * connect. */
static long greeting_bytes(const struct sockaddr_un *address) {
    char bytes[4096];
    struct timeval patience = {.tv_sec = 3};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address)) {
        if (errno == EACCES || errno == EPERM)
            return -1;
        if (errno == EAGAIN) /* the server's backlog is full */
            return 0;
        perror("connect");
        exit(1);
    }
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    return got > 0 ? got : 0;
}

int main(int argc, char **argv) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc < 2 || strlen(argv[1]) >= sizeof address.sun_path)
        return 2;
    strcpy(address.sun_path, argv[1]);
    long total = 0;
    for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 1); i++) {
        long got = greeting_bytes(&address);
        if (got < 0) {
            puts("denied");
            return 0;
        }
        total += got;
    }
    printf("got %ld\n", total);
    return 0;
}
