/* SPDX-License-Identifier: MIT */
/* plugger.c - a program with plug-ins: "plugger FILE FOLDER" prints "look" five times, and before
 * each of these it loads 10 copies of the library FILE, one after the other. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOKS 5
#define COPIES 10

static void load_copy(const char *from, const char *folder, int number) {
    char path[4096];
    struct stat facts;
    snprintf(path, sizeof path, "%s/copy-%d.so", folder, number);
    int in = open(from, O_RDONLY), out = open(path, O_WRONLY | O_CREAT, 0700);
    if (in < 0 || out < 0 || fstat(in, &facts) != 0 ||
        sendfile(out, in, NULL, (size_t)facts.st_size) != facts.st_size)
        abort();
    close(in);
    close(out);
    if (!dlopen(path, RTLD_NOW))
        abort();
}

int main(int argc, char **argv) {
    char line[16];
    if (argc < 3)
        return 2;
    for (int number = 0; number < LOOKS * COPIES;) {
        load_copy(argv[1], argv[2], number++);
        usleep(20000);
        if (number % COPIES == 0) {
            puts("look");
            fflush(stdout);
            if (!fgets(line, sizeof line, stdin))
                return 0;
        }
    }
    return 0;
}
