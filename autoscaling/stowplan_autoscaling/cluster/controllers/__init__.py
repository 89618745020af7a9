"""The controllers of kube-controller-manager, one module each."""
