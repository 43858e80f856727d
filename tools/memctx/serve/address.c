/* SPDX-License-Identifier: MIT */
/* address.c - reads the address of --listen, and opens its socket. */
#include "serve/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096 /* greatest number of clients that wait for a connection */

static bool parse_unix(struct address *address, const char *path, struct cli_failure *failure) {
    struct sockaddr_un *to = (struct sockaddr_un *)&address->socket;
    if (path[0] == '\0' || strlen(path) >= sizeof to->sun_path) {
        return cli_fail(failure, CLI_USAGE, "unix:PATH takes a path of 1 to %zu bytes; got %zu",
                        sizeof to->sun_path - 1, strlen(path));
    }
    to->sun_family = AF_UNIX;
    strcpy(to->sun_path, path);
    address->path = path;
    address->loopback = true;
    address->length = sizeof *to;
    return true;
}

static bool parse_host(struct address *address, const char *host, uint16_t port) {
    struct sockaddr_in *four = (struct sockaddr_in *)&address->socket;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->socket;
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        address->length = sizeof *four;
        address->loopback = ntohl(four->sin_addr.s_addr) >> 24 == 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) != 1)
        return false;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    address->length = sizeof *six;
    address->loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return true;
}

bool address_parse(struct address *address, const char *word, struct cli_failure *failure) {
    *address = (struct address){0};
    if (strncmp(word, "unix:", 5) == 0)
        return parse_unix(address, word + 5, failure);
    const char *colon = strrchr(word, ':');
    int64_t port;
    char host[64] = "";
    bool brackets = word[0] == '[' && colon && colon > word + 1 && colon[-1] == ']';
    size_t length = colon ? (size_t)(colon - word) - (brackets ? 2 : 0) : 0;
    if (colon && length < sizeof host)
        memcpy(host, word + brackets, length);
    bool good = colon && cli_is_number(colon + 1, &port) && port <= UINT16_MAX &&
                brackets == (strchr(host, ':') != NULL) &&
                parse_host(address, host, (uint16_t)port);
    return good || cli_fail(failure, CLI_USAGE,
                            "--listen takes unix:PATH, ADDRESS:PORT or [IPv6]:PORT, such as "
                            "127.0.0.1:9464; got \"%.200s\"",
                            word);
}

/* Removes a socket file on which no process listens any more. */
static void remove_stale(const struct address *address) {
    struct stat status;
    if (lstat(address->path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&address->socket, address->length) != 0 &&
        errno == ECONNREFUSED)
        unlink(address->path);
    close(fd);
}

static int open_socket(const struct address *address) {
    int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int yes = 1;
    if (fd < 0)
        return -1;
    if (address->path)
        remove_stale(address);
    else
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->socket.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    mode_t before = umask(0177); /* mode 0600 from the first moment on */
    bool good = bind(fd, (const struct sockaddr *)&address->socket, address->length) == 0;
    int error = errno;
    umask(before);
    if (good && listen(fd, BACKLOG) == 0)
        return fd;
    error = good ? errno : error;
    close(fd);
    errno = error;
    return -1;
}

int address_listen(struct address *address, struct cli_failure *failure) {
    int fd = open_socket(address);
    if (fd < 0) {
        int error = errno;
        char *text = address_write(address, false);
        cli_set_failure(failure, CLI_REFUSED, "cannot listen on %s; %s; %s", text, strerror(error),
                        error == EADDRINUSE      ? "end the other server, or choose another address"
                        : error == EADDRNOTAVAIL ? "name an address of this machine"
                        : error != EACCES        ? "choose another address"
                        : address->path          ? "name a file in a folder that you may write to"
                                                 : "choose a port above 1023");
        free(text);
        return -1;
    }
    if (!address->path) /* the kernel chooses a port for 0 */
        getsockname(fd, (struct sockaddr *)&address->socket, &address->length);
    return fd;
}

char *address_write(const struct address *address, bool tls) {
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->socket;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->socket;
    const char *scheme = tls ? "https" : "http";
    if (address->path)
        return cli_format("unix:%s", address->path);
    if (address->socket.ss_family == AF_INET) {
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        return cli_format("%s://%s:%u/", scheme, host, ntohs(four->sin_port));
    }
    inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
    return cli_format("%s://[%s]:%u/", scheme, host, ntohs(six->sin6_port));
}

void address_remove(const struct address *address) {
    if (address->path)
        unlink(address->path);
}
