/* SPDX-License-Identifier: BSD-2-Clause
 *
 * operators.cc - the replaceable allocation functions of C++, without a C++ library.
 *
 * This library is preloaded into every program, most of which are C: it must not bring libstdc++
 * with it. So what these functions need of it are weak references, which a C++ program resolves by
 * having it loaded. The file is C++ because the nothrow forms must catch what a new-handler throws.
 * jemalloc's own version, in the archive's jemalloc_cpp.o, needs libstdc++ and is not linked.
 *
 * new is malloc, and sized delete is sdallocx, which saves looking the size up.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <new>

#include <jemalloc/jemalloc.h>

/* The compiler refers to these by itself. */
__asm__(".weak __gxx_personality_v0\n"
	".weak __cxa_begin_catch\n"
	".weak __cxa_end_catch\n"
	".weak __cxa_call_unexpected\n"
	".weak _Unwind_Resume\n"
	".weak _ZSt9terminatev\n");

namespace
{

typedef void (*handler)();

extern "C" {
handler get_new_handler() __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
void throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
}

/* A C program may load a C++ library after us; then the weak references were not resolved. */
template <typename F> F find(F linked, const char *name)
{
	return linked ? linked : reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

[[noreturn]] void fail()
{
	static const char text[] = "pagewise: operator new is out of memory, and there is no C++ "
				   "library to throw std::bad_alloc. Aborting.\n";
	auto raise = find(&throw_bad_alloc, "_ZSt17__throw_bad_allocv");

	if (raise)
		raise();
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		/* nowhere to say it */
	}
	abort();
}

/* align 0: that of malloc. */
inline void *try_once(std::size_t size, std::size_t align)
{
	if (size == 0)
		size = 1;
	return align ? mallocx(size, MALLOCX_ALIGN(align)) : malloc(size);
}

/* [new.delete.single]: call the new-handler and try again until there is memory or no handler. */
__attribute__((noinline)) void *retry(std::size_t size, std::size_t align)
{
	for (;;) {
		auto get = find(&get_new_handler, "_ZSt15get_new_handlerv");
		handler h = get ? get() : nullptr;

		if (!h)
			return nullptr;
		h(); /* frees something, throws, or ends the program */
		if (void *p = try_once(size, align))
			return p;
	}
}

inline void *allocate(std::size_t size, std::size_t align = 0)
{
	void *p = try_once(size, align);

	if (__builtin_expect(!p, 0)) {
		p = retry(size, align);
		if (!p)
			fail();
	}
	return p;
}

inline void *allocate_nothrow(std::size_t size, std::size_t align = 0) noexcept
{
	void *p = try_once(size, align);

	if (__builtin_expect(!p, 0)) {
		try {
			p = retry(size, align);
		} catch (...) {
			p = nullptr;
		}
	}
	return p;
}

inline void release(void *p, std::size_t size, std::size_t align = 0) noexcept
{
	if (!p)
		return;
	if (size == 0)
		size = 1;
	sdallocx(p, size, align ? MALLOCX_ALIGN(align) : 0);
}

} // namespace

#define EXPORT __attribute__((visibility("default")))

EXPORT void *operator new(std::size_t size)
{
	return allocate(size);
}

EXPORT void *operator new[](std::size_t size)
{
	return allocate(size);
}

EXPORT void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
	return allocate_nothrow(size);
}

EXPORT void *operator new[](std::size_t size, const std::nothrow_t &) noexcept
{
	return allocate_nothrow(size);
}

EXPORT void *operator new(std::size_t size, std::align_val_t align)
{
	return allocate(size, static_cast<std::size_t>(align));
}

EXPORT void *operator new[](std::size_t size, std::align_val_t align)
{
	return allocate(size, static_cast<std::size_t>(align));
}

EXPORT void *operator new(std::size_t size, std::align_val_t align, const std::nothrow_t &) noexcept
{
	return allocate_nothrow(size, static_cast<std::size_t>(align));
}

EXPORT void *operator new[](
    std::size_t size, std::align_val_t align, const std::nothrow_t &) noexcept
{
	return allocate_nothrow(size, static_cast<std::size_t>(align));
}

EXPORT void operator delete(void *p) noexcept
{
	free(p);
}

EXPORT void operator delete[](void *p) noexcept
{
	free(p);
}

EXPORT void operator delete(void *p, const std::nothrow_t &) noexcept
{
	free(p);
}

EXPORT void operator delete[](void *p, const std::nothrow_t &) noexcept
{
	free(p);
}

EXPORT void operator delete(void *p, std::align_val_t) noexcept
{
	free(p);
}

EXPORT void operator delete[](void *p, std::align_val_t) noexcept
{
	free(p);
}

EXPORT void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept
{
	free(p);
}

EXPORT void operator delete[](void *p, std::align_val_t, const std::nothrow_t &) noexcept
{
	free(p);
}

EXPORT void operator delete(void *p, std::size_t size) noexcept
{
	release(p, size);
}

EXPORT void operator delete[](void *p, std::size_t size) noexcept
{
	release(p, size);
}

EXPORT void operator delete(void *p, std::size_t size, std::align_val_t align) noexcept
{
	release(p, size, static_cast<std::size_t>(align));
}

EXPORT void operator delete[](void *p, std::size_t size, std::align_val_t align) noexcept
{
	release(p, size, static_cast<std::size_t>(align));
}
