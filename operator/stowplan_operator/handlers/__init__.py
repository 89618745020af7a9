"""The operator: from SchedulerProfiles to running workers, and from what the workers say to status.

`reconcile` is the pure middle: it takes what is there and says what should be. Around it are shells: kopf in a thread
of its own (`kopf_thread`), the runtimes of workers (`children`, `deployments`), the writer of what should be
(`writing`), and the process that holds them together (`operator_process`). docs/architecture/operator-handlers.md is
the map.
"""
