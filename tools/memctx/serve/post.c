/* SPDX-License-Identifier: MIT */
/* post.c - HTTP requests to another server, one after the other. */
#include "serve/post.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_S 5L
#define ALL_S 30L
#define ENTRIES_MAX 256
#define ANSWER_MAX 200 /* bytes of the server's text that a message has */

#undef curl_easy_setopt
#undef curl_easy_getinfo

/* Debian 11 and Ubuntu 20.04 have an older libcurl. */
#if LIBCURL_VERSION_NUM < 0x075000
#define URL_STRERROR(X)
#else
#define URL_STRERROR(X) X(url_strerror)
#endif

#define FUNCTIONS(X)                                                                               \
    X(global_init)                                                                                 \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(multi_init)                                                                                  \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_perform)                                                                               \
    X(multi_poll)                                                                                  \
    X(multi_info_read)                                                                             \
    X(url)                                                                                         \
    X(url_set)                                                                                     \
    URL_STRERROR(X)                                                                                \
    X(url_cleanup)                                                                                 \
    X(slist_append)                                                                                \
    X(slist_free_all)

static struct {
#define X(name) __typeof__(curl_##name) *name;
    FUNCTIONS(X)
#undef X
} curl;

/* The request that is under way. */
static struct {
    CURLM *multi; /* keeps the connection to the server between requests */
    CURL *easy;   /* NULL: no request is under way */
    struct curl_slist *headers;
    char text[ANSWER_MAX + 1]; /* the beginning of the server's answer */
    size_t length;
} now;

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
    good = good && curl.global_init(CURL_GLOBAL_ALL) == CURLE_OK;
    if (good)
        now.multi = curl.multi_init();
    return now.multi ||
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

static const char *explain(CURLUcode code) {
#if LIBCURL_VERSION_NUM < 0x075000
    return code == CURLUE_OUT_OF_MEMORY ? "out of memory" : "not a URL";
#else
    return curl.url_strerror(code);
#endif
}

const char *post_find_mistake(const char *url) {
    CURLU *parts = curl.url();
    CURLUcode code = parts ? curl.url_set(parts, CURLUPART_URL, url, 0) : CURLUE_OUT_OF_MEMORY;
    curl.url_cleanup(parts);
    return code == CURLUE_OK ? NULL : explain(code);
}

static size_t keep_answer(const char *bytes, size_t size, size_t count, void *closure) {
    size_t length = size * count, room = ANSWER_MAX - now.length;
    size_t kept = length < room ? length : room;
    (void)closure;
    memcpy(now.text + now.length, bytes, kept);
    now.length += kept;
    return length;
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

bool post_begin(const struct post *post) {
    CURL *easy = curl.easy_init();
    if (!easy)
        return false;
    memset(now.text, 0, sizeof now.text);
    now.length = 0;
    now.easy = easy;
    now.headers = make_headers(post);
    curl.easy_setopt(easy, CURLOPT_URL, post->url);
#if LIBCURL_VERSION_NUM < 0x075500
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#else
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#endif
    curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, post->method);
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, post->length > 0 ? post->body : "");
    curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->length);
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, now.headers);
    curl.easy_setopt(easy, CURLOPT_USERAGENT, "memctx/" CLI_VERSION);
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl.easy_setopt(easy, CURLOPT_TIMEOUT, ALL_S);
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_answer);
    if (curl.multi_add_handle(now.multi, easy) == CURLM_OK)
        return true;
    post_abandon();
    return false;
}

void post_abandon(void) {
    if (!now.easy)
        return;
    curl.multi_remove_handle(now.multi, now.easy);
    curl.easy_cleanup(now.easy);
    curl.slist_free_all(now.headers);
    now.easy = NULL;
    now.headers = NULL;
}

void post_wait(struct pollfd *entries, size_t count, int timeout_ms) {
    struct curl_waitfd extra[ENTRIES_MAX];
    int running;
    if (now.easy)
        curl.multi_perform(now.multi, &running);
    if (now.easy && running == 0)
        timeout_ms = 0; /* it has ended: there is nothing to wait for */
    count = count < ENTRIES_MAX ? count : ENTRIES_MAX;
    for (size_t i = 0; i < count; i++)
        extra[i] = (struct curl_waitfd){.fd = entries[i].fd, .events = CURL_WAIT_POLLIN};
    curl.multi_poll(now.multi, extra, (unsigned)count, timeout_ms, NULL);
    poll(entries, count, 0); /* multi_poll does not tell of a descriptor whose other end closed */
}

static void judge(struct post_result *result, CURLcode code) {
    curl_off_t wait_s = 0;
    curl.easy_getinfo(now.easy, CURLINFO_RESPONSE_CODE, &result->status);
    curl.easy_getinfo(now.easy, CURLINFO_RETRY_AFTER, &wait_s);
    now.text[strcspn(now.text, "\r\n")] = '\0';
    if (code != CURLE_OK) {
        result->status = 0;
        result->outcome = POST_AGAIN;
        snprintf(result->text, sizeof result->text, "the server did not take it; %s",
                 curl.easy_strerror(code));
        return;
    }
    if (result->status >= 200 && result->status <= 299)
        return;
    bool again = result->status == 429 || result->status >= 500;
    result->outcome = again ? POST_AGAIN : POST_REFUSED;
    result->wait_ms = wait_s > 0 && wait_s < INT32_MAX ? wait_s * 1000 : 0;
    snprintf(result->text, sizeof result->text, "the server refused it with status %ld%s%s",
             result->status, now.text[0] != '\0' ? ": " : "", now.text);
}

bool post_end(struct post_result *result) {
    int left, running;
    if (!now.easy)
        return false;
    curl.multi_perform(now.multi, &running);
    for (CURLMsg *message; (message = curl.multi_info_read(now.multi, &left));) {
        if (message->msg != CURLMSG_DONE || message->easy_handle != now.easy)
            continue;
        *result = (struct post_result){.outcome = POST_SENT};
        judge(result, message->data.result);
        post_abandon();
        return true;
    }
    return false;
}
