/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report.c - PAGEWISE_STATS in real programs: who writes what where, read back by a JSON library.
 *
 * usage: test-report PROGRAM PART (report_program and the library of report_part.c)
 */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *program, *part;
static char dir[] = "/tmp/pagewise-report.XXXXXX";
static pid_t last_pid;

static char *in_dir(const char *name)
{
	static char path[4][4096];
	static unsigned turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

/* The contents of a file; "" if there is none. */
static const char *contents(const char *path)
{
	static char text[65536];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return text;
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Run the program (under another name if run_as is set) with its standard error in the file
 * "stderr", or closed from the beginning. */
static void run_as(const char *path, bool with_stderr, const char *stats, const char *const *args)
{
	const char *argv[10] = { path };
	int fd = 2, ws;

	for (size_t i = 0; args[i]; i++)
		argv[i + 1] = args[i];
	last_pid = fork();
	if (!last_pid) {
		close(2);
		if (with_stderr)
			fd = open(in_dir("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd != 2)
			_exit(126);
		set("PAGEWISE_STATS", stats);
		execv(path, (char **)argv);
		_exit(127);
	}
	assert_int_equal(waitpid(last_pid, &ws, 0), last_pid);
	assert_int_equal(ws, 0);
}

#define RUN(stats, ...) run_as(program, true, stats, (const char *const[]){ __VA_ARGS__, NULL })

static const char *errors(void)
{
	return contents(in_dir("stderr"));
}

/* The report in text, which must be one line of JSON and nothing else. */
static struct json_object *parse_one(const char *text)
{
	struct json_object *o;

	assert_non_null(strchr(text, '\n'));
	assert_string_equal(strchr(text, '\n'), "\n");
	o = json_tokener_parse(text);
	assert_non_null(o);
	return o;
}

/* The member at a path of keys, each ended by a dot. */
static struct json_object *at(struct json_object *o, const char *path)
{
	char key[64];

	for (int n; o && *path; path += n + 1) {
		n = (int)strcspn(path, ".");
		snprintf(key, sizeof(key), "%.*s", n, path);
		if (!json_object_object_get_ex(o, key, &o))
			return NULL;
	}
	return o;
}

static int64_t number(struct json_object *o, const char *path)
{
	struct json_object *member = at(o, path);

	assert_true(json_object_is_type(member, json_type_int));
	return json_object_get_int64(member);
}

static const char *string(struct json_object *o, const char *path)
{
	struct json_object *member = at(o, path);

	assert_true(json_object_is_type(member, json_type_string));
	return json_object_get_string(member);
}

/* Ranges advised, one way or the other. */
static int64_t advised(struct json_object *o)
{
	return number(o, "parts.shim.advice.DONTNEED.vectored_ranges.") +
	       number(o, "parts.shim.advice.DONTNEED.single_calls.");
}

static int fresh(void **state)
{
	char command[100];

	setenv("PAGEWISE_KERNEL", "auto", 1);
	unsetenv("PAGEWISE_SYNC");
	snprintf(command, sizeof(command), "rm -rf %s/*", dir);
	return system(command);
}

static void on_standard_error(void **state)
{
	struct json_object *o;

	RUN("1", "advise");
	o = parse_one(errors());
	assert_string_equal(string(o, "pagewise."), PGW_TEST_VERSION);
	assert_int_equal(number(o, "pid."), last_pid);
	assert_string_equal(string(o, "command."), strrchr(program, '/') + 1);
	assert_string_equal(string(o, "parts.shim.kernel_mode."), "auto");
	assert_int_equal(advised(o), 2);
	assert_int_equal(number(o, "parts.shim.sync.barriers."), 0);
	assert_true(json_object_is_type(at(o, "parts.shim.fallbacks."), json_type_array));
	json_object_put(o);
}

static void only_if_asked(void **state)
{
	RUN(NULL, "advise");
	assert_string_equal(errors(), "");
	RUN("", "advise");
	assert_string_equal(errors(), "");
	RUN("0", "advise");
	assert_string_equal(errors(), "");
}

static void nothing_used_nothing_written(void **state)
{
	RUN("1", "nothing");
	assert_string_equal(errors(), "");
	RUN(in_dir("report"), "nothing");
	assert_int_equal(access(in_dir("report"), F_OK), -1);
}

static void not_at_an_abrupt_end(void **state)
{
	RUN("1", "advise", "_exit");
	assert_string_equal(errors(), "");
}

static void to_a_file_of_the_process(void **state)
{
	struct json_object *o;
	char name[64];

	RUN(in_dir("report-%p-%"), "advise");
	snprintf(name, sizeof(name), "report-%d-%%", (int)last_pid);
	o = parse_one(contents(in_dir(name)));
	assert_int_equal(number(o, "pid."), last_pid);
	json_object_put(o);
	assert_string_equal(errors(), "");
}

static void files_are_added_to(void **state)
{
	const char *text, *second;

	RUN(in_dir("report"), "advise");
	RUN(in_dir("report"), "advise");
	text = contents(in_dir("report"));
	second = strchr(text, '\n') + 1;
	json_object_put(parse_one(second));
}

static void relative_to_where_it_was_started(void **state)
{
	char before[4096];

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(dir), 0);
	RUN("report", "advise", "chdir=/");
	assert_int_equal(chdir(before), 0);
	json_object_put(parse_one(contents(in_dir("report"))));
}

static void a_file_that_cannot_be_written(void **state)
{
	RUN("/nonexistent/report", "advise");
	assert_non_null(strstr(errors(), "/nonexistent/report"));
	assert_non_null(strstr(errors(), "No such file or directory"));
	assert_non_null(strstr(errors(), "PAGEWISE_STATS"));
	assert_string_equal(strchr(errors(), '\n'), "\n");
	RUN(dir, "advise");
	assert_non_null(strstr(errors(), "Is a directory"));
	RUN(dir, "advise", "close");
	assert_non_null(strstr(errors(), "Is a directory"));
	if (!access("/dev/full", W_OK)) {
		RUN("/dev/full", "advise", "close");
		assert_non_null(strstr(errors(), "No space left on device"));
	}
}

static void a_name_that_is_too_long(void **state)
{
	char name[6000];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	RUN(name, "advise");
	assert_non_null(strstr(errors(), "pagewise: xxxx"));
	assert_non_null(strstr(errors(), "xxx...: PAGEWISE_STATS names a path that is too long"));
	assert_string_equal(strchr(errors(), '\n'), "\n");
}

/* As the programs of coreutils do before they end. */
static void standard_error_closed_by_the_program(void **state)
{
	RUN("1", "advise", "close");
	json_object_put(parse_one(errors()));
}

static void standard_error_closed_from_the_beginning(void **state)
{
	char replace[4096];

	snprintf(replace, sizeof(replace), "replace=%s", in_dir("data"));
	run_as(program, false, "1", (const char *const[]){ "advise", "close", replace, NULL });
	assert_string_equal(contents(in_dir("data")), "");
	assert_int_equal(access(in_dir("data"), F_OK), 0);
}

static void number_2_is_a_file_of_the_program(void **state)
{
	char replace[4096];

	snprintf(replace, sizeof(replace), "replace=%s", in_dir("data"));
	RUN("1", "advise", replace);
	assert_string_equal(contents(in_dir("data")), "");
	json_object_put(parse_one(errors())); /* on the standard error of the beginning */
}

static void a_child_reports_its_own_work(void **state)
{
	struct json_object *child, *parent;
	char *text, *second;

	RUN("1", "advise", "advise", "fork");
	text = strdup(errors());
	second = strchr(text, '\n') + 1;
	parent = parse_one(second);
	*second = '\0';
	child = parse_one(text);
	assert_int_equal(number(parent, "pid."), last_pid);
	assert_int_not_equal(number(child, "pid."), last_pid);
	assert_int_equal(advised(parent), 4);
	assert_int_equal(advised(child), 2);
	json_object_put(child);
	json_object_put(parent);
	free(text);
}

static void two_libraries_one_report(void **state)
{
	char open_it[4096];
	struct json_object *o;

	snprintf(open_it, sizeof(open_it), "part=%s", part);
	RUN("1", "advise", open_it);
	o = parse_one(errors());
	assert_int_equal(advised(o), 2);
	assert_int_equal(number(o, "parts.other.work."), 1);
	/* Each with a shim of its own. */
	assert_null(at(o, "parts.other.advice.DONTNEED."));
	json_object_put(o);
	/* Used alone, it still is one report, written by the first library. */
	RUN("1", open_it);
	o = parse_one(errors());
	assert_null(at(o, "parts.shim."));
	assert_int_equal(number(o, "parts.other.work."), 1);
	json_object_put(o);
}

static void a_library_that_was_closed(void **state)
{
	char open_it[4096];
	struct json_object *o;

	snprintf(open_it, sizeof(open_it), "part-closed=%s", part);
	RUN("1", open_it);
	o = parse_one(errors());
	assert_int_equal(number(o, "parts.other.work."), 1);
	json_object_put(o);
	RUN(NULL, open_it);
	assert_string_equal(errors(), "");
}

static void a_name_that_needs_escapes(void **state)
{
	char *path = in_dir("a \"name\\\n");
	struct json_object *o;

	assert_int_equal(symlink(program, path), 0);
	run_as(path, true, "1", (const char *const[]){ "advise", NULL });
	o = parse_one(errors());
	assert_string_equal(string(o, "command."), "a \"name\\\n");
	json_object_put(o);
}

static void fallbacks_and_modes(void **state)
{
	struct json_object *o;

	setenv("PAGEWISE_KERNEL", "loop", 1);
	RUN("1", "advise");
	o = parse_one(errors());
	assert_string_equal(string(o, "parts.shim.kernel_mode."), "loop");
	assert_int_equal(number(o, "parts.shim.advice.DONTNEED.vectored_calls."), 0);
	assert_null(at(o, "parts.shim.advice.DONTNEED.ranges_per_call."));
	assert_int_equal(number(o, "parts.shim.advice.DONTNEED.single_calls."), 2);
	json_object_put(o);
}

static void wrong_settings_are_told_once(void **state)
{
	setenv("PAGEWISE_KERNEL", "fast", 1);
	setenv("PAGEWISE_SYNC", "never", 1);
	RUN(NULL, "advise");
	assert_non_null(strstr(errors(), "pagewise: fast: PAGEWISE_KERNEL is auto"));
	assert_non_null(strstr(errors(), "pagewise: never: PAGEWISE_SYNC is auto"));
}

/* Under an emulator the programs are not of the kernel's own architecture. */
static bool can_run(const char *path)
{
	pid_t pid = fork();
	int ws;

	if (!pid) {
		execl(path, path, (char *)NULL);
		_exit(errno == ENOEXEC ? 77 : 0);
	}
	return pid > 0 && waitpid(pid, &ws, 0) == pid && !(WIFEXITED(ws) && WEXITSTATUS(ws) == 77);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(on_standard_error, fresh),
		cmocka_unit_test_setup(only_if_asked, fresh),
		cmocka_unit_test_setup(nothing_used_nothing_written, fresh),
		cmocka_unit_test_setup(not_at_an_abrupt_end, fresh),
		cmocka_unit_test_setup(to_a_file_of_the_process, fresh),
		cmocka_unit_test_setup(files_are_added_to, fresh),
		cmocka_unit_test_setup(relative_to_where_it_was_started, fresh),
		cmocka_unit_test_setup(a_file_that_cannot_be_written, fresh),
		cmocka_unit_test_setup(a_name_that_is_too_long, fresh),
		cmocka_unit_test_setup(standard_error_closed_by_the_program, fresh),
		cmocka_unit_test_setup(standard_error_closed_from_the_beginning, fresh),
		cmocka_unit_test_setup(number_2_is_a_file_of_the_program, fresh),
		cmocka_unit_test_setup(a_child_reports_its_own_work, fresh),
		cmocka_unit_test_setup(two_libraries_one_report, fresh),
		cmocka_unit_test_setup(a_library_that_was_closed, fresh),
		cmocka_unit_test_setup(a_name_that_needs_escapes, fresh),
		cmocka_unit_test_setup(fallbacks_and_modes, fresh),
		cmocka_unit_test_setup(wrong_settings_are_told_once, fresh),
	};
	char command[100];
	int r;

	if (argc != 3 || !mkdtemp(dir))
		return 2;
	program = realpath(argv[1], NULL);
	part = realpath(argv[2], NULL);
	if (!program || !part)
		return 2;
	if (!can_run(program)) {
		rmdir(dir);
		fprintf(stderr, "%s cannot be run by this kernel: an emulator without binfmt\n",
		    program);
		return 77;
	}
	r = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) || r;
}
