/* SPDX-License-Identifier: MIT */
/* push.c - `memctx push`: sends profiles or metrics of running processes to a server. */
#include "serve/push.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "serve/post.h"
#include "verbs/serving.h"
#include "verbs/verbs.h"

#define EVERY_MS_MAX 86400000

enum {
    OPTION_ALL = 1,
    OPTION_MATCH,
    OPTION_PYROSCOPE,
    OPTION_PARCA,
    OPTION_OTLP,
    OPTION_PUSHGATEWAY,
    OPTION_LABEL,
    OPTION_EVERY,
    OPTION_ONCE,
    OPTION_TOKEN,
    OPTION_CA_FILE,
    OPTION_CERT,
    OPTION_KEY,
    OPTION_LIMIT_SAMPLES,
    OPTION_CHECK,
    OPTION_JSON
};

static const struct option options_list[] = {
    {"all", no_argument, NULL, OPTION_ALL},
    {"match", required_argument, NULL, OPTION_MATCH},
    {"pyroscope", required_argument, NULL, OPTION_PYROSCOPE},
    {"parca", required_argument, NULL, OPTION_PARCA},
    {"otlp", required_argument, NULL, OPTION_OTLP},
    {"pushgateway", required_argument, NULL, OPTION_PUSHGATEWAY},
    {"label", required_argument, NULL, OPTION_LABEL},
    {"every", required_argument, NULL, OPTION_EVERY},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"token-file", required_argument, NULL, OPTION_TOKEN},
    {"ca-file", required_argument, NULL, OPTION_CA_FILE},
    {"cert", required_argument, NULL, OPTION_CERT},
    {"key", required_argument, NULL, OPTION_KEY},
    {"limit-samples", required_argument, NULL, OPTION_LIMIT_SAMPLES},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"json", no_argument, NULL, OPTION_JSON},
    CLI_COMMON_OPTIONS};

/* Overwrites the name and the password in a URL of the command line, which every user may read. */
static void wipe_password(char *url) {
    char *scheme = strstr(url, "://"), *at = scheme ? strrchr(scheme, '@') : NULL;
    if (at)
        memset(scheme + 3, '*', (size_t)(at - scheme - 3));
}

/* Sets the server. The URL is kept without slashes at its end. */
static void set_server(struct engine_server *server, enum engine engine, const char *option,
                       char *word) {
    bool plain = strncasecmp(word, "http://", 7) == 0;
    char *shown = cli_hide_password(word);
    if (server->engine != ENGINE_NONE)
        cli_usage(
            "push takes one of --pyroscope, --parca, --otlp and --pushgateway, and takes it once");
    if ((!plain && strncasecmp(word, "https://", 8) != 0) || word[plain ? 7 : 8] == '\0')
        cli_usage("%s takes a URL that begins with http:// or https://; got \"%s\"", option, shown);
    if (strpbrk(word, "?# \t\n"))
        cli_usage("%s takes the URL of a server, without a query; got \"%s\"", option, shown);
    char *url = cli_copy(word);
    for (size_t length = strlen(url); url[length - 1] == '/'; length--)
        url[length - 1] = '\0';
    wipe_password(word);
    free(shown);
    server->engine = engine;
    server->url = url;
}

/* Adds the labels when all options are read, because the engine decides which labels are valid. */
static void add_labels(struct engine_server *server, char *const *labels, size_t count) {
    struct cli_failure failure;
    for (size_t i = 0; i < count; i++)
        if (!engine_add_label(server, labels[i], &failure))
            cli_usage("%s", failure.text);
}

static void check(const struct push_options *options) {
    serving_check_wanted(&options->wanted);
    if (options->server.engine == ENGINE_NONE)
        cli_usage("push needs the server: --pyroscope, --parca, --otlp or --pushgateway URL");
}

/* Checks the files for TLS, so that a mistake is told now and not at the first request. */
static void check_tls(const struct push_options *options) {
    const struct post_tls *tls = &options->tls;
    if (!tls->certificate != !tls->key)
        cli_usage("--cert and --key need each other; give both");
    if ((tls->ca_file || tls->key) && strncasecmp(options->server.url, "https://", 8) != 0)
        cli_usage("%s needs a URL that begins with https://; got \"%s\"",
                  tls->ca_file ? "--ca-file" : "--cert", cli_hide_password(options->server.url));
    if (tls->ca_file)
        serving_check_pem("--ca-file", tls->ca_file, false);
    if (tls->key) {
        serving_check_pem("--cert", tls->certificate, false);
        serving_check_pem("--key", tls->key, true);
    }
}

static void take_option(struct push_options *options, int option) {
    struct engine_server *server = &options->server;
    switch (option) {
    case OPTION_ALL: options->wanted.all = true; break;
    case OPTION_MATCH: options->wanted.glob = optarg; break;
    case OPTION_PYROSCOPE: set_server(server, ENGINE_PYROSCOPE, "--pyroscope", optarg); break;
    case OPTION_PARCA: set_server(server, ENGINE_PARCA, "--parca", optarg); break;
    case OPTION_OTLP: set_server(server, ENGINE_OTLP, "--otlp", optarg); break;
    case OPTION_PUSHGATEWAY: set_server(server, ENGINE_PUSHGATEWAY, "--pushgateway", optarg); break;
    case OPTION_EVERY:
        options->every_ms = serving_parse_every(optarg, EVERY_MS_MAX, "24h, such as 60s or 5m");
        break;
    case OPTION_ONCE: options->once = true; break;
    case OPTION_JSON: options->json = true; break;
    case OPTION_CA_FILE: options->tls.ca_file = optarg; break;
    case OPTION_CERT: options->tls.certificate = optarg; break;
    case OPTION_KEY: options->tls.key = optarg; break;
    default:
        options->limit_samples = cli_parse_number("--limit-samples", optarg, 1, INT32_MAX);
        break;
    }
}

static struct push_options parse(int argc, char **argv, bool *only_check) {
    struct push_options options = {.every_ms = 60000, .limit_samples = 16000};
    char **labels = cli_alloc((size_t)argc, sizeof *labels);
    size_t label_count = 0;
    const char *token = NULL;
    int option;
    while ((option = cli_next_option(argc, argv, ":hV", options_list)) != -1)
        if (option == OPTION_TOKEN)
            token = optarg;
        else if (option == OPTION_LABEL)
            labels[label_count++] = optarg;
        else if (option == OPTION_CHECK)
            *only_check = true;
        else
            take_option(&options, option);
    options.wanted.words = (const char *const *)argv + optind;
    options.wanted.word_count = (size_t)(argc - optind);
    check(&options);
    check_tls(&options);
    add_labels(&options.server, labels, label_count);
    free(labels);
    options.token = token ? serving_read_token(token) : NULL;
    return options;
}

int push_main(int argc, char **argv) {
    bool only_check = false;
    struct push_options options = parse(argc, argv, &only_check);
    struct engine_server *server = &options.server;
    struct cli_failure failure;
    if (!post_load(&failure))
        cli_die_failure(&failure);
    const char *mistake = post_find_mistake(server->url);
    if (mistake)
        cli_usage("the URL %s cannot be used; %s", cli_hide_password(server->url), mistake);
    if (only_check)
        return CLI_DONE;
    if (gethostname(server->host, sizeof server->host - 1) != 0 || server->host[0] == '\0')
        snprintf(server->host, sizeof server->host, "localhost");
    serving_check_targets(&options.wanted);
    return push_run(&options);
}
