/* SPDX-License-Identifier: MIT */
/* progress.c - writes the progress line from a signal handler. */
#include "base/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FIRST_US 1000000
#define STEP_US 200000
#define TEXT_BYTES 128
#define COLUMNS 80 /* assumed if the terminal does not tell how wide it is */

/* The handler reads texts[current] while the other text is filled in. */
static char texts[2][TEXT_BYTES];
static volatile sig_atomic_t current, shown;
static bool running;
static int64_t begun_us; /* time of the first call; 0: there was none */

static void write_line(const char *text, size_t length) {
    if (write(STDERR_FILENO, text, length) < 0)
        return; /* a terminal that cannot be written shows no progress */
}

static void show(int signal_number) {
    int error = errno;
    const char *text = texts[current];
    (void)signal_number;
    write_line(text, strlen(text));
    shown = 1;
    errno = error;
}

static void set_timer(int first_us, int step_us) {
    struct itimerval timer = {.it_value = {first_us / 1000000, first_us % 1000000},
                              .it_interval = {0, step_us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

bool progress_is_possible(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* Cuts a text of `length` bytes where the terminal's line ends: PROGRESS_REMOVE removes only the
 * last line of a text that takes several. A character has at most as many columns as bytes. */
static void cut_to_line(char *text, size_t length) {
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    size_t most = (known ? size.ws_col : COLUMNS) - 1;
    if (length <= most)
        return;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--; /* the middle of a character */
    text[most] = '\0';
}

void progress_tell(const char *format, ...) {
    if (!running && !progress_is_possible())
        return;
    int next = !current;
    va_list arguments;
    va_start(arguments, format);
    char *text = texts[next], *line = text + strlen(PROGRESS_REMOVE);
    int head = snprintf(text, TEXT_BYTES, PROGRESS_REMOVE "memctx: ");
    vsnprintf(text + head, TEXT_BYTES - (size_t)head, format, arguments);
    va_end(arguments);
    cli_clean(text + head);
    cut_to_line(line, strlen(line));
    current = next;
    if (running)
        return;
    struct sigaction action = {.sa_handler = show, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    running = true;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_us = now.tv_sec * 1000000 + now.tv_nsec / 1000;
    begun_us = begun_us > 0 ? begun_us : now_us;
    int64_t left_us = begun_us + FIRST_US - now_us;
    set_timer(left_us > STEP_US ? (int)left_us : STEP_US, STEP_US);
}

void progress_end(void) {
    if (!running)
        return;
    set_timer(0, 0);
    running = false;
    if (shown)
        write_line(PROGRESS_REMOVE, strlen(PROGRESS_REMOVE));
    shown = 0;
}
