/* SPDX-License-Identifier: MIT */
/* main.c - calls the verb that the command line names; `memctx --help`. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/descriptors.h"
#include "base/fork.h"
#include "base/help.h"
#include "base/nearest.h"
#include "base/text_file.h"
#include "base/victim.h"
#include "target/target.h"
#include "verbs/verbs.h"

static const struct cli_verb *find_verb(const char *name) {
    for (size_t i = 0; i < verb_count; i++)
        if (strcmp(verb_table[i].name, name) == 0)
            return &verb_table[i];
    return NULL;
}

/* The verbs of `memctx --help`. Each verb stands in one list. */
#define GROUP_VERBS_MAX 12
static const struct {
    const char *title;
    const char *names[GROUP_VERBS_MAX]; /* the last ones are NULL */
} groups[] = {
    {"Start a program, and find it", {"run", "ps"}},
    {"Look at it",
     {"dump", "top", "frag", "doctor", "diff", "report", "export", "postmortem", "rules", "options",
      "verify"}},
    {"Act on it", {"mark", "reset", "trim", "isolate", "merge", "set"}},
    {"Run it in production", {"watch", "serve", "push", "agent"}},
};

/* Returns the text of `memctx --help`, which the caller frees. */
static char *help_text(void) {
    char *whole = NULL;
    size_t bytes = 0;
    FILE *text = text_file_open(&whole, &bytes);
    fprintf(text,
            "usage: memctx VERB [ARGUMENTS]\n\n"
            "memctx runs unmodified programs on an allocator that knows which call path holds\n"
            "which memory, and shows this while the programs run.\n\n"
            "Start a program with memctx run -- PROGRAM. Then memctx doctor PROGRAM says who\n"
            "holds the memory, since when, and what to do.\n");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        fprintf(text, "\n%s:\n", groups[i].title);
        for (size_t k = 0; k < GROUP_VERBS_MAX && groups[i].names[k]; k++) {
            const struct cli_verb *verb = find_verb(groups[i].names[k]);
            if (verb)
                fprintf(text, "  %-10s %s\n", verb->name, verb->summary);
        }
    }
    fprintf(text, "\nmemctx VERB --help explains a verb. memctx --version prints the version.\n"
                  "Exit codes: 0 done; 1 the target refused, an answer is incomplete, or a file\n"
                  "cannot be read or written; 2 usage error; 3 no such target, or no socket;\n"
                  "4 not permitted; 5 doctor --fail-on found something.\n");
    fclose(text);
    return whole;
}

static void print_help(void) {
    char *text = help_text();
    help_print(text);
    free(text);
}

/* Ends the command, because it has no words. The list of verbs says what it can do. */
static _Noreturn void refuse_nothing(void) {
    cli_warn("missing verb");
    char *text = help_text();
    fputs(text, stderr);
    free(text);
    exit(CLI_USAGE);
}

/* Ends the command because its first word is no verb. `next`: the word behind it; NULL: none. */
static _Noreturn void refuse_verb(const char *word, const char *next) {
    struct nearest nearest = nearest_begin(word);
    int64_t pid;
    for (size_t i = 0; i < verb_count; i++)
        nearest_offer(&nearest, verb_table[i].name);
    nearest_offer(&nearest, "--help");
    nearest_offer(&nearest, "--version");
    if (word[0] == '-' && !nearest.name) {
        cli_usage("unknown option %s; the verb comes first: memctx %s %s", word,
                  next && find_verb(next) ? next : "VERB", word);
    }
    if (!nearest.name && (cli_is_number(word, &pid) || target_is_process_name(word)))
        cli_usage("unknown verb: %s; to look at the process: memctx doctor %s", word, word);
    cli_usage("unknown verb: %s%s", word, nearest_text(&nearest, "", ""));
}

static void ignore(int number) {
    (void)number;
}

int main(int argc, char **argv) {
    descriptors_occupy_standard();
    if (argc < 2)
        refuse_nothing();
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("memctx %s\n", CLI_VERSION);
        return cli_finish_output(CLI_DONE);
    }
    bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (help && argc < 3) {
        print_help();
        return cli_finish_output(CLI_DONE);
    }
    const struct cli_verb *verb = find_verb(help ? argv[2] : word);
    if (!verb)
        refuse_verb(help ? argv[2] : word, argv[2]);
    cli_current_verb = verb;
    if (help) {
        cli_print_verb_help(verb);
        return cli_finish_output(CLI_DONE);
    }
    /* a copy, because getopt puts the options in front of the other words */
    const char **words = cli_alloc((size_t)argc, sizeof *words);
    for (int i = 2; i < argc; i++)
        words[i - 2] = argv[i];
    cli_words = words;
    /* `memctx run` passes its descriptors and signals to the program unchanged. */
    if (verb->run != run_main) {
        descriptors_check();
        /* A caller that ignores SIGCHLD passes that on, and waitpid would then find no child. */
        signal(SIGCHLD, SIG_DFL);
        /* A write beyond RLIMIT_FSIZE fails like a write to a full disk. A handler, because exec
         * would pass SIG_IGN on to commands of the user. */
        signal(SIGXFSZ, ignore);
    }
    bool stays = verb->run == watch_main || verb->run == serve_main || verb->run == push_main;
    if (stays || verb->run == top_main) /* a few descriptors for each process */
        fork_raise_limit();
    if (!stays && verb->run != agent_main && verb->run != run_main)
        victim_offer();
    return verb->run(argc - 1, argv + 1);
}
