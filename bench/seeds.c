/* SPDX-License-Identifier: MIT */
/*
 * seeds EXPERIMENT POLICY - repeats published experiments about memory contexts (PostgreSQL and
 * others) with memctx. Prints a line "NAME VALUE" for each figure. Needs libmemctx.so preloaded,
 * except for the experiments columns and no-op. bench/seeds runs all experiments and prints the
 * published figures beside these.
 */
#include <memctx.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static enum memctx_policy policy;
static const char *const policies[] = {"aset", "slab", "generation", "bump", "simple"};
static uint64_t dice_state = 88172645463325252U;

static uint32_t dice(uint32_t sides) {
    dice_state = dice_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(dice_state >> 33) % sides;
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static long rss_kib(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        exit(1);
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void figure(const char *name, double value) {
    printf("%s %.3f\n", name, value);
}

static memctx_t make(memctx_t parent, const char *name) {
    memctx_t made = memctx_create(parent, name, policy);
    if (made == NULL) {
        fprintf(stderr, "seeds: no context could be made\n");
        exit(1);
    }
    return made;
}

/* Allocates a chunk and writes to its first 64 bytes. */
static char *take(memctx_t context, size_t bytes) {
    char *chunk = memctx_alloc(context, bytes);
    if (chunk == NULL) {
        exit(1);
    }
    memset(chunk, 1, bytes < 64 ? bytes : 64);
    return chunk;
}

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

/* Measures the bytes that a chunk takes beyond its requested size. */
static void overhead(void) {
    enum { CHUNKS = 2000000, BYTES = 64 };
    struct memctx_stats stats;
    memctx_t context = make(NULL, "many");
    for (int i = 0; i < CHUNKS; i++) {
        take(context, BYTES);
    }
    memctx_get_stats(context, &stats);
    figure("bytes", (double)stats.reserved_bytes / CHUNKS - BYTES);
    memctx_reset(context);
    double rounded = 0;
    for (int i = 0; i < CHUNKS; i++) {
        size_t bytes = 16 * (1 + dice(7));
        take(context, bytes);
        rounded += (double)bytes;
    }
    memctx_get_stats(context, &stats);
    figure("mixed_bytes", ((double)stats.reserved_bytes - rounded) / CHUNKS);
}

/* array_agg with a million groups: a context for each, with one chunk of 100 bytes. */
static void groups(void) {
    enum { GROUPS = 1000000, BYTES = 100 };
    memctx_t parent = make(NULL, "aggregate");
    long before = rss_kib();
    for (int i = 0; i < GROUPS; i++) {
        take(make(parent, "group"), BYTES);
    }
    figure("ratio", (double)(rss_kib() - before) * 1024 / ((double)GROUPS * BYTES));
}

/* A million states in one context of the aggregate, as PostgreSQL has them now. */
static void states(void) {
    enum { GROUPS = 1000000, BYTES = 100 };
    memctx_t parent = make(NULL, "aggregate");
    long before = rss_kib();
    for (int i = 0; i < GROUPS; i++) {
        take(parent, BYTES);
    }
    figure("ratio", (double)(rss_kib() - before) * 1024 / ((double)GROUPS * BYTES));
}

/* 2000 buffers that double in turns. */
static void buffers(void) {
    enum { BUFFERS = 2000, ROUNDS = 20 };
    static char *rows[BUFFERS];
    memctx_t context = make(NULL, "buffers");
    double begin = now_ns();
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t bytes = 64; bytes <= 16384; bytes *= 2) {
            for (int i = 0; i < BUFFERS; i++) {
                rows[i] = memctx_realloc(context, bytes == 64 ? NULL : rows[i], bytes);
                memset(rows[i] + bytes / 2, 1, bytes / 2);
            }
        }
        memctx_reset(context);
    }
    figure("ns", (now_ns() - begin) / ((double)ROUNDS * BUFFERS * 9));
}

/* Measures how long the growth of the table of contexts takes for each entry, from the slowest
 * creation at each doubling. */
static void table(void) {
    enum { CONTEXTS = 300000 };
    static double took[CONTEXTS];
    double worst = 0;
    for (int i = 0; i < CONTEXTS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "context %d", i);
        double begin = now_ns();
        make(NULL, name);
        took[i] = now_ns() - begin;
    }
    /* Each range has one doubling. Small ranges are left out: in them a preemption by another
     * process would weigh too much. */
    for (int first = 32768; first * 2 < CONTEXTS; first *= 2) {
        double slowest = 0;
        int at = first;
        for (int i = first; i < first * 2; i++) {
            if (took[i] > slowest) {
                slowest = took[i];
                at = i;
            }
        }
        double each = slowest / at;
        worst = each > worst ? each : worst;
    }
    figure("ns", worst);
}

/* Columns of 120 MB are loaded, then compressed to 31 kB. Uses plain malloc, so any allocator can
 * be measured. */
static void columns(void) {
    enum { COLUMNS = 62, PIECES = 1900, PIECE = 1024, COMPRESSED = 500 };
    static char *pieces[COLUMNS][PIECES], *compressed[COLUMNS];
    memset(pieces, 1, sizeof(pieces)); /* the program's own tables are resident from now on */
    memset(compressed, 1, sizeof(compressed));
    free(malloc(PIECE));
    usleep(200000); /* by then the control thread has started */
    rss_kib();      /* the first call makes libc allocate its buffers */
    figure("before_kB", (double)rss_kib());
    for (int i = 0; i < COLUMNS; i++) {
        for (int k = 0; k < PIECES; k++) {
            pieces[i][k] = memset(malloc(PIECE), k, PIECE);
        }
    }
    figure("loaded_kB", (double)rss_kib());
    for (int i = 0; i < COLUMNS; i++) {
        compressed[i] = memset(malloc(COMPRESSED), i, COMPRESSED);
        for (int k = 0; k < PIECES; k++) {
            free(pieces[i][k]);
        }
    }
    figure("compressed_kB", (double)rss_kib());
    sleep(2);
    figure("after_kB", (double)rss_kib());
    for (int i = 0; i < COLUMNS; i++) {
        free(compressed[i]);
    }
}

/* Measures the time for a chunk in turns of 64 chunks of 100 bytes: malloc and free; memctx_alloc
 * and free; memctx_alloc and one memctx_reset. */
enum { TURN = 64, TURNS = 100000 };

static double turns_of(memctx_t context, int resets) {
    char *chunks[TURN];
    double begin = 0;
    for (int i = -TURNS / 10; i < TURNS; i++) {
        if (i == 0) {
            begin = now_ns();
        }
        for (int k = 0; k < TURN; k++) {
            chunks[k] = memctx_alloc(context, 100); /* context NULL: plain malloc */
            __asm__ volatile("" : : "r"(chunks[k]) : "memory");
        }
        if (resets) {
            memctx_reset(context);
        } else {
            for (int k = 0; k < TURN; k++) {
                free(chunks[k]);
            }
        }
    }
    return (now_ns() - begin) / ((double)TURNS * TURN);
}

static void fast(void) {
    memctx_t context = make(NULL, "fast");
    figure("malloc_ns", turns_of(NULL, 0));
    figure("free_ns", turns_of(context, 0));
    figure("reset_ns", turns_of(context, 1));
}

/* Measures the reset of a million chunks with 116 MB in the second round, when the pages have been
 * used before. The figure is the time in ms for each 100 MB. */
static void reset(void) {
    enum { CHUNKS = 1000000, BYTES = 116 };
    memctx_t context = make(NULL, "million");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < CHUNKS; i++) {
            take(context, BYTES);
        }
        double begin = now_ns();
        memctx_reset(context);
        if (round) {
            figure("ms", (now_ns() - begin) / 1e6 / ((double)CHUNKS * BYTES / 1e8));
        }
        usleep(300000);
    }
}

/* Measures calls without a context; the figure includes the loop. */
static void no_op(void) {
    enum { CALLS = 200000000 };
    memctx_t volatile none = NULL;
    double begin = now_ns();
    for (int i = 0; i < CALLS; i++) {
        memctx_reset(none);
        memctx_switch(none);
    }
    figure("ns", (now_ns() - begin) / CALLS / 2);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } experiments[] = {{"select", selects},
                       {"query", query},
                       {"sort", sort},
                       {"radix", radix},
                       {"shrink", shrink},
                       {"alternate", alternate},
                       {"tuplestore", tuplestore},
                       {"overhead", overhead},
                       {"groups", groups},
                       {"states", states},
                       {"buffers", buffers},
                       {"table", table},
                       {"columns", columns},
                       {"fast", fast},
                       {"reset", reset},
                       {"no-op", no_op}};
    int alone = argc == 3 && (!strcmp(argv[1], "columns") || !strcmp(argv[1], "no-op"));
    if (argc != 3 || (!memctx_is_active() && !alone)) {
        fprintf(stderr, "usage: memctx run -- seeds EXPERIMENT POLICY\n");
        return 2;
    }
    size_t chosen = 0, count = sizeof(policies) / sizeof(policies[0]);
    while (chosen < count && strcmp(policies[chosen], argv[2]) != 0) {
        chosen++;
    }
    if (chosen == count) {
        fprintf(stderr, "seeds: no policy is called %s\n", argv[2]);
        return 2;
    }
    policy = (enum memctx_policy)chosen;
    for (size_t i = 0; i < sizeof(experiments) / sizeof(experiments[0]); i++) {
        if (strcmp(experiments[i].name, argv[1]) == 0) {
            experiments[i].run();
            return 0;
        }
    }
    return 2;
}
