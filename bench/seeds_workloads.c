/* SPDX-License-Identifier: MIT */
/*
 * seeds_workloads.c - experiments with the work of a database: queries, a sort, an index, a store
 * of tuples. Needs libmemctx.so preloaded.
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include "seeds.h"

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Measures policy aset and the policy of the argument in turns of equally many steps, so that
 * disturbances of the machine affect both. The first four rounds only warm up. */
static void by_turns(void (*run)(int which, int steps), int steps) {
    enum { ROUNDS = 41 };
    static double took[2][ROUNDS];
    for (int round = -4; round < ROUNDS; round++) {
        uint64_t state = dice_state;
        for (int which = 0; which < 2; which++) {
            dice_state = state;
            double begin = now_ns();
            run(which, steps);
            if (round >= 0) {
                took[which][round] = (now_ns() - begin) / steps;
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        qsort(took[i], ROUNDS, sizeof(took[i][0]), ascending);
    }
    figure("aset_ns", took[0][ROUNDS / 2]);
    figure("ns", took[1][ROUNDS / 2]);
}

static memctx_t beside[2]; /* a context of aset, and one of the policy of the argument */

static void make_both(const char *name) {
    beside[0] = memctx_create(NULL, name, MEMCTX_ASET);
    beside[1] = make(NULL, name);
    if (beside[0] == NULL) {
        exit(1);
    }
}

/* The allocations of a small query: some 90 chunks, most of them tiny, all freed at its end. */
enum { QUERY_CHUNKS = 90, QUERY_SIZES = 1024 };
static uint16_t query_sizes[QUERY_SIZES];

static void draw_query_sizes(void) {
    for (size_t i = 0; i < QUERY_SIZES; i++) {
        uint32_t kind = dice(100);
        query_sizes[i] = (uint16_t)(kind < 60   ? 16 + dice(49)
                                    : kind < 90 ? 64 + dice(193)
                                                : 256 + dice(1793));
    }
}

static void take_for_query(memctx_t context, int query) {
    for (int k = 0; k < QUERY_CHUNKS; k++) {
        take(context, query_sizes[(query * 7 + k) & (QUERY_SIZES - 1)]);
    }
}

/* Measures only the allocations and the reset of a query. */
static void query(void) {
    enum { QUERIES = 40000 };
    draw_query_sizes();
    memctx_t context = make(NULL, "query");
    double begin = 0;
    for (int i = -QUERIES / 10; i < QUERIES; i++) {
        if (i == 0) {
            begin = now_ns();
        }
        take_for_query(context, i);
        memctx_reset(context);
    }
    figure("ns", (now_ns() - begin) / QUERIES);
}

/* A query to a server: a client, another process, asks over a socket, waits for each answer and
 * checks it. The server cuts the text into words, looks up a row and writes the answer. */
enum { SELECT_ROWS = 100000 };

static int balance_of(int account) {
    return account * 7 % 10007;
}

static void ask(int server) {
    char text[128], answer[128], expected[128];
    for (int i = 0;; i++) {
        int account = i * 31 % SELECT_ROWS;
        int length =
            snprintf(text, sizeof(text), "SELECT abalance FROM accounts WHERE aid = %d ;", account);
        if (send(server, text, (size_t)length, MSG_NOSIGNAL) != length) {
            _exit(0);
        }
        ssize_t bytes = read(server, answer, sizeof(answer) - 1);
        if (bytes <= 0) {
            _exit(0); /* the server has closed the connection */
        }
        answer[bytes] = '\0';
        snprintf(expected, sizeof(expected), "abalance %d", balance_of(account));
        if (strcmp(answer, expected) != 0) {
            _exit(1);
        }
    }
}

/* False: the client has closed the connection, or asks for a row that does not exist. */
static int answer(int client, memctx_t context, const int (*rows)[2], int query) {
    char text[128];
    ssize_t bytes = read(client, text, sizeof(text) - 1);
    if (bytes <= 0) {
        return 0;
    }
    text[bytes] = '\0';
    char *words[16] = {NULL}, *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(text, " ", &rest); word != NULL && count < 16;
         word = strtok_r(NULL, " ", &rest)) {
        size_t length = strlen(word) + 1;
        words[count++] = memcpy(take(context, length), word, length);
    }
    if (count < 8) {
        return 0;
    }
    int account = atoi(words[7]), low = 0, high = SELECT_ROWS - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (rows[middle][0] < account) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    take_for_query(context, query);
    char *line = take(context, 128);
    int length = snprintf(line, 128, "%s %d", words[1], rows[low][1]);
    memcpy(text, line, (size_t)length);
    /* before the answer is sent, so that the client does not work during the reset */
    memctx_reset(context);
    return write(client, text, (size_t)length) == length;
}

static int select_rows[SELECT_ROWS][2], select_client, select_number;

static void answer_some(int which, int queries) {
    for (int i = 0; i < queries; i++) {
        if (!answer(select_client, beside[which], (const int(*)[2])select_rows, select_number++)) {
            fprintf(stderr, "seeds: the client got no answer, or a wrong one\n");
            exit(1);
        }
    }
}

static void selects(void) {
    int ends[2], status = 0;
    for (int i = 0; i < SELECT_ROWS; i++) {
        select_rows[i][0] = i;
        select_rows[i][1] = balance_of(i);
    }
    draw_query_sizes();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        exit(1);
    }
    pid_t client = fork();
    if (client == 0) {
        close(ends[0]);
        ask(ends[1]);
    }
    close(ends[1]);
    select_client = ends[0];
    make_both("query");
    by_turns(answer_some, 500);
    close(ends[0]);
    if (client < 0 || waitpid(client, &status, 0) != client || status != 0) {
        exit(1);
    }
}

/* A sort: 30 million tuples are allocated and freed by one reset. */
static void sort(void) {
    enum { TUPLES = 30000000, BYTES = 48 };
    memctx_t context = make(NULL, "sort");
    long before = rss_kib();
    double begin = now_ns();
    for (int i = 0; i < TUPLES; i++) {
        take(context, BYTES);
    }
    double filled = now_ns();
    figure("bytes", (double)(rss_kib() - before) * 1024 / TUPLES);
    double reset = now_ns();
    memctx_reset(context);
    figure("ns", (now_ns() - reset + filled - begin) / TUPLES);
}

/* Nodes of a radix tree: four sizes, inserted and deleted at random. Each size has a context, like
 * PostgreSQL's slabs. */
enum { NODES = 200000, NODE_KINDS = 4 };
static const size_t node_sizes[NODE_KINDS] = {40, 160, 656, 1304};

struct tree {
    char *nodes[NODES];
    memctx_t contexts[NODE_KINDS];
};

static struct tree *plant(enum memctx_policy of) {
    struct tree *tree = calloc(1, sizeof(*tree));
    for (int i = 0; i < NODE_KINDS && tree != NULL; i++) {
        tree->contexts[i] = memctx_create(NULL, "nodes", of);
    }
    if (tree == NULL || tree->contexts[NODE_KINDS - 1] == NULL) {
        exit(1);
    }
    return tree;
}

static void insert(struct tree *tree, uint32_t at) {
    uint32_t of_hundred = dice(100);
    uint32_t kind = of_hundred < 70 ? 0 : of_hundred < 90 ? 1 : of_hundred < 98 ? 2 : 3;
    tree->nodes[at] = take(tree->contexts[kind], node_sizes[kind]);
}

static void delete_node(struct tree *tree, uint32_t at) {
    memctx_free(tree->nodes[at]);
    tree->nodes[at] = NULL;
}

static struct tree *trees[2];

static void change(int which, int steps) {
    struct tree *tree = trees[which];
    for (int i = 0; i < steps; i++) {
        uint32_t at = dice(NODES);
        if (tree->nodes[at] != NULL) {
            delete_node(tree, at);
        } else {
            insert(tree, at);
        }
    }
}

static void radix(void) {
    trees[0] = plant(MEMCTX_ASET);
    trees[1] = plant(policy);
    by_turns(change, NODES);
}

/* Deletes three quarters of the nodes, then inserts one node for each that it deletes. Prints the
 * ratio of reserved to requested bytes. */
static void shrink(void) {
    enum { STEPS = 1000000 };
    struct tree *tree = plant(policy);
    for (uint32_t i = 0; i < NODES; i++) {
        insert(tree, i);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        if (dice(4) != 0) {
            delete_node(tree, i);
        }
    }
    for (int i = 0; i < STEPS; i++) {
        uint32_t from = dice(NODES), to = dice(NODES);
        if (tree->nodes[from] != NULL && tree->nodes[to] == NULL) {
            delete_node(tree, from);
            insert(tree, to);
        }
    }
    double reserved = 0, requested = 0;
    for (int i = 0; i < NODE_KINDS; i++) {
        struct memctx_stats stats;
        memctx_get_stats(tree->contexts[i], &stats);
        reserved += (double)stats.reserved_bytes;
        requested += (double)stats.requested_bytes;
    }
    figure("ratio", reserved / requested);
}

/* Allocates and frees one chunk again and again, so that its page becomes empty each time. */
static void alternate_some(int which, int steps) {
    for (int i = 0; i < steps; i++) {
        memctx_free(take(beside[which], 100));
    }
}

static void alternate(void) {
    make_both("one");
    by_turns(alternate_some, 500000);
}

/* A tuplestore with tuples of 1 kB. Measures its memory, and the pages that remain when all tuples
 * have been read and freed. */
static void tuplestore(void) {
    enum { TUPLES = 8000, BYTES = 1024 + 24 }; /* a text of 1 kB, its length and a tuple's head */
    static char *tuples[TUPLES];
    struct memctx_stats stats;
    memctx_t context = make(NULL, "tuplestore");
    for (int i = 0; i < TUPLES; i++) {
        tuples[i] = take(context, BYTES);
    }
    memctx_get_stats(context, &stats);
    figure("kB", (double)stats.reserved_bytes / 1024);
    figure("requested_kB", (double)stats.requested_bytes / 1024);
    /* Each step frees the oldest tuple and the one that was added 64 steps before, and adds one. */
    for (int i = 0; i < TUPLES; i++) {
        memctx_free(tuples[i]);
        if (i >= 64) {
            memctx_free(tuples[i - 64]);
        }
        tuples[i] = take(context, BYTES);
    }
    for (int i = TUPLES - 64; i < TUPLES; i++) {
        memctx_free(tuples[i]);
    }
    memctx_get_stats(context, &stats);
    figure("pages_left", stats.pages);
}

const struct experiment workloads[] = {
    {"select", selects},        {"query", query},   {"sort", sort},
    {"radix", radix},           {"shrink", shrink}, {"alternate", alternate},
    {"tuplestore", tuplestore}, {NULL, NULL},
};
