"""Sums meson's test logs, named one a line on stdin, into one line, and says what failed and what was skipped, and why."""
import json
import os
import sys


def reason(test):
    """The last line that a skipped test printed."""
    lines = ((test.get("stdout") or "") + (test.get("stderr") or "")).strip().splitlines()
    return lines[-1].strip() if lines else "it gave no reason"


def read(path):
    """The results of one log; a log that is missing or empty is a failure, for then nothing was tested."""
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return [json.loads(line) for line in log if line.strip()] or [{"name": "no test ran", "result": "FAIL"}]
    except OSError:
        return [{"name": "no log", "result": "FAIL"}]


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for path in sys.stdin.read().split():
        for test in read(path):
            result, where = test["result"], f"{os.path.splitext(path)[0]}: {test['name']}"
            if result in ("OK", "EXPECTEDFAIL"):
                counts["passed"] += 1
            elif result == "SKIP":
                counts["skipped"] += 1
                print(f"skipped {where}: {reason(test)}")
            else:
                counts["failed"] += 1
                print(f"failed {where} ({result})")
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["failed"] else 0


sys.exit(main())
