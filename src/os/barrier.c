/* SPDX-License-Identifier: MIT */
/* A memory barrier in all threads of the process, paid for by the thread that asks for it. */
#include "os/os.h"
#include "os/syscall.h"

#include <linux/membarrier.h>

#ifdef MEMCTX_MODEL
/* Under the model checker all threads see all writes in one order, so there is nothing to do. A
 * scenario of tests/model may set model_barrier, which is then called. */
void (*model_barrier)(void);
bool os_barrier_in_threads(void) {
    if (model_barrier)
        model_barrier();
    return true;
}
#else
static bool kernel_does(int command) {
    return !OS_FAILED(OS_CALL(SYS_membarrier, command, 0, 0, 0, 0, 0));
}

/* The kernel wants a process to register before its first membarrier, and once more after exec. */
bool os_barrier_in_threads(void) {
    if (load_relaxed(&os_restricted))
        return false;
    return kernel_does(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
           (kernel_does(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
            kernel_does(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}
#endif
