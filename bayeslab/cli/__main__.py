"""``python -m bayeslab.cli`` is the command ``bayeslab``."""

from bayeslab.cli import main

main()
