/* SPDX-License-Identifier: BSD-2-Clause
 *
 * out.h - one object: as "name: value" lines, or as JSON. Nothing of it is seen before it is whole, so
 * that a failure leaves no half of it.
 */
#ifndef CHAIN_OUT_H
#define CHAIN_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct out {
	FILE *f; /* to text */
	char *text;
	size_t size;
	bool json;
	bool more; /* something stands before, at this level */
	int depth;
};

/* 0, or -1 if there is no memory. */
int out_begin(struct out *o, bool json);
void out_u64(struct out *o, const char *name, uint64_t v);
void out_real(struct out *o, const char *name, double v);
void out_text(struct out *o, const char *name, const char *v);
void out_hash(struct out *o, const char *name, const uint8_t hash[32]);
/* A list or object of what follows, until out_close(). Inside a list name is NULL. */
void out_open(struct out *o, const char *name, char bracket);
void out_close(struct out *o, char bracket);
/* Prints to standard output if told to, and frees. 0, or -1 if it could not be written. */
int out_end(struct out *o, bool print);
/* Or ends it in memory: o->text, of o->size bytes, is the caller's to free. 0, or -1: no memory. */
int out_keep(struct out *o);

#endif
