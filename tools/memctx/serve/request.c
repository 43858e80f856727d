/* SPDX-License-Identifier: MIT */
/* request.c - checks whether a client may ask, and reads the address and the arguments of its
 * request. */
#include "serve/request.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cli.h"

#define refuse(...) (set_refusal(__VA_ARGS__), false)

static void set_refusal(struct request_refusal *refusal, unsigned status, const char *format, ...)
    CLI_PRINTF(3, 4);
static void set_refusal(struct request_refusal *refusal, unsigned status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    refusal->status = status;
    vsnprintf(refusal->text, sizeof refusal->text, format, arguments);
    va_end(arguments);
    cli_clean(refusal->text);
}

/* --- who may ask ----------------------------------------------------------------------------- */

/* Returns the length of a header's value without the spaces and tabs at its end. HTTP says that
 * they do not belong to the value, but libmicrohttpd leaves tabs there. */
static size_t value_length(const char *value) {
    size_t length = strlen(value);
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        length--;
    return length;
}

/* Compares in a time that depends only on the length of the client's text, so that the time reveals
 * nothing of the token. */
static bool is_token(const char *sent, const char *token) {
    size_t length = strlen(token), sent_length = value_length(sent);
    volatile unsigned char differs = length != sent_length;
    for (size_t i = 0; i < sent_length; i++)
        differs = differs | (unsigned char)(sent[i] ^ token[i % length]);
    return differs == 0;
}

/* Returns true if the Host header is an IP address or localhost. A page of another site can let the
 * site's name resolve to 127.0.0.1, so that the browser asks this server; other names are refused.
 */
static bool is_local_name(const char *host) {
    char name[64];
    unsigned char address[16];
    size_t length = host[0] == '[' ? strcspn(host + 1, "]") : strcspn(host, ":");
    if (length >= sizeof name)
        return false;
    memcpy(name, host + (host[0] == '['), length);
    name[length] = '\0';
    const char *port = host + length + (host[0] == '[' ? 2 : 0);
    if ((host[0] == '[' && port[-1] != ']') ||
        (port[0] != '\0' && (port[0] != ':' || port[1 + strspn(port + 1, "0123456789")] != '\0')))
        return false;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1 ||
           inet_pton(AF_INET6, name, address) == 1;
}

static enum MHD_Result count_host(void *count, enum MHD_ValueKind kind, const char *key,
                                  const char *value) {
    (void)kind, (void)value;
    *(unsigned *)count += strcasecmp(key, "Host") == 0;
    return MHD_YES;
}

/* Returns true if the request has as many Host headers as HTTP demands: exactly one in HTTP/1.1, at
 * most one in HTTP/1.0. Other servers on the way may read another one of several headers. */
static bool has_right_hosts(struct MHD_Connection *connection, const char *version) {
    unsigned count = 0;
    mhd.get_connection_values(connection, MHD_HEADER_KIND, count_host, &count);
    return count == 1 || (count == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) == 0);
}

/* Returns true if a page of another site makes the request, as the browser's Sec-Fetch headers say.
 * A link that the user follows does not count. */
static bool is_of_another_site(struct MHD_Connection *connection) {
    const char *site = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *mode = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode");
    return site && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0 &&
           !(mode && strcasecmp(mode, "navigate") == 0);
}

/* Returns the length of "http://HOST" in front of the path; 0 if there is none. */
static size_t host_length(const char *url) {
    size_t scheme = strncasecmp(url, "http://", 7) == 0    ? 7
                    : strncasecmp(url, "https://", 8) == 0 ? 8
                                                           : 0;
    return scheme > 0 ? scheme + strcspn(url + scheme, "/") : 0;
}

const char *request_path(const char *url) {
    const char *path = url + host_length(url);
    return *path != '\0' ? path : "/";
}

/* Writes the host that the request names to `host`: HOST of the address "http://HOST/PATH", or the
 * value of the Host header if the address has no host. HTTP demands that a server ignores the
 * header if the address has one. Returns false if the request names no host. */
static bool take_host(struct MHD_Connection *connection, const char *url, char *host, size_t room) {
    size_t length = host_length(url);
    const char *header = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *from = length > 0 ? strstr(url, "://") + 3 : header;
    const char *end = length > 0 ? url + length : header ? header + value_length(header) : NULL;
    snprintf(host, room, "%.*s", (int)(end - from), from ? from : "");
    return from;
}

bool request_permit(struct MHD_Connection *connection, const char *url, const char *version,
                    const struct request_rules *rules, struct request_refusal *refusal) {
    char host[256];
    const char *sent = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (!has_right_hosts(connection, version))
        return refuse(refusal, MHD_HTTP_BAD_REQUEST, "the request needs exactly one Host header");
    bool has_host = take_host(connection, url, host, sizeof host);
    if (rules->local_host && has_host && !is_local_name(host)) {
        return refuse(refusal, MHD_HTTP_FORBIDDEN,
                      "the Host \"%.200s\" is no address of this machine; name 127.0.0.1 or "
                      "localhost, or start the server with --token-file",
                      host);
    }
    if (is_of_another_site(connection)) {
        return refuse(refusal, MHD_HTTP_FORBIDDEN,
                      "a page of another site asks; open this address in a window of its own");
    }
    if (!rules->token)
        return true;
    bool bearer = sent && strncasecmp(sent, "Bearer ", 7) == 0;
    if (bearer && is_token(sent + 7 + strspn(sent + 7, " \t"), rules->token))
        return true;
    if (bearer && !*rules->token_logged) {
        cli_warn("a request with a wrong token was refused; later ones are not reported");
        *rules->token_logged = true;
    }
    return refuse(refusal, MHD_HTTP_UNAUTHORIZED,
                  "this server needs the header "
                  "\"Authorization: Bearer TOKEN\"%s",
                  bearer ? "; this token is wrong" : "");
}

/* --- what is asked --------------------------------------------------------------------------- */

struct address {
    const char *url;
    enum request_kind kind;
    /* names of the arguments that the address takes; ends with NULL */
    const char *arguments[5];
};
static const struct address addresses[] = {
    {"/metrics", REQUEST_METRICS, {NULL}},
    {"/debug/pprof/heap", REQUEST_HEAP, {"target", "process", "limit_samples", NULL}},
    {"/debug/pprof/allocs",
     REQUEST_ALLOCS,
     {"target", "process", "limit_samples", "seconds", NULL}},
    {"/doctor", REQUEST_DOCTOR, {"target", "process", NULL}},
    {"/", REQUEST_PAGE, {NULL}},
    {"/processes.json", REQUEST_PROCESSES, {NULL}},
};
/* The addresses of a live page, which follow /p/WORD. */
static const struct address live_addresses[] = {
    {"", REQUEST_SHELL, {NULL}},
    {"/", REQUEST_SHELL, {NULL}},
    {"/history.json", REQUEST_HISTORY, {NULL}},
    {"/data.json", REQUEST_DATA, {"moment", "before", NULL}},
    {"/events", REQUEST_EVENTS, {NULL}},
};
#define LIVE_ADDRESSES (sizeof live_addresses / sizeof live_addresses[0])
#define WORD_MAX 256 /* room for the name of a program */
#define ADDRESSES (sizeof addresses / sizeof addresses[0])

struct argument_check {
    const struct address *address;
    struct request_refusal *refusal;
    unsigned seen; /* bit N: argument N of the address was given */
    bool good;
};

/* Refuses an argument that the address does not take. The message lists the arguments that the
 * address takes. */
static bool refuse_argument(const struct argument_check *check, const char *key) {
    const char *const *arguments = check->address->arguments;
    char known[120] = "; it takes no arguments";
    size_t used = 0;
    /* Go's runtime answers heap?seconds=N with a difference, so users of pprof ask for it. */
    bool wants_time = check->address->kind == REQUEST_HEAP && strcmp(key, "seconds") == 0;
    for (size_t i = 0; arguments[i]; i++)
        used += (size_t)snprintf(known + used, sizeof known - used,
                                 "%s%s=", i == 0 ? "; it takes " : ", ", arguments[i]);
    return refuse(check->refusal, MHD_HTTP_BAD_REQUEST, "this address takes no %.100s=%s%s", key,
                  known,
                  wants_time ? "; /debug/pprof/allocs?seconds=N gives what was allocated within N "
                               "seconds"
                             : "");
}

static enum MHD_Result check_argument(void *closure, enum MHD_ValueKind kind, const char *key,
                                      const char *value) {
    struct argument_check *check = closure;
    size_t at = 0;
    (void)kind;
    while (check->address->arguments[at] && strcmp(check->address->arguments[at], key) != 0)
        at++;
    if (!check->address->arguments[at])
        check->good = refuse_argument(check, key);
    else if (!value || value[0] == '\0')
        check->good = refuse(check->refusal, MHD_HTTP_BAD_REQUEST, "%s= needs a value", key);
    else if (check->seen & 1U << at)
        check->good =
            refuse(check->refusal, MHD_HTTP_BAD_REQUEST, "%s= is given twice; give it once", key);
    check->seen |= 1U << at;
    return check->good ? MHD_YES : MHD_NO;
}

static bool read_number(struct MHD_Connection *connection, const char *name, unsigned most,
                        unsigned *number, struct request_refusal *refusal) {
    const char *word = mhd.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
    int64_t value;
    if (!word)
        return true;
    if (!cli_is_number(word, &value) || value < 1 || value > most) {
        return refuse(refusal, MHD_HTTP_BAD_REQUEST,
                      "%s= takes a number from 1 to %u; got "
                      "\"%.100s\"",
                      name, most, word);
    }
    *number = (unsigned)value;
    return true;
}

/* Finds the process that the arguments target= and process= name. */
static bool read_target(struct request_query *query, struct MHD_Connection *connection,
                        struct fleet *fleet, struct request_refusal *refusal) {
    const char *target = mhd.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "target");
    unsigned number = 0;
    size_t count;
    if (!read_number(connection, "process", INT32_MAX, &number, refusal))
        return false;
    fleet_refresh(fleet);
    query->process = fleet_find(fleet, target, number, &count);
    if (count == 1)
        return true;
    if (count == 0) {
        char which[40] = "";
        if (number > 0)
            snprintf(which, sizeof which, " with process=%u", number);
        return refuse(refusal, MHD_HTTP_NOT_FOUND,
                      "no such process is served%s%.100s%s; / lists those that are",
                      target ? ": " : "", target ? target : "", which);
    }
    return refuse(refusal, MHD_HTTP_BAD_REQUEST,
                  "%zu processes are served; name one with target=%s; / lists them", count,
                  target ? "PID, or add &process=NUMBER" : "PROGRAM or target=PID");
}

/* Finds the process of a live page by its pid or its program's name. A process that has ended is
 * found as long as its figures are kept. */
static bool read_word(struct request_query *query, const char *word, struct fleet *fleet,
                      struct watching *watching, struct request_refusal *refusal) {
    int64_t pid = 0;
    bool is_pid = cli_is_number(word, &pid) && pid > 0 && pid <= INT32_MAX;
    size_t count = 0;
    fleet_refresh(fleet);
    query->process = fleet_find(fleet, word, 0, &count);
    if (count > 1) {
        return refuse(refusal, MHD_HTTP_BAD_REQUEST,
                      "%zu processes of this name are served; take a pid, which / lists", count);
    }
    query->watched = count == 1 ? watching_begin(watching, query->process)
                                : watching_find(watching, (pid_t)pid, is_pid ? NULL : word);
    if (query->watched)
        return true;
    if (count == 1) {
        return refuse(refusal, MHD_HTTP_SERVICE_UNAVAILABLE,
                      "%d processes are looked at already; close another page", WATCHED_MAX);
    }
    return refuse(refusal, MHD_HTTP_NOT_FOUND,
                  "no such process is served: %.100s; / lists those that are", word);
}

/* Splits /p/WORD/REST. Returns the entry of live_addresses for REST, or NULL. */
static const struct address *find_live(const char *url, char *word, size_t room) {
    size_t length = strncmp(url, "/p/", 3) == 0 ? strcspn(url + 3, "/") : 0;
    if (length == 0 || length >= room)
        return NULL;
    memcpy(word, url + 3, length);
    word[length] = '\0';
    for (size_t i = 0; i < LIVE_ADDRESSES; i++)
        if (strcmp(live_addresses[i].url, url + 3 + length) == 0)
            return &live_addresses[i];
    return NULL;
}

static const struct address *find_address(const char *url, char *word, size_t room) {
    for (size_t i = 0; i < ADDRESSES; i++)
        if (strcmp(addresses[i].url, url) == 0)
            return &addresses[i];
    return find_live(url, word, room);
}

/* The header Accept-Encoding is a list such as "gzip;q=0.5, br". */
bool request_takes_gzip(struct MHD_Connection *connection) {
    static const char name[] = "gzip";
    const char *at =
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    while (at && *at != '\0') {
        at += strspn(at, " \t,");
        size_t length = strcspn(at, ","), word = strcspn(at, " \t;,");
        if (word == strlen(name) && strncasecmp(at, name, word) == 0) {
            const char *weight = memmem(at, length, "q=", 2);
            return !weight || strtod(weight + 2, NULL) > 0;
        }
        at += length;
    }
    return false;
}

bool request_wants_shell(struct MHD_Connection *connection, const char *url) {
    char word[WORD_MAX];
    const char *accept =
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    const struct address *address = find_address(url, word, sizeof word);
    return accept && strstr(accept, "text/html") && address &&
           (address->kind == REQUEST_PAGE || address->kind == REQUEST_SHELL);
}

bool request_read(struct request_query *query, struct MHD_Connection *connection, const char *url,
                  struct fleet *fleet, struct watching *watching, struct request_refusal *refusal) {
    char word[WORD_MAX];
    const struct address *address = find_address(url, word, sizeof word);
    *query = (struct request_query){.gzip = request_takes_gzip(connection)};
    if (!address) {
        return refuse(refusal, MHD_HTTP_NOT_FOUND,
                      "there is no %.200s; there are /, /p/PID/, /metrics, /doctor, "
                      "/debug/pprof/heap and /debug/pprof/allocs",
                      url);
    }
    query->kind = address->kind;
    query->format = exposition_choose(
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
    struct argument_check check = {.address = address, .refusal = refusal, .good = true};
    mhd.get_connection_values(connection, MHD_GET_ARGUMENT_KIND, check_argument, &check);
    if (!check.good ||
        !read_number(connection, "seconds", REQUEST_SECONDS_MAX, &query->seconds, refusal) ||
        !read_number(connection, "limit_samples", REQUEST_SAMPLES_MAX, &query->limit_samples,
                     refusal) ||
        !read_number(connection, "moment", INT32_MAX, &query->moment, refusal) ||
        !read_number(connection, "before", INT32_MAX, &query->before, refusal))
        return false;
    if (query->kind == REQUEST_HEAP || query->kind == REQUEST_ALLOCS ||
        query->kind == REQUEST_DOCTOR)
        return read_target(query, connection, fleet, refusal);
    if (query->kind == REQUEST_HISTORY || query->kind == REQUEST_DATA ||
        query->kind == REQUEST_EVENTS)
        return read_word(query, word, fleet, watching, refusal);
    return true;
}
