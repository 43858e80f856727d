/* SPDX-License-Identifier: MIT */
/* nothing.c - a program that does nothing, successfully. */
int main(void) {
    return 0;
}
