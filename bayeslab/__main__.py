"""``python -m bayeslab``: the command line."""

from bayeslab.cli import main

if __name__ == "__main__":
    main()
