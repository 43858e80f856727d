/* SPDX-License-Identifier: MIT */
/* descriptors FILE - writes to FILE which descriptors are open at the start and after 200 ms of
 * work, and which number the next open returns. Standard input, output and error may be closed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void list(char *text, size_t bytes) {
    for (int fd = 0; fd < 4096; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            snprintf(text + strlen(text), bytes - strlen(text), " %d", fd);
        }
    }
}

int main(int argc, char **argv) {
    char text[8192] = "at first:";
    if (argc != 2) {
        return 2;
    }
    list(text, sizeof text);
    strcat(text, "\nlater:");
    for (int i = 0; i < 20; i++) {
        free(malloc((size_t)i * 10000 + 1));
        usleep(10000);
    }
    list(text, sizeof text);
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_EXCL, 0600);
    snprintf(text + strlen(text), sizeof text - strlen(text), "\nopened: %d\n", fd);
    return write(fd, text, strlen(text)) != (ssize_t)strlen(text);
}
