"""A cluster in virtual time: API server, controllers, kubelets. They decide which pods there are, and when."""
