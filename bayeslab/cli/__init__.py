"""The command line: one command per file, each a function ``command``.

Exit codes: 0 ok, 1 model or data error, 2 usage, 3 the verdict is *fail*, 130 Ctrl-C. Errors are one line on
standard error, and with ``--json`` also an object on standard output; ``--debug`` adds the traceback. SIGTERM,
with which schedulers and containers end a process, is a Ctrl-C with the exit code 143: what is there is kept.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib.metadata import version as installed
from typing import Any, NamedTuple, TextIO

from bayeslab import compiling, registry
from bayeslab.errors import BayeslabError, interrupted, printable

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and exit."""
    terminated = _terminations() if arguments is None else []
    try:
        status = _run(arguments)
    except KeyboardInterrupt:  # a further Ctrl-C while the first was reported
        status = 130
    sys.exit(143 if terminated else status)


def _terminations() -> list[int]:
    """Let SIGTERM interrupt as Ctrl-C does; the signals that came. The second ends the program at once."""
    came: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        if len(came) > 1:
            os._exit(143)
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)
        else:  # a shell's background process ignores Ctrl-C
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
    return came


def _run(arguments: Sequence[str] | None) -> int:
    """Run one command, report its error, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug, as_json = "--debug" in words, "--json" in words
    words = [word for word in words if word != "--debug"]

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as under a service
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the life of the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without Unicode shows a substitute character instead of failing.
            stream.reconfigure(errors="replace")
    compiling.announce()
    failure: _Failure | None = None
    warnings.showwarning = _warned
    try:
        from bayeslab.cli.toolbox.shared import screened

        with screened():
            code = command_line()(args=words, prog_name="bayeslab", standalone_mode=False)
        sys.stdout.flush()
        status = code if isinstance(code, int) else 0
        if status == 130:  # Ctrl-C while the arguments were parsed
            raise KeyboardInterrupt
    except BayeslabError as error:
        status = _failed(str(error), debug)
        failure = _Failure(code=error.code, message=error.message, where=error.where)
    except _Interrupted as error:
        _leave_at_once(arguments)
        status = _failed(str(error), debug, 130)
        failure = _Failure(code="run.interrupted", message=str(error))
    except KeyboardInterrupt:
        _leave_at_once(arguments)
        status = _failed("interrupted", debug, 130)
        failure = _Failure(code="run.interrupted", message="interrupted")
    except (BrokenPipeError, SystemExit) as error:
        # The process that read our output (head, less) has ended. Rich and Typer exit while they handle that.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        status = _failed(_out_of_reach(error), debug)
        failure = _Failure(code="run.system", message=_out_of_reach(error))
    except UnicodeEncodeError as error:
        text = f"names of files are in {error.encoding} here, which lacks letters of {error.object!r}: set PYTHONUTF8=1"
        status, failure = _failed(text, debug), _Failure(code="run.system", message=text)
    except Exception as error:  # noqa: BLE001 - a traceback is for --debug; the user gets one line
        parsed = _usage(error)
        if parsed is None:
            text = " ".join(str(error).split()) or type(error).__name__
            text = f"unexpected {type(error).__name__}: {text}; --debug shows where"
            status, failure = _failed(text, debug), _Failure(code="run.unexpected", message=text)
        else:
            status = parsed
            if hasattr(error, "format_message"):
                failure = _Failure(code="option.usage", message=" ".join(error.format_message().split()))
    if as_json and failure is not None:
        _print_failure(failure)
    _let_go(sys.stdout)
    return status


def _leave_at_once(arguments: Sequence[str] | None) -> None:
    """Let a further Ctrl-C end the program without a traceback, also while Python exits."""
    if arguments is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))


class _Interrupted(Exception):
    """Ctrl-C in a command, with the message for the user. The argument parser would swallow a KeyboardInterrupt."""


def _interruptible[**P, R](command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that Ctrl-C raises :class:`_Interrupted`, which keeps the message."""

    @wraps(command)
    def wrapped(*args: P.args, **options: P.kwargs) -> R:
        try:
            return command(*args, **options)
        except (KeyboardInterrupt, SystemError) as error:
            if not interrupted(error):
                raise
            text = str(error) if isinstance(error, KeyboardInterrupt) else ""
            raise _Interrupted(text or "interrupted") from error

    return wrapped


class _Failure(NamedTuple):
    """An error as ``--json`` prints it."""

    code: str
    message: str
    where: str | None = None


def _print_failure(failure: _Failure) -> None:
    """Print an error as JSON on standard output, unless standard output is closed."""
    with suppress(OSError, ValueError):
        print(json.dumps({"error": failure._asdict()}, indent=1), flush=True)


def _out_of_reach(error: OSError) -> str:
    """The operating system's error message with the file, folder or stream it is about."""
    named = [str(name) for name in (error.filename, error.filename2) if name is not None]
    from bayeslab.files import shown

    place = shown(named[0]) if named else "standard output" if error.errno in _OF_WRITING else ""
    return f"{place}: {error.strerror or error}" if place else f"{error.strerror or error}"


# Errors of writing: a full disk or quota, a file that is too large, a broken device.
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _let_go(stream: TextIO) -> None:
    """Flush a stream. After a failure, discard the rest, so that Python does not report the error again at exit."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _warned(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line, without its place in the code."""

    print(f"warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)


def _failed(message: str, debug: bool, status: int = 1) -> int:
    if debug:
        traceback.print_exc()

    print(f"error: {printable(message)}", file=sys.stderr)
    return status


def _usage(error: Exception) -> int | None:
    """Print an exception of the argument parser and return its exit code; None for any other exception."""
    if type(error).__name__ == "Exit":
        return int(getattr(error, "exit_code", 0))
    if type(error).__name__ == "Abort":
        return _failed("interrupted", False, 130)
    show = getattr(error, "show", None)
    if show is None:
        return None
    show()
    return 2


def command_line():  # type: ignore[no-untyped-def]
    import typer

    from bayeslab.cli.toolbox.shared import Command

    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Declare a model once; fit it exactly, by NUTS or by optimisation; know whether to trust it."
        " Any command takes --debug.",
    )

    def version(wanted: bool) -> None:
        if wanted:
            print(f"bayeslab {installed('bayeslab')}")
            raise typer.Exit

    @app.callback()
    def _options(
        show_version: bool = typer.Option(
            False, "--version", callback=version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        pass

    for name in registry.names("cli"):
        module = registry.load("cli", name)
        app.command(name, cls=Command)(_interruptible(module.command))
    return app
