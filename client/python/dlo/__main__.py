# SPDX-License-Identifier: Apache-2.0
"""python3 -m dlo: doctor, record, report, run, version.

Exit status: 0; 1 doctor --require was not met, or report could not read the file; 2 bad arguments;
record and run have that of the program.
"""
import argparse
import json
import os
import sys

from dlo import __version__


def _exec(program, **variables):
    """Becomes the program, with our sitecustomize in each of its Python processes."""
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [os.path.join(here, "_site"), os.path.dirname(here), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    sys.stdout.flush()  # what was printed until now would be lost with this program
    try:
        os.execvpe(program[0], program, env)
    except OSError as e:
        print(f"dlo: {program[0]}: {e.strerror}", file=sys.stderr)
        return 2


def _doctor(arguments):
    from dlo import doctor

    found = doctor.examine()
    print(json.dumps(found, indent=2) if arguments.json else doctor.page(found), end="")
    return 1 if arguments.require and not found["engaged"] else 0


def _report(arguments):
    from dlo import _library, report

    try:
        print(report.page(arguments.file), end="")
    except (OSError, report.TraceError, _library.LibraryError) as e:
        print(f"dlo: {e}", file=sys.stderr)
        return 1
    return 0


def _record(arguments):
    if os.path.exists(arguments.file):
        print(f"dlo: {arguments.file} is there already; name another file", file=sys.stderr)
        return 2
    return _exec(arguments.program, DLO_RECORD=os.path.abspath(arguments.file))


def _run(arguments):
    return _exec(arguments.program, DLO_WRAP_EMPTY_CACHE="1")


def _version(arguments):
    print(f"dlo {__version__}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python3 -m dlo", description="GPU workers ask dlod when to empty their allocator cache.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    doctor = verbs.add_parser("doctor", help="say what dlo finds here")
    doctor.add_argument("--require", choices=["engaged"],
                        help="exit 1 unless a daemon would manage a worker started here")
    doctor.add_argument("--json", action="store_true", help="the same for programs")
    doctor.set_defaults(run=_doctor)
    record = verbs.add_parser("record", help="record a program's boundaries; changes nothing")
    record.add_argument("file", help="the trace to write")
    record.add_argument("program", nargs="+", help="-- and the program with its arguments")
    record.set_defaults(run=_record)
    report = verbs.add_parser("report", help="one page on a recorded trace")
    report.add_argument("file")
    report.set_defaults(run=_report)
    run = verbs.add_parser("run", help="run a program with torch.cuda.empty_cache wrapped")
    run.add_argument("program", nargs="+", help="-- and the program with its arguments")
    run.set_defaults(run=_run)
    version = verbs.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


def main():
    arguments = _parser().parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
