"""The scheduling framework: plugin interfaces, status codes, cycle state, rule memo, and the runtime of a profile."""
