"""Runs the races and measurements of bench/cluster.sh in clusters of every shape, and makes tables of them."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from steal import Steal

PEERS = [(pml, coll) for pml in ("ob1", "ucx") for coll in ("tuned", "han")]
MCA = {"tuned": {"OMPI_MCA_coll_tuned_priority": "90", "OMPI_MCA_coll_han_priority": "0"},
       "han": {"OMPI_MCA_coll_han_priority": "90"},
       "ob1": {"OMPI_MCA_pml": "ob1"},
       "ucx": {"OMPI_MCA_pml": "ucx", "OMPI_MCA_pml_ucx_tls": "any", "OMPI_MCA_pml_ucx_devices": "any"}}


PARTS = ("goodput", "links", "overlap", "race")
RATES, NEAR, APART = 5, 1.1, 1.5  # overlap tries so many rates for stages as near as NEAR to what is wanted, and takes APART at most


def parts(text):
    names = text.split(",")
    if not set(names) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"'{text}' names others than {', '.join(PARTS)}")
    return names


def arguments():
    numbers = lambda text: [int(word) for word in text.split(",")]
    p = argparse.ArgumentParser(prog="sh bench/cluster.sh", epilog="--build DIR: a build of Peal, which is made where there is none (build)")
    for name in ("peal", "goodput", "work"):
        p.add_argument("--" + name, help=argparse.SUPPRESS)
    p.add_argument("--hosts", type=numbers, default=[2, 4, 8])
    p.add_argument("--ranks", type=numbers, default=[2, 4], help="of each host")
    p.add_argument("--rate", default="1gbit", help="of each link")
    p.add_argument("--net", default="ucx", help="Peal's transport")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--mib", type=numbers, default=[16, 64], help="vectors of goodput")
    p.add_argument("--between", type=lambda text: [float(word) for word in text.split(",")], default=[1.0, 1.3],
                   help="what overlap's stage between hosts shall take, of the one inside")
    p.add_argument("--collective", default="allreduce", help="of the race")
    p.add_argument("--max", default="64M", help="largest vector of the race")
    p.add_argument("--factor", type=int, default=4, help="between its sizes")
    p.add_argument("--calls", type=int, default=0, help="timed calls of each size in a round (as many as 0.3 s hold)")
    p.add_argument("--only", type=parts, default=PARTS, help=f"of {','.join(PARTS)}")
    p.add_argument("--out", default=".", help="folder for cluster.json")
    q = p.parse_args()
    q.trouble = False  # something failed, or was wrong
    return q


def cluster(q, hosts, ranks, command, links=1, rate=None, **env):
    """Runs COMMAND in a cluster; its standard output, or None where it failed (printed). q.steal: what was stolen meanwhile."""
    steal = Steal()
    run = subprocess.Popen(["sh", "tests/cluster.sh", "-N", str(hosts), "-r", str(ranks), "--rate", rate or q.rate, "--links",
                            str(links), "--", *command], env={**os.environ, "PEAL_NET": q.net, **env}, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    try:
        out, error = run.communicate()
    except BaseException:
        run.terminate()  # and not killed: it takes its hosts with it
        run.wait()
        raise
    q.steal = steal.share()
    if run.returncode == 77:
        sys.exit(out.strip())
    if run.returncode != 0:
        print(f"cluster: {hosts}x{ranks} {' '.join(command)}: exit {run.returncode}\n{out}{error}", file=sys.stderr)
        q.trouble = True
        return None
    return out


def goodput(q, hosts, ranks, links=1, rate=None, mib=None):
    """One row for each size; keys as goodput.c prints them."""
    env = {"UCX_MAX_EAGER_RAILS": "2", "UCX_MAX_RNDV_RAILS": "2"} if links > 1 else {}
    text = cluster(q, hosts, ranks, [q.goodput, str(q.rounds), *map(str, mib or q.mib)], links, rate, **env) or ""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "goodput":
            values = dict(zip(words[1::2], words[2::2]))
            rows.append({key: value if key == "algo" else float(value) for key, value in values.items()} | {"steal": q.steal})
    for r in rows:
        print(f"{hosts:>5} {ranks:>5} {links:>5} {r['mib']:>5.0f}M {r['algo']:<22} {r['tcp_gbits']:>8.3f} {r['alone_gbits']:>8.3f} "
              f"{r['allreduce_ms']:>10.1f} {r['of_tcp']:>8.3f} {r['inside_ms']:>9.1f} {r['between_ms']:>10.1f} "
              f"{r['of_longer']:>9.2f} {r['of_sum']:>7.2f} {100 * r['steal']:>7.1f}", flush=True)
    return rows


def goodput_head():
    print(f"{'hosts':>5} {'ranks':>5} {'links':>5} {'size':>6} {'algorithm':<22} {'tcp Gb/s':>8} {'alone':>8} {'allreduce':>10} "
          f"{'of tcp':>8} {'inside':>9} {'between':>10} {'of longer':>9} {'of sum':>7} {'steal %':>7}   (ms)")


def overlap(q, hosts, ranks):
    """The largest vector on links of such rates that the stage between hosts takes as long as wanted, of the one inside: a row each."""
    rows, mbit = [], 10000.0
    for wanted in q.between:
        best, off = None, math.inf
        for _ in range(RATES):
            found = goodput(q, hosts, ranks, 1, f"{mbit:.0f}mbit", q.mib[-1:])
            if not found:
                return rows
            ratio = found[0]["between_ms"] / found[0]["inside_ms"]
            if max(ratio / wanted, wanted / ratio) < off:
                off = max(ratio / wanted, wanted / ratio)
                best = {**found[0], "rate_mbit": mbit, "wanted": wanted}
            mbit *= ratio / wanted
            if off < NEAR:
                break
        apart = best["between_ms"] / best["inside_ms"]
        held = max(apart, 1 / apart) < APART
        print(f"{hosts}x{ranks} at {best['rate_mbit']:.0f} Mbit/s: the stage between takes {apart:.2f} of the one inside, both "
              f"{best['of_longer']:.2f} of the longer and {best['of_sum']:.2f} of their sum{'' if held else '; no rate was found'}", flush=True)
        rows.append(best)
    return rows


def race_job(q, hosts, ranks, pml, coll):
    """Adds to each size's row what Peal and one Open MPI took in turns, in one job: (peal_us, peer_us, peal's algorithm)."""
    file = f"{q.work}/race.json"
    command = [q.peal, "bench", q.collective, "-b", "16", "-e", q.max, "-f", str(q.factor), "--algo", "auto", "--vs", "mpi"]
    command += ["--json", file] + (["-n", str(q.calls)] if q.calls else [])
    if cluster(q, hosts, ranks, command, **MCA[pml], **MCA[coll]) is None:
        return {}
    with open(file) as f:
        rows = json.load(f)["rows"]
    wrong = [row for row in rows if not row["verified"]]
    if wrong:
        print(f"cluster: wrong results: {wrong}", file=sys.stderr)
        q.trouble = True
    pairs = {}
    for row in rows:
        pairs.setdefault(row["bytes"], {})[row["impl"]] = row
    return {size: (two["peal"]["median_us"], two["openmpi"]["median_us"], two["peal"]["variant"])
            for size, two in pairs.items() if len(two) == 2 and not wrong}


def race(q, hosts, ranks):
    """Each Open MPI against Peal, in turns within a job and by jobs; what counts is the one against which Peal does worst."""
    jobs = {peer: [] for peer in PEERS}
    for _ in range(q.rounds):
        for peer in PEERS:
            jobs[peer].append(race_job(q, hosts, ranks, *peer))
    rows = []
    for size in sorted({size for runs in jobs.values() for found in runs for size in found}):
        row = {"hosts": hosts, "ranks": ranks, "bytes": size, "peers": []}
        for peer, runs in jobs.items():
            at = [found[size] for found in runs if size in found]
            if at:
                row["algo"] = at[0][2]
                row["peers"].append({"peer": "-".join(peer), "peal_us": statistics.median(a[0] for a in at),
                                     "peer_us": statistics.median(a[1] for a in at),
                                     "times": statistics.median(a[1] / a[0] for a in at)})
        rows.append(row)
    for r in rows:
        best = min(r["peers"], key=lambda p: p["times"])
        r["times"] = best["times"]
        print(f"{hosts:>5} {ranks:>5} {r['bytes']:>9} {r['algo']:<22} {best['peal_us']:>11.1f} {best['peer_us']:>11.1f} "
              f"{best['peer']:<10} {r['times']:>6.2f}", flush=True)
    if rows:
        mean = math.exp(statistics.mean(math.log(r["times"]) for r in rows))
        print(f"{hosts}x{ranks}: geometric mean {mean:.2f}, least {min(r['times'] for r in rows):.2f}", flush=True)
    return rows


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(": ")[1].strip() for line in f if line.startswith("model name")), "unknown")
    version = lambda command: (subprocess.run(command, capture_output=True, text=True).stdout.splitlines() or ["?"])[0]
    return {"cpu": model, "cores": os.cpu_count(), "load": os.getloadavg()[0], "kernel": os.uname().release,
            "mpi": version(["mpirun", "--version"]), "commit": version(["git", "describe", "--always", "--dirty=+", "--abbrev=12"])}


def main():
    q, steal = arguments(), Steal()
    out = {"machine": machine(), "collective": q.collective, "rate": q.rate, "net": q.net, "goodput": [], "links": [], "overlap": [], "race": []}
    os.makedirs(q.out, exist_ok=True)
    shapes = [(hosts, ranks) for hosts in q.hosts for ranks in q.ranks]
    print(f"# {out['machine']['cpu']}, {out['machine']['cores']} cores for all hosts, links of {q.rate}, Peal over {q.net}; load "
          f"{out['machine']['load']:.1f}")
    if "goodput" in q.only:
        goodput_head()
        for hosts, ranks in shapes:
            out["goodput"] += goodput(q, hosts, ranks)
    if "links" in q.only:
        goodput_head()
        for hosts, ranks in shapes[:1]:
            one, two = goodput(q, hosts, ranks), goodput(q, hosts, ranks, 2)
            out["links"] += one + two
            for a, b in zip(one, two):
                print(f"{a['mib']:.0f} MiB: two links carry {a['allreduce_ms'] / b['allreduce_ms']:.2f} times one")
    if "overlap" in q.only:
        goodput_head()
        for hosts, ranks in shapes:
            out["overlap"] += overlap(q, hosts, ranks)
    if "race" in q.only:
        print(f"\n{'hosts':>5} {'ranks':>5} {'bytes':>9} {'algorithm':<22} {'peal us':>11} {'best peer':>11} {'':<10} {'times':>6}")
        for hosts, ranks in shapes:
            out["race"] += race(q, hosts, ranks)
    out["machine"]["steal"] = steal.share()
    with open(os.path.join(q.out, "cluster.json"), "w") as f:
        json.dump(out, f, indent=1)
    sys.exit(q.trouble)


main()
