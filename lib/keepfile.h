/* SPDX-License-Identifier: BSD-3-Clause */
/* keepfile.h - the small file that says which segment is kept
 *
 *	making KEY BOOT     a segment with that key is being made, or was
 *	SEGMENT BOOT        pages are kept in it
 *	ended SEGMENT BOOT  nobody needs it any more; it is being removed
 *
 * One line. BOOT is the kernel's boot id: numbers of another boot name
 * nothing. Each step is noted before it is done, so that a process that is
 * killed in between leaves no segment that nobody knows of, and none that is
 * missed though nothing was in it.
 */
#ifndef TS_KEEPFILE_H
#define TS_KEEPFILE_H

enum ts_keep_state {
	TS_KEEP_NOTHING,
	TS_KEEP_MAKING,
	TS_KEEP_SEGMENT,
	TS_KEEP_ENDED,
};

struct ts_keep_note {
	enum ts_keep_state state;
	int number; /* the key of TS_KEEP_MAKING, else the segment */
};

/* What is not understood, and what is of another boot, is nothing. */
struct ts_keep_note ts_keepfile_read(int fd);

/* Returns 0 or -errno. */
int ts_keepfile_write(int fd, struct ts_keep_note note);

/* The segment that the file @path says pages are kept in; -ENOENT: none. */
int ts_keepfile_segment(const char *path);

#endif
