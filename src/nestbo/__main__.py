"""`python -m nestbo`: the command `nestbo`, where its script is not on the path."""

from nestbo.cli import main

if __name__ == "__main__":  # worker processes import this module under another name
    main()
