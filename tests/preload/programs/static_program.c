/* SPDX-License-Identifier: MIT */
/* static_program - a static program, into which no library can be preloaded. */
#include <stdio.h>

int main(void) {
    puts("static");
    return 0;
}
