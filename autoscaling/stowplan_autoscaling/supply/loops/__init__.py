"""The supply loops as controllers of the virtual cluster: they watch, ask an engine, and carry out what it decides."""
