/* SPDX-License-Identifier: MIT */
/* mhd.c - loads libmicrohttpd. */
#include "serve/mhd.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libmicrohttpd.so.12"

struct mhd mhd;

/* Looks up a function of the library, and writes its address to the pointer at which `function`
 * points. POSIX, but not ISO C, promises that a pointer to a function has the size of a pointer to
 * data. */
static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found;
}

bool mhd_load(struct cli_failure *failure) {
    if (cli_static_reason)
        return cli_fail(failure, CLI_REFUSED, "serve needs " LIBRARY "; %s", cli_static_reason);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool good = library;
#define X(name) good = good && find(library, "MHD_" #name, &mhd.name);
    MHD_FUNCTIONS(X)
#undef X
    return good || cli_fail(failure, CLI_REFUSED,
                            "serve needs " LIBRARY ", which cannot be loaded (%s); install "
                            "Debian's package libmicrohttpd12",
                            dlerror());
}
