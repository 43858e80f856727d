/* SPDX-License-Identifier: MIT */
/* elsewhere.h - a function in another source file than its callers. */
#ifndef ELSEWHERE_H
#define ELSEWHERE_H

#include <stddef.h>

char *elsewhere_new(size_t bytes);

#endif
