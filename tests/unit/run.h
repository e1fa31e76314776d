/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - the main() of a unit test: run one case, print what fails
 *
 *   return run_case(tcase);   in main(), returns the exit code
 */
#ifndef TS_TESTS_UNIT_RUN_H
#define TS_TESTS_UNIT_RUN_H

#include <check.h>
#include <stdlib.h>

static inline int run_case(TCase *tcase)
{
	Suite *suite = suite_create("unit");
	SRunner *runner;
	int failed;

	/* Check's own limit of 4 s is too short for a busy machine. */
	tcase_set_timeout(tcase, 100);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
