"""
Races allreduce and the other collectives of Peal and of other MPIs on this host: see peers.sh, which compiles race.c for each
and calls this.

All candidates are there at once; for each size they take turns, three rounds after one to warm up. Each has about --budget
seconds a size, and at least nine calls.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time

import report
from cores import Cores, cores_of_host
from launch import Failed, Launch, candidates

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from steal import Steal

ROUNDS = 3
MOST_CALLS = 2000  # in one turn: MEET_CALLS of meet.h
LARGE = 1 << 22    # from here, calls are counted one by one
KINDS = ("barrier", "allgather", "reduce_scatter", "broadcast", "reduce")


class Job:
    """One collective on one size, for all candidates."""

    def __init__(self, kind, size, double=False, inplace=False, rotated=False):
        self.kind, self.bytes, self.double, self.inplace, self.rotated = kind, size, double, inplace, rotated

    def one_buffer(self):
        return self.kind == "broadcast" or (self.inplace and self.kind != "memory")

    def sets(self, n, cache):
        """Rotated buffers are more than twice the last-level cache in all."""
        if not self.rotated:
            return 1
        vectors = 1 if self.one_buffer() else 2
        return max(2, -(-(2 * cache + cache // 8) // (n * vectors * max(64, self.bytes))))

    def command(self, algo, calls, seconds, n, cache):
        """As race.c hears it."""
        return (f"{self.kind} {int(self.double)} {int(self.one_buffer())} {algo} {self.bytes} {calls} {int(seconds * 1e6)} "
                f"{self.sets(n, cache)}")


def last_level_cache():
    """Bytes of all last-level caches that the cores of this host have."""
    found = {}
    for cpu in cores_of_host():
        base, last = f"/sys/devices/system/cpu/cpu{cpu}/cache", (0, None, 0)
        for index in os.listdir(base) if os.path.isdir(base) else []:
            texts = {}
            for name in ("level", "type", "size", "shared_cpu_list"):
                try:
                    with open(os.path.join(base, index, name)) as file:
                        texts[name] = file.read().strip()
                except OSError:
                    texts[name] = ""
            if texts["type"] in ("Data", "Unified") and texts["size"].endswith("K"):
                last = max(last, (int(texts["level"]), texts["shared_cpu_list"], int(texts["size"][:-1]) << 10))
        found[last[1]] = last[2]
    return sum(found.values()) or 32 << 20


def note(trouble, text):
    trouble.append(text)
    print("peers:", text, file=sys.stderr, flush=True)


class Race:
    def __init__(self, flags, launches, trouble):
        self.flags, self.launches, self.trouble = flags, launches, trouble
        self.n, self.cache = flags.n, last_level_cache()
        self.deadline = flags.start + flags.seconds
        self.forced = {}   # Open MPI's best algorithm by (name, kind, bytes)
        self.strikes = {}  # how often an algorithm was hopeless, by (name, kind, algorithm)
        self.rows, self.missing = [], []
        self.of_host, self.shared, self.steal = Cores(), {}, {}
        self.versions = {"compiler": first_line(["gcc", "--version"]),
                         **{launch.candidate.name: launch.library for launch in launches}}
        out = flags.out or os.path.join("bench/results", report.machine_name(machine()))
        os.makedirs(out, exist_ok=True)
        self.path = os.path.join(out, f"peers-{self.n}{'-others' if flags.others else ''}.json")

    def turn(self, launch, job, algo, seconds, calls=MOST_CALLS):
        patience = 20 + seconds + self.n * job.bytes / (1 << 28)
        return launch.turn(job.command(algo, calls, seconds, self.n, self.cache), patience)

    def warm_up(self, launch, job, algo):
        return self.turn(launch, job, algo, 0, 1 if job.bytes >= LARGE else 2)

    def lose(self, launch, job, why):
        """A candidate failed: another start, three times at most."""
        name = launch.candidate.name
        self.note(f"{name}: {job.kind} {report.size_text(job.bytes)}: {why}")
        launch.failures += 1
        self.launches.remove(launch)
        if launch.failures < 3:
            try:
                launch.start()
                self.launches.append(launch)
            except Failed as failure:
                self.note(f"{name}: {failure}")

    def note(self, text):
        note(self.trouble, text)

    def try_algo(self, launch, job, algo, best):
        """A quick median of one of Open MPI's algorithms; None where it fails, or is large and no match for BEST."""
        warm = self.warm_up(launch, job, algo)
        if warm.wrong or (job.bytes >= 1 << 16 and warm.times[-1] > 4 * best):
            return None
        quick = self.turn(launch, job, algo, self.flags.budget / 4, 200)
        return None if quick.wrong else sorted(quick.times)[len(quick.times) // 2]

    def best_algo(self, launch, job):
        """The algorithm that Open MPI does best with at this size: its own choice (0), or one that is forced."""
        name = launch.candidate.name
        key = name, job.kind, job.bytes
        if key in self.forced or not launch.algos.get(job.kind):
            return self.forced.get(key, 0)
        times = {}
        for algo in range(launch.algos[job.kind] + 1):
            strike = name, job.kind, algo
            if self.strikes.get(strike, 0) >= 2:
                continue
            try:
                took = self.try_algo(launch, job, algo, min(times.values(), default=float("inf")))
            except Failed:
                self.strikes[strike] = 2
                raise
            if took is not None:
                times[algo] = took
            elif algo:
                self.strikes[strike] = self.strikes.get(strike, 0) + 1
        self.forced[key] = min(times, key=times.get) if times else 0
        return self.forced[key]

    def field(self, job):
        """Who takes part. A memory reference is the matter of one alone."""
        if job.kind == "memory":
            return [min(self.launches, key=lambda launch: launch.candidate.mem != "ordinary")]
        return list(self.launches)

    def run(self, job, budget):
        """All candidates, in turns; one that fails has no row."""
        field = self.field(job)
        algos, wrong, found = {}, {}, {launch: [] for launch in field}
        for turn in range(ROUNDS + 1):
            for launch in field[turn:] + field[:turn]:
                if launch not in found:
                    continue
                try:
                    if turn == 0:
                        algos[launch] = self.best_algo(launch, job)
                        wrong[launch] = self.warm_up(launch, job, algos[launch]).wrong
                    else:
                        found[launch].append(self.turn(launch, job, algos[launch], budget / ROUNDS))
                except Failed as failure:
                    del found[launch]
                    self.lose(launch, job, failure)
        for launch, answers in found.items():
            wrong[launch] += sum(answer.wrong for answer in answers)
            self.rows.append(self.row(launch.candidate, job, algos[launch], answers, wrong[launch]))

    def row(self, candidate, job, algo, answers, wrong):
        times = sorted(time for answer in answers for time in answer.times)
        if job.kind == "memory":
            candidate = candidate._replace(name="memory", impl="memory", mem="ordinary")
        if wrong:
            self.note(f"{candidate.name}: {job.kind} {report.size_text(job.bytes)}: {wrong} runs of elements are wrong")
        chosen = answers[-1].choice
        variant = chosen if chosen != "-" else f"algorithm {algo}" if algo else None
        median = times[len(times) // 2]
        algbw = job.bytes / median / 1e3
        return {
            "run": self.flags.run, "collective": job.kind, "bytes": job.bytes, "type": "double" if job.double else "float",
            "op": "max" if job.double else "sum", "nranks": self.n, "mem": candidate.mem,
            "buffers": "rotated" if job.rotated else "reused", "mode": "eager", "inplace": job.inplace, "transport": None,
            "impl": candidate.impl, "way": candidate.way, "variant": variant, "chosen": True, "samples": len(times),
            "min_us": times[0], "median_us": median, "p99_us": times[len(times) * 99 // 100], "algbw": round(algbw, 4),
            "busbw": round(algbw * report.bus_factor(job.kind, self.n), 4), "predicted_us": None, "verified": wrong == 0,
        }

    def sweep(self, kind, sizes, budget, **shape):
        """One table: all sizes of a collective, as far as the time goes."""
        last, first_row, left = 0, len(self.rows), []
        shared, steal = set(self.of_host.shared()), Steal()
        for size in sizes:
            now = time.time()
            if now + (4.2 * last if size >= 1 << 20 else 0) > self.deadline or not self.launches:
                left.append(report.size_text(size))
                continue
            self.run(Job(kind, size, **shape), budget)
            if kind == "allreduce" and size >= 1 << 20 and self.launches:
                self.run(Job("memory", size, **shape), budget)
            last = time.time() - now
        if left:
            self.missing.append(f"{kind} {report.shape_text(shape)}: {' '.join(left)}")
        stolen = steal.share()
        shared |= set(self.of_host.shared())
        if len(self.rows) > first_row:
            if shared:
                print("\ncores that were slower when all worked than alone:", *sorted(shared))
            if stolen >= 0.005:
                print(f"\nsteal {100 * stolen:.1f} %: so much of the cores' time the host of this virtual machine kept back")
            self.shared[f"{kind} {report.shape_text(shape)}"] = sorted(shared)
            self.steal[f"{kind} {report.shape_text(shape)}"] = stolen
            print(report.table(self.rows[first_row:]), flush=True)
        self.save()

    def save(self):
        """All that is known so far, for whatever may happen yet."""
        head = {"machine": machine(), "versions": self.versions, "commit": first_line(["git", "describe", "--always", "--dirty=+"])
                or "no commit", "shared_cores": self.shared, "steal": self.steal, "trouble": self.trouble, "missing": self.missing,
                "acceptance": report.acceptance(self.rows)}
        with open(self.path, "w") as file:
            file.write(json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n')
            file.write(",\n".join(json.dumps(row) for row in self.rows) + "\n]}\n")


def plan(race, sizes):
    """The tables, the most important first."""
    budget = race.flags.budget
    first = ([8] if sizes[0] <= 16 else []) + sizes
    race.sweep("allreduce", first, budget)
    race.sweep("allreduce", sizes, budget, rotated=True)
    if race.flags.quick:
        return
    for shape in ({"inplace": True}, {"double": True}, {"double": True, "inplace": True}):
        race.sweep("allreduce", sizes, budget, **shape)
        race.sweep("allreduce", sizes, budget, rotated=True, **shape)
    plan_others(race, sizes)


def plan_others(race, sizes):
    for kind in KINDS:
        least = 4 * race.n if kind in ("allgather", "reduce_scatter") else 0
        race.sweep(kind, [0] if kind == "barrier" else [size for size in sizes if size >= least], race.flags.budget / 2)


def bytes_of(text):
    scale = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    return int(text[:-1]) << scale if scale else int(text)


def sizes_of(text):
    first, _, last = text.partition(":")
    size, sizes = bytes_of(first), []
    while 0 < size <= bytes_of(last or first):
        sizes.append(size)
        size *= 4
    if not sizes:
        raise ValueError
    return sizes


def above_0(number):
    def read(text):
        value = number(text)
        if not value > 0:
            raise ValueError
        return value
    read.__name__ = number.__name__ + " above 0"
    return read


def arguments():
    parser = argparse.ArgumentParser(prog="peers.sh run", epilog="--build DIR: a build of Peal, which is made where there is none "
                                     "(build); --peers DIR/peers.tar.xz, or where it was unpacked: the other MPIs")
    parser.add_argument("-n", type=above_0(int), required=True, metavar="RANKS")
    parser.add_argument("--only", default="", metavar="NAME,...", help="candidates whose names begin so: peal,intel")
    parser.add_argument("--sizes", type=sizes_of, default=sizes_of("16:64M"), metavar="A:B", help="by 4; 16:64M")
    parser.add_argument("--quick", action="store_true", help="float sum out of place, against intel and mpich; two minutes")
    parser.add_argument("--others", action="store_true", help="the other collectives alone")
    parser.add_argument("--seconds", type=above_0(float), help="for everything; 480, with --quick 120")
    parser.add_argument("--budget", type=above_0(float), default=0.06, metavar="SECONDS", help="for a candidate and a size; 0.06")
    parser.add_argument("--out", metavar="DIR", help="for the results; bench/results/<machine>")
    for name in ("--programs", "--mpis", "--build", "--work", "--start"):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # the flags, before a build
    flags = parser.parse_args()
    flags.start = float(flags.start)
    flags.seconds = flags.seconds or (120 if flags.quick else 480)
    flags.only = flags.only or ("peal,intel,mpich" if flags.quick else "")
    flags.run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(flags.start))
    return flags


def begin(flags, launches, trouble):
    for candidate in candidates(flags.n, flags.programs, flags.mpis, flags.build):
        if not candidate.name.startswith(tuple(flags.only.split(","))):
            continue
        try:
            launches.append(Launch(candidate, flags.n, flags.programs, flags.work))
            print(f"{candidate.name}: {launches[-1].library}", flush=True)
        except Failed as failure:
            note(trouble, f"{candidate.name}: {failure}")
            continue
        if launches[-1].cores != launches[0].cores:
            note(trouble, f"the ranks of {candidate.name} are not on the cores of {launches[0].candidate.name}")


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return None


def machine():
    with open("/proc/cpuinfo") as file:
        models = [line.split(": ", 1)[1].strip() for line in file if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "kernel": f"{platform.system()} {platform.release()}", "last_level_cache_bytes": last_level_cache()}


def finish(race):
    for launch in race.launches:
        launch.stop()
        if launch.candidate.way == "interposer":
            for text in launch.passed_on():
                race.note(f"{launch.candidate.name}: {text}")
    race.save()
    print(report.verdicts(race.rows))
    for text in race.missing:
        print("not measured for want of time:", text)
    for text in race.trouble:
        print("trouble:", text)
    print(f"written: {race.path}, {time.time() - race.flags.start:.0f} s after the start")


def main():
    flags = arguments()
    if flags.check:
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("peers: stopped"))
    launches, trouble = [], []
    try:
        begin(flags, launches, trouble)
        if not launches:
            sys.exit("peers: no candidate is there")
        race = Race(flags, launches, trouble)
        (plan_others if flags.others else plan)(race, flags.sizes)
        finish(race)
    finally:
        for launch in launches:
            launch.kill()
    sys.exit(1 if race.trouble else 0)


if __name__ == "__main__":
    main()
