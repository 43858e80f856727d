/* SPDX-License-Identifier: MIT */
/* engine.c - requests for Pyroscope, Parca, OpenTelemetry's collectors and Prometheus' Pushgateway.
 */
#include "serve/engine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text_file.h"
#include "serve/exposition.h"
#include "serve/post.h"

#define NAME_MAX_BYTES 1024 /* Pyroscope's default limits; the other servers have none */
#define VALUE_MAX_BYTES 2048

/* --- labels ---------------------------------------------------------------------------------- */

/* OpenTelemetry's names have dots, such as deployment.environment.name. */
static bool is_name(enum engine engine, const char *name) {
    if (!isalpha((unsigned char)name[0]) && name[0] != '_')
        return false;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' &&
            (*name != '.' || engine != ENGINE_OTLP))
            return false;
    return true;
}

/* Returns true if memctx itself sends a label of this name. */
static bool is_own(enum engine engine, const char *name) {
    static const char *const of_profiles[] = {"program",      "process",    "host",
                                              "service_name", "profile_id", NULL};
    static const char *const of_metrics[] = {"job",  "instance", "program", "process",
                                             "kind", "context",  "rule",    NULL};
    static const char *const of_otlp[] = {"service.instance.id", "host.name", NULL};
    const char *const *own = engine == ENGINE_PUSHGATEWAY ? of_metrics
                             : engine == ENGINE_OTLP      ? of_otlp
                                                          : of_profiles;
    for (; *own; own++)
        if (strcmp(*own, name) == 0)
            return true;
    return false;
}

static bool is_text(const char *text) {
    while (*text != '\0') {
        size_t length = json_utf8_length(text);
        if (length == 0 || iscntrl((unsigned char)*text))
            return false;
        text += length;
    }
    return true;
}

/* Returns why an engine would refuse the label, or NULL. */
static const char *find_mistake(const struct engine_server *server,
                                const struct engine_label *label) {
    const char *name = label->name, *value = label->value;
    size_t length = strlen(value);
    if (!is_name(server->engine, name))
        return "a name has letters, digits and _ (for OTLP also .), and does not begin with a "
               "digit";
    if (strncmp(name, "__", 2) == 0)
        return "names that begin with __ belong to the server";
    if (is_own(server->engine, name))
        return "memctx or the server sets this label; choose another name";
    for (size_t i = 0; i < server->label_count; i++)
        if (strcmp(server->labels[i].name, name) == 0)
            return "this name was given before";
    if (length == 0)
        return "a value has at least one character";
    if (strlen(name) > NAME_MAX_BYTES || length > VALUE_MAX_BYTES)
        return "a name has at most 1024 bytes, a value at most 2048";
    if (!is_text(value))
        return "a value is UTF-8 without control characters";
    if (server->engine == ENGINE_PYROSCOPE &&
        (strpbrk(value, ",}") || value[0] == ' ' || value[length - 1] == ' '))
        return "Pyroscope takes no value with , or } or with a space at an end";
    return NULL;
}

bool engine_add_label(struct engine_server *server, const char *text, struct cli_failure *failure) {
    const char *equals = strchr(text, '=');
    if (!equals)
        return cli_fail(failure, CLI_USAGE, "--label takes NAME=VALUE; got \"%.60s\"", text);
    if (server->label_count == ENGINE_LABELS_MAX)
        return cli_fail(failure, CLI_USAGE, "too many labels; --label is taken at most %d times",
                        ENGINE_LABELS_MAX);
    struct engine_label label = {.name = cli_format("%.*s", (int)(equals - text), text),
                                 .value = cli_copy(equals + 1)};
    const char *mistake = find_mistake(server, &label);
    if (mistake) {
        free(label.name);
        free(label.value);
        return cli_fail(failure, CLI_USAGE, "--label %.60s: %s", text, mistake);
    }
    server->labels[server->label_count++] = label;
    return true;
}

/* --- encodings ------------------------------------------------------------------------------- */

/* Returns the bytes in base64. `for_url`: the form for URLs, with - and _ and without = at the end.
 */
static char *encode_base64(const void *bytes, size_t length, bool for_url) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const unsigned char *from = bytes;
    char *text = cli_alloc(length / 3 * 4 + 5, 1), *to = text;
    for (size_t at = 0; at < length; at += 3) {
        size_t left = length - at < 3 ? length - at : 3;
        unsigned group = (unsigned)from[at] << 16 | (left > 1 ? (unsigned)from[at + 1] << 8 : 0) |
                         (left > 2 ? from[at + 2] : 0);
        for (size_t i = 0; i < 4; i++) {
            unsigned digit = group >> (18 - 6 * i) & 63;
            if (i <= left)
                *to++ = digit < 62    ? plain[digit]
                        : digit == 62 ? (for_url ? '-' : '+')
                                      : (for_url ? '_' : '/');
            else if (!for_url)
                *to++ = '=';
        }
    }
    return text;
}

/* --- profiles -------------------------------------------------------------------------------- */

/* Returns a copy with _ for each character that Pyroscope forbids in names and values of labels. */
static char *plain_name(const char *text) {
    char *name = cli_copy(text);
    for (char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".-_", *at))
            *at = '_';
    return name;
}

static char *pyroscope_url(const struct engine_server *server, const char *program, unsigned number,
                           int64_t made_s, int64_t span_s) {
    char *name, *application = plain_name(program), *host = plain_name(server->host);
    size_t length;
    FILE *file = text_file_open(&name, &length);
    fprintf(file, "%s{process=%u,host=%s", application, number, host);
    for (size_t i = 0; i < server->label_count; i++)
        fprintf(file, ",%s=%s", server->labels[i].name, server->labels[i].value);
    putc('}', file);
    fclose(file);
    char *escaped = post_escape(name);
    char *url = cli_format("%s/ingest?name=%s&from=%lld&until=%lld&format=pprof&spyName=memctx",
                           server->url, escaped, (long long)(made_s - (span_s > 0 ? span_s : 1)),
                           (long long)made_s);
    free(application);
    free(host);
    free(name);
    free(escaped);
    return url;
}

static void put_label(struct json_writer *json, const char *name, const char *value) {
    json_put_open(json, NULL, '{');
    json_put_text(json, "name", name);
    json_put_text(json, "value", value);
    json_put_close(json, '}');
}

/* Makes the body of a request for Parca: a WriteRawRequest in the JSON form of protocol buffers, in
 * which bytes are base64. Before the call *length is the length of the profile, afterwards the
 * length of the body. */
static char *parca_body(const struct engine_server *server, const char *program, unsigned number,
                        const char *profile, size_t *length) {
    char *body, *base64 = encode_base64(profile, *length, false);
    char process[16];
    struct json_writer json = {.file = text_file_open(&body, length)};
    snprintf(process, sizeof process, "%u", number);
    json_put_open(&json, NULL, '{');
    json_put_open(&json, "series", '[');
    json_put_open(&json, NULL, '{');
    json_put_open(&json, "labels", '{');
    json_put_open(&json, "labels", '[');
    put_label(&json, "__name__", "memory");
    put_label(&json, "program", program);
    put_label(&json, "process", process);
    put_label(&json, "host", server->host);
    for (size_t i = 0; i < server->label_count; i++)
        put_label(&json, server->labels[i].name, server->labels[i].value);
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    json_put_open(&json, "samples", '[');
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "rawProfile", base64);
    json_put_close(&json, '}');
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    fclose(json.file);
    free(base64);
    return body;
}

static char *attribute(const char *name, const char *value) {
    return cli_format("%s=%s", name, value);
}

size_t engine_choose_format(const struct engine_server *server, const char *program,
                            unsigned number, char *words[ENGINE_WORDS_MAX]) {
    char *attributes[ENGINE_LABELS_MAX + 3], *instance;
    size_t count = 0, attribute_count = 0;
    bool has_service = false;
    words[count++] = cli_copy(server->engine == ENGINE_OTLP ? "--otlp" : "--pprof");
    words[count++] = cli_copy("-");
    words[count] = NULL;
    if (server->engine != ENGINE_OTLP)
        return count;
    instance = cli_format("%s/%s/%u", server->host, program, number);
    for (size_t i = 0; i < server->label_count; i++)
        has_service = has_service || strcmp(server->labels[i].name, "service.name") == 0;
    if (!has_service)
        attributes[attribute_count++] = attribute("service.name", program);
    attributes[attribute_count++] = attribute("service.instance.id", instance);
    attributes[attribute_count++] = attribute("host.name", server->host);
    for (size_t i = 0; i < server->label_count; i++)
        attributes[attribute_count++] = attribute(server->labels[i].name, server->labels[i].value);
    for (size_t i = 0; i < attribute_count; i++) {
        words[count++] = cli_copy("--attribute");
        words[count++] = attributes[i];
    }
    words[count] = NULL;
    free(instance);
    return count;
}

void engine_free_words(char **words) {
    for (; *words; words++)
        free(*words);
}

struct engine_request engine_send_profile(const struct engine_server *server, const char *program,
                                          unsigned number, char *profile, size_t length,
                                          int64_t made_s, int64_t span_s) {
    struct engine_request request = {.method = "POST", .body = profile, .length = length};
    if (server->engine == ENGINE_PARCA) {
        request.type = "application/json";
        request.url = cli_format("%s/api/profiles/writeraw", server->url);
        request.body = parca_body(server, program, number, profile, &request.length);
        free(profile);
    } else if (server->engine == ENGINE_OTLP) {
        request.type = "application/x-protobuf";
        request.encoding = "gzip";
        request.otlp = true;
        request.url = cli_format("%s/v1development/profiles", server->url);
    } else {
        request.type = "application/octet-stream";
        request.url = pyroscope_url(server, program, number, made_s, span_s);
    }
    return request;
}

/* --- metrics --------------------------------------------------------------------------------- */

/* Returns true for a value that cannot be a part of a URL's path even with %XX. A slash would split
 * the value in two; HTTP servers remove the parts . and .. of a path. */
static bool is_no_part(const char *value) {
    return strchr(value, '/') || strcmp(value, ".") == 0 || strcmp(value, "..") == 0;
}

static char *group_url(const struct engine_server *server) {
    char *url;
    size_t length;
    FILE *file = text_file_open(&url, &length);
    fprintf(file, "%s/metrics/job/memctx", server->url);
    for (size_t i = 0; i <= server->label_count; i++) {
        const char *name = i == 0 ? "instance" : server->labels[i - 1].name;
        const char *value = i == 0 ? server->host : server->labels[i - 1].value;
        bool encoded = is_no_part(value);
        char *part = encoded ? encode_base64(value, strlen(value), true) : post_escape(value);
        fprintf(file, "/%s%s/%s", name, encoded ? "@base64" : "", part);
        free(part);
    }
    fclose(file);
    return url;
}

struct engine_request engine_send_metrics(const struct engine_server *server, char *text,
                                          size_t length) {
    return (struct engine_request){.method = text ? "PUT" : "DELETE",
                                   .type = text ? exposition_types[EXPOSITION_PROMETHEUS]
                                                : "text/plain",
                                   .url = group_url(server),
                                   .body = text,
                                   .length = length};
}
