/* SPDX-License-Identifier: MIT */
/* large_tls.c - has TLS_KIB KiB of thread-local storage, and waits until its input ends. */
#include <unistd.h>

static __thread char storage[TLS_KIB << 10];

int main(void) {
    char byte;
    storage[sizeof storage / 2] = 1;
    while (read(0, &byte, 1) > 0) {
    }
    return storage[sizeof storage / 2] == 1 ? 0 : 1;
}
