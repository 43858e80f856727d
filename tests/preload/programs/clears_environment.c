/* SPDX-License-Identifier: MIT */
/* clears_environment - first overwrites the strings of its environment, as daemons do that set
 * their process title. Then it waits for the end of its input. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv, char **envp) {
    char byte;
    for (char **at = envp; *at; at++) {
        memset(*at, 'x', strlen(*at));
    }
    clearenv();
    for (int i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "NAME_%d", i % 100);
        setenv(name, argv[argc - 1], 1);
    }
    clearenv();
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
