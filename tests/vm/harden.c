/* SPDX-License-Identifier: BSD-3-Clause */
/* harden.c - run a program with some of thinswapd's protections, one by one
 *
 *   harden [-f] [-r] [-o] [-d CAPABILITY]... PROGRAM [ARG...]
 *     -f  PR_SET_IO_FLUSHER      -r  SCHED_RR, lowest priority
 *     -o  oom_score_adj -1000    -d  give a capability up, by its number
 *
 * For scenarios that show which protection is needed: a program without the
 * capability for one (14 CAP_IPC_LOCK, 23 CAP_SYS_NICE, 24 CAP_SYS_RESOURCE)
 * has to do without it. All of them are inherited by exec, fork and new
 * threads. Memory locks are not, so they are the business of the program
 * itself. Options take effect in the order given.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

static int fail(const char *what)
{
	fprintf(stderr, "harden: %s: %s\n", what, strerror(errno));
	return 1;
}

static int protect_from_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) != 5)
		return fail("oom_score_adj");
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct sched_param rr = { .sched_priority = 1 };
	int c;

	while ((c = getopt(argc, argv, "+frod:")) != -1) {
		switch (c) {
		case 'f':
			if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
				return fail("PR_SET_IO_FLUSHER");
			break;
		case 'r':
			if (sched_setscheduler(0, SCHED_RR, &rr))
				return fail("SCHED_RR");
			break;
		case 'o':
			if (protect_from_oom())
				return 1;
			break;
		case 'd':
			if (prctl(PR_CAPBSET_DROP, atoi(optarg), 0, 0, 0))
				return fail("PR_CAPBSET_DROP");
			break;
		default:
			return 2;
		}
	}
	if (optind == argc) {
		fprintf(stderr, "usage: harden [-f] [-r] [-o] [-d N] PROGRAM...\n");
		return 2;
	}
	execvp(argv[optind], argv + optind);
	return fail(argv[optind]);
}
