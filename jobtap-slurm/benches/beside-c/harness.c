/* Calls `job_submit` of plugins as slurmctld does, and prints what a call takes.
 * harness CALLS VARIABLES FILE.so... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <slurm/slurm.h>

typedef int (*submit_t)(job_desc_msg_t *, uint32_t, char **);
static void (*init_desc)(job_desc_msg_t *);
static void *(*xcalloc)(size_t, size_t, _Bool, _Bool, const char *, int, const char *);
static void (*xfree)(void **);

static char *copy(const char *text)
{
	char *new = xcalloc(1, strlen(text) + 1, 1, 0, "harness", 0, "copy");
	return strcpy(new, text);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(double *)a, y = *(double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int calls = atoi(argv[1]), variables = atoi(argv[2]);
	double *took = calloc(calls, sizeof(double));
	void *slurm = dlopen(SLURMFULL, RTLD_LAZY | RTLD_GLOBAL);
	if (!slurm) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	init_desc = dlsym(slurm, "slurm_init_job_desc_msg");
	xcalloc = dlsym(slurm, "slurm_xcalloc");
	xfree = dlsym(slurm, "slurm_xfree");
	job_desc_msg_t desc;
	init_desc(&desc);
	desc.name = copy("solve");
	desc.account = copy("physics");
	desc.partition = copy("batch");
	desc.work_dir = copy("/home/user/project");
	desc.std_out = copy("/home/user/project/slurm-%j.out");
	desc.script = copy("#!/bin/bash\nsrun ./solve --mesh fine\n");
	desc.num_tasks = 64;
	desc.min_nodes = desc.max_nodes = 2;
	desc.user_id = 0;
	desc.environment = xcalloc(variables + 1, sizeof(char *), 1, 0, "harness", 0, "main");
	desc.env_size = variables;
	for (int i = 0; i < variables; i++) {
		char text[80];
		snprintf(text, sizeof(text), "VARIABLE_%d=/a/value/that/is/as/long/as/many", i);
		desc.environment[i] = copy(text);
	}
	for (int file = 3; file < argc; file++) {
		void *plugin = dlopen(argv[file], RTLD_LAZY);
		int (*init)(void) = plugin ? dlsym(plugin, "init") : NULL;
		submit_t submit = plugin ? dlsym(plugin, "job_submit") : NULL;
		if (!submit || init() != 0) {
			fprintf(stderr, "%s: %s\n", argv[file], plugin ? "init" : dlerror());
			return 1;
		}
		for (int call = -calls / 10; call < calls; call++) {
			char *message = NULL;
			desc.time_limit = NO_VAL;
			double begin = now();
			int code = submit(&desc, 0, &message);
			if (call >= 0)
				took[call] = now() - begin;
			if (code || !desc.comment || strncmp(desc.comment, "request ", 8)) {
				fprintf(stderr, "%s: %d, %s\n", argv[file], code, message);
				return 1;
			}
			xfree((void **)&message);
		}
		qsort(took, calls, sizeof(double), ascending);
		printf("%s: median %.2f us, 99 %% %.2f us\n", argv[file], took[calls / 2],
		       took[calls * 99 / 100]);
	}
	return 0;
}
