/* SPDX-License-Identifier: MIT */
/* thread.c - the life of the control thread: its late start, its end, forks, the exit of the
 * process; see control.h. */
#include "os/thread.h"
#include "base/options.h"
#include "context/tree.h"
#include "control/act.h"
#include "control/commands.h"
#include "control/control.h"
#include "control/descriptors.h"
#include "control/marks.h"
#include "control/permit.h"
#include "control/record.h"
#include "control/sandbox.h"
#include "control/server.h"
#include "control/socket.h"
#include "control/socket_path.h"
#include "control/unfold.h"
#include "figures/buffers.h"
#include "figures/pages.h"
#include "os/libc.h"
#include "region/heap.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* In a process with one thread, an allocation starts the control thread at the earliest this long
 * after the process started. */
#define START_AFTER_NS (START_AFTER_MS * 1000000UL)
#define OLD_AFTER_NS (OLD_AFTER_MS * 1000000UL)
/* how many calls of control_is_due in a forked child do not read the clock */
#define CHILD_LOOKS 8
#define STACK_BYTES (208UL << 10)
/* pause between two checks: at exit, whether the socket is still being made; in control_pause,
 * whether the kernel still has the ended thread */
#define EXIT_WAIT_NS 100000
#define EXIT_WAITS_MAX 1000 /* at exit, most pauses of EXIT_WAIT_NS */
/* in control_pause, most pauses of EXIT_WAIT_NS */
#define GONE_WAITS_MAX 10000
/* least time between two checks of the socket's path and of the user */
#define SOCKET_LOOK_NS 1000000000U

uint32_t control_waiting FORK_PAGE;

static struct {
    struct lock lock; /* guards the start of the thread */
    bool forking;     /* a thread of this process is in fork */
    /* Atomic: calls of control_start that make system calls. Counts too many if a handler left
     * control_start by a jump. */
    uint32_t starters;
    uint32_t running;  /* pid of the process that has the thread; 0: none. Under the lock */
    uint32_t stopping; /* atomic: the thread must end */
    uint32_t opening;  /* atomic: the thread is making the socket */
    uint32_t ending;   /* atomic: the process ends, and no socket may be made any more */
    /* value of heap_global.threads_seen while the process has one thread */
    uint32_t alone;
    uint64_t start_ns;  /* start of this process, or the time of its fork */
    uint64_t fork_ns;   /* when this process last began to fork; 0: never */
    uint32_t restricts; /* atomic: calls of control_restrict */
    /* In a forked child: how many further calls of control_is_due do not read the clock. */
    uint32_t looks_left;
} control FORK_PAGE = {.lock = LOCK_INIT(RANK_CONTROL), .alone = 1};
const uint64_t *const control_start_shown = &control.start_ns;
/* The thread, while control.running is set; under control.lock. */
static struct os_thread thread;
/* System calls that the thread is to make, one after the other; see control_follow_begin. Callers
 * write under control.lock, and `asked` last; the thread writes `done` last. */
#define FOLLOW_MAX 8U
#define FOLLOW_GROUPS 32
static struct {
    uint32_t asked, done; /* atomic: numbers of calls so far */
    struct follow_call {
        long number, arguments[3], result;
        gid_t groups[FOLLOW_GROUPS]; /* of setgroups */
    } calls[FOLLOW_MAX];
} follow;
void (*control_thread_begins)(void);
/* The thread's stack. If it were a mapping with a guard, every fork would cost some 6 us more. Only
 * the library's code runs on the stack, and it uses a tenth of the stack. */
static char stack_room[STACK_BYTES + OS_PAGE_BYTES];

uint64_t control_uptime_ns(void) {
    return os_now_exact_ns() - control.start_ns;
}

void control_complain(const char *what, const char *detail) {
    char line[512];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    if (!options.verbose)
        return;
    text_add(&text, "memctx: ");
    text_add(&text, what);
    text_add(&text, detail);
    text_add(&text, "; the program runs without a control socket\n");
    os_print(&text);
}

/* True when the only other thread is the program's first one, and the first thread has ended by the
 * system call exit. The control thread is then the last thread, and the process ends with it. (When
 * the last thread that libc knows ends in another way, libc ends the process.) */
static bool is_alone(void) {
    struct stat tasks;
    char line[128];
    if (OS_TRY(os_stat("/proc/self/task", &tasks)))
        return false;
    if (tasks.st_nlink > 2 + 2) /* a link for each thread, and 2 for the directory itself */
        return false;
    int64_t length = os_read_file("/proc/self/stat", line, sizeof line);
    /* The line is "pid (name) state ..."; the name may contain anything, also parentheses. */
    for (int64_t i = length - 1; i > 0; i--)
        if (line[i] == ')')
            return line[i + 1] == ' ' && line[i + 2] == 'Z';
    return false;
}

bool control_must_end(void) {
    return load_acquire(&control.stopping) || is_alone();
}

static void make_socket(bool first) {
    exchange_acq_rel(&control.opening, 1);
    if (!load_acquire(&control.ending))
        socket_open(first);
    store_release(&control.opening, 0);
}

void control_look_at_socket(void) {
    static uint64_t next_ns;
    uint64_t now = os_now_exact_ns();
    if (now < next_ns)
        return;
    next_ns = now + SOCKET_LOOK_NS;
    if (sandbox_keeps_root()) {
        store_release(&control.stopping, 1);
        control_resume();
        return;
    }
    sandbox_drop_capabilities();
    if (socket_is_missing())
        make_socket(false);
}

static int thread_main(void *argument) {
    (void)argument;
    control_thread_begins();
    os_thread_take_ordinary_place();
    /* A raw system call: the symbol prctl names the library's own function in api/sandbox.c, which
     * this layer may not call. */
    os_syscall(SYS_prctl, PR_SET_NAME, (long)"memctx", 0, 0, 0, 0);
    buffers_stack_top = (char *)align_up((uintptr_t)__builtin_frame_address(0), OS_PAGE_BYTES);
    descriptors_leave_table(options.verbose); /* socket_open may print messages */
    if (descriptors_are_own)
        segment_learn_huge_pages();
    server_begin();
    make_socket(true);
    record_begin();
    if (descriptors_are_own && options.verbose)
        os_close(2);
    server_run();
    unfold_end();
    store_release(&segment_purger, 0);
    server_end();
    record_pause();
    socket_remove();
    descriptors_let_go(&socket_listener);
    buffers_stack_top = NULL;
    return 0;
}

/* Starts the thread, which may start (permit_start). The caller holds control.lock and has blocked
 * all signals, or runs before the program's main. */
static void start(void) {
    static bool complained;
    char *stack = (char *)align_up((uintptr_t)stack_room, OS_PAGE_BYTES);
    permit_use();
    follow.done = follow.asked; /* calls that the last thread has not made */
    if (os_thread_start(&thread, stack, STACK_BYTES, thread_main)) {
        control.running = os_process_id();
        return;
    }
    if (os_is_momentary(-errno)) {
        permit_postpone();
        control_resume();
    }
    if (!complained)
        control_complain("cannot start the control thread", "");
    complained = true;
}

/* Takes control.lock and makes the caller ignore cancellation. False: nothing happened, because the
 * caller is a signal handler, in which lock_take could wait for ever. */
static bool lock_control(int *cancel_state) {
    if (lock_any_is_mine())
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel_state);
    lock_take(&control.lock);
    return true;
}

static void unlock_control(int cancel_state) {
    lock_release(&control.lock);
    pthread_setcancelstate(cancel_state, NULL);
}

/* Ends the thread and waits for its end; false: this process has none. Under control.lock. */
static bool end_locked(void) {
    /* In a vfork child control.running is the pid of the parent, whose thread must go on. */
    if (!control.running || control.running != os_process_id())
        return false;
    store_release(&control.stopping, 1);
    socket_wake();
    os_thread_join(&thread);
    control.running = 0;
    store_release(&control.stopping, 0);
    return true;
}

/* Ends the thread and waits for its end; false: there is no thread, or it cannot be ended now.
 * Keeps errno and the cancellation state. */
static bool end_thread(void) {
    int saved = errno, cancel_state;
    if (!lock_control(&cancel_state))
        return false;
    bool ran = end_locked();
    unlock_control(cancel_state);
    errno = saved;
    return ran;
}

/* Asks the thread to end, and does not wait. A later start waits for its end. Under control.lock.
 */
static void let_end(void) {
    store_release(&control.stopping, 1);
    (void)socket_wake();
    control_resume();
}

#define FOLLOW_WAIT_NS 10000000L

/* Waits until the thread has made all but `left` of the calls. False: the thread is gone. */
static bool await_calls(uint32_t left) {
    const struct timespec wait = {.tv_nsec = FOLLOW_WAIT_NS};
    uint32_t done;
    while (follow.asked - (done = load_acquire(&follow.done)) > left) {
        if (!load_acquire(thread.alive))
            return false;
        long error = OS_CALL(SYS_futex, &follow.done, FUTEX_WAIT, done, &wait, 0, 0);
        /* a copy that the bare system call clone made in a new pid namespace may have this pid */
        if (error == -ETIMEDOUT && !os_thread_exists(thread.id))
            return false;
    }
    return true;
}

static void put_call(struct follow_call *call, long number, long first, long second, long third) {
    *call = (struct follow_call){.number = number, .arguments = {first, second, third}};
    if (number != SYS_setgroups)
        return;
    /* The caller's list may be gone when the thread makes the call. Instead of a list that does not
     * fit, the thread gets no groups: it needs none. */
    uintptr_t list = (uintptr_t)second, bytes = (uintptr_t)first * sizeof(gid_t);
    if (first <= 0 || first > FOLLOW_GROUPS || !os_is_readable(list, list + bytes))
        call->arguments[0] = 0;
    else
        __builtin_memcpy(call->groups, (const void *)list, bytes);
    call->arguments[1] = (long)call->groups;
}

void control_follow_begin(struct control_follow *state, long number, long first, long second,
                          long third) {
    int saved = errno;
    *state = (struct control_follow){.result = CONTROL_FOLLOW_UNKNOWN};
    state->locked = lock_control(&state->cancel_state);
    if (state->locked && control.running && control.running == os_process_id() &&
        await_calls(FOLLOW_MAX - 1)) {
        struct follow_call *call = &follow.calls[follow.asked % FOLLOW_MAX];
        put_call(call, number, first, second, third);
        store_release(&follow.asked, follow.asked + 1);
        /* If the thread cannot be woken (the process has changed its root, or may not reach the
         * socket as its present user), the thread makes the call within a second. */
        if (socket_wake() && await_calls(0))
            state->result = OS_FAILED(call->result) ? CONTROL_FOLLOW_FAILED : CONTROL_FOLLOW_DONE;
    }
    errno = saved;
}

void control_follow_end(const struct control_follow *state, bool succeeded) {
    int saved = errno;
    if (!state->locked)
        return;
    if (state->result != CONTROL_FOLLOW_UNKNOWN &&
        (state->result == CONTROL_FOLLOW_DONE) != succeeded)
        let_end();
    unlock_control(state->cancel_state);
    errno = saved;
}

void control_obey(void) {
    uint32_t done = follow.done;
    while (UNLIKELY(done != load_acquire(&follow.asked))) {
        struct follow_call *call = &follow.calls[done % FOLLOW_MAX];
        const long *a = call->arguments;
        call->result = os_syscall(call->number, a[0], a[1], a[2], 0, 0, 0);
        store_release(&follow.done, ++done);
        OS_CALL(SYS_futex, &follow.done, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
    }
}

/* end_thread returns when the thread does not use its stack any more. Shortly after that, the
 * kernel takes the thread out of the process, or later if a debugger traces the thread. */
bool control_pause(void) {
    int saved = errno;
    bool ran = end_thread();
    for (int i = 0; ran && i < GONE_WAITS_MAX && os_thread_exists(thread.id); i++)
        os_sleep(&(struct timespec){.tv_nsec = EXIT_WAIT_NS});
    errno = saved;
    return ran;
}

void control_resume(void) {
    if (!load_relaxed(&os_restricted))
        store_release(&control_waiting, 1);
}

/* *before holds the old enum os_restriction in the lowest bits, and above them the number of calls
 * of control_restrict so far. */
#define RESTRICTION_BITS 2

/* The pause between two looks, and the most pauses, until the calls of control_start are over. They
 * take some 0.2 ms, or longer if other programs use the processors. */
#define STARTERS_WAIT_NS 100000
#define STARTERS_WAITS_MAX 1000

/* Waits until no thread makes system calls in control_start. Threads that call control_start later
 * see that the process is restricted. */
static void await_starters(void) {
    for (int i = 0; i < STARTERS_WAITS_MAX && load_full(&control.starters); i++)
        os_sleep(&(struct timespec){.tv_nsec = STARTERS_WAIT_NS});
}

bool control_restrict(bool strictly, uint32_t *before) {
    uint32_t now = strictly ? OS_RESTRICTED_STRICTLY : OS_RESTRICTED;
    if (!load_relaxed(&os_restricted) && !os_memory_is_own())
        return false;
    /* If several threads restrict the process, each waits until the first one has awaited the
     * starters and the end of the thread. */
    int saved = errno, cancel_state;
    bool locked = lock_control(&cancel_state), ended;
    /* Counts the call before reading os_restricted. control_unrestrict writes os_restricted before
     * it reads the count, so at least one of the two threads sees the other. */
    uint32_t calls = add_relaxed(&control.restricts, 1) + 1;
    uint32_t was = load_relaxed(&os_restricted);
    *before = calls << RESTRICTION_BITS | was;
    if (was < now)
        (void)exchange_full(&os_restricted, now);
    if (!was) {
        store_release(&control_waiting, 0);
        await_starters();
    }
    ended = locked && end_locked();
    if (locked)
        unlock_control(cancel_state);
    errno = saved;
    if (was)
        return was < now;
    unfold_end(); /* a child without a thread of its own still has its parent's unfoldings */
    if (ended)
        control_complain("the program restricts its system calls", "");
    return true;
}

/* True when another thread has restricted the process since control_restrict returned `before`. */
static bool was_restricted_since(uint32_t before) {
    return load_acquire(&control.restricts) << RESTRICTION_BITS !=
           before >> RESTRICTION_BITS << RESTRICTION_BITS;
}

void control_unrestrict(uint32_t before) {
    uint32_t was = before & ((1U << RESTRICTION_BITS) - 1);
    if (was_restricted_since(before))
        return;
    uint32_t now = exchange_acq_rel(&os_restricted, was);
    if (was_restricted_since(before)) {
        /* The other thread may have read the old value `now`, and relied on it: put `now` back,
         * unless the other thread has written a stricter value. */
        uint32_t there = was;
        cas_release(&os_restricted, &there, now);
    } else {
        store_release(&control_waiting, !was && options.control != CONTROL_OFF);
    }
}

COLD bool control_is_due(void) {
    if (control.forking || permit_is_postponed())
        return false;
    /* A forked child does not read the clock in its first calls (CHILD_LOOKS), because most
     * children end soon, and the first reading maps the clock's OS pages. */
    if (control.looks_left) {
        control.looks_left--;
        return false;
    }
    if (load_relaxed(&heap_global.threads_seen) > control.alone)
        return true;
    /* the coarse clock may lie before a time of the exact clock */
    return os_now_ns() >= control.start_ns + START_AFTER_NS;
}

COLD bool control_is_due_in_wait(void) {
    return !control.forking && !permit_is_postponed() && os_memory_is_own();
}

COLD bool control_is_young(void) {
    return os_now_ns() < control.start_ns + START_AFTER_NS;
}

COLD bool control_is_old(void) {
    return os_now_ns() >= control.start_ns + OLD_AFTER_NS;
}

/* True if this process has no thread. A thread that was asked to end (let_end) may end only now. */
static bool has_ended(void) {
    if (!control.running || control.running != os_process_id())
        return true;
    if (load_acquire(thread.alive))
        return false;
    os_thread_join(&thread);
    control.running = 0;
    store_release(&control.stopping, 0);
    return true;
}

/* Starts the thread under control.lock. A signal handler may leave by siglongjmp, and libc may
 * cancel the caller by a signal, so no signal may come while the lock is held. */
static void start_undisturbed(void) {
    uint64_t all = UINT64_MAX, before = 0;
    /* The kernel ends the process if the stack overflows while SIGSEGV is blocked. Here a handler
     * of the program may recover. */
    lock_reach_for_control();
    os_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all, 0, 0);
    if (lock_try(&control.lock)) {
        if (load_relaxed(&control_waiting) && has_ended()) {
            store_owner(&control_waiting, 0);
            start();
        }
        lock_release(&control.lock);
    }
    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
}

COLD void control_start(void) {
    int saved = errno;
    /* a signal handler may have interrupted the allocator */
    if (lock_any_is_mine() || load_relaxed(&control.lock.word))
        return;
    uint64_t start_ns = control.start_ns;
    add_full(&control.starters, 1);
    if (permit_start())
        start_undisturbed();
    /* another time: a signal handler has forked, and this is the child, which counts from 0 */
    if (start_ns == control.start_ns)
        add_full(&control.starters, -1U);
    errno = saved;
}

void control_init(bool at_once, const char *record) {
    control.start_ns = os_now_exact_ns();
    segment_clock_set(control.start_ns);
    pages_clock_begin = load_relaxed(&segment_clock);
    socket_path_init();
    if (options.control == CONTROL_OFF)
        return;
    record_init(record, at_once);
    if (at_once || options.control >= CONTROL_EAGER) {
        if (permit_start())
            start();
        else
            control_resume();
        if (control.running)
            record_await_file();
    } else {
        store_owner(&control_waiting, 1);
    }
}

static void print_statistics(void) {
    char room[4096];
    struct answer answer = {.bytes = room, .capacity = sizeof room};
    if (command_run(WIRE_SELF, "", 0, &answer) == WIRE_OK)
        os_print(&(struct text){.bytes = answer.bytes, .length = answer.length});
}

COLD void control_exit(void) {
    if (options.verbose > 1 && !load_relaxed(&os_restricted))
        print_statistics();
    record_end();
    /* Waits while the control thread makes the socket, so that the socket is removed, too. */
    exchange_acq_rel(&control.ending, 1);
    for (int i = 0; i < EXIT_WAITS_MAX && load_acquire(&control.opening); i++)
        os_sleep(&(struct timespec){.tv_nsec = EXIT_WAIT_NS});
    socket_remove();
}

COLD void control_fork_prepare(void) {
    control.forking = true;
    control.fork_ns = os_now_exact_ns();
}

COLD void control_fork_done(bool child, bool has_heap) {
    control.forking = false;
    if (!child)
        return;
    /* The child has no control thread. The child has the descriptors of the parent's control thread
     * only if that thread shared the descriptor table of the program. */
    lock_reset(&control.lock);
    if (control.running && !descriptors_are_own) {
        descriptors_let_go(&socket_listener);
        server_let_go();
    }
    control.running = control.stopping = 0;
    control.opening = control.ending = control.starters = 0;
    permit_fork_child();
    socket_forget();
    control.start_ns = control.fork_ns;
    control.looks_left = CHILD_LOOKS;
    control.alone = load_relaxed(&heap_global.threads_seen) + !has_heap;
    if (tree_read_until_ns) /* a needless write copies the OS page in the child */
        tree_read_until_ns = 0;
    marks_forget();
    record_forget();
    note_forget();
    store_owner(&control_waiting, options.control != CONTROL_OFF && !load_relaxed(&os_restricted));
}
