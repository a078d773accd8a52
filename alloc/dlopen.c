/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dlopen.c - dlopen(3) without RTLD_DEEPBIND.
 *
 * A module that is opened with that flag looks its symbols up in itself and in what it needs before
 * the program, so it gets malloc and free from libc, while other code hands it memory of the malloc
 * that was preloaded: its first free of that crashes. (PHP opens its extensions that way, samba its
 * modules of ldb.) Without the flag the whole process has one malloc. What is lost is what the flag
 * is for: that a module's own symbol wins over one of the same name in the program.
 *
 * The dynamic linker goes by the return address of dlopen to know who calls: that caller's
 * RUNPATH, $ORIGIN and namespace count. Called from here, they would be this library's. So dlopen
 * has no frame of its own when the real one is entered: it is a jump, in assembly, because no
 * compiler promises one. Where none is written the C version does, with what its comment says.
 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "options.h"

typedef void *dlopen_fn(const char *file, int mode);

struct pgw__dlopen_call {
	dlopen_fn *next;
	long mode;
};

static void *cannot(const char *file, int mode)
{
	(void)file, (void)mode;
	return NULL;
}

/* What to call, and with which mode. Returned in two registers. */
struct pgw__dlopen_call pgw__dlopen_prepare(int mode);

__attribute__((used)) struct pgw__dlopen_call pgw__dlopen_prepare(int mode)
{
	static dlopen_fn *_Atomic next;
	dlopen_fn *fn = atomic_load_explicit(&next, memory_order_relaxed);

	if (!fn) {
		*(void **)&fn = dlsym(RTLD_NEXT, "dlopen");
		atomic_store_explicit(&next, fn, memory_order_relaxed);
	}
	if (!pgw__option(PGW_ALLOC_DEEPBIND))
		mode &= ~RTLD_DEEPBIND;
	return (struct pgw__dlopen_call){ fn ? fn : cannot, mode };
}

#if defined(__x86_64__) && defined(__LP64__)

__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	".p2align 4\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	movl %esi, %edi\n"
	"	call pgw__dlopen_prepare\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	movl %edx, %esi\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size dlopen, .-dlopen\n");

#elif defined(__aarch64__) && defined(__LP64__)

__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	".p2align 2\n"
	"dlopen:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_offset 29, -32\n"
	"	.cfi_offset 30, -24\n"
	"	mov x29, sp\n"
	"	str x0, [sp, #16]\n"
	"	mov w0, w1\n"
	"	bl pgw__dlopen_prepare\n"
	"	mov x16, x0\n" /* from which bti c allows a jump */
	"	ldr x0, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore 30\n"
	"	.cfi_restore 29\n"
	"	.cfi_def_cfa_offset 0\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size dlopen, .-dlopen\n");

#else

/* Optimized, this is a jump as well. If it is not, the caller is this library: modules are not looked
 * for along the RUNPATH of the one who called, nor is $ORIGIN its folder. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	struct pgw__dlopen_call c = pgw__dlopen_prepare(mode);

	return c.next(file, (int)c.mode);
}

#endif
