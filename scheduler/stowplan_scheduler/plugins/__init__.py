"""The plugins of kube-scheduler v1.37.2, a module or package each under upstream's name; each rule stands here once."""
