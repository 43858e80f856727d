/* SPDX-License-Identifier: MIT */
/* Makes system calls by syscall and prctl, also while the kernel lets only libc's code make system
 * calls (syscall user dispatch), and prints what it got. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#define SYSCALL_DISPATCH_FILTER_ALLOW 0
#define SYSCALL_DISPATCH_FILTER_BLOCK 1
#endif

#define OS_PAGE 4096

static volatile char dispatch;
static volatile int caught;

static void note_call(int number) {
    (void)number;
    dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
    caught++;
}

struct range {
    unsigned long begin, bytes;
};

static int find_libc(struct dl_phdr_info *object, size_t bytes, void *found) {
    struct range *range = found;
    (void)bytes;
    if (!object->dlpi_name || !strstr(object->dlpi_name, "/libc.so.6")) {
        return 0;
    }
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
            *range = (struct range){object->dlpi_addr + segment->p_vaddr, segment->p_memsz};
        }
    }
    return 1;
}

/* Only code of libc may make system calls; others are caught. */
static void call_from_libc_only(void) {
    struct range libc = {0, 0};
    dl_iterate_phdr(find_libc, &libc);
    signal(SIGSYS, note_call);
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, libc.begin, libc.bytes,
              &dispatch) != 0) {
        puts("no user dispatch");
        return;
    }
    dispatch = SYSCALL_DISPATCH_FILTER_BLOCK;
    long pid = syscall(SYS_getpid), by_name = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
    printf("from libc only: %d %ld, %d caught\n", pid == getpid(), by_name, caught);
}

int main(int count, char **arguments) {
    char name[16] = "", by_number[16] = "";
    int file = open(arguments[0], O_RDONLY);
    char *first = mmap(NULL, 2 * OS_PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    char *second = (char *)syscall(SYS_mmap, NULL, (long)OS_PAGE, (long)PROT_READ,
                                   (long)MAP_PRIVATE, (long)file, (long)OS_PAGE);
    printf("six arguments: %d\n", memcmp(first + OS_PAGE, second, OS_PAGE));
    errno = 0;
    long closed = syscall(SYS_close, -1);
    printf("error: %ld %d\n", closed, errno == EBADF);
    printf("wrapped: %d\n", syscall(SYS_getppid) == 4711);
    prctl(PR_SET_NAME, "by-name", 0, 0, 0);
    syscall(SYS_prctl, PR_GET_NAME, by_number);
    prctl(PR_GET_NAME, name, 0, 0, 0);
    printf("names: %s %s\n", name, by_number);
    errno = 0;
    int refused = prctl(PR_SET_NO_NEW_PRIVS, count > 1 ? 0 : 1, 0, 0, 0);
    printf("privileges: %d %d\n", refused, errno);
    call_from_libc_only();
    return 0;
}
