/* SPDX-License-Identifier: BSD-2-Clause
 *
 * operators.cc - the C++ operators: whose memory it is, alignment, new-handlers, exceptions.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <jemalloc/jemalloc.h>

#define CHECK(x)                                                                        \
	do {                                                                            \
		if (!(x)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

namespace
{

/* Volatile, or the compiler sees through it: no such block can exist. */
volatile std::size_t too_much = SIZE_MAX / 2;
void *volatile sink; /* compilers drop a new that nobody looks at */
int handler_calls;

struct alignas(256) Wide {
	char c[300];
};

void ours()
{
	int *p = new int(7);

	CHECK(sallocx(p, 0) >= sizeof(int));
	CHECK(sallocx(p, 0) == nallocx(sizeof(int), 0));
	delete p;
	char *a = new char[100000];
	CHECK(malloc_usable_size(a) >= 100000);
	delete[] a;
	CHECK((sink = ::operator new(0)) != nullptr);
}

void aligned()
{
	auto *one = new Wide;
	auto *many = new Wide[3];
	auto *quiet = new (std::nothrow) Wide;

	CHECK(reinterpret_cast<std::uintptr_t>(one) % 256 == 0);
	CHECK(reinterpret_cast<std::uintptr_t>(many) % 256 == 0);
	CHECK(quiet && reinterpret_cast<std::uintptr_t>(quiet) % 256 == 0);
	delete one;
	delete[] many;
	delete quiet;
	void *p = ::operator new(0, std::align_val_t(4096));
	CHECK(p && reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
	::operator delete(p, std::size_t(0), std::align_val_t(4096));
}

void sized()
{
	for (std::size_t n = 0; n < 200000; n = n * 3 + 1) {
		::operator delete(::operator new(n), n);
		::operator delete[](::operator new[](n), n);
		::operator delete(::operator new(n, std::align_val_t(64)), n, std::align_val_t(64));
	}
	::operator delete(nullptr, std::size_t(10));
	::operator delete(nullptr);
	::operator delete[](nullptr, std::align_val_t(64));
}

template <typename F> bool throws_bad_alloc(F f)
{
	try {
		f();
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

void no_handler()
{
	CHECK(throws_bad_alloc([] { sink = ::operator new(too_much); }));
	CHECK(throws_bad_alloc([] { sink = ::operator new[](too_much); }));
	CHECK(throws_bad_alloc([] { sink = ::operator new(too_much, std::align_val_t(64)); }));
	CHECK(!::operator new(too_much, std::nothrow));
	CHECK(!::operator new[](too_much, std::nothrow));
	CHECK(!::operator new(too_much, std::align_val_t(64), std::nothrow));
}

/* The handler is called until it gives up; nothrow forms catch what it throws. */
void handler()
{
	std::set_new_handler([] {
		if (++handler_calls == 3)
			std::set_new_handler(nullptr);
	});
	CHECK(throws_bad_alloc([] { sink = ::operator new(too_much); }));
	CHECK(handler_calls == 3);
	std::set_new_handler([] { throw std::bad_alloc(); });
	CHECK(throws_bad_alloc([] { sink = ::operator new(too_much); }));
	CHECK(!::operator new(too_much, std::nothrow));
	CHECK(!::operator new[](too_much, std::align_val_t(64), std::nothrow));
	std::set_new_handler(nullptr);
}

/* An exception passes through, and destructors run. */
void unwinding()
{
	struct Guard {
		int *n;
		~Guard()
		{
			++*n;
		}
	};
	int n = 0;

	CHECK(throws_bad_alloc([&n] {
		Guard g{ &n };
		std::vector<std::string> v(1000, std::string(100, 'x'));
		sink = ::operator new(too_much);
	}));
	CHECK(n == 1);
}

} // namespace

int main()
{
	ours();
	aligned();
	sized();
	no_handler();
	handler();
	unwinding();
	return 0;
}
