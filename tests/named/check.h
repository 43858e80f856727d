/* SPDX-License-Identifier: MIT */
/* check.h - ends the program and names the line if a condition does not hold. */
#ifndef NAMED_CHECK_H
#define NAMED_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
