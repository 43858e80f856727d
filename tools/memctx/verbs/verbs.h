/* SPDX-License-Identifier: MIT */
/*
 * verbs.h - the verbs, for main.c. Each verb stands in the file of its name; isolate and merge are
 * in place.c. The table of all verbs is in verb_table.c.
 */
#ifndef MEMCTX_VERBS_H
#define MEMCTX_VERBS_H

#include "base/cli.h"

extern const struct cli_verb verb_table[];
extern const size_t verb_count;

int run_main(int argc, char **argv);
int ps_main(int argc, char **argv);
int dump_main(int argc, char **argv);
int top_main(int argc, char **argv);
int frag_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int postmortem_main(int argc, char **argv);
int export_main(int argc, char **argv);
int report_main(int argc, char **argv);
int serve_main(int argc, char **argv);
int push_main(int argc, char **argv);
int agent_main(int argc, char **argv);
int mark_main(int argc, char **argv);
int watch_main(int argc, char **argv);
int diff_main(int argc, char **argv);
int reset_main(int argc, char **argv);
int isolate_main(int argc, char **argv);
int merge_main(int argc, char **argv);
int verify_main(int argc, char **argv);
int trim_main(int argc, char **argv);
int rules_main(int argc, char **argv);
int set_main(int argc, char **argv);
int options_main(int argc, char **argv);

#endif
