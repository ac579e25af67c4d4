"""EASY backfill as a second opinion on `jobtap simulate`: the figures of a trace, computed by a script that shares no
code with the engine. It reads SWF, gives each job its run time as its limit, and reserves for the first waiting job
either the very cores that it will get, as jobtap does, or only their number.

    python3 tests/easy.py TRACE.swf.gz            # both, with all waiting jobs considered
    python3 tests/easy.py TRACE.swf.gz 256        # as jobtap: the 256 jobs behind the first one
"""

import gzip
import heapq
import sys


def read(path):
    """The jobs as (submission, run time, cores), and the cores of the machine."""
    jobs, header = [], {}
    for line in gzip.open(path, "rt"):
        if line.startswith(";"):
            key, _, value = line[1:].partition(":")
            header[key.strip()] = value.split()
            continue
        fields = [float(field) for field in line.split()]
        cores = int(fields[7] if fields[7] > 0 else fields[4])
        jobs.append((fields[1], fields[3], cores))
    jobs.sort(key=lambda job: job[0])
    return jobs, int((header.get("MaxProcs") or header["MaxNodes"])[0])


def starts(jobs, cores, depth, by_number):
    """When each job starts. `depth` is how many jobs behind the first one are considered."""
    free, held, start, waiting, running, place = set(range(cores)), {}, [None] * len(jobs), [], [], 0
    reserved = None

    def limit(job):
        return start[job] + max(jobs[job][1], 1.0)

    def begin(job, now, without=frozenset()):
        usable = sorted(free - without)[: jobs[job][2]]
        if len(usable) < jobs[job][2]:
            return False
        free.difference_update(usable)
        held[job], start[job] = usable, now
        heapq.heappush(running, (now + jobs[job][1], job))
        return True

    def reservation(job):
        """The first job, when it has its cores, which these are, and how many more are free then."""
        later = set(free)
        for end, ended in sorted((limit(other), other) for _, other in running):
            later.update(held[ended])
            if len(later) >= jobs[job][2]:
                return [job, end, frozenset(sorted(later)[: jobs[job][2]]), len(later) - jobs[job][2]]

    def turn(now):
        nonlocal reserved
        while waiting and begin(waiting[0], now):
            waiting.pop(0)
        if not waiting or not free:
            return
        if reserved is None or reserved[0] != waiting[0]:
            reserved = reservation(waiting[0])
        for job in waiting[1 : depth + 1]:
            needed = jobs[job][2]
            if needed > len(free):
                continue
            if now + max(jobs[job][1], 1.0) <= reserved[1]:
                begun = begin(job, now)
            elif by_number:
                begun = needed <= reserved[3] and begin(job, now)
                reserved[3] -= needed if begun else 0
            else:
                begun = begin(job, now, reserved[2])
            if begun:
                waiting.remove(job)

    while place < len(jobs) or running:
        if running and (place == len(jobs) or running[0][0] <= jobs[place][0]):
            now, job = heapq.heappop(running)
            free.update(held.pop(job))
            reserved = None
        else:
            now = jobs[place][0]
            waiting.append(place)
            place += 1
        turn(now)
    return start


def figures(jobs, cores, start):
    def median(values):
        return sorted(values)[(len(values) + 1) // 2 - 1]

    waits = [begun - job[0] for begun, job in zip(start, jobs)]
    slowdowns = [max(1.0, (wait + job[1]) / max(job[1], 10.0)) for wait, job in zip(waits, jobs)]
    span = max(begun + job[1] for begun, job in zip(start, jobs)) - jobs[0][0]
    used = sum(job[1] * job[2] for job in jobs) / (cores * span)
    return (
        f"wait: mean {sum(waits) / len(waits):.1f} s, median {median(waits):.1f} s; "
        f"bounded slowdown: mean {sum(slowdowns) / len(slowdowns):.2f}, median {median(slowdowns):.2f}; "
        f"utilisation {used:.2%}; makespan {span / 86400:.2f} d"
    )


if __name__ == "__main__":
    all_jobs, machine = read(sys.argv[1])
    considered = int(sys.argv[2]) if len(sys.argv) > 2 else len(all_jobs)
    print("the very cores:  ", figures(all_jobs, machine, starts(all_jobs, machine, considered, False)))
    print("only their number:", figures(all_jobs, machine, starts(all_jobs, machine, considered, True)))
