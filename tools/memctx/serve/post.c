/* SPDX-License-Identifier: MIT */
/* post.c - one HTTP request to another server. */
#include "serve/post.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_S 5L
#define ALL_S 30L
#define ANSWER_MAX 200 /* bytes of the server's text that a message has */

#undef curl_easy_setopt
#undef curl_easy_getinfo

#define FUNCTIONS(X)                                                                               \
    X(global_init)                                                                                 \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(slist_append)                                                                                \
    X(slist_free_all)

static struct {
#define X(name) __typeof__(curl_##name) *name;
    FUNCTIONS(X)
#undef X
} curl;

/* A pointer to a function has the size of one to data, which ISO C does not promise. */
static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found;
}

bool post_load(struct cli_failure *failure) {
    void *library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    bool good = library;
#define X(name) good = good && find(library, "curl_" #name, &curl.name);
    FUNCTIONS(X)
#undef X
    return (good && curl.global_init(CURL_GLOBAL_ALL) == CURLE_OK) ||
           cli_fail(failure, CLI_REFUSED,
                    "push needs libcurl, which cannot be loaded; install Debian's package "
                    "libcurl3-gnutls or libcurl4");
}

char *post_escape(const char *text) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    char *escaped = cli_alloc(3 * strlen(text) + 1, 1), *to = escaped;
    for (; *text != '\0'; text++)
        if (strchr(plain, *text))
            *to++ = *text;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*text);
    return escaped;
}

/* The beginning of the server's answer. */
struct reply {
    char text[ANSWER_MAX + 1];
    size_t length;
};

static size_t keep_reply(const char *bytes, size_t size, size_t count, void *closure) {
    struct reply *reply = closure;
    size_t length = size * count, room = ANSWER_MAX - reply->length;
    size_t kept = length < room ? length : room;
    memcpy(reply->text + reply->length, bytes, kept);
    reply->length += kept;
    return length;
}

static int check_end(void *closure, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const struct post *post = closure;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return *post->ended != 0;
}

static struct curl_slist *make_headers(const struct post *post) {
    struct curl_slist *headers = curl.slist_append(NULL, "Expect:"); /* without a wait for 100 */
    char *type = cli_format("Content-Type: %s", post->type);
    headers = curl.slist_append(headers, type);
    free(type);
    if (post->token) {
        char *token = cli_format("Authorization: Bearer %s", post->token);
        headers = curl.slist_append(headers, token);
        free(token);
    }
    return headers;
}

bool post_send(const struct post *post, struct cli_failure *failure) {
    struct reply reply = {.length = 0};
    long status = 0;
    CURL *easy = curl.easy_init();
    if (!easy)
        return cli_fail(failure, CLI_REFUSED, "out of memory");
    struct curl_slist *headers = make_headers(post);
    curl.easy_setopt(easy, CURLOPT_URL, post->url);
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, post->method);
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, post->length > 0 ? post->body : "");
    curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->length);
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl.easy_setopt(easy, CURLOPT_USERAGENT, "memctx/" CLI_VERSION);
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl.easy_setopt(easy, CURLOPT_TIMEOUT, ALL_S);
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_reply);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, &reply);
    curl.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, check_end);
    curl.easy_setopt(easy, CURLOPT_XFERINFODATA, post);
    CURLcode code = curl.easy_perform(easy);
    curl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl.slist_free_all(headers);
    curl.easy_cleanup(easy);
    reply.text[strcspn(reply.text, "\r\n")] = '\0';
    if (code != CURLE_OK)
        return cli_fail(failure, CLI_REFUSED, "nothing was sent; %s", curl.easy_strerror(code));
    if (status < 200 || status > 299) {
        return cli_fail(failure, CLI_REFUSED, "the server refused it with status %ld%s%s", status,
                        reply.text[0] != '\0' ? ": " : "", reply.text);
    }
    return true;
}
