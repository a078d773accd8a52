/* SPDX-License-Identifier: BSD-2-Clause
 *
 * out.c - see out.h.
 */
#include "out.h"

#include <inttypes.h>
#include <stdlib.h>

#include "error.h"

static void start(struct out *o, const char *name)
{
	if (!o->json) {
		fprintf(o->f, "%*s%s%s", 4 * o->depth, "", name ? name : "-", name ? ": " : " ");
		return;
	}
	if (o->more)
		putc(',', o->f);
	o->more = true;
	if (name)
		fprintf(o->f, "\"%s\":", name);
}

static void finish(struct out *o)
{
	if (!o->json)
		putc('\n', o->f);
}

int out_begin(struct out *o, bool json)
{
	*o = (struct out){ .json = json };
	o->f = open_memstream(&o->text, &o->size);
	if (!o->f)
		return -1;
	if (json)
		putc('{', o->f);
	return 0;
}

void out_u64(struct out *o, const char *name, uint64_t v)
{
	start(o, name);
	fprintf(o->f, "%" PRIu64, v);
	finish(o);
}

void out_real(struct out *o, const char *name, double v)
{
	start(o, name);
	fprintf(o->f, "%.2f", v);
	finish(o);
}

void out_text(struct out *o, const char *name, const char *v)
{
	start(o, name);
	if (!o->json) {
		fputs(v, o->f);
	} else {
		putc('"', o->f);
		for (; *v; v++) {
			unsigned char c = (unsigned char)*v;

			if (c == '"' || c == '\\')
				putc('\\', o->f);
			if (c < 0x20)
				fprintf(o->f, "\\u%04x", c);
			else
				putc(c, o->f);
		}
		putc('"', o->f);
	}
	finish(o);
}

void out_hash(struct out *o, const char *name, const uint8_t hash[32])
{
	char hex[HEX_SIZE];

	out_text(o, name, chain_hex(hash, hex));
}

void out_open(struct out *o, const char *name, char bracket)
{
	start(o, name);
	if (o->json)
		putc(bracket, o->f);
	else
		putc('\n', o->f);
	o->depth++;
	o->more = false;
}

void out_close(struct out *o, char bracket)
{
	if (o->json)
		putc(bracket, o->f);
	o->depth--;
	o->more = true;
}

int out_keep(struct out *o)
{
	int bad;

	if (o->json)
		fputs("}\n", o->f);
	bad = ferror(o->f);
	bad |= fclose(o->f);
	return bad ? -1 : 0;
}

int out_end(struct out *o, bool print)
{
	int bad = out_keep(o);

	if (!bad && print) {
		bad = fwrite(o->text, 1, o->size, stdout) != o->size;
		bad |= fflush(stdout);
	}
	free(o->text);
	return bad ? -1 : 0;
}
