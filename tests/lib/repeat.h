/* SPDX-License-Identifier: MIT */
/*
 * repeat.h - makes many functions that differ in their number: HUNDRED(EACH, 3) is EACH(300) to
 * EACH(399).
 */
#ifndef TEST_REPEAT_H
#define TEST_REPEAT_H

#define TEN(M, p) M(p##0) M(p##1) M(p##2) M(p##3) M(p##4) M(p##5) M(p##6) M(p##7) M(p##8) M(p##9)
#define HUNDRED(M, p)                                                                              \
    TEN(M, p##0)                                                                                   \
    TEN(M, p##1)                                                                                   \
    TEN(M, p##2)                                                                                   \
    TEN(M, p##3) TEN(M, p##4) TEN(M, p##5) TEN(M, p##6) TEN(M, p##7) TEN(M, p##8) TEN(M, p##9)

#endif
