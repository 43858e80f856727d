/* SPDX-License-Identifier: MIT */
/* serve.c - `memctx serve`: metrics, profiles and findings of running processes over HTTP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "serve/server.h"
#include "verbs/reading.h"
#include "verbs/verbs.h"

#define SECRET_MAX 65536 /* bytes of a file with a token, a certificate or a key */
#define TOKEN_MIN 16

enum { OPTION_ALL = 1, OPTION_MATCH, OPTION_LISTEN, OPTION_TOKEN, OPTION_CERT, OPTION_KEY };

static const struct option options_list[] = {{"all", no_argument, NULL, OPTION_ALL},
                                             {"match", required_argument, NULL, OPTION_MATCH},
                                             {"listen", required_argument, NULL, OPTION_LISTEN},
                                             {"token-file", required_argument, NULL, OPTION_TOKEN},
                                             {"cert", required_argument, NULL, OPTION_CERT},
                                             {"key", required_argument, NULL, OPTION_KEY},
                                             CLI_COMMON_OPTIONS};

struct serve_words {
    const char *listen, *token, *certificate, *key;
};

/* Returns the content of a file, with a final 0. `private`: warns if others may read it. */
static char *read_file(const char *option, const char *path, bool private) {
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
        cli_warn("other users may read %s; chmod 600 %s", path, path);
    fclose(file);
    return text;
}

/* Reads the token: one line without spaces. */
static char *read_token(const char *path) {
    char *token = read_file("--token-file", path, true);
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

static struct server_options parse(int argc, char **argv) {
    struct server_options options = {0};
    struct serve_words words = {.listen = "127.0.0.1:9464"};
    struct cli_failure failure;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case OPTION_ALL: options.wanted.all = true; break;
        case OPTION_MATCH: options.wanted.glob = optarg; break;
        case OPTION_LISTEN: words.listen = optarg; break;
        case OPTION_TOKEN: words.token = optarg; break;
        case OPTION_CERT: words.certificate = optarg; break;
        default: words.key = optarg; break;
        }
    }
    options.wanted.words = (const char *const *)argv + optind;
    options.wanted.word_count = (size_t)(argc - optind);
    if (options.wanted.all + (options.wanted.glob != NULL) + (argc > optind) != 1)
        cli_usage("serve needs either TARGETs, or --all, or --match GLOB");
    if (!words.certificate != !words.key)
        cli_usage("--cert and --key need each other");
    if (!address_parse(&options.address, words.listen, &failure))
        cli_usage("%s", failure.text);
    if (!options.address.loopback && !words.token && !words.certificate) {
        cli_usage("%s can be reached from other machines; add --token-file FILE, or --cert FILE "
                  "and --key FILE, or listen on 127.0.0.1",
                  words.listen);
    }
    options.token = words.token ? read_token(words.token) : NULL;
    options.certificate = words.certificate ? read_file("--cert", words.certificate, false) : NULL;
    options.key = words.key ? read_file("--key", words.key, true) : NULL;
    return options;
}

/* Ends the command with the message of other verbs if a TARGET is not there. A name may belong to
 * several processes here. */
static void check_targets(const struct fleet_wanted *wanted) {
    for (size_t i = 0; i < wanted->word_count; i++) {
        struct fleet fleet = {.wanted = {.words = wanted->words + i, .word_count = 1}};
        struct target target;
        int64_t pid;
        if (!cli_is_number(wanted->words[i], &pid)) {
            fleet_refresh(&fleet);
            size_t count = fleet.count;
            fleet_end(&fleet);
            if (count > 0)
                continue;
        }
        target_open(&target, wanted->words[i], true);
        client_close(&target.client);
    }
}

int serve_main(int argc, char **argv) {
    struct server_options options = parse(argc, argv);
    check_targets(&options.wanted);
    return server_run(&options);
}
