/* SPDX-License-Identifier: MIT */
/*
 * control_client.c - connects to a control socket as the current user, and prints the result.
 *
 * `control_client PATH` prints "denied", or "got N": the number of bytes that the server sent
 * first. `control_client PATH COUNT` opens COUNT connections one after the other, keeps them, and
 * prints "got N" for their sum. It is written in C because other users may not be able to run the
 * suite's interpreter.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Opens a connection, which stays open, and returns the number of bytes that the server sent; -1:
 * the user may not connect. */
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
