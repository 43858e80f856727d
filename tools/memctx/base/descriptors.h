/* SPDX-License-Identifier: MIT */
/*
 * descriptors.h - what main does first: it makes sure that the command can open files.
 */
#ifndef MEMCTX_DESCRIPTORS_H
#define MEMCTX_DESCRIPTORS_H

/* Opens /dev/null as each standard descriptor that is closed. Otherwise the next file or socket
 * that the command opens would get the number of standard output or standard error, and messages
 * would be written to it. Reads from descriptor 0 and writes to descriptors 1 and 2 still fail,
 * because each is opened for the other direction. In a program that the command starts, these
 * descriptors are closed again. */
void descriptors_occupy_standard(void);
/* Ends the command if it may open too few files. Otherwise a process could seem to have ended, or
 * to have no socket, because a file below /proc could not be opened. */
void descriptors_check(void);

#endif
