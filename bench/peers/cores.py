"""
The cores of this host, and which of them are slower when all work than alone. The cores of a virtual machine may be hardware
threads, of which its host runs two on one core, and others a moment later: ranks there take up to 2.5 times as long, and a
collective as long as its slowest rank. On 16 cores of Xeon none to six of them did so, and the same allreduce of 1 MiB took 350 or
475 us from one start to the next.
"""

import os
import time

SECONDS = 0.01
SHARED = 0.75  # of its speed alone: two threads of a core have 0.5 to 0.65, and a core whose clock goes down for all 0.85 or more


def cores_of_host():
    """One hardware thread of each core that this process may use."""
    mine, cores = sorted(os.sched_getaffinity(0)), []
    for cpu in mine:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                first = int(file.read().replace("-", ",").split(",")[0])
        except OSError:
            first = cpu
        if first == cpu or first not in mine:
            cores.append(cpu)
    return cores


def count(core, start):
    """How far a loop comes on CORE in SECONDS."""
    os.sched_setaffinity(0, [core])
    turns, now = 0, 0
    while now < start:
        now = time.monotonic()
    while now < start + SECONDS:
        now = time.monotonic()
        turns += 1
    return turns


def speeds(cores):
    """What all of CORES count, one process on each, at the same time."""
    start, pipes, found = time.monotonic() + 0.01 + 0.001 * len(cores), [], []
    for core in cores:
        mine, its = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(its, str(count(core, start)).encode())
            finally:
                os._exit(0)
        os.close(its)
        pipes.append((mine, child))
    for mine, child in pipes:
        found.append(int(os.read(mine, 32) or 0))
        os.close(mine)
        os.waitpid(child, 0)
    return found


class Cores:
    def __init__(self):
        self.cores = cores_of_host()
        self.alone = [max(speeds([core])[0] for _ in range(2)) for core in self.cores]

    def shared(self):
        """Those that are not all their own now."""
        together = [max(pair) for pair in zip(speeds(self.cores), speeds(self.cores))]
        return [core for core, alone, now in zip(self.cores, self.alone, together) if now < SHARED * alone]
