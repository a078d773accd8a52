/* SPDX-License-Identifier: BSD-2-Clause
 *
 * spin.h - what a thread does that only keeps its CPU busy.
 */
#ifndef PGW_TESTS_SPIN_H
#define PGW_TESTS_SPIN_H

/* An emulator whose CPUs take turns goes on to the next one, a real CPU leaves its sibling more. */
static inline void spin(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
