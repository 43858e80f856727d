/* SPDX-License-Identifier: MIT */
/* generate.c - writes a function at run time that calls malloc(54321), and a perf map for it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    /* push %rbp; mov %rsp,%rbp; mov $54321,%edi; movabs $malloc,%rax; call *%rax; pop %rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xbf, 0x31, 0xd4, 0,    0,    0x48, 0xb8, 0,
                            0,    0,    0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
    uint64_t function = (uint64_t)&malloc;
    char path[64];
    memcpy(code + 11, &function, sizeof(function));
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return 1;
    }
    memcpy(page + 64, code, sizeof(code));
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    if (map == NULL) {
        return 1;
    }
    fprintf(map, "%lx %zx LazyCompile:~fib\n", (unsigned long)(page + 64), sizeof(code));
    fclose(map);
    void *(*generated)(void) = (void *(*)(void))(uintptr_t)(page + 64);
    void *volatile keep = generated();
    puts("ready");
    fflush(stdout);
    while (keep != NULL) {
        pause();
    }
    return 0;
}
