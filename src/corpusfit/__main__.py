"""`python -m corpusfit`: the command line, also where its script is not on the path."""

from corpusfit.cli import main

if __name__ == "__main__":
    main()
