/* SPDX-License-Identifier: MIT */
/* post.c - HTTP requests to another server, one after the other. */
#include "serve/post.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define CONNECT_S 5L   /* longest time for connecting */
#define ALL_S 30L      /* longest time for a whole request */
#define ANSWER_MS 5000 /* longest time for the answer's body, from its status on */
/* greatest number of bytes of the answer's body that are read */
#define ANSWER_READ_MAX (1U << 20)
#define ENTRIES_MAX 256 /* greatest number of the caller's descriptors that post_wait looks at */
#define ANSWER_MAX 200  /* greatest number of bytes of the server's answer that a message quotes */
/* greatest number of bytes of an OTLP answer, a message of protocol buffers */
#define ANSWER_MOST_OTLP 4096

#define STATUS_FINAL 200 /* a smaller status, such as 103, precedes the answer */

#undef curl_easy_setopt
#undef curl_easy_getinfo

/* The libcurl of Debian 11 and Ubuntu 20.04 has no curl_url_strerror. */
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
    char text[ANSWER_MOST_OTLP + 1]; /* the beginning of the server's answer */
    char error[CURL_ERROR_SIZE];     /* what libcurl says about this failure; may be empty */
    size_t length;
    size_t received;     /* bytes of the answer so far */
    int64_t answered_ms; /* when post_end first saw the answer's status; 0: not yet */
    bool otlp;
} now;

/* POSIX, but not ISO C, promises that a pointer to a function has the size of a pointer to data. */
static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found;
}

bool post_load(struct cli_failure *failure) {
    if (cli_static_reason)
        return cli_fail(failure, CLI_REFUSED, "push needs libcurl; %s", cli_static_reason);
    void *library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    const char *why = library ? NULL : dlerror();
    bool good = library;
#define X(name) good = good && find(library, "curl_" #name, &curl.name);
    FUNCTIONS(X)
#undef X
    good = good && curl.global_init(CURL_GLOBAL_ALL) == CURLE_OK;
    if (good)
        now.multi = curl.multi_init();
    return now.multi ||
           cli_fail(failure, CLI_REFUSED,
                    "push needs libcurl, which cannot be loaded (%s); install Debian's package "
                    "libcurl3-gnutls or libcurl4",
                    why ? why : "it does not start, or lacks a function");
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
    size_t length = size * count, room = (now.otlp ? ANSWER_MOST_OTLP : ANSWER_MAX) - now.length;
    size_t kept = length < room ? length : room;
    (void)closure;
    memcpy(now.text + now.length, bytes, kept);
    now.length += kept;
    now.received += length;
    return now.received <= ANSWER_READ_MAX ? length : 0; /* 0 ends the request */
}

static struct curl_slist *make_headers(const struct post *post) {
    /* do not wait for the status 100 before the body is sent */
    struct curl_slist *headers = curl.slist_append(NULL, "Expect:");
    char *type = cli_format("Content-Type: %s", post->type);
    headers = curl.slist_append(headers, type);
    free(type);
    if (post->encoding) {
        char *encoding = cli_format("Content-Encoding: %s", post->encoding);
        headers = curl.slist_append(headers, encoding);
        free(encoding);
    }
    if (post->token) {
        char *token = cli_format("Authorization: Bearer %s", post->token);
        headers = curl.slist_append(headers, token);
        free(token);
    }
    return headers;
}

/* With a file of authorities, the directory of the system's authorities is not used, either. */
static void set_tls(CURL *easy, const struct post_tls *tls) {
    if (tls->ca_file) {
        curl.easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file);
        curl.easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (tls->certificate) {
        curl.easy_setopt(easy, CURLOPT_SSLCERT, tls->certificate);
        curl.easy_setopt(easy, CURLOPT_SSLKEY, tls->key);
    }
}

bool post_begin(const struct post *post) {
    CURL *easy = curl.easy_init();
    if (!easy)
        return false;
    memset(now.text, 0, sizeof now.text);
    now.error[0] = '\0';
    now.length = now.received = 0;
    now.answered_ms = 0;
    now.otlp = post->otlp;
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
    curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, now.error);
    if (post->tls)
        set_tls(easy, post->tls);
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
        timeout_ms = 0; /* the request has ended: there is nothing to wait for */
    count = count < ENTRIES_MAX ? count : ENTRIES_MAX;
    for (size_t i = 0; i < count; i++)
        extra[i] = (struct curl_waitfd){.fd = entries[i].fd, .events = CURL_WAIT_POLLIN};
    curl.multi_poll(now.multi, extra, (unsigned)count, timeout_ms, NULL);
    /* curl's multi_poll does not report that the other end of a pipe was closed */
    poll(entries, count, 0);
}

/* Finds the last field with this number in a message of protocol buffers. A field of bytes sets
 * *part and *length; a number sets *number, and *length to 0. Reading stops where the message is
 * damaged or cut off. Returns false if no such field was found before. */
static bool find_field(const char *bytes, size_t size, unsigned field, const char **part,
                       size_t *length, uint64_t *number) {
    bool found = false;
    for (size_t at = 0; at < size;) {
        uint64_t numbers[2] = {0}; /* the tag, then a number or a length */
        for (size_t i = 0; i < 2; i++) {
            unsigned shift = 0;
            for (; at < size && shift < 64; shift += 7) {
                numbers[i] |= (uint64_t)(bytes[at] & 0x7f) << shift;
                if ((unsigned char)bytes[at++] < 0x80)
                    break;
            }
            if ((numbers[0] & 5) != 0 || (i == 0 && at == size))
                return found; /* neither a varint nor bytes: OTLP answers have no such field */
        }
        bool is_part = (numbers[0] & 7) == 2;
        if (is_part && numbers[1] > size - at)
            return found;
        if (numbers[0] >> 3 == field) {
            found = true;
            *part = bytes + at;
            *length = is_part ? (size_t)numbers[1] : 0;
            *number = numbers[1];
        }
        at += is_part ? (size_t)numbers[1] : 0;
    }
    return found;
}

/* Reads an OTLP answer: after a success an ExportProfilesServiceResponse, which may report rejected
 * profiles; else a google.rpc.Status. Leaves the answer's message in now.text. Returns the number
 * of rejected profiles. */
static uint64_t read_otlp_answer(bool success) {
    const char *part = now.text, *text = now.text;
    size_t length = now.length, text_length = 0;
    uint64_t rejected = 0, number;
    char *type = NULL;
    curl.easy_getinfo(now.easy, CURLINFO_CONTENT_TYPE, &type);
    if (!type || strncmp(type, "application/x-protobuf", 22) != 0)
        return 0; /* not an OTLP answer, perhaps the text of a proxy */
    if (success && !find_field(part, length, 1, &part, &length, &number))
        length = 0;
    if (success) {
        const char *none;
        size_t no_length;
        find_field(part, length, 1, &none, &no_length, &rejected);
    }
    if (!find_field(part, length, 2, &text, &text_length, &number))
        text_length = 0;
    text_length = text_length < ANSWER_MAX ? text_length : ANSWER_MAX;
    memmove(now.text, text, text_length);
    now.text[text_length] = '\0';
    return rejected;
}

static bool may_try_again(long status) {
    if (now.otlp) /* OTLP forbids further tries after any other status */
        return status == 429 || (status >= 502 && status <= 504);
    return status == 429 || status >= 500;
}

/* Returns why no answer came that can be used. For a refused certificate, for files of TLS that
 * cannot be used, and for an answer that is not HTTP, libcurl's own text says what is wrong, such
 * as the name in the certificate. Its texts for other failures contain times, so they differ from
 * one try to the next. */
static const char *explain_failure(CURLcode code) {
    bool telling = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
                   code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_SSL_CACERT_BADFILE ||
                   code == CURLE_SSL_CERTPROBLEM;
    cli_clean(now.error);
    return telling && now.error[0] != '\0' ? now.error : curl.easy_strerror(code);
}

/* Says in *result how the request ended. The caller has set the outcome to POST_SENT. The status
 * counts even if the rest of the answer did not come: the server has the request, so it would take
 * another try for a second one. */
static void judge(struct post_result *result, CURLcode code) {
    curl_off_t wait_s = 0;
    curl.easy_getinfo(now.easy, CURLINFO_RESPONSE_CODE, &result->status);
    curl.easy_getinfo(now.easy, CURLINFO_RETRY_AFTER, &wait_s);
    bool success = result->status >= 200 && result->status <= 299;
    uint64_t rejected = now.otlp ? read_otlp_answer(success) : 0;
    now.text[strcspn(now.text, "\r\n")] = '\0';
    if (code != CURLE_OK && result->status < STATUS_FINAL) {
        result->status = 0;
        result->outcome = POST_AGAIN;
        snprintf(result->text, sizeof result->text, "no answer from the server; %s",
                 explain_failure(code));
        return;
    }
    if (success && rejected == 0)
        return;
    if (success) {
        result->outcome = POST_REFUSED;
        snprintf(result->text, sizeof result->text,
                 "the server rejected %llu of its profiles%s%.*s", (unsigned long long)rejected,
                 now.text[0] != '\0' ? ": " : "", ANSWER_MAX, now.text);
        return;
    }
    result->outcome = may_try_again(result->status) ? POST_AGAIN : POST_REFUSED;
    result->wait_ms = wait_s > 0 && wait_s < INT32_MAX ? wait_s * 1000 : 0;
    if (result->status / 100 == 3) {
        snprintf(result->text, sizeof result->text,
                 "the server answered with status %ld, a redirection, which is not followed; name "
                 "the URL that it leads to",
                 result->status);
        return;
    }
    snprintf(result->text, sizeof result->text,
             "the server refused the request with status %ld%s%.*s", result->status,
             now.text[0] != '\0' ? ": " : "", ANSWER_MAX, now.text);
}

/* Returns true if the server sent its status, but does not end its answer. */
static bool answer_hangs(void) {
    long status = 0;
    curl.easy_getinfo(now.easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < STATUS_FINAL)
        return false;
    if (now.answered_ms == 0)
        now.answered_ms = clock_now_ms();
    return clock_now_ms() - now.answered_ms >= ANSWER_MS;
}

bool post_end(struct post_result *result) {
    int left, running;
    if (!now.easy)
        return false;
    *result = (struct post_result){.outcome = POST_SENT};
    curl.multi_perform(now.multi, &running);
    for (CURLMsg *message; (message = curl.multi_info_read(now.multi, &left));) {
        if (message->msg != CURLMSG_DONE || message->easy_handle != now.easy)
            continue;
        judge(result, message->data.result);
        post_abandon();
        return true;
    }
    if (!answer_hangs())
        return false;
    judge(result, CURLE_OPERATION_TIMEDOUT);
    post_abandon();
    return true;
}
