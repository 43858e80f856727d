/* SPDX-License-Identifier: MIT */
/* A function in another source file than its callers. */
#ifndef ELSEWHERE_H
#define ELSEWHERE_H

#include <stddef.h>

char *elsewhere_new(size_t bytes);

#endif
