/* SPDX-License-Identifier: MIT */
/* labels.c - makes contexts whose names are about as long as the longest label, and waits. */
#include <memctx.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    static const size_t lengths[] = {3, 149, 150, 160, 180, 190, 199, 200, 201, 260, 3000};
    static char names[sizeof lengths / sizeof *lengths][3001];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(names[i], (int)('a' + i), lengths[i]);
        memctx_t context = memctx_create(NULL, names[i], MEMCTX_ASET);
        memctx_set_identifier(context, "the identifier of one context");
        memset(memctx_alloc(context, 1000), 1, 1000);
    }
    puts("ready");
    fflush(stdout);
    return pause();
}
