// SPDX-License-Identifier: BSD-3-Clause
/* test_spill_file.c - every bad path is named, and nothing foreign is touched
 * (case 26)
 *
 * Block devices are loop devices of the test's own; without them that part is
 * skipped.
 */
#include "spill/file.h"
#include "run.h"
#include "tests/common/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96], other[96], err[512];
static struct ts_spill_file file;

static void setup(void)
{
	strcpy(dir, "/var/tmp/ts-file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/spill", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	file.fd = -1;
}

static void teardown(void)
{
	ts_spill_file_close(&file);
	unlink(path);
	unlink(other);
	ck_assert_int_eq(rmdir(dir), 0);
}

static int try(const char *at, uint64_t bytes, bool force)
{
	err[0] = '\0';
	return ts_spill_file_open(&file, at, bytes, force, err, sizeof(err));
}

/* Refused with this errno; the sentence has the path and the words. */
static void refused(const char *at, uint64_t bytes, int error,
		    const char *words)
{
	ck_assert_int_eq(try(at, bytes, false), error);
	ck_assert_msg(strstr(err, at) != NULL, "no path: %s", err);
	ck_assert_msg(strstr(err, words) != NULL, "%s", err);
	ck_assert_int_eq(file.fd, -1);
}

static void put(const char *at, const char *text, mode_t mode)
{
	FILE *f = fopen(at, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(at, mode), 0);
}

START_TEST(makes_a_file)
{
	struct stat st;
	uint8_t buf[32];

	umask(0);
	ck_assert_int_eq(try(path, 16 * MIB + 5, false), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(st.st_size, 16 * MIB + 5);
	if (file.firm)
		ck_assert_int_ge(st.st_blocks * 512, 16 * MIB);
	ck_assert_uint_eq(file.n_segments, 15);
	ck_assert(!file.block);
	ck_assert(file.align == 512 || file.align == 4096);
	ck_assert(!ts_spill_file_can_discard(&file) || !file.firm);
	/* Again, with what is there. */
	ts_spill_file_close(&file);
	ck_assert_int_eq(try(path, 0, false), 0);
	ck_assert_uint_eq(file.n_segments, 15);
	ck_assert_int_eq(pread(file.fd, buf, 0, 0), 0);
}
END_TEST

START_TEST(is_locked)
{
	struct ts_spill_file first;

	ck_assert_int_eq(ts_spill_file_open(&first, path, 16 * MIB, false, err,
					    sizeof(err)),
			 0);
	refused(path, 16 * MIB, -EBUSY, "in use by another process");
	ck_assert_int_eq(try(path, 16 * MIB, true), -EBUSY);
	ts_spill_file_close(&first);
	ck_assert_int_eq(try(path, 12 * MIB, false), 0);
	ck_assert_uint_eq(file.n_segments, 11);
}
END_TEST

START_TEST(bad_paths)
{
	char below[128];

	refused(dir, 16 * MIB, -EISDIR, "is a directory");
	snprintf(below, sizeof(below), "%s/none/spill", dir);
	refused(below, 16 * MIB, -ENOENT, "folder");
	put(other, "x", 0600);
	snprintf(below, sizeof(below), "%s/spill", other);
	refused(below, 16 * MIB, -ENOTDIR, "folder");
	refused("/dev/null", 16 * MIB, -EINVAL,
		"neither a regular file nor a block device");
	refused(path, 0, -EINVAL, "spill-size");
	refused(path, 4 * MIB, -EINVAL, "too small");
	/* None of these has left a file that is in the way. */
	ck_assert_int_eq(try(path, 16 * MIB, false), 0);
}
END_TEST

START_TEST(no_links)
{
	put(other, "", 0600);
	ck_assert_int_eq(symlink(other, path), 0);
	refused(path, 16 * MIB, -ELOOP, "symbolic link");
	ck_assert_int_eq(try(path, 16 * MIB, true), -ELOOP);
	unlink(path);
	ck_assert_int_eq(link(other, path), 0);
	refused(path, 16 * MIB, -EPERM, "hard links");
}
END_TEST

/* A foreign file is neither used nor changed, not even its mode. */
START_TEST(foreign_files)
{
	struct stat st;
	char buf[8];
	int fd;

	put(path, "mine!", 0644);
	refused(path, 16 * MIB, -EEXIST, "not a spill file");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(read(fd, buf, sizeof(buf)), 5);
	close(fd);
	ck_assert_mem_eq(buf, "mine!", 5);
	if (!geteuid()) {
		ck_assert_int_eq(chown(path, 12345, 12345), 0);
		ck_assert_int_eq(try(path, 16 * MIB, true), -EPERM);
		ck_assert_msg(strstr(err, "another user"), "%s", err);
		ck_assert_int_eq(chown(path, 0, 0), 0);
	}
	ck_assert_int_eq(try(path, 16 * MIB, true), 0);
}
END_TEST

/* --- a loop device on `other` --------------------------------------------- */
static char loop[32];
static int loop_fd = -1;

static bool loop_open(void)
{
	int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC), back, n;
	struct loop_config config = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };

	if (ctl < 0)
		return false;
	back = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(back, 0);
	ck_assert_int_eq(ftruncate(back, 32 * MIB), 0);
	config.fd = (unsigned)back;
	/* Others take free devices, too. */
	for (unsigned i = 0; i < 20 && loop_fd < 0; i++) {
		n = ioctl(ctl, LOOP_CTL_GET_FREE);
		if (n < 0)
			break;
		snprintf(loop, sizeof(loop), "/dev/loop%d", n);
		loop_fd = open(loop, O_RDWR | O_CLOEXEC);
		if (loop_fd >= 0 && ioctl(loop_fd, LOOP_CONFIGURE, &config)) {
			close(loop_fd);
			loop_fd = -1;
		}
	}
	close(back);
	close(ctl);
	if (loop_fd < 0)
		printf("no loop device here: that part is skipped\n");
	return loop_fd >= 0;
}

/* The last close takes the backing file away as well. */
static void loop_close(void)
{
	ts_spill_file_close(&file);
	close(loop_fd);
	loop_fd = -1;
}

START_TEST(block_devices)
{
	int fd;

	if (!loop_open())
		return;
	refused(loop, 64 * MIB, -ENOSPC, "has only 32 MiB");
	ck_assert_int_eq(try(loop, 0, false), 0);
	ck_assert(file.block && file.firm);
	ck_assert_uint_eq(file.n_segments, 31);
	ck_assert(ts_spill_file_can_discard(&file));
	ts_spill_file_discard(&file, 3, 2);
	ts_spill_file_close(&file);
	/* It bears our header now. By a link, as devices are named. */
	ck_assert_int_eq(symlink(loop, path), 0);
	ck_assert_int_eq(try(path, 20 * MIB, false), 0);
	ck_assert_uint_eq(file.n_segments, 19);
	ts_spill_file_close(&file);
	/* Busy: what has it open exclusively is a mount, swap or the like. */
	fd = open(loop, O_RDWR | O_EXCL | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	refused(loop, 0, -EBUSY, "mounted, used as swap");
	ck_assert_int_eq(try(loop, 0, true), -EBUSY);
	close(fd);
	loop_close();
}
END_TEST

/* The signature of a swap area, as mkswap writes it. */
START_TEST(foreign_signatures)
{
	uint32_t head[3] = { 1, 8191, 0 };

	if (!loop_open())
		return;
	ck_assert_int_eq(pwrite(loop_fd, head, sizeof(head), 1024),
			 sizeof(head));
	ck_assert_int_eq(pwrite(loop_fd, "SWAPSPACE2", 10, 4086), 10);
	ck_assert_int_eq(fsync(loop_fd), 0);
	refused(loop, 0, -EEXIST, "signature of type swap");
	ck_assert_int_eq(try(loop, 0, true), 0);
	loop_close();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("spill_file");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, makes_a_file);
	tcase_add_test(tcase, is_locked);
	tcase_add_test(tcase, bad_paths);
	tcase_add_test(tcase, no_links);
	tcase_add_test(tcase, foreign_files);
	tcase_add_test(tcase, block_devices);
	tcase_add_test(tcase, foreign_signatures);
	return run_case(tcase);
}
