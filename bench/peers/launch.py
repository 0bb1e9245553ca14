"""The candidates of a race, each started once by its own launcher, and asleep until it is told what to run."""

import os
import select
import signal
import socket
import subprocess
import time
from collections import namedtuple

from cores import cores_of_host

START_S = 60
PLACE_BYTES = 16384  # at least what meet.c takes for a rank

# impl: whose collectives; way: "mpi" its own, "interposer" or "api" Peal's; mem: where the buffers lie. PRELOAD is set behind the
# launcher, so that the launcher itself is left alone; ENV is not.
Candidate = namedtuple("Candidate", "name impl way mem program launcher preload env")
Answer = namedtuple("Answer", "times wrong choice")


class Failed(Exception):
    pass


def openmpi(mpirun, n, bound):
    return [mpirun, "--allow-run-as-root", "-n", str(n)] + (
        ["--bind-to", "core", "--map-by", "core"] if bound else ["--oversubscribe", "--bind-to", "none"])


def candidates(n, programs, peers, build):
    """All that can be started here, by name. PROGRAMS holds race-<mpi>, PEERS the fetched MPIs, BUILD Peal's libraries."""
    cores = cores_of_host()
    bound = len(cores) >= n
    some = ",".join(str(core) for core in cores[:n])
    own = openmpi("mpirun", n, bound)
    asked = ["--mca", "coll_tuned_use_dynamic_rules", "1"]
    five, mpich, intel = (os.path.join(peers, name) for name in ("openmpi5", "mpich", "intel"))
    mpi, heap = os.path.join(build, "src/pmpi/libpeal_mpi.so"), os.path.join(build, "src/heap/libpeal_heap.so")
    info = {"PEAL_LOG": "info", "PEAL_LOG_SUBSYS": "coll"}
    intel_env = {"I_MPI_ROOT": intel, "I_MPI_FABRICS": "shm", "PATH": f"{intel}/bin:{os.environ['PATH']}",
                 **({"I_MPI_PIN_PROCESSOR_LIST": some} if bound else {"I_MPI_PIN": "off"})}
    everyone = [
        Candidate("openmpi4", "openmpi4", "mpi", "ordinary", "openmpi4", own + asked, "", {}),
        Candidate("openmpi5", "openmpi5", "mpi", "ordinary", "openmpi5", openmpi(f"{five}/bin/mpirun", n, bound) + asked, "",
                  {"OPAL_PREFIX": five}),
        Candidate("mpich", "mpich", "mpi", "ordinary", "mpich",
                  [f"{mpich}/bin/mpiexec.hydra", "-n", str(n), "-bind-to", f"user:{some}" if bound else "none"], "", {}),
        Candidate("intel", "intel", "mpi", "ordinary", "intel", [f"{intel}/bin/mpiexec.hydra", "-n", str(n)], "", intel_env),
        Candidate("peal-mpi", "peal", "interposer", "ordinary", "openmpi4", own, mpi, info),
        Candidate("peal-mpi-shared", "peal", "interposer", "shared", "openmpi4", own, mpi, info),
        Candidate("peal-mpi-heap", "peal", "interposer", "heap", "openmpi4", own, f"{mpi}:{heap}", info),
        Candidate("peal-api", "peal", "api", "ordinary", "peal", own, "", {}),
        Candidate("peal-api-shared", "peal", "api", "shared", "peal", own, "", {}),
    ]
    return [c for c in everyone if os.path.exists(os.path.join(programs, f"race-{c.program}"))
            and (c.mem != "heap" or os.path.exists(heap))]


class Launch:
    """The ranks of one candidate."""

    def __init__(self, candidate, n, programs, work):
        self.candidate, self.n, self.programs, self.work = candidate, n, programs, work
        self.failures = 0
        self.start()

    def start(self):
        name = self.candidate.name
        path = os.path.join(self.work, name)
        self.log_path = path + ".log"
        self.log = open(self.log_path, "ab")
        self.page = os.memfd_create(name)
        os.ftruncate(self.page, (self.n + 1) * PLACE_BYTES)
        self.socks, self.pids = [], []
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.bind(path)
            server.listen(self.n)
            rank = [os.path.join(self.programs, f"race-{self.candidate.program}"), path,
                    f"/proc/{os.getpid()}/fd/{self.page}", "shared" if self.candidate.mem == "shared" else "ordinary"]
            if self.candidate.preload:
                rank = ["env", f"LD_PRELOAD={self.candidate.preload}"] + rank
            self.process = subprocess.Popen(self.candidate.launcher + rank, stdin=subprocess.DEVNULL, stdout=self.log,
                                            stderr=self.log, env={**os.environ, **self.candidate.env}, start_new_session=True)
            try:
                self.welcome(server)
            except Failed:
                self.kill()
                raise
            finally:
                os.unlink(path)

    def welcome(self, server):
        """Every rank introduces itself: race.c's introduce."""
        socks, until = {}, time.monotonic() + START_S
        server.settimeout(0.5)
        while len(socks) < self.n:
            try:
                sock, _ = server.accept()
            except TimeoutError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise Failed(f"did not start: {self.last_words()}") from None
                continue
            sock.settimeout(START_S)
            words = sock.recv(2048).decode().split(" ", 11)
            self.pids.append(int(words[2]))
            socks[int(words[0])] = (sock, words)
        self.socks = [socks[r][0] for r in range(self.n)]
        words = socks[0][1]
        kinds = ("allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "barrier")
        self.algos = dict(zip(kinds, map(int, words[5:11]))) if self.candidate.impl.startswith("openmpi") else {}
        self.library = words[11]
        self.cores = [int(socks[r][1][4]) if socks[r][1][3] == "1" else None for r in range(self.n)]

    def last_words(self):
        with open(self.log_path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return " | ".join(lines[-3:])[-300:] or "it said nothing"

    def await_answer(self, timeout):
        until = time.monotonic() + timeout
        while not select.select(self.socks[:1], [], [], 0.05)[0]:
            if select.select(self.socks[1:], [], [], 0)[0]:
                raise Failed(f"a rank ended: {self.last_words()}")
            if time.monotonic() > until:
                raise Failed(f"no answer in {timeout:.0f} s: {self.last_words()}")
        words = self.socks[0].recv(1 << 18).decode().split()
        if not words:
            raise Failed(f"rank 0 ended: {self.last_words()}")
        return Answer([float(word) for word in words[2:]], int(words[0]), words[1])

    def turn(self, command, timeout):
        """Runs COMMAND, race.c's hear, on all ranks. After Failed there are none left."""
        try:
            for sock in self.socks:
                sock.send(command.encode())
            return self.await_answer(timeout)
        except (OSError, Failed) as error:
            self.kill()
            raise Failed(error if isinstance(error, Failed) else f"{error}: {self.last_words()}") from None

    def passed_on(self):
        """What Peal's interposer left to the MPI, in the words of its tally."""
        with open(self.log_path, errors="replace") as log:
            return [" ".join(line.split("rank 0: ")[1].split()) for line in log if "rank 0: " in line and " passed on " in line]

    def stop(self):
        """Lets the ranks finish by themselves, if they do."""
        for sock in self.socks:
            sock.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self):
        for pid in self.pids if self.process.poll() is None else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for how in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(how)
                try:
                    self.process.wait(5)
                except subprocess.TimeoutExpired:
                    pass
        for sock in self.socks:
            sock.close()
        if not self.log.closed:
            os.close(self.page)
            self.log.close()
