/* SPDX-License-Identifier: MIT */
/*
 * waits.c - waits in functions of libc, in which the library may start its control thread.
 *
 * waits NAME       waits in the function NAME until the process is killed
 * waits short      waits shortly in each function; prints the number of threads
 * waits same       prints what the functions return, which must be equal with and without memctx
 * waits young      prints the results of first waits of forked children, ended after 5 or 40 ms
 * waits ready      prints the results and the number of threads of waits that end at once
 * waits places     waits where the library must start no thread, then where it may; prints the
 *                  number of threads after each
 * waits old        in a process older than 0.5 s, prints the number of threads after calls that
 *                  cannot wait, after short waits, and after a long wait
 * waits poll-once  prints the result of one poll with time-out 0
 * waits plt NAME   like waits NAME; fails unless the address of malloc is that of a jump in the
 *                  program, which it is in a program that is linked with -no-pie
 * It allocates nothing before it prints: an allocation may start the control thread, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

int __poll_chk(struct pollfd *polls, nfds_t count, int timeout, size_t room);
int __ppoll_chk(struct pollfd *polls, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t room);

static const struct timespec hour = {.tv_sec = 3600}, moment = {.tv_nsec = 1000000};
static int listener, epoll;
static sigset_t none, usr2;

static void prepare(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    sigemptyset(&none);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    epoll = epoll_create1(0);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)) || listen(listener, 1))
        abort();
}

static int threads(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) ? -1 : (int)tasks.st_nlink - 2;
}

/* Waits in the function of this name: a millisecond if `briefly`, else an hour or without end. */
static void wait_in(const char *name, bool briefly) {
    const struct timespec *time = briefly ? &moment : &hour;
    struct timeval span = {.tv_sec = briefly ? 0 : 3600, .tv_usec = briefly ? 1000 : 0};
    struct timespec until;
    struct epoll_event event;
    int number;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += briefly ? 0 : 3600;
#define IS(text) (!strcmp(name, text))
    if (IS("sleep"))
        sleep(briefly ? 0 : 3600);
    else if (IS("usleep"))
        usleep(briefly ? 1000 : 1000000000);
    else if (IS("nanosleep"))
        nanosleep(time, NULL);
    else if (IS("clock_nanosleep"))
        clock_nanosleep(CLOCK_MONOTONIC, 0, time, NULL);
    else if (IS("clock_nanosleep-until"))
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    else if (IS("thrd_sleep"))
        thrd_sleep(time, NULL);
    else if (IS("sigtimedwait"))
        sigtimedwait(&usr2, NULL, time);
    else if (IS("poll"))
        poll(NULL, 0, briefly ? 1 : 3600000);
    else if (IS("poll-in-pieces"))
        while (!poll(NULL, 0, 100)) {
        }
    else if (IS("poll-for-ever"))
        poll(NULL, 0, briefly ? 1 : -1);
    else if (IS("ppoll"))
        ppoll(NULL, 0, time, NULL);
    else if (IS("__poll_chk"))
        __poll_chk(NULL, 0, briefly ? 1 : -1, 0);
    else if (IS("__ppoll_chk"))
        __ppoll_chk(NULL, 0, time, NULL, 0);
    else if (IS("select"))
        select(0, NULL, NULL, NULL, &span);
    else if (IS("pselect"))
        pselect(0, NULL, NULL, NULL, time, NULL);
    else if (IS("epoll_wait"))
        epoll_wait(epoll, &event, 1, briefly ? 1 : -1);
    else if (IS("epoll_pwait"))
        epoll_pwait(epoll, &event, 1, briefly ? 1 : -1, NULL);
    else if (briefly)
        return;
    else if (IS("pause"))
        pause();
    else if (IS("sigsuspend"))
        sigsuspend(&none);
    else if (IS("sigwait"))
        sigwait(&usr2, &number);
    else if (IS("sigwaitinfo"))
        sigwaitinfo(&usr2, NULL);
    else if (IS("accept"))
        accept(listener, NULL, NULL);
    else if (IS("accept4"))
        accept4(listener, NULL, NULL, 0);
    else
        exit(3);
#undef IS
}

static const char *const names[] = {
    "sleep",       "usleep",        "nanosleep", "clock_nanosleep", "clock_nanosleep-until",
    "pause",       "sigsuspend",    "sigwait",   "sigwaitinfo",     "sigtimedwait",
    "poll",        "poll-for-ever", "ppoll",     "__poll_chk",      "__ppoll_chk",
    "select",      "pselect",       "accept",    "accept4",         "epoll_wait",
    "epoll_pwait", "thrd_sleep"};
#define NAMES (sizeof names / sizeof names[0])

static void wait_briefly(void) {
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < NAMES; i++)
            wait_in(names[i], true);
    printf("%d\n", threads());
}

/* --- the same results ------------------------------------------------------------------------- */

static volatile sig_atomic_t handled;

static void handle(int number) {
    (void)number;
    handled++;
}

static void tell(const char *what, long result) {
    printf("%s: %ld, errno %d, handled %d\n", what, result, errno, (int)handled);
    errno = 0;
}

static void interrupt_soon(void) {
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 30000}}, NULL);
}

static void tell_interrupted(void) {
    struct timespec rest = {0};
    fd_set set;
    FD_ZERO(&set);
    interrupt_soon();
    tell("nanosleep", nanosleep(&hour, &rest));
    tell("rest", rest.tv_sec == 3599 && rest.tv_nsec > 0);
    interrupt_soon();
    tell("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, &rest));
    interrupt_soon();
    tell("thrd_sleep", thrd_sleep(&hour, &rest));
    tell("rest", rest.tv_sec == 3599 && rest.tv_nsec > 0);
    interrupt_soon();
    tell("sleep", (long)sleep(3600) >= 3599);
    interrupt_soon();
    tell("poll", poll(NULL, 0, -1));
    interrupt_soon();
    tell("select", select(1, &set, NULL, NULL, NULL));
    interrupt_soon();
    tell("pause", pause());
    interrupt_soon();
    tell("sigsuspend", sigsuspend(&none));
    interrupt_soon();
    tell("accept", accept(listener, NULL, NULL));
    interrupt_soon();
    tell("epoll_wait", epoll_wait(epoll, &(struct epoll_event){0}, 1, -1));
}

static void tell_refused(void) {
    void *volatile nowhere = (void *)8;
    int number = 0;
    tell("nanosleep of a bad address", nanosleep(nowhere, NULL));
    tell("clock_nanosleep of a bad address", clock_nanosleep(CLOCK_MONOTONIC, 0, nowhere, NULL));
    tell("clock_nanosleep of a bad clock", clock_nanosleep(12345, TIMER_ABSTIME, &hour, NULL));
    tell("thrd_sleep of a bad address", thrd_sleep(nowhere, NULL));
    tell("sigtimedwait of a bad address", sigtimedwait(&usr2, NULL, nowhere));
    tell("nanosleep too long", nanosleep(&(struct timespec){5, -1}, NULL));
    tell("poll of a bad address", poll(nowhere, 1, -1));
    tell("accept of nothing", accept(-1, NULL, NULL));
    tell("accept4 of nothing", accept4(-1, NULL, NULL, 0));
    tell("epoll_wait of nothing", epoll_wait(-1, &(struct epoll_event){0}, 1, -1));
    tell("select of too many", select(-1, NULL, NULL, NULL, NULL));
    raise(SIGUSR2);
    tell("sigwait", sigwait(&usr2, &number));
    tell("its signal", number == SIGUSR2);
    raise(SIGUSR2);
    tell("sigwaitinfo", sigwaitinfo(&usr2, NULL) == SIGUSR2);
}

static void *wait_for_end(void *name) {
    wait_in(name, false);
    return NULL;
}

static void *wait_for_end_at_any_moment(void *name) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    wait_in(name, false);
    return NULL;
}

static void tell_cancelled(void) {
    static void *(*const waiters[])(void *) = {wait_for_end, wait_for_end_at_any_moment};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < NAMES; i++) {
            pthread_t thread;
            void *result = NULL;
            pthread_create(&thread, NULL, waiters[k], (void *)names[i]);
            usleep(k ? 0 : 2000);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            tell(names[i], result == PTHREAD_CANCELED);
        }
}

static void *call_same(void *argument) {
    tell_refused();
    return argument;
}

static void tell_same(void) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGALRM, &action, NULL);
    /* first: these calls have a bad address as time-out, which the library must not read */
    tell_refused();
    tell_interrupted();
    if (!pthread_create(&thread, NULL, call_same, NULL))
        pthread_join(thread, NULL);
    tell_cancelled();
}

/* --- young processes -------------------------------------------------------------------------- */

/* Waits without time limit for a byte in the pipe or for a signal. Writes the result into
 * `text`. */
static void wait_young(const char *name, int fd, char *text, size_t room) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN, .data.fd = 77};
    fd_set set, other;
    long result = -2;
    FD_ZERO(&set);
    FD_ZERO(&other);
    FD_SET(fd, &set);
    FD_SET(listener, &other);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    event.data.fd = 0;
    errno = 0;
#define IS(text) (!strcmp(name, text))
    if (IS("poll"))
        result = poll(&polled, 1, -1);
    else if (IS("poll-long"))
        result = poll(&polled, 1, 3600000);
    else if (IS("ppoll"))
        result = ppoll(&polled, 1, NULL, &none);
    else if (IS("__poll_chk"))
        result = __poll_chk(&polled, 1, -1, sizeof polled);
    else if (IS("select"))
        result = select(fd + 1, &set, NULL, &other, NULL);
    else if (IS("pselect"))
        result = pselect(fd + 1, &set, NULL, &other, NULL, &none);
    else if (IS("epoll_wait"))
        result = epoll_wait(epoll, &event, 1, -1);
    else if (IS("epoll_pwait"))
        result = epoll_pwait(epoll, &event, 1, -1, &none);
    else if (IS("sigsuspend"))
        result = sigsuspend(&none);
#undef IS
    snprintf(text, room, "%ld, errno %d, handled %d, revents %d, set %d %d, epoll %d", result,
             errno, (int)handled, polled.revents, FD_ISSET(fd, &set) != 0,
             FD_ISSET(listener, &other) != 0, event.data.fd);
}

/* Forks a child that waits at once. After `ms` milliseconds the parent sends a signal if `signals`,
 * else it writes a byte. */
static void tell_child(const char *name, int ms, bool signals, bool threads_too) {
    int data[2], answer[2], got;
    char text[200] = "";
    if (pipe(data) || pipe(answer))
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        char line[160];
        wait_young(name, data[0], line, sizeof line);
        int length = snprintf(text, sizeof text, "%s", line);
        if (threads_too)
            length += snprintf(text + length, sizeof text - (size_t)length, ", %d", threads());
        _exit(write(answer[1], text, (size_t)length) != length);
    }
    usleep((useconds_t)ms * 1000);
    if (signals)
        kill(child, SIGUSR1);
    else if (write(data[1], "x", 1) != 1)
        abort();
    got = (int)read(answer[0], text, sizeof text - 1);
    waitpid(child, NULL, 0);
    printf("%s, %d ms, %s: %.*s\n", name, ms, signals ? "signal" : "byte", got, text);
    for (int i = 0; i < 2; i++)
        close(data[i]), close(answer[i]);
}

static void tell_young(bool threads_too) {
    static const char *const waits[] = {"poll",       "poll-long",   "ppoll",
                                        "__poll_chk", "select",      "pselect",
                                        "epoll_wait", "epoll_pwait", "sigsuspend"};
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    /* The signal is blocked except in waits with a mask, because a signal before the wait would not
     * end the wait. */
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        bool suspends = !strcmp(waits[i], "sigsuspend");
        if (!suspends)
            tell_child(waits[i], threads_too ? 0 : 5, false, threads_too);
        if (!suspends && !threads_too)
            tell_child(waits[i], 40, false, false);
        bool masks = waits[i][0] == 'p' && waits[i][1] != 'o'; /* ppoll, pselect */
        if (threads_too || !(masks || suspends || !strcmp(waits[i], "epoll_pwait")))
            continue;
        tell_child(waits[i], 5, true, false);
        tell_child(waits[i], 40, true, false);
    }
}

/* --- places ----------------------------------------------------------------------------------- */

static int in_place = -1; /* number of threads after the last call of call_here */

/* Calls accept, which the library takes for a wait without time limit. Because the descriptor is
 * bad, accept returns at once. */
static void call_here(void) {
    accept(-1, NULL, NULL);
    in_place = threads();
}

static void call_in_handler(int number) {
    (void)number;
    call_here();
}

static int call_in_callback(const void *a, const void *b) {
    (void)a, (void)b;
    call_here();
    return 0;
}

/* Calls a function. The assembly has no unwind information, so the library cannot find the
 * callers. */
void call_blindly(void (*function)(void));
__asm__(".text\n"
        "call_blindly:\n"
        "    pushq %rbp\n"
        "    movq %rsp, %rbp\n"
        "    call *%rdi\n"
        "    popq %rbp\n"
        "    ret\n");

static void tell_place(const char *what) {
    printf("%s: %d\n", what, in_place);
    in_place = -1;
}

/* Calls `act` in a child, and sets in_place to the child's. */
static void call_in_child(void (*act)(void)) {
    int status;
    pid_t child = fork();
    if (!child) {
        act();
        _exit(in_place);
    }
    waitpid(child, &status, 0);
    in_place = WEXITSTATUS(status);
}

/* Calls `act` in a child and tells the number of threads that the child has then. */
static void tell_in_child(const char *what, void (*act)(void)) {
    fflush(stdout);
    call_in_child(act);
    tell_place(what);
}

static void call_restricted(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    call_here();
}

static int send_in_callback(const void *a, const void *b) {
    (void)a, (void)b;
    kill(getpid(), SIGUSR1);
    return 0;
}

/* Makes SIGUSR1 call `handler`, on an alternate stack if `apart` is true. */
static void handle_by(void (*handler)(int), bool apart) {
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handler, .sa_flags = apart ? SA_ONSTACK : 0};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

static void call_handler(void) {
    handle_by(call_in_handler, false);
    raise(SIGUSR1);
}

static void call_handler_apart(void) {
    handle_by(call_in_handler, true);
    raise(SIGUSR1);
}

static void call_handler_below_qsort(void) {
    int numbers[4] = {4, 3, 2, 1};
    handle_by(call_in_handler, false);
    qsort(numbers, 4, sizeof numbers[0], send_in_callback);
}

static void call_below_qsort(void) {
    int numbers[4] = {4, 3, 2, 1};
    qsort(numbers, 4, sizeof numbers[0], call_in_callback);
}

static void call_below_unknown_code(void) {
    call_blindly(call_here);
}

static void call_in_child_of_handler(int number) {
    (void)number;
    call_in_child(call_here);
}

static void call_forking_handler(void) {
    handle_by(call_in_child_of_handler, false);
    raise(SIGUSR1);
}

static void tell_places(void) {
    struct timespec age = {.tv_nsec = 30000000};
    int status;
    /* In a process older than 20 ms, a malloc that finds no free block starts the thread. */
    syscall(SYS_nanosleep, &age, NULL);
    pid_t child = vfork();
    if (!child) {
        accept(-1, NULL, NULL);
        free(malloc(9000)); /* finds no free block: elsewhere this would start the thread */
        _exit(0);
    }
    waitpid(child, &status, 0);
    in_place = threads();
    tell_place("in a vfork child");
    tell_in_child("in a restricted child", call_restricted);
    tell_in_child("on an alternate stack", call_handler_apart);
    tell_in_child("in a handler", call_handler);
    tell_in_child("in a handler below qsort", call_handler_below_qsort);
    tell_in_child("below qsort", call_below_qsort);
    tell_in_child("below unknown code", call_below_unknown_code);
    tell_in_child("in a child of a handler", call_forking_handler);
    tell_in_child("plainly", call_here);
}

static void poll_in_handler(int number) {
    (void)number;
    poll(NULL, 0, 1);
}

/* In a process older than 0.5 s: tells the number of threads after calls that cannot wait, after
 * many short waits that cannot start the control thread, and after a long wait that can. */
static void tell_old(void) {
    struct timespec age = {.tv_nsec = 600000000}, no_span = {0};
    struct timeval no_time = {0};
    syscall(SYS_nanosleep, &age, NULL);
    poll(NULL, 0, 0);
    sleep(0);
    usleep(0);
    nanosleep(&no_span, NULL);
    select(0, NULL, NULL, NULL, &no_time);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &age, NULL);
    int after_none = threads();
    handle_by(poll_in_handler, true);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    int after_short = threads();
    call_here();
    printf("%d %d %d\n", after_none, after_short, in_place);
}

/* True if the address of malloc, as code of this program takes it, is one in the program. */
static bool malloc_is_jump(void) {
    extern char __executable_start[], _end[];
    char *address = (char *)(uintptr_t)malloc;
    return address >= __executable_start && address < _end;
}

int main(int count, char **arguments) {
    static char room[1 << 16];
    const char *what = count > 1 ? arguments[1] : "";
    setvbuf(stdout, room, _IOFBF, sizeof room);
    prepare();
    if (!strcmp(what, "short"))
        wait_briefly();
    else if (!strcmp(what, "same"))
        tell_same();
    else if (!strcmp(what, "young") || !strcmp(what, "ready"))
        tell_young(!strcmp(what, "ready"));
    else if (!strcmp(what, "places"))
        tell_places();
    else if (!strcmp(what, "old"))
        tell_old();
    else if (!strcmp(what, "poll-once"))
        printf("%d\n", poll(NULL, 0, 0));
    else if (strcmp(what, "plt") != 0)
        wait_in(what, false);
    else if (malloc_is_jump())
        wait_in(arguments[2], false);
    else
        return 4;
    return 0;
}
