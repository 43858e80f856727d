/* SPDX-License-Identifier: MIT */
/*
 * pthread_cancel, which the program calls in place of libc's. A thread that cancels itself can end
 * in a process that has had a control thread.
 *
 * When a thread with asynchronous cancellation cancels itself, glibc leaves the thread half marked
 * as cancelled. The next cancellation point that the thread reaches while it ends, such as a write
 * in a cleanup handler or an exit handler, waits for ever for another thread to set the other half
 * of the mark. glibc looks at the mark only in a program that has had a second thread, and the
 * control thread is one. So this file makes the cancellation a deferred one, which glibc marks as a
 * whole, and then makes it asynchronous again, which ends the thread.
 */
#include "base/base.h"
#include "path/rebind.h"

#include <errno.h>
#include <pthread.h>

#ifndef MEMCTX_UNIT
/* The function that the program would call without this library; 0 until the first call. Atomic. */
static uintptr_t cancel_next START_PAGE;

static int call_next(pthread_t thread) {
    uintptr_t found = load_relaxed(&cancel_next);
    if (!found) {
        found = rebind_next("pthread_cancel");
        if (!found) /* before glibc 2.34: libpthread is not loaded */
            return ENOSYS;
        store_owner(&cancel_next, found);
    }
    return ((int (*)(pthread_t))found)(thread);
}

EXPORT int pthread_cancel(pthread_t thread) {
    int type = PTHREAD_CANCEL_DEFERRED;
    if (thread != pthread_self())
        return call_next(thread);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    int error = call_next(thread);
    pthread_setcanceltype(type, NULL);
    return error;
}
#endif
