/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tlbcount.h - count the TLB flushes of this process by the kernel's tracepoint tlb:tlb_flush.
 *
 * One flush of a process that runs on two processors is seen as up to three events: the local one,
 * the interrupt that was sent, and what it did on the other side.
 */
#ifndef PGW_BENCH_TLBCOUNT_H
#define PGW_BENCH_TLBCOUNT_H

#include <stdint.h>

/* A descriptor that counts for this process and the threads it creates from now on; -errno if the
 * tracepoint is not there or not permitted, with *why set to a text. */
int tlbcount_open(const char **why);

/* Events until now. A thread's are added when it ends, if it was created after tlbcount_open. */
uint64_t tlbcount_read(int fd);

#endif
