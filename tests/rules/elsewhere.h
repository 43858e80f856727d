/* SPDX-License-Identifier: MIT */
/* A function in a source file of its own. */
#ifndef ELSEWHERE_H
#define ELSEWHERE_H

#include <stddef.h>

char *elsewhere_new(size_t bytes);

#endif
