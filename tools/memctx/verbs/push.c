/* SPDX-License-Identifier: MIT */
/* push.c - `memctx push`: sends profiles or metrics of running processes to a server. */
#include "serve/push.h"

#include <string.h>
#include <strings.h>

#include "verbs/serving.h"
#include "verbs/verbs.h"

#define EVERY_MIN_S 5
#define EVERY_MAX_S 86400

enum {
    OPTION_ALL = 1,
    OPTION_MATCH,
    OPTION_TO,
    OPTION_AS,
    OPTION_EVERY,
    OPTION_ONCE,
    OPTION_TOKEN,
    OPTION_LIMIT_SAMPLES
};

static const struct option options_list[] = {
    {"all", no_argument, NULL, OPTION_ALL},
    {"match", required_argument, NULL, OPTION_MATCH},
    {"to", required_argument, NULL, OPTION_TO},
    {"as", required_argument, NULL, OPTION_AS},
    {"every", required_argument, NULL, OPTION_EVERY},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"token-file", required_argument, NULL, OPTION_TOKEN},
    {"limit-samples", required_argument, NULL, OPTION_LIMIT_SAMPLES},
    CLI_COMMON_OPTIONS};

static enum push_format parse_format(const char *word) {
    if (strcmp(word, "pyroscope") == 0)
        return PUSH_PYROSCOPE;
    if (strcmp(word, "pushgateway") == 0)
        return PUSH_PUSHGATEWAY;
    cli_usage("--as takes pyroscope or pushgateway; got \"%s\"", word);
}

/* Returns the URL without slashes at its end. */
static char *parse_url(const char *word) {
    bool plain = strncasecmp(word, "http://", 7) == 0;
    if ((!plain && strncasecmp(word, "https://", 8) != 0) || word[plain ? 7 : 8] == '\0')
        cli_usage("--to takes a URL that begins with http:// or https://; got \"%s\"", word);
    if (strpbrk(word, "?# \t\n"))
        cli_usage("--to takes the URL of a server, without a query; got \"%s\"", word);
    char *url = cli_copy(word);
    for (size_t length = strlen(url); url[length - 1] == '/'; length--)
        url[length - 1] = '\0';
    return url;
}

static struct push_options parse(int argc, char **argv) {
    struct push_options options = {.every_s = 60, .limit_samples = 10000};
    const char *token = NULL;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case OPTION_ALL: options.wanted.all = true; break;
        case OPTION_MATCH: options.wanted.glob = optarg; break;
        case OPTION_TO: options.url = parse_url(optarg); break;
        case OPTION_AS: options.format = parse_format(optarg); break;
        case OPTION_EVERY:
            options.every_s = cli_parse_number("--every", optarg, EVERY_MIN_S, EVERY_MAX_S);
            break;
        case OPTION_ONCE: options.once = true; break;
        case OPTION_TOKEN: token = optarg; break;
        default:
            options.limit_samples = cli_parse_number("--limit-samples", optarg, 1, INT32_MAX);
            break;
        }
    }
    options.wanted.words = (const char *const *)argv + optind;
    options.wanted.word_count = (size_t)(argc - optind);
    if (options.wanted.all + (options.wanted.glob != NULL) + (argc > optind) != 1)
        cli_usage("push needs either TARGETs, or --all, or --match GLOB");
    if (!options.url)
        cli_usage("push needs --to URL, the server that gets the profiles or metrics");
    options.token = token ? serving_read_token(token) : NULL;
    return options;
}

int push_main(int argc, char **argv) {
    struct push_options options = parse(argc, argv);
    serving_check_targets(&options.wanted);
    return push_run(&options);
}
