/* SPDX-License-Identifier: MIT */
/* serving.c - reads files with secrets, times, and TARGETs of which a name may stand for several
 * processes. */
#include "verbs/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnosis/conditions.h"
#include "target/target.h"

#define SECRET_MAX 65536     /* bytes of a file with a token, a certificate or a key */
#define BUNDLE_MAX (4 << 20) /* bytes of a file with the certificates of authorities */
#define SECRET_MS 10000      /* longest time for reading such a file if it is a pipe */
#define TOKEN_MIN 16         /* least characters of a token */
#define EVERY_MS_MIN 100

/* Returns the kind of a file in words if a secret cannot be read from it; NULL: it can be read. A
 * FIFO is allowed because a shell passes <(COMMAND) as a FIFO. `again`: the file will be read
 * several times, which a FIFO does not allow. */
static const char *unfit(mode_t mode, bool again) {
    if (S_ISREG(mode) || (S_ISFIFO(mode) && !again))
        return NULL;
    return S_ISFIFO(mode)   ? "a pipe, but each connection reads it anew"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

/* Opens the file so that neither open nor read waits for somebody who writes to a FIFO. */
static int open_secret(const char *option, const char *path, bool again) {
    struct stat status;
    int fd = -1;
    if (stat(path, &status) == 0) {
        const char *kind = unfit(status.st_mode, again);
        if (kind)
            cli_die(CLI_USAGE, "%s: %s is %s; name a file", option, path, kind);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    if (fd < 0)
        cli_die(CLI_USAGE, "%s: cannot read %s; %s; name a file that you may read", option, path,
                strerror(errno));
    return fd;
}

/* Reads up to `room` bytes, to the end of the file. A FIFO ends when nobody has it open for writing
 * any more. Returns the number of bytes. */
static size_t read_secret(const char *option, const char *path, int fd, char *to, size_t room) {
    int64_t until_ms = clock_now_ms() + SECRET_MS;
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    size_t length = 0;
    while (length < room) {
        int64_t left_ms = until_ms - clock_now_ms();
        /* poll comes first: read of a FIFO that nobody has opened for writing yet returns 0 */
        if (poll(&entry, 1, left_ms < 0 ? 0 : (int)left_ms) == 0)
            cli_die(CLI_USAGE, "%s: nobody wrote the end of %s, a pipe, within %d s; name a file",
                    option, path, SECRET_MS / 1000);
        ssize_t got = read(fd, to + length, room - length);
        if (got == 0)
            break;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            cli_die(CLI_USAGE, "%s: cannot read %s; %s; name a file that you may read", option,
                    path, strerror(errno));
        length += got > 0 ? (size_t)got : 0;
    }
    return length;
}

static char *read_text(const char *option, const char *path, bool private, bool again) {
    size_t most = again ? BUNDLE_MAX : SECRET_MAX;
    char *text = cli_alloc(most + 1, 1);
    struct stat status;
    int fd = open_secret(option, path, again);
    size_t length = read_secret(option, path, fd, text, most);
    if (strlen(text) != length || length == 0 || length == most) {
        cli_die(CLI_USAGE, "%s: %s is %s; name a file of text", option, path,
                length == 0      ? "empty"
                : length == most ? "too long"
                                 : "not text");
    }
    if (private && fstat(fd, &status) == 0 && (status.st_mode & 077) != 0)
        cli_warn("%s: other users may read %s; chmod 600 %s", option, path, path);
    close(fd);
    return text;
}

/* Ends the command with a usage error unless the text of the file has a certificate in PEM, or a
 * key (`private`) that needs no password. */
static void check_pem(const char *option, const char *path, const char *text, bool private) {
    const char *wanted = private ? "PRIVATE KEY-----" : "-----BEGIN CERTIFICATE-----";
    if (!strstr(text, wanted))
        cli_die(CLI_USAGE, "%s: %s has no %s in PEM, which has a line with \"%s\"", option, path,
                private ? "key" : "certificate", wanted);
    if (private && strstr(text, "ENCRYPTED"))
        cli_die(CLI_USAGE,
                "%s: the key in %s needs a password; write it without one, such as with "
                "openssl pkey",
                option, path);
}

void serving_check_pem(const char *option, const char *path, bool private) {
    char *text = read_text(option, path, private, true);
    check_pem(option, path, text, private);
    free(text);
}

char *serving_read_pem(const char *option, const char *path, bool private) {
    char *text = read_text(option, path, private, false);
    check_pem(option, path, text, private);
    return text;
}

char *serving_read_token(const char *path) {
    char *token = read_text("--token-file", path, true, false);
    token[strcspn(token, "\r\n")] = '\0';
    size_t length = strlen(token);
    for (size_t i = 0; i < length; i++)
        if (token[i] <= ' ' || token[i] > '~')
            cli_die(CLI_USAGE,
                    "--token-file: the first line of %s has a space or a byte that is "
                    "not ASCII; take letters and digits, such as those of openssl rand "
                    "-hex 32",
                    path);
    if (length < TOKEN_MIN)
        cli_die(CLI_USAGE,
                "--token-file: the first line of %s has %zu characters, but a token "
                "needs %d; openssl rand -hex 32 makes one",
                path, length, TOKEN_MIN);
    return token;
}

int64_t serving_parse_every(const char *text, int64_t most_ms, const char *range) {
    int64_t ms;
    if (!condition_parse_time(text, &ms) || ms < EVERY_MS_MIN || ms > most_ms)
        cli_usage("--every takes a time from 100ms to %s; got \"%s\"", range, text);
    return ms;
}

void serving_check_wanted(const struct fleet_wanted *wanted) {
    if (!wanted->all && !wanted->glob && wanted->word_count == 0)
        cli_usage("%s needs either TARGETs, or --all, or --match GLOB", cli_current_verb->name);
    if ((wanted->all || wanted->glob) && wanted->word_count > 0)
        cli_usage("%s takes no TARGET; got %s", wanted->glob ? "--match" : "--all",
                  wanted->words[0]);
}

/* Returns true if a running process has this name; there may be several of them. */
static bool is_name(const char *const *word) {
    struct fleet fleet = {.wanted = {.words = word, .word_count = 1}};
    int64_t pid;
    if (cli_is_number(*word, &pid))
        return false;
    fleet_refresh(&fleet);
    size_t count = fleet.count;
    fleet_end(&fleet);
    return count > 0;
}

void serving_check_targets(const struct fleet_wanted *wanted) {
    int code = CLI_DONE;
    size_t good = 0;
    process_need_proc();
    for (size_t i = 0; i < wanted->word_count; i++)
        good += is_name(wanted->words + i) || target_can_be_watched(wanted->words[i], &code);
    if (wanted->word_count > 0 && good == 0)
        exit(code);
    if (good < wanted->word_count)
        cli_warn("%zu of %zu TARGETs cannot be asked now; %s goes on with the others",
                 wanted->word_count - good, wanted->word_count, cli_current_verb->name);
}
