/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report_program.c - what report.c runs under PAGEWISE_STATS. Each argument is one thing to do.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagewise/advise.h>

static void advise(void)
{
	size_t page = pgw_page_size();
	char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pgw_range r[] = { { (uintptr_t)p, page }, { (uintptr_t)p + 2 * page, page } };

	if (p == MAP_FAILED || pgw_advise(r, 2, PGW_DONTNEED, NULL, NULL))
		exit(2);
	munmap(p, 4 * page);
}

/* With a part that was used; dlclose it or not. */
static void open_part(const char *path, int flags, bool close)
{
	void *lib = dlopen(path, RTLD_NOW | flags);
	void (*work)(void);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	*(void **)&work = dlsym(lib, "report_part_work");
	work();
	if (close)
		dlclose(lib);
}

static void fork_child(void)
{
	pid_t pid = fork();
	int ws;

	if (!pid) {
		advise();
		exit(0);
	}
	if (waitpid(pid, &ws, 0) != pid || ws)
		exit(4);
}

static void replace_stderr(const char *path)
{
	static int error_fd; /* until the end */

	close(2);
	error_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (error_fd != 2)
		exit(5);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *arg = strchr(argv[i], '=');

		if (arg)
			*arg++ = '\0';
		else
			arg = "";
		if (!strcmp(argv[i], "advise"))
			advise();
		else if (!strcmp(argv[i], "fork"))
			fork_child();
		else if (!strcmp(argv[i], "part"))
			open_part(arg, RTLD_LOCAL, false);
		else if (!strcmp(argv[i], "part-closed"))
			open_part(arg, RTLD_GLOBAL, true);
		else if (!strcmp(argv[i], "chdir") && chdir(arg))
			return 6;
		else if (!strcmp(argv[i], "close"))
			close(2);
		else if (!strcmp(argv[i], "replace"))
			replace_stderr(arg);
		else if (!strcmp(argv[i], "_exit"))
			_exit(0);
	}
	return 0;
}
