/* SPDX-License-Identifier: MIT */
/* unwinder - prints which object the program's unwinder functions come from: it must not be a
 * library that memctx loads. backtrace() must see this program's frames. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *object_of(const void *address) {
    Dl_info info;
    if (!address || !dladdr(address, &info)) {
        return "nowhere";
    }
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

__attribute__((noinline)) static int frames_here(void) {
    void *frames[16];
    int count = backtrace(frames, 16);
    char **symbols = backtrace_symbols(frames, count);
    int mine = 0;
    for (int i = 0; i < count; i++) {
        mine += strstr(symbols[i], "unwinder") != NULL;
    }
    free(symbols);
    return mine;
}

int main(void) {
    static const char *const names[] = {
        "backtrace",
        "backtrace_symbols",
        "_Unwind_Backtrace",
        "_Unwind_RaiseException",
        "_Unwind_Resume",
        "_Unwind_GetIP",
        "_Unwind_Find_FDE",
        "unw_step",
        "_ULx86_64_step",
        "dl_iterate_phdr",
        "__libc_start_main",
        "pthread_create",
        "fork",
        "dlopen",
    };
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            printf("%s: %s\n", names[i], object_of(dlsym(RTLD_DEFAULT, names[i])));
        }
        if (pass == 0 && !dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL)) {
            return 1;
        }
    }
    printf("%d frames of mine\n", frames_here());
    return 0;
}
