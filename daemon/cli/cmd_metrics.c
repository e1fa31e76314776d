// SPDX-License-Identifier: BSD-3-Clause
/* cmd_metrics.c - `thinswap metrics`: an exporter for Prometheus
 *
 * Answers GET /metrics from the statistics file. It holds nothing between
 * requests, needs no privilege, and says thinswap_up 0 where there is no
 * server.
 */
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "cli/listen.h"
#include "cli/options.h"
#include "cli/stats_out.h"

#define TIMEOUT_S       10u
#define CONNECTIONS_MAX 16u

static const char head[] =
	"Answer GET /metrics for Prometheus, until SIGTERM. Usually started\n"
	"by systemctl enable --now thinswap-metrics.socket; off by default.\n";

static const char tail[] =
	"For node_exporter's textfile collector instead, write the output of\n"
	"thinswap stats --format=prometheus to a file and rename it.\n";

struct exporter {
	const struct ts_cli *cli;
	const char *file;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code,
			      char *body, size_t bytes, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		bytes, body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result result = MHD_NO;

	if (!response) {
		free(body);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
					"GET, HEAD");
	result = MHD_queue_response(connection, code, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection,
				   unsigned code, const char *text)
{
	char *copy = strdup(text);

	return copy ? answer(connection, code, copy, strlen(copy),
			     "text/plain; charset=utf-8")
		    : MHD_NO;
}

static enum MHD_Result answer_metrics(const struct exporter *exporter,
				      struct MHD_Connection *connection)
{
	const char *accept = MHD_lookup_connection_value(
		connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	bool om = accept && strstr(accept, "application/openmetrics-text");
	struct ts_stats_source source;
	struct ts_snapshot now;
	char *body = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&body, &bytes);

	if (!out)
		return MHD_NO;
	if (ts_stats_source_open(exporter->cli, exporter->file, true,
				 &source) == TS_EXIT_OK) {
		ts_stats_source_read(&source, &now);
		ts_stats_prometheus(out, &now, om);
		ts_stats_source_close(&source);
	} else {
		ts_stats_prometheus_down(out, om);
	}
	if (fclose(out)) {
		free(body);
		return MHD_NO;
	}
	return answer(connection, MHD_HTTP_OK, body, bytes,
		      om ? "application/openmetrics-text; version=1.0.0; "
			   "charset=utf-8"
			 : "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result on_request(void *opaque,
				  struct MHD_Connection *connection,
				  const char *url, const char *method,
				  const char *version, const char *upload,
				  size_t *upload_bytes, void **state)
{
	static int seen;

	/* The first call is for the head alone; a body is not read. */
	if (*state != &seen) {
		*state = &seen;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				   "GET only\n");
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(opaque, connection);
	if (strcmp(url, "/") == 0)
		return answer_text(connection, MHD_HTTP_OK,
				   "thinswap: see /metrics\n");
	return answer_text(connection, MHD_HTTP_NOT_FOUND,
			   "there is only /metrics\n");
}

static int serve(struct exporter *exporter, int fd)
{
	struct MHD_Daemon *daemon;
	sigset_t end;
	int got;

	/* Before the server's thread starts, which inherits it. */
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	signal(SIGPIPE, SIG_IGN);
	daemon = MHD_start_daemon(
		MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL,
		on_request, exporter, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_END);
	if (!daemon) {
		fprintf(stderr, "thinswap: the HTTP server does not start\n");
		return TS_EXIT_FAILED;
	}
	sd_notify(0, "READY=1");
	sigwait(&end, &got);
	MHD_stop_daemon(daemon);
	return TS_EXIT_OK;
}

int ts_cmd_metrics(int argc, char **argv, const struct ts_cli *cli)
{
	struct exporter exporter = {.cli = cli};
	const char *where = NULL;
	const struct ts_option options[] = {
		{"listen", "WHERE",
		 "ADDRESS:PORT in numbers, or unix:/path; needed\n"
		 "unless systemd passes a socket",
		 ts_take_text, &where},
		{"file", "FILE", "of a server that was started with stats=FILE",
		 ts_take_text, &exporter.file},
		{0},
	};
	const struct ts_usage usage = {
		.synopsis = "[OPTION]...",
		.head = head,
		.options = options,
		.tail = tail,
	};
	char err[256];
	int code = ts_options_parse(argc, argv, &usage), fd;

	if (code >= 0)
		return code;
	fd = ts_listen(where, err, sizeof(err));
	if (fd < 0) {
		fprintf(stderr, "thinswap: %s\n", err);
		return where ? TS_EXIT_FAILED : TS_EXIT_USAGE;
	}
	return serve(&exporter, fd);
}
