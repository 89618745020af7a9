"""`python -m stowplan_operator` is `stowplan`: how one program of this package starts another with the same Python."""

from stowplan_operator.cli import main

if __name__ == "__main__":
    main()
