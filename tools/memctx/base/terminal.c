/* SPDX-License-Identifier: MIT */
/* terminal.c - looks at standard output, starts the pager and waits for it. */
#include "base/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli.h"

#define COLUMNS 80       /* assumed if standard output is no terminal */
#define COLUMNS_LEAST 40 /* a narrower terminal gets lines of this width */

static struct {
    bool known, is_output;
    unsigned columns;
    pid_t pager; /* 0: none */
} terminal;

static void look(void) {
    struct winsize size;
    if (terminal.known)
        return;
    terminal.known = true;
    terminal.is_output = isatty(STDOUT_FILENO);
    terminal.columns = COLUMNS;
    if (terminal.is_output && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        terminal.columns = size.ws_col < COLUMNS_LEAST ? COLUMNS_LEAST : size.ws_col;
}

bool terminal_is_output(void) {
    look();
    return terminal.is_output;
}

unsigned terminal_columns(void) {
    look();
    return terminal.columns;
}

/* Returns true if the first word of a command is a program that exists. Also returns true if the
 * word has characters that the shell would replace, because only the shell knows the program then.
 */
static bool is_installed(const char *command) {
    size_t length = strcspn(command, " \t");
    char *word = strndup(command, length), *path = cli_copy(getenv("PATH") ? getenv("PATH") : "");
    bool found = !word || strpbrk(word, "$`\"'\\~=;|&(){}<>*?[");
    if (!found && strchr(word, '/'))
        found = access(word, X_OK) == 0;
    for (char *rest = path, *folder; !found && (folder = strsep(&rest, ":")) != NULL;) {
        char *file = cli_format("%s/%s", *folder ? folder : ".", word);
        found = access(file, X_OK) == 0;
        free(file);
    }
    free(path);
    free(word);
    return found;
}

/* Returns the command line of the pager; NULL: print the output without a pager. */
static const char *find_pager(void) {
    const char *term = getenv("TERM"), *pager = getenv("PAGER");
    if (!terminal_is_output() || !term || strcmp(term, "dumb") == 0)
        return NULL;
    if (!pager)
        return is_installed("less") ? "less" : NULL;
    if (pager[strspn(pager, " \t")] == '\0' || strcmp(pager, "cat") == 0)
        return NULL;
    if (!is_installed(pager)) {
        cli_warn("the pager \"%s\" (PAGER) was not found; the output is printed without it", pager);
        return NULL;
    }
    return pager;
}

static void end_at_exit(void) {
    terminal_end();
}

void terminal_page(void) {
    const char *command = find_pager();
    int ends[2];
    fflush(stdout);
    if (!command || terminal.pager > 0 || pipe(ends) != 0)
        return;
    pid_t pager = fork();
    if (pager == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("LESS", "FRX", 0);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pager > 0) {
        terminal.pager = pager;
        dup2(ends[1], STDOUT_FILENO);
        signal(SIGPIPE, SIG_IGN); /* the user may leave the pager early */
        /* Ctrl-C is for the pager, which loses the terminal if this command ends */
        signal(SIGINT, SIG_IGN);
        signal(SIGQUIT, SIG_IGN);
        atexit(end_at_exit);
    }
    close(ends[0]);
    close(ends[1]);
}

bool terminal_end(void) {
    if (terminal.pager <= 0)
        return false;
    pid_t pager = terminal.pager;
    terminal.pager = 0;
    /* a write to a pipe fails only if its reader has gone */
    bool left = fflush(stdout) != 0 || ferror(stdout);
    close(STDOUT_FILENO);
    while (waitpid(pager, NULL, 0) < 0 && errno == EINTR) {
    }
    return left;
}
