// SPDX-License-Identifier: BSD-3-Clause
/* segment.c - the kept segment: who may have it, and what becomes of it
 *
 * A build with another layout, or other sizes, is refused in a sentence and
 * changes no byte; the one that fits goes on. While a server lives no other
 * gets its memory. Nobody but its user may look into it, and it is not in a
 * core dump. A segment that is gone is not replaced by an empty one, one of
 * another boot is forgotten, and a clean stop leaves nothing.
 */
#include "tests/common/model.h"
#include "fsck.h"
#include "keepfile.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define SLOTS	1500u
#define MARKERS 8u
#define OTHERS	4000u

static char dir[200], keep_path[256];

static int try_open(uint64_t size_bytes, uint64_t ram_bytes,
		    struct ts_store **ret, char *why, size_t why_bytes)
{
	struct ts_params params;
	int err;

	ts_params_init(&params);
	params.size_bytes = size_bytes;
	params.ram_bytes = ram_bytes;
	params.dictionary = false;
	params.keep_path = keep_path;
	if (ts_params_finish(&params, why, why_bytes))
		rig_die("parameters: %s", why);
	err = ts_store_new(&params, ret, why, why_bytes);
	if (!err && ts_store_start(*ret))
		rig_die("the store does not start");
	return err;
}

static struct ts_store *open_store(void)
{
	struct ts_store *store;
	char why[512];

	if (try_open(64 * MIB, 16 * MIB, &store, why, sizeof(why)))
		rig_die("%s", why);
	return store;
}

static void write_all(struct ts_store *store, uint64_t seed)
{
	uint8_t page[PAGE_BYTES];

	for (uint64_t slot = 0; slot < SLOTS; slot++) {
		page_make(page, (enum page_kind)(slot % PAGE_KINDS),
			  seed + slot);
		if (ts_store_write(store, page, sizeof(page), slot * 4096))
			rig_die("write");
	}
}

static void read_all(struct ts_store *store, uint64_t seed)
{
	uint8_t page[PAGE_BYTES], want[PAGE_BYTES];

	for (uint64_t slot = 0; slot < SLOTS; slot++) {
		page_make(want, (enum page_kind)(slot % PAGE_KINDS),
			  seed + slot);
		if (ts_store_read(store, page, sizeof(page), slot * 4096) ||
		    memcmp(page, want, sizeof(page)))
			rig_die("slot %" PRIu64 " is not what was written",
				slot);
	}
}

static pid_t in_child(void (*fn)(void))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		fn();
		_exit(0);
	}
	return pid;
}

static void wait_for(pid_t pid, bool killed)
{
	int status;

	if (waitpid(pid, &status, 0) != pid ||
	    (killed ? !WIFSIGNALED(status) : status != 0))
		rig_die("a child ended with status %#x", status);
}

static void fill_and_die(void)
{
	write_all(open_store(), 1);
	kill(getpid(), SIGKILL);
}

static int segment(void)
{
	int id = ts_keepfile_segment(keep_path);

	if (id < 0)
		rig_die("no segment is named");
	return id;
}

/* Of all that is in it. */
static uint64_t hash_segment(void)
{
	struct shmid_ds ds;
	uint64_t hash;
	void *base;

	if (shmctl(segment(), IPC_STAT, &ds) || ds.shm_nattch)
		rig_die("the segment is in use");
	base = shmat(segment(), NULL, SHM_RDONLY);
	if (base == (void *)-1)
		rig_die("shmat");
	hash = XXH3_64bits(base, ds.shm_segsz);
	shmdt(base);
	return hash;
}

static void change_fingerprint(void)
{
	struct ts_kept_head *head = shmat(segment(), NULL, 0);

	if (head == (void *)-1)
		rig_die("shmat");
	head->fingerprint ^= 1;
	shmdt(head);
}

static void expect_refusal(uint64_t size_bytes, uint64_t ram_bytes, int error,
			   const char *text)
{
	uint64_t before = hash_segment();
	struct ts_store *store;
	char why[512] = "";
	int err = try_open(size_bytes, ram_bytes, &store, why, sizeof(why));

	if (err != error || !strstr(why, text))
		rig_die("refused with %d, \"%s\", not %d, \"%s\"", err, why,
			error, text);
	printf("refused: %s\n", why);
	if (hash_segment() != before)
		rig_die("a refusal has changed the memory");
}

static void other_layouts(void)
{
	struct ts_peek peek;
	struct ts_store *store;
	char why[256];

	wait_for(in_child(fill_and_die), true);
	change_fingerprint();
	expect_refusal(64 * MIB, 16 * MIB, -EPROTO, "another version");
	if (ts_peek_open(&peek, segment(), why, sizeof(why)) != -EPROTO)
		rig_die("who looks from outside does not mind the layout");
	change_fingerprint();
	expect_refusal(128 * MIB, 16 * MIB, -EINVAL, "the same sizes");
	expect_refusal(64 * MIB, 512 * MIB, -EINVAL, "the same sizes");
	store = open_store();
	if (!store->core.kept.adopted)
		rig_die("the pages are not taken over");
	read_all(store, 1);
	ts_store_free(store);
	if (!access(keep_path, F_OK))
		rig_die("a clean stop leaves the file");
}

/* While one serves, another one is refused, and the first goes on. */
static void second_server(void)
{
	struct ts_store *store;
	char why[512];

	if (try_open(64 * MIB, 16 * MIB, &store, why, sizeof(why)) != -EBUSY)
		rig_die("two servers of one memory");
	printf("refused: %s\n", why);
}

static void live_server(void)
{
	struct ts_store *store = open_store();
	struct shmid_ds ds;
	struct stat st;
	int id = segment();

	write_all(store, 2);
	wait_for(in_child(second_server), false);
	read_all(store, 2);
	if (shmctl(id, IPC_STAT, &ds) || (ds.shm_perm.mode & 0777) != 0600)
		rig_die("the segment's mode is %o", ds.shm_perm.mode & 0777);
	if (stat(keep_path, &st) || (st.st_mode & 07777) != 0600)
		rig_die("the file's mode is %o", st.st_mode & 07777);
	ts_store_free(store);
	if (!shmctl(id, IPC_STAT, &ds))
		rig_die("a clean stop leaves the segment");
}

static void bad_files(void)
{
	struct ts_store *store;
	char why[512];
	int fd;

	/* Gone: the pages are lost, and nothing pretends otherwise. */
	wait_for(in_child(fill_and_die), true);
	ts_shm_remove(segment());
	if (try_open(64 * MIB, 16 * MIB, &store, why, sizeof(why)) >= 0 ||
	    !strstr(why, "is gone"))
		rig_die("lost pages are not missed: %s", why);
	printf("refused: %s\n", why);

	/* Of another boot: it names nothing. */
	fd = open(keep_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 ||
	    dprintf(fd, "7 00000000-0000-0000-0000-000000000000\n") < 0)
		rig_die("cannot write the file");
	close(fd);
	ts_store_free(open_store());

	/* Others could have put a name into it. */
	fd = open(keep_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644))
		rig_die("cannot make the file");
	close(fd);
	if (try_open(64 * MIB, 16 * MIB, &store, why, sizeof(why)) != -EPERM)
		rig_die("a file that others can read is taken");
	unlink(keep_path);
	if (symlink("elsewhere", keep_path))
		rig_die("symlink");
	if (try_open(64 * MIB, 16 * MIB, &store, why, sizeof(why)) != -ELOOP)
		rig_die("a symbolic link is followed");
	unlink(keep_path);
}

/* What was being made or removed is found by its file, and removed. */
static void remains(enum ts_keep_state state)
{
	int key = 0x4b000001 + getpid(), fd, id;
	struct shmid_ds ds;
	struct ts_shm shm;

	if (ts_shm_new(&shm, 1 << 20, key))
		rig_die("no segment");
	id = shm.id;
	ts_shm_free(&shm);
	fd = open(keep_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 ||
	    ts_keepfile_write(fd, (struct ts_keep_note){
					  state, state == TS_KEEP_MAKING ?
							 key : id }))
		rig_die("cannot write the file");
	close(fd);
	if (state == TS_KEEP_ENDED)
		ts_kept_forget(keep_path);
	else
		ts_store_free(open_store());
	if (!shmctl(id, IPC_STAT, &ds) || !access(keep_path, F_OK))
		rig_die("the remains of state %d are left", state);
}

/* Pages that are nowhere but in the segment, and a core dump. */
static bool dumpable;

static void marker(uint8_t *page, unsigned i)
{
	page_make(page, PAGE_RANDOM, 77000 + i);
}

static void dump_core(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct ts_store *store = open_store();
	uint8_t page[PAGE_BYTES];

	for (unsigned i = 0; i < MARKERS; i++) {
		marker(page, i);
		ts_store_write(store, page, sizeof(page), i * 4096ull);
	}
	/* What passed through buffers has been overwritten since. */
	for (unsigned i = 0; i < OTHERS; i++) {
		page_make(page, i % 2 ? PAGE_RANDOM : PAGE_NEAR, i);
		ts_store_write(store, page, sizeof(page),
			       (MARKERS + i % 1000) * 4096ull);
	}
	if (dumpable)
		madvise(store->core.kept.shm.base, store->core.kept.shm.bytes,
			MADV_DODUMP);
	if (chdir(dir) || setrlimit(RLIMIT_CORE, &all))
		_exit(1);
	abort();
}

/* How many of the markers are in the core; -1: there is no core. */
static int markers_in_core(void)
{
	uint8_t page[PAGE_BYTES];
	int fd, found = 0;
	char path[256];
	struct stat st;
	void *core;

	wait_for(in_child(dump_core), true);
	snprintf(path, sizeof(path), "%s/core", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -1;
	core = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (core == MAP_FAILED)
		rig_die("cannot read the core");
	for (unsigned i = 0; i < MARKERS; i++) {
		marker(page, i);
		found += memmem(core, (size_t)st.st_size, page + 512, 64) !=
			 NULL;
	}
	munmap(core, (size_t)st.st_size);
	close(fd);
	unlink(path);
	ts_shm_remove(segment());
	unlink(keep_path);
	return found;
}

static bool cores_come_here(void)
{
	FILE *f = fopen("/proc/sys/kernel/core_pattern", "re");
	char pattern[64] = "", uses[64] = "";
	bool plain = f && fgets(pattern, sizeof(pattern), f) &&
		     !strcmp(pattern, "core\n");

	if (f)
		fclose(f);
	f = fopen("/proc/sys/kernel/core_uses_pid", "re");
	plain &= f && fgets(uses, sizeof(uses), f) && uses[0] == '0';
	if (f)
		fclose(f);
	return plain && !rig_is_instrumented();
}

static void core_dumps(void)
{
	int found;

	if (!cores_come_here()) {
		puts("cores of this machine or build are not looked at");
		return;
	}
	found = markers_in_core();
	if (found)
		rig_die("%d pages are in the core", found);
	dumpable = true;
	found = markers_in_core();
	if (found != (int)MARKERS)
		rig_die("even so only %d pages are in the core", found);
	puts("no page is in a core dump");
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%.150s/ts-segment.XXXXXX",
		 tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		rig_die("no folder");
	snprintf(keep_path, sizeof(keep_path), "%s/keep", dir);
	other_layouts();
	live_server();
	bad_files();
	remains(TS_KEEP_MAKING);
	remains(TS_KEEP_ENDED);
	core_dumps();
	rmdir(dir);
	return EXIT_SUCCESS;
}
