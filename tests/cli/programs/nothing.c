/* SPDX-License-Identifier: MIT */
/* nothing.c - a program that ends at once with status 0. */
int main(void) {
    return 0;
}
