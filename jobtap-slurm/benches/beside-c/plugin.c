/* The plugin `limits` of `harness`, in C: what a call costs without anything of ours. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

const char plugin_name[] = "limits in C";
const char plugin_type[] = "job_submit/c";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

extern void *slurm_xcalloc(size_t, size_t, _Bool, _Bool, const char *, int, const char *);
extern void slurm_xfree(void **);

int init(void) { return SLURM_SUCCESS; }
int fini(void) { return SLURM_SUCCESS; }

int job_submit(job_desc_msg_t *desc, uint32_t uid, char **err_msg)
{
	static uint64_t seen;
	char text[32];

	if (desc->time_limit != NO_VAL && desc->time_limit != INFINITE && desc->time_limit > 1440)
		return ESLURM_INVALID_TIME_LIMIT;
	if (desc->time_limit == NO_VAL)
		desc->time_limit = 60;
	snprintf(text, sizeof(text), "request %llu", (unsigned long long)++seen);
	slurm_xfree((void **)&desc->comment);
	desc->comment = slurm_xcalloc(1, strlen(text) + 1, 1, 0, __FILE__, __LINE__, __func__);
	strcpy(desc->comment, text);
	return SLURM_SUCCESS;
}

int job_modify(job_desc_msg_t *desc, void *record, uint32_t uid) { return SLURM_SUCCESS; }
