# needs.py BUILD --suite NAME... --no-suite NAME...: the files that tests of these suites, as `meson test` takes the words, are made
# of or run, for ninja; of a build that has been set up.
import argparse
import json
import os

args = argparse.ArgumentParser()
args.add_argument("build")
args.add_argument("--suite", action="append", default=[])
args.add_argument("--no-suite", action="append", default=[])
args = args.parse_args()


def told(what):
    with open(os.path.join(args.build, "meson-info", "intro-%s.json" % what)) as f:
        return json.load(f)


def runs(test):
    suites = {name.split(":")[-1] for name in test["suite"]}
    return suites & set(args.suite) and not suites & set(args.no_suite)


needed = {id for test in told("tests") if runs(test) for id in test["depends"]}
for target in told("targets"):
    if target["id"] in needed:
        for name in target["filename"]:
            print(os.path.relpath(name, os.path.realpath(args.build)))
