"""A live scheduler: what it runs with, the pure machine that decides, and the shell that talks to a cluster."""
