"""The edge: everything that talks to a person, a terminal, a process or a cluster; the command line lives here.

The folder above must never get an ``__init__.py``: it would shadow the standard library's ``operator``.
"""
