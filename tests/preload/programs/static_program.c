/* SPDX-License-Identifier: MIT */
/* static_program - linked without a dynamic loader: nothing can be preloaded into it. */
#include <stdio.h>

int main(void) {
    puts("static");
    return 0;
}
