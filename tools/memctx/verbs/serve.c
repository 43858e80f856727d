/* SPDX-License-Identifier: MIT */
/* serve.c - `memctx serve`: metrics, profiles and findings of running processes over HTTP. */
#include "serve/server.h"
#include "verbs/serving.h"
#include "verbs/verbs.h"

#define EVERY_MS_MAX 3600000

enum {
    OPTION_ALL = 1,
    OPTION_MATCH,
    OPTION_LISTEN,
    OPTION_TOKEN,
    OPTION_CERT,
    OPTION_KEY,
    OPTION_EVERY,
    OPTION_CHECK
};

static const struct option options_list[] = {{"all", no_argument, NULL, OPTION_ALL},
                                             {"match", required_argument, NULL, OPTION_MATCH},
                                             {"listen", required_argument, NULL, OPTION_LISTEN},
                                             {"token-file", required_argument, NULL, OPTION_TOKEN},
                                             {"cert", required_argument, NULL, OPTION_CERT},
                                             {"key", required_argument, NULL, OPTION_KEY},
                                             {"every", required_argument, NULL, OPTION_EVERY},
                                             {"check", no_argument, NULL, OPTION_CHECK},
                                             CLI_COMMON_OPTIONS};

struct serve_words {
    const char *listen, *token, *certificate, *key;
};

static struct server_options parse(int argc, char **argv, bool *check) {
    struct server_options options = {.every_ms = 1000};
    struct serve_words words = {.listen = "127.0.0.1:9464"};
    struct cli_failure failure;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1) {
        switch (option) {
        case OPTION_ALL: options.wanted.all = true; break;
        case OPTION_MATCH: options.wanted.glob = optarg; break;
        case OPTION_LISTEN: words.listen = optarg; break;
        case OPTION_TOKEN: words.token = optarg; break;
        case OPTION_CHECK: *check = true; break;
        case OPTION_CERT: words.certificate = optarg; break;
        case OPTION_KEY: words.key = optarg; break;
        default:
            options.every_ms = serving_parse_every(optarg, EVERY_MS_MAX, "1h, such as 2s");
            break;
        }
    }
    options.wanted.words = (const char *const *)argv + optind;
    options.wanted.word_count = (size_t)(argc - optind);
    serving_check_wanted(&options.wanted);
    if (!words.certificate != !words.key)
        cli_usage("--cert and --key need each other; give both");
    if (!address_parse(&options.address, words.listen, &failure))
        cli_usage("%s", failure.text);
    if (!options.address.loopback && !words.token && !words.certificate) {
        cli_usage("%s can be reached from other machines; add --token-file FILE, or --cert FILE "
                  "and --key FILE, or listen on 127.0.0.1",
                  words.listen);
    }
    options.token = words.token ? serving_read_token(words.token) : NULL;
    options.certificate =
        words.certificate ? serving_read_pem("--cert", words.certificate, false) : NULL;
    options.key = words.key ? serving_read_pem("--key", words.key, true) : NULL;
    return options;
}

int serve_main(int argc, char **argv) {
    bool check = false;
    struct server_options options = parse(argc, argv, &check);
    if (check) {
        server_check(&options);
        return CLI_DONE;
    }
    serving_check_targets(&options.wanted);
    return server_run(&options);
}
