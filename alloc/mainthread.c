/* SPDX-License-Identifier: BSD-2-Clause
 *
 * mainthread.c - see mainthread.h.
 */
#include "mainthread.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "purger.h"
#include "sys.h"

static pthread_key_t key;
static bool made;

static void main_ends(void *value)
{
	(void)value;
	pgw__purger_main_leaves();
}

void pgw__mainthread_watch(void)
{
	if (!made)
		made = !pthread_key_create(&key, main_ends);
	/* A child that main has forked has it already. */
	if (made && !pthread_getspecific(key) && gettid() == pgw__sys.getpid())
		(void)pthread_setspecific(key, &key);
}
