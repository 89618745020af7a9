"""The thin async client of an API server: requests, watches, pods, server-side apply, events, leases.

It knows Kubernetes and nothing of workers or handlers. Nothing is imported here, so that the parts without IO (`call`,
`kinds`, `decode`, `store`, `event_series`, `election`) can be had without the libraries of the others.
"""
