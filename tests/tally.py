"""Sums meson's test logs into one line, and says what failed, what passed only when it ran again, and what was skipped, and why.
On stdin, a line for each run of tests: its log, and that of those that ran once more. --failed LOG prints which these are."""
import json
import os
import sys

PASSED = ("OK", "EXPECTEDFAIL")
SHOWN = 100  # lines of a log that failed: as many as meson prints


def output(test):
    """The lines that a test printed."""
    return ((test.get("stdout") or "") + (test.get("stderr") or "")).strip().splitlines()


def reason(test):
    """The last line that a skipped test printed."""
    return (output(test) or ["it gave no reason"])[-1].strip()


def failed(test):
    return test["result"] not in PASSED + ("SKIP",)


def read(path):
    """The results of one log; a log that is missing or empty is a failure, for then nothing was tested."""
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return [json.loads(line) for line in log if line.strip()] or [{"name": "no test ran", "result": "FAIL"}]
    except OSError:
        return [{"name": "no log", "result": "FAIL"}]


def bare(test):
    """The name of a test without its project and suites, as meson test takes it."""
    return test["name"].split(" / ")[-1]


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for line in sys.stdin:
        path, *again = line.split()
        passed_again = {test["name"] for log in again for test in read(log) if test["result"] in PASSED}
        where = os.path.splitext(path)[0]
        for test in read(path):
            if failed(test) and test["name"] not in passed_again:
                counts["failed"] += 1
                print(f"failed {where}: {test['name']} ({test['result']})")
            elif test["result"] == "SKIP":
                counts["skipped"] += 1
                print(f"skipped {where}: {test['name']}: {reason(test)}")
            else:
                counts["passed"] += 1
                if failed(test):
                    print(f"unsteady {where.split('/')[0]} {bare(test)} ({test['result']}, then passed alone), which had printed:")
                    print("\n".join("    " + said for said in output(test)[-SHOWN:]))
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["failed"] else 0


if sys.argv[1:2] == ["--failed"]:
    print("\n".join(bare(test) for test in read(sys.argv[2]) if failed(test) and "starttime" in test))
else:
    sys.exit(main())
