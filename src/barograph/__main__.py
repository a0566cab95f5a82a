"""`python -m barograph` is the program itself; its children are started this way."""

from barograph.cli import main

if __name__ == "__main__":
    main()
