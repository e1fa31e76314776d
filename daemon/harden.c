// SPDX-License-Identifier: BSD-3-Clause
/* harden.c - what was done against swapping out the swap server, as a table
 *
 * Nothing is believed because a call returned 0: rows for processes come from
 * /proc, also for the daemon itself.
 *
 * Real-time: guests of 256 and 384 MiB showed that both are needed. The flag
 * keeps a server from waiting for what waits for it; the class lets it have
 * the little memory that an answer takes when there is less than the kernel's
 * minimum. The plugin leaves the class while it compresses.
 */
#include "harden.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "util/harden.h"
#include "util/size.h"

/* Locked beside the budget: code, stacks, buffers, contexts. */
#define LOCKED_BESIDE_BUDGET_BYTES (64ull << 20)

static const char risk_lock[] =
	"its own memory can be swapped out, to itself: a deadlock";
static const char risk_flusher[] =
	"its allocations can wait for write-back that waits for it";
static const char risk_oom[] =
	"the OOM killer can choose it, and all that is swapped out is lost";

void ts_harden_add(struct ts_harden_table *table, const char *who,
		   const char *step, const char *wanted, const char *lacks,
		   const char *risk, const char *found_format, ...)
{
	struct ts_harden_row *row;
	va_list args;

	if (table->n == TS_HARDEN_ROWS)
		return;
	row = &table->rows[table->n++];
	*row = (struct ts_harden_row){ .step = step, .had = !lacks,
				       .lacks = lacks,
				       .risk = lacks ? risk : NULL };
	snprintf(row->who, sizeof(row->who), "%s", who);
	snprintf(row->wanted, sizeof(row->wanted), "%s", wanted);
	va_start(args, found_format);
	vsnprintf(row->found, sizeof(row->found), found_format, args);
	va_end(args);
}

static void check_memlock(const struct ts_config *config,
			  struct ts_harden_table *table)
{
	uint64_t need = config->ram.budget_bytes + LOCKED_BESIDE_BUDGET_BYTES;
	char need_text[TS_SIZE_TEXT_BYTES], limit_text[TS_SIZE_TEXT_BYTES];
	char wanted[40];
	uint64_t limit;
	int err = ts_harden_memlock_limit(need, &limit);

	snprintf(wanted, sizeof(wanted), "%s or more",
		 ts_size_format(need, need_text, sizeof(need_text)));
	ts_harden_add(table, "thinswapd", "limit of locked memory", wanted,
		      err == 0 ? NULL : "CAP_IPC_LOCK, or "
					"RLIMIT_MEMLOCK (LimitMEMLOCK=infinity)",
		      risk_lock, "%s",
		      limit == UINT64_MAX ? "none" :
		      ts_size_format(limit, limit_text, sizeof(limit_text)));
}

void ts_harden_self(const struct ts_config *config,
		    struct ts_harden_table *table)
{
	uint64_t code_bytes = 0;
	int err;

	check_memlock(config, table);
	/* Errors show up when ts_harden_check_process() reads back. */
	ts_harden_oom_score_adj(-1000);
	ts_harden_io_flusher(true);
	ts_harden_lock_memory();
	err = ts_harden_populate_code(&code_bytes);
	ts_harden_add(table, "thinswapd", "code in memory", "all mapped files",
		      err == 0 ? NULL : "Linux 5.14 (MADV_POPULATE_READ)",
		      "code that runs for the first time is read from disk",
		      "%" PRIu64 " KiB", code_bytes / 1024);
}

bool ts_harden_wants_realtime(const struct ts_config *config,
			      bool serves_socket)
{
	return serves_socket && config->tuning.realtime != TS_REALTIME_NEVER;
}

void ts_harden_check_realtime(const char *who, pid_t pid, bool wanted,
			      struct ts_harden_table *table)
{
	struct ts_harden_facts facts;
	const char *lacks = NULL, *risk;

	if (ts_harden_observe(pid, &facts) < 0)
		return;
	if (wanted && facts.threads_realtime == 0)
		lacks = "CAP_SYS_NICE";
	if (!wanted && facts.threads_realtime > 0)
		lacks = "a parent outside the real-time class";
	risk = wanted ? "its answers wait for memory like anyone" :
			"it can take the processor from everyone";
	ts_harden_add(table, who, "real-time class",
		      wanted ? "threads that serve" : "none", lacks, risk,
		      "%u of %u threads", facts.threads_realtime,
		      facts.threads);
}

void ts_harden_check_process(const char *who, pid_t pid,
			     struct ts_harden_table *table)
{
	struct ts_harden_facts facts;
	bool had;

	if (ts_harden_observe(pid, &facts) < 0) {
		ts_harden_add(table, who, "process", "alive", "the process",
			      "nothing is served", "gone");
		return;
	}
	/* The store's shared memory has a lock of its own, which VmLck does
	 * not count.
	 */
	had = facts.locked_bytes + facts.anon_shm_bytes >= facts.rss_bytes &&
	      facts.locked_bytes > 0;
	ts_harden_add(table, who, "memory lock", "everything resident",
		      had ? NULL : "a lock that it takes itself (CAP_IPC_LOCK)",
		      risk_lock, "%" PRIu64 " KiB locked, %" PRIu64
		      " KiB resident", facts.locked_bytes / 1024,
		      facts.rss_bytes / 1024);
	had = facts.swapped_bytes == 0;
	ts_harden_add(table, who, "own pages in swap", "0",
		      had ? NULL : "a lock from its start", risk_lock,
		      "%" PRIu64 " KiB", facts.swapped_bytes / 1024);
	had = facts.threads_flusher == facts.threads;
	ts_harden_add(table, who, "I/O flusher flag", "every thread",
		      had ? NULL : "CAP_SYS_RESOURCE", risk_flusher,
		      "%u of %u threads", facts.threads_flusher,
		      facts.threads);
	had = facts.oom_score_adj == -1000;
	ts_harden_add(table, who, "oom_score_adj", "-1000",
		      had ? NULL : "CAP_SYS_RESOURCE", risk_oom, "%d",
		      facts.oom_score_adj);
}

/* One warning for all processes that lack the same thing for the same step. */
static void warn_once(const struct ts_harden_table *table, unsigned at)
{
	const struct ts_harden_row *row = &table->rows[at];
	char who[160] = "";

	for (unsigned i = 0; i < table->n; i++) {
		const struct ts_harden_row *other = &table->rows[i];

		if (other->had || strcmp(other->step, row->step) != 0 ||
		    strcmp(other->lacks, row->lacks) != 0)
			continue;
		if (i < at)
			return; /* said there */
		if (who[0])
			strncat(who, ", ", sizeof(who) - strlen(who) - 1);
		strncat(who, other->who, sizeof(who) - strlen(who) - 1);
	}
	ts_log(LOG_WARNING, "%s (%s): missing %s; at risk: %s", row->step, who,
	       row->lacks, row->risk);
}

unsigned ts_harden_missing(const struct ts_harden_table *table)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < table->n; i++)
		missing += !table->rows[i].had;
	return missing;
}

int ts_harden_judge(const struct ts_harden_table *table, bool strict,
		    struct ts_error *error)
{
	const struct ts_harden_row *first = NULL;
	unsigned missing = 0;

	ts_log(LOG_INFO, "%-9s  %-22s  %-27s  %-39s  %s", "process", "step",
	       "wanted", "found", "had");
	for (unsigned i = 0; i < table->n; i++) {
		const struct ts_harden_row *row = &table->rows[i];

		ts_log(LOG_INFO, "%-9s  %-22s  %-27s  %-39s  %s", row->who,
		       row->step, row->wanted, row->found,
		       row->had ? "yes" : "NO");
		if (row->had)
			continue;
		missing++;
		if (!first)
			first = row;
	}
	for (unsigned i = 0; i < table->n; i++)
		if (!table->rows[i].had)
			warn_once(table, i);
	if (!strict || !first)
		return 0;
	return ts_fail(error, -EPERM,
		       "strict = true, and %u hardening step%s not had, first: "
		       "%s: %s: missing %s", missing,
		       missing == 1 ? " was" : "s were", first->who,
		       first->step, first->lacks);
}
