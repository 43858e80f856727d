/* SPDX-License-Identifier: MIT */
/* output.c - writes a temporary file beside the final name, then renames it. */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cli.h"
#include "base/json.h"

#define LINKS_MAX 40 /* greatest number of symbolic links that the kernel follows */

/* The unfinished file of this process; NULL: there is none. */
static char *unfinished;
static pid_t unfinished_of;

static void remove_unfinished(void) {
    if (unfinished && unfinished_of == getpid())
        unlink(unfinished);
}

static void end_by_signal(int number) {
    remove_unfinished();
    signal(number, SIG_DFL);
    raise(number); /* ends the process when this handler returns and unblocks the signal */
}

/* Installs end_by_signal for signals that have the default action. Signals that the verb handles,
 * or that the caller of the command ignores, keep their action. */
static void remove_on_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before, action = {.sa_handler = end_by_signal};
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}

/* True if the descriptor is open for `file`. Such a file is written to directly: /dev/stdout is a
 * symbolic link, which a rename would replace for all users. */
static bool is_open_as(const struct stat *file, int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == file->st_dev &&
           status.st_ino == file->st_ino;
}

/* Returns the name of a new file in the directory of `path`, as mkstemp takes it: `path` itself
 * with a suffix, where the last part of `path` is cut so that the name is not too long. */
static char *temporary_name(const char *path) {
    static const char suffix[] = ".XXXXXX";
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0, length = strlen(path);
    size_t most = folder + NAME_MAX - strlen(suffix);
    return cli_format("%.*s%s", (int)(length < most ? length : most), path, suffix);
}

/* True if another user may have put this link into a directory like /tmp. The kernel does not
 * follow such a link if fs.protected_symlinks is 1. `fd`: the link, opened with O_PATH. */
static bool is_foreign(const char *name, int fd) {
    struct stat link, folder;
    const char *slash = strrchr(name, '/');
    char *of = cli_format("%.*s.", slash ? (int)(slash + 1 - name) : 0, name);
    bool foreign = fstat(fd, &link) != 0 || stat(of, &folder) != 0 ||
                   ((folder.st_mode & S_ISVTX) && (folder.st_mode & S_IWOTH) &&
                    link.st_uid != geteuid() && link.st_uid != folder.st_uid);
    free(of);
    return foreign;
}

/* Reads where a symbolic link leads. Returns the length of `target`; 0 or less: `name` is no link.
 * *foreign receives the result of is_foreign for the link that was read. */
static ssize_t read_link(const char *name, char *target, size_t size, bool *foreign) {
    int fd = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : readlinkat(fd, "", target, size);
    *foreign = length > 0 && is_foreign(name, fd);
    if (fd >= 0)
        close(fd);
    return length;
}

/* Returns the name of the file that a symbolic link leads to, also if there is no such file yet.
 * Returns `path` itself if it is no link, if the links lead to no name, or if a link may be another
 * user's: then the link `path` is replaced. The caller frees the text. */
static char *follow_links(const char *path) {
    char *name = cli_copy(path), target[PATH_MAX];
    for (int i = 0; i < LINKS_MAX; i++) {
        bool foreign;
        ssize_t length = read_link(name, target, sizeof target - 1, &foreign);
        if (foreign)
            break;
        if (length <= 0)
            return name;
        target[length] = '\0';
        const char *slash = target[0] == '/' ? NULL : strrchr(name, '/');
        char *next = cli_format("%.*s%s", slash ? (int)(slash + 1 - name) : 0, name, target);
        free(name);
        name = next;
    }
    free(name);
    return cli_copy(path);
}

bool output_is_terminal(const char *path) {
    struct stat status;
    if (strcmp(path, "-") == 0)
        return isatty(STDOUT_FILENO);
    if (stat(path, &status) != 0 || !S_ISCHR(status.st_mode))
        return false;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool is_terminal = fd >= 0 && isatty(fd);
    if (fd >= 0)
        close(fd);
    return is_terminal;
}

/* Returns the name that the complete file gets; NULL: `path` is written to directly. `status`: the
 * status of the existing file; NULL: there is no file. The caller frees the text. */
static char *find_final_name(const char *path, const struct stat *status) {
    struct stat found;
    if (status && (!S_ISREG(status->st_mode) || is_open_as(status, STDOUT_FILENO) ||
                   is_open_as(status, STDERR_FILENO)))
        return NULL;
    char *name = follow_links(path);
    /* A link in /proc leads to a file that may have no name any more. */
    if (!status || (stat(name, &found) == 0 && found.st_dev == status->st_dev &&
                    found.st_ino == status->st_ino))
        return name;
    free(name);
    return NULL;
}

/* Opens a temporary file beside the final name, and has it removed if the command ends early. */
static void begin_temporary(struct output *output) {
    static bool registered;
    output->temporary = temporary_name(output->final);
    output->fd = mkstemp(output->temporary);
    unfinished = output->fd >= 0 ? output->temporary : NULL;
    unfinished_of = getpid();
    if (!registered) {
        registered = atexit(remove_unfinished) == 0;
        remove_on_signals();
    }
}

static _Noreturn void die_unwritable(const char *path) {
    cli_die(CLI_REFUSED,
            "%s: cannot be written; %s; name a file in a directory that you may write to", path,
            strerror(errno));
}

void output_begin(struct output *output, const char *path) {
    struct stat status;
    bool is_dash = strcmp(path, "-") == 0, exists = !is_dash && stat(path, &status) == 0;
    if (path[0] == '\0')
        cli_usage("the name of the file to write is empty");
    if (!exists && !is_dash && errno == ENAMETOOLONG)
        cli_die(CLI_REFUSED, "%s: cannot be written; %s; choose a name of at most %d bytes", path,
                strerror(errno), NAME_MAX);
    if (!exists && !is_dash && errno != ENOENT)
        die_unwritable(path);
    bool standard = is_dash || (exists && is_open_as(&status, STDOUT_FILENO));
    *output = (struct output){.path = path, .fd = -1, .mode = exists ? status.st_mode : 0666};
    output->final = standard ? NULL : find_final_name(path, exists ? &status : NULL);
    if (output->final)
        begin_temporary(output);
    output->file = standard          ? stdout
                   : !output->final  ? fopen(path, "we")
                   : output->fd >= 0 ? fdopen(output->fd, "w")
                                     : NULL;
    if (!output->file)
        die_unwritable(path);
    setvbuf(output->file, NULL, _IOFBF, 1 << 18);
}

static ssize_t write_compressed(void *cookie, const char *bytes, size_t length) {
    size_t done = 0;
    while (done < length) {
        size_t part = length - done < 1 << 30 ? length - done : 1 << 30;
        int written = gzwrite(cookie, bytes + done, (unsigned)part);
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    return (ssize_t)done;
}

static int close_compressed(void *cookie) {
    return gzclose(cookie) == Z_OK ? 0 : EOF;
}

FILE *output_gzip(int fd, int level) {
    const cookie_io_functions_t functions = {.write = write_compressed, .close = close_compressed};
    char mode[] = {'w', 'b', (char)('0' + level), '\0'};
    gzFile compressed = gzdopen(fd, mode);
    return compressed ? fopencookie(compressed, "w", functions) : NULL;
}

void output_begin_compressed(struct output *output, const char *path) {
    output_begin(output, path);
    int fd = dup(fileno(output->file)); /* a copy, because the compressing stream closes it */
    FILE *file = fd >= 0 ? output_gzip(fd, 6) : NULL;
    if (!file)
        cli_die(CLI_REFUSED,
                "%s: cannot be written; memory or file descriptors are short; raise the limits "
                "(ulimit -v, ulimit -n)",
                path);
    output->plain = output->file;
    output->file = file;
}

/* Flushes all output to the file. Returns false and sets errno if that fails. */
static bool flush_all(struct output *output) {
    bool good = true;
    if (output->plain) {
        good = !ferror(output->file);
        good = fclose(output->file) == 0 && good;
        output->file = output->plain;
    }
    return good && fflush(output->file) == 0 && !ferror(output->file);
}

void output_finish(struct output *output) {
    bool direct = !output->temporary;
    mode_t mask = umask(0);
    umask(mask);
    bool good =
        flush_all(output) && (direct || fchmod(output->fd, output->mode & 0666 & ~mask) == 0);
    int error = errno;
    if (output->file != stdout)
        good = fclose(output->file) == 0 && good;
    if (good && !direct && rename(output->temporary, output->final) != 0) {
        error = errno;
        good = false;
    }
    if (!good) {
        cli_die(CLI_REFUSED,
                "%s: could not be written; %s; free some space, or name a file elsewhere",
                output->path, strerror(error));
    }
    if (unfinished == output->temporary)
        unfinished = NULL;
    free(output->temporary);
    free(output->final);
}

void output_put_html(FILE *file, const char *text, size_t length) {
    for (const char *end = text + length; text < end;) {
        size_t bytes = json_utf8_length(text);
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        case '"': fputs("&quot;", file); break;
        default: fwrite(bytes > 0 ? text : "\xef\xbf\xbd", 1, bytes > 0 ? bytes : 3, file);
        }
        text += bytes > 0 ? bytes : 1;
    }
}
