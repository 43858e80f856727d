/* SPDX-License-Identifier: MIT */
/* confined.c - changes its root to DIRECTORY and its user to 65534 as its first act, as servers do
 * a little later. Then it allocates, and ends by exit. */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 2 || chroot(argv[1]) != 0 || chdir("/") != 0 || setgroups(0, NULL) != 0 ||
        setgid(65534) != 0 || setuid(65534) != 0) {
        perror("confined");
        return 2;
    }
    memset(malloc(5 << 20), 1, 5 << 20);
    printf("uid %d, root again: %d\n", (int)getuid(), setuid(0));
    return 0;
}
