// SPDX-License-Identifier: BSD-3-Clause
/* refuse.c - what a kernel, a limit or a file system may refuse
 *
 *	ts-spill-refuse eperm|enosys|memlock|fallocate|enospc|eintr|buffered|
 *			 discard
 *
 * eperm, enosys  case 32: seccomp refuses io_uring_setup
 * memlock        case 33: RLIMIT_MEMLOCK of 64 KiB without CAP_IPC_LOCK
 * fallocate      case 31: EOPNOTSUPP makes the reservation best effort;
 *                enospc is said at start, and eintr is tried again
 * buffered       case 41: O_DIRECT is refused, and the page cache of the file
 *                stays small all the same
 * discard        a file whose room is not reserved gets its holes back
 *
 * The data must be right in each case, and the log and the statistics must
 * say what is in use.
 */
#include "tests/spill/rig.h"
#include "util/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct spill_rig rig;
static int fallocate_errno, fallocate_times;
static bool refuse_direct;
static unsigned holes; /* atomic */

int __real_fallocate64(int fd, int mode, off_t off, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t off, off_t len);
int __real_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl64(int fd, int cmd, ...);

int __wrap_fallocate64(int fd, int mode, off_t off, off_t len)
{
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		ts_add_relaxed(&holes, 1);
	} else if (fallocate_times) {
		fallocate_times--;
		errno = fallocate_errno;
		return -1;
	}
	return __real_fallocate64(fd, mode, off, len);
}

int __wrap_fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (refuse_direct && cmd == F_SETFL && arg & O_DIRECT) {
		errno = EINVAL;
		return -1;
	}
	return __real_fcntl64(fd, cmd, arg);
}

/* Bytes of the spill file that are in the page cache. */
static uint64_t cached_bytes(void)
{
	static unsigned char map[64 * MIB / 4096];
	uint64_t n = 0;
	struct stat st;
	void *at;

	if (fstat(rig.fd, &st) || st.st_size > (off_t)(64 * MIB))
		rig_die("the spill file is not as it should be");
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, rig.fd, 0);
	if (at == MAP_FAILED || mincore(at, (size_t)st.st_size, map))
		rig_die("mincore: %s", strerror(errno));
	for (off_t i = 0; i < st.st_size / 4096; i++)
		n += map[i] & 1;
	munmap(at, (size_t)st.st_size);
	return n * 4096;
}

/* Fill, overwrite, trim; most of it goes through the file. */
static void use(void)
{
	struct rng rng = { 1 };
	uint64_t cached = 0;

	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		if (slot_write(&rig, slot))
			rig_die("no room for the test");
	slots_verify(&rig);
	for (unsigned op = 0; op < 20000; op++) {
		unsigned slot = (unsigned)rng_below(&rng, rig.n_slots);

		if (rng_below(&rng, 8))
			slot_write(&rig, slot);
		else
			slot_discard(&rig, slot);
		if (op % 1000 == 0) {
			uint64_t now = cached_bytes();

			cached = now > cached ? now : cached;
		}
	}
	slots_verify(&rig);
	spill_rig_check(&rig);
	if (spill_rig_counters(&rig).spill_read_pages < 1000)
		rig_die("hardly anything went through the file");
	printf("at most %.1f MiB of the file were in the page cache\n",
	       (double)cached / MIB);
	if (cached > 6 * MIB)
		rig_die("the page cache keeps what is spilled");
}

static void must_say(const char *what)
{
	if (!rig.said || !strstr(rig.said, what))
		rig_die("\"%s\" is not said, but: %s", what, rig.said);
	/* Once. */
	if (strstr(strstr(rig.said, what) + 1, what))
		rig_die("\"%s\" is said twice", what);
}

static void seccomp(int error)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	struct ts_counters c;

	if (!filter ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)error),
			     SCMP_SYS(io_uring_setup), 0) ||
	    seccomp_load(filter)) {
		printf("seccomp filters cannot be loaded here\n");
		exit(EXIT_SKIP);
	}
	seccomp_release(filter);
	spill_rig_start(&rig);
	must_say("pread and pwrite are used: io_uring: ");
	must_say(error == EPERM ? "not permitted" : "the kernel has none");
	c = spill_rig_counters(&rig);
	if (c.spill_uring || !*c.why_not_uring)
		rig_die("the statistics name the wrong engine");
	use();
}

/* Root has CAP_IPC_LOCK, for which there are no limits. */
static void memlock(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct cap[2] = { 0 };
	struct rlimit limit = { 64 << 10, 64 << 10 };

	if (syscall(SYS_capget, &head, cap) || setrlimit(RLIMIT_MEMLOCK, &limit))
		rig_die("%s", strerror(errno));
	cap[0].effective &= ~(1u << CAP_IPC_LOCK);
	cap[0].permitted &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &head, cap))
		rig_die("capset: %s", strerror(errno));
	spill_rig_start(&rig);
	must_say("RLIMIT_MEMLOCK is 65536 bytes");
	use();
}

static void no_reservation(void)
{
	fallocate_errno = EOPNOTSUPP;
	fallocate_times = 1;
	spill_rig_start(&rig);
	must_say("the size is best effort");
	if (spill_rig_counters(&rig).spill_firm)
		rig_die("the reservation is called firm");
	use();
}

static void interrupted(void)
{
	fallocate_errno = EINTR;
	fallocate_times = 3;
	spill_rig_start(&rig);
	if (fallocate_times || !spill_rig_counters(&rig).spill_firm)
		rig_die("the reservation was not tried again");
	use();
}

/* Nothing may be left of a file that is too large. */
static void no_room(void)
{
	char dir[] = "/var/tmp/ts-spill.XXXXXX", path[64], why[512];
	struct ts_spill_file file;
	struct stat st;
	int err;

	if (!mkdtemp(dir))
		rig_die("%s: %s", dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/file", dir);
	fallocate_errno = ENOSPC;
	fallocate_times = 1;
	err = ts_spill_file_open(&file, path, 64 * MIB, false, why,
				 sizeof(why));
	if (stat(path, &st))
		rig_die("stat: %s", strerror(errno));
	unlink(path);
	rmdir(dir);
	printf("%s\n", why);
	if (err != -ENOSPC || !strstr(why, path) ||
	    !strstr(why, "no room for 64 MiB"))
		rig_die("that is not what is wrong");
	if (st.st_size || st.st_blocks)
		rig_die("%lld bytes are left of it", (long long)st.st_size);
	spill_rig_start(&rig);
}

static void buffered(void)
{
	refuse_direct = true;
	spill_rig_start(&rig);
	must_say("no O_DIRECT here");
	if (spill_rig_counters(&rig).spill_direct)
		rig_die("O_DIRECT is said to be in use");
	use();
}

static uint64_t file_blocks(void)
{
	struct stat st;

	if (fstat(rig.fd, &st))
		rig_die("fstat: %s", strerror(errno));
	return (uint64_t)st.st_blocks * 512;
}

static void discard(void)
{
	fallocate_errno = EOPNOTSUPP;
	fallocate_times = 1;
	spill_rig_start(&rig);
	use();
	printf("%llu MiB used\n", (unsigned long long)(file_blocks() / MIB));
	for (unsigned slot = 0; slot < rig.n_slots; slot++)
		slot_discard(&rig, slot);
	WAIT_FOR(file_blocks() < MIB);
	printf("%u holes\n", ts_load_relaxed(&holes));
	spill_rig_check(&rig);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "memlock", memlock },	  { "fallocate", no_reservation },
		{ "eintr", interrupted }, { "enospc", no_room },
		{ "buffered", buffered }, { "discard", discard },
	};
	const char *what = argc > 1 ? argv[1] : "";

	spill_rig_init(&rig, 32 * MIB, 8 * MIB, 40 * MIB);
	if (!strcmp(what, "eperm"))
		seccomp(EPERM);
	else if (!strcmp(what, "enosys"))
		seccomp(ENOSYS);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(what, cases[i].name))
			cases[i].run();
	if (!rig.store)
		rig_die("%s: no such test", what);
	spill_rig_end(&rig);
	return EXIT_SUCCESS;
}
