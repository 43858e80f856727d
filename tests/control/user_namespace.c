/* SPDX-License-Identifier: MIT */
/* user_namespace.c - "user_namespace FIRST OUTER INNER PROGRAM..." executes the program as user
 * INNER of a new user namespace, in which the ids from FIRST on are those from OUTER on. Needs
 * root. */
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IDS = 1000 };

static int map_write(pid_t pid, const char *name, const char *first, const char *outer) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "w");
    return !file || fprintf(file, "%s %s %d", first, outer, IDS) < 0 || fclose(file) != 0;
}

int main(int argc, char **argv) {
    int ready[2], status;
    char byte;
    pid_t self = getpid(), helper;
    if (argc < 5 || pipe(ready) != 0 || (helper = fork()) < 0)
        return 97;
    if (helper == 0) { /* only a process outside of the namespace may map these ids */
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
            return 1;
        return map_write(self, "uid_map", argv[1], argv[2]) ||
               map_write(self, "gid_map", argv[1], argv[2]);
    }
    if (unshare(CLONE_NEWUSER) != 0 || write(ready[1], "", 1) != 1 ||
        waitpid(helper, &status, 0) != helper || status != 0)
        return 98;
    close(ready[0]);
    close(ready[1]);
    id_t inner = (id_t)atoi(argv[3]);
    if (setgroups(0, NULL) != 0 || setgid(inner) != 0 || setuid(inner) != 0)
        return 99;
    execv(argv[4], argv + 4);
    return 96;
}
