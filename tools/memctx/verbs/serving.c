/* SPDX-License-Identifier: MIT */
/* serving.c - reads files with secrets, times, and TARGETs of which a name may stand for several
 * processes. */
#include "verbs/serving.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "diagnosis/conditions.h"
#include "target/target.h"

#define SECRET_MAX 65536 /* bytes of a file with a token, a certificate or a key */
#define TOKEN_MIN 16     /* least characters of a token */
#define EVERY_MS_MIN 100

char *serving_read_file(const char *option, const char *path, bool private) {
    char *text = cli_alloc(SECRET_MAX + 1, 1);
    struct stat status;
    FILE *file = fopen(path, "re");
    if (!file)
        cli_die(CLI_USAGE, "%s: cannot read %s; %s", option, path, strerror(errno));
    size_t length = fread(text, 1, SECRET_MAX, file);
    if (ferror(file))
        cli_die(CLI_USAGE, "%s: cannot read %s; %s", option, path, strerror(errno));
    if (strlen(text) != length || length == 0 || length == SECRET_MAX) {
        cli_die(CLI_USAGE, "%s: %s is %s; name a file of text", option, path,
                length == 0            ? "empty"
                : length == SECRET_MAX ? "too long"
                                       : "not text");
    }
    if (private && fstat(fileno(file), &status) == 0 && (status.st_mode & 077) != 0)
        cli_warn("%s: other users may read %s; chmod 600 %s", option, path, path);
    fclose(file);
    return text;
}

char *serving_read_token(const char *path) {
    char *token = serving_read_file("--token-file", path, true);
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
    if ((wanted->all || wanted->glob) == (wanted->word_count > 0))
        cli_usage("%s needs either TARGETs, or --all, or --match GLOB", cli_current_verb->name);
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
