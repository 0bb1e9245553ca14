"""
What became of a race: a table for each shape of call, and the acceptance lines. Also of a file that was saved:

    python3 bench/peers/report.py bench/results/<machine>/peers-16.json
"""

import json
import math
import sys

OPEN = ("openmpi4", "openmpi5", "mpich")  # MPIs whose source is open
PEERS = OPEN + ("intel",)
PEAL = [("interposer", "ordinary"), ("api", "ordinary"), ("interposer", "shared"), ("api", "shared"), ("interposer", "heap")]
SHORT = {"interposer": "mpi", "api": "api"}


def size_text(size):
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def shape_text(shape):
    kind = "double max" if shape.get("double") else "float sum"
    return f"{kind}, {'in' if shape.get('inplace') else 'out of'} place, {'rotated' if shape.get('rotated') else 'reused'} buffers"


def bus_factor(kind, n):
    if kind == "allreduce":
        return 2 * (n - 1) / n
    return (n - 1) / n if kind in ("allgather", "reduce_scatter") else 1


def machine_name(machine):
    """"xeon-16core": the maker's name for the processor, and how many cores."""
    words = machine["cpu"].lower().replace("(r)", " ").replace("(tm)", " ").split()
    name = next((word for word in words if word in ("xeon", "epyc", "ryzen", "core", "threadripper")), words[0])
    return f"{name}-{machine['cores']}core"


def cells(rows):
    """Rows of the same call on the same size, in order; wrong results compete with nobody."""
    found = {}
    for row in rows:
        if row["verified"]:
            key = (row["collective"], row["type"], row["inplace"], row["buffers"], row["bytes"])
            found.setdefault(key, []).append(row)
    return found


def best(cell, impls):
    return min((row for row in cell if row["impl"] in impls), key=lambda row: row["median_us"], default=None)


def peal(cell, way, mem):
    return next((row["median_us"] for row in cell if row["impl"] == "peal" and (row["way"], row["mem"]) == (way, mem)), None)


def time_text(us):
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


def memory_us(found, key):
    """The memory reference beside the cell of KEY."""
    rows = found.get(("memory", *key[1:]))
    return rows and rows[0]["median_us"]


def line(size, cell, memory, variants):
    peer = best(cell, PEERS)
    who = f"{peer['impl']} {(peer['variant'] or '').replace('algorithm ', '#')}".strip() if peer else "-"
    text = f"{size_text(size):>6} {who:>12} {time_text(peer['median_us']) if peer else '-':>8}"
    for way, mem in variants:
        us = peal(cell, way, mem)
        ratio = f" ({peer['median_us'] / us:4.2f})" if us and peer else ""
        text += f" {time_text(us) + ratio if us else '-':>16}"
    return text + (f" {time_text(memory):>8}" if memory else "")


def table(rows):
    """The rows of one collective in one shape, and the memory reference beside them."""
    found = cells(rows)
    first = next((row for row in rows if row["collective"] != "memory"), rows[0])
    variants = [(way, mem) for way, mem in PEAL if any(peal(cell, way, mem) for cell in found.values())]
    shape = {"double": first["type"] == "double", "inplace": first["inplace"], "rotated": first["buffers"] == "rotated"}
    shape = "" if first["collective"] == "barrier" else f" {shape_text(shape)}"
    text = [f"\n{first['collective']}{shape}, {first['nranks']} ranks: median us of the slowest rank "
            f"(and how many times as long the best peer takes)",
            f"{'bytes':>6} {'best peer':>12} {'':>8}" + "".join(f" {SHORT[way] + ' ' + mem:>16}" for way, mem in variants)
            + (f" {'memory':>8}" if any(key[0] == "memory" for key in found) else "")]
    for key, cell in found.items():
        if key[0] == "memory":
            continue
        text.append(line(key[4], cell, memory_us(found, key), variants))
    return "\n".join(text)


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def ratios(found, kinds, impls, way, mem):
    """Peer's time by Peal's, with where it was; and how many there should be."""
    result, cells_of_peers = [], 0
    for key, cell in found.items():
        peer, us = best(cell, impls), peal(cell, way, mem)
        if key[0] not in kinds or key[4] == 8 or not peer:
            continue
        cells_of_peers += 1
        if us:
            result.append((peer["median_us"] / us, f"{key[0]} {key[1]} {'in' if key[2] else 'out of'} place {key[3]} "
                                                   f"{size_text(key[4])}"))
    return result, cells_of_peers


def limits(n, mem):
    """Geometric mean against the best peer, its lowest, and geometric mean against the best whose source is open."""
    if mem == "ordinary":
        return 1.1 if n <= 32 else 1.0, 0.9, 2.0
    return 2.0 if n <= 16 else 1.5 if n <= 32 else 1.2, 1.0, 3.0


def lines_of_ratios(found, n, way, mem):
    """A line passes where Peal has a right result in each cell that a peer has one in."""
    others = {key[0] for key in found} - {"allreduce", "memory"}
    least, lowest, least_open = limits(n, mem)
    for what, kinds, impls, limit, low in (("allreduce against the best peer", {"allreduce"}, PEERS, least, lowest),
                                           ("allreduce against the best open-source peer", {"allreduce"}, OPEN, least_open, None),
                                           ("other collectives against the best peer", others, PEERS, 1.2, 0.9)):
        some, all_cells = ratios(found, kinds, impls, way, mem)
        if some:
            average = mean([ratio for ratio, _ in some])
            yield f"{what}, geometric mean", average, f">= {limit:.3g}", average >= limit and len(some) == all_cells, \
                f"{len(some)} of {all_cells} cells"
        if some and low:
            yield f"{what}, lowest", min(some)[0], f">= {low:.3g}", min(some)[0] >= low and len(some) == all_cells, min(some)[1]


def line_of_latency(found, n, way, mem):
    cell = found.get(("allreduce", "float", False, "reused", 8), [])
    peer, us = best(cell, PEERS), peal(cell, way, mem)
    if peer and us:
        limit = max({4: 0.5, 16: 0.9, 64: 1.8}.get(n, 0), peer["median_us"] / 1.2)
        yield "8 B, us", us, f"<= {limit:.3g}", us <= limit, f"best peer {peer['impl']} {time_text(peer['median_us'])}"


def line_of_memory(found, way, mem):
    """The longest against the memory reference, where buffers rotate and are large."""
    worst = None
    for key, cell in found.items():
        reference, us = memory_us(found, key), peal(cell, way, mem)
        if key[0] == "allreduce" and key[3] == "rotated" and key[4] >= 16 << 20 and reference and us:
            where = f"{key[1]} {'in' if key[2] else 'out of'} place {size_text(key[4])}"
            worst = max(worst or (0, ""), (us / reference, where))
    if worst:
        limit = 1.5 if mem == "ordinary" else 1.15
        yield "time by memory reference, rotated from 16M, highest", worst[0], f"<= {limit}", worst[0] <= limit, worst[1]


def acceptance(rows):
    found, result = cells(rows), []
    n = rows[0]["nranks"] if rows else 0
    for way, mem in PEAL:
        for what, value, limit, passed, where in (*lines_of_ratios(found, n, way, mem), *line_of_latency(found, n, way, mem),
                                                  *line_of_memory(found, way, mem)):
            result.append({"memory": mem, "way": way, "what": what, "value": round(value, 3), "limit": limit, "where": where,
                           "pass": passed})
    return result


def verdicts(rows):
    text = [f"\nacceptance, {rows[0]['nranks'] if rows else 0} ranks"]
    for a in acceptance(rows):
        text.append(f"{a['memory']:>8} {a['way']:<10} {a['what']:<61} {a['value']:8.3f} {a['limit']:>8}  "
                    f"{'pass' if a['pass'] else 'FALLS SHORT'}  ({a['where']})")
    return "\n".join(text)


def main():
    with open(sys.argv[1]) as file:
        rows, tables = json.load(file)["rows"], {}
    for row in rows:
        collective = "allreduce" if row["collective"] == "memory" else row["collective"]
        tables.setdefault((collective, row["type"], row["inplace"], row["buffers"]), []).append(row)
    for some in tables.values():
        print(table(some))
    print(verdicts(rows))


if __name__ == "__main__":
    main()
