/* SPDX-License-Identifier: MIT */
/* own_pause.c - a library with a function `pause` of its own, which has floating-point arguments
 * and is not libc's; and, without LIBRARY, a program that calls it. */
#include <stdio.h>

double pause(double seconds, double factor);

#ifdef LIBRARY
double pause(double seconds, double factor) {
    return seconds * factor;
}
#else
int main(void) {
    for (int i = 1; i <= 3; i++)
        printf("%g\n", pause(i, 1.5));
    return 0;
}
#endif
