/* SPDX-License-Identifier: MIT */
/*
 * alone.c - stands in for the parts of libc that a static command must not use; only linked by
 * `make static`.
 *
 * glibc's own versions of these functions, in a static program, load shared libraries that must be
 * of the very glibc that the program was linked with. On another system that fails, or crashes. So
 * the static command loads no library, and finds the names of users in /etc/passwd alone.
 */
#include <dlfcn.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>

extern const char cli_static_reason[]; /* base/cli.h */
const char cli_static_reason[] =
    "this memctx was linked by make static and loads no libraries; use the memctx that make or a "
    "package installs";
static const char *failure;

void *dlopen(const char *name, int mode) {
    (void)name, (void)mode;
    failure = cli_static_reason;
    return NULL;
}

void *dlsym(void *restrict library, const char *restrict name) {
    (void)library, (void)name;
    return NULL;
}

int dlclose(void *library) {
    (void)library;
    return 0;
}

char *dlerror(void) {
    const char *text = failure;
    failure = NULL;
    return (char *)text;
}

struct passwd *getpwuid(uid_t uid) {
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd *user = NULL;
    while (file && (user = fgetpwent(file)) && user->pw_uid != uid) {
    }
    if (file)
        fclose(file);
    return user;
}
