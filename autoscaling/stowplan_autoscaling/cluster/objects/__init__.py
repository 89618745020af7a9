"""The API kinds that controllers of the virtual cluster read and write, with their status.

They are the scheduler's kinds with more fields, under the same names. `version` is the resource version as a number.
"""
