// Command rig is a whole Kubernetes control plane in one file: its first argument names the program to be, the others
// are that program's own.
//
//	rig etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]
//	rig kubectl [command] [flags]
//	rig service-account-key FILE
//
// The programs are upstream's, unchanged; one file instead of four is linked once and takes less space. Each ends when
// its standard input does, so that none outlives whoever started it, however that came to its end; kubectl, which ends by
// itself, reads it. The last form writes a new key to sign service account tokens with.
package main

import (
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // time zones of CronJobs, wherever it runs

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as upstream's programs: metrics of clients and Leases
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
}

func endWithStandardInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func writeKey(path string) error {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return keyutil.WriteKey(path, key)
}

// runKubectl is what upstream's cmd/kubectl/kubectl.go does; it does not return.
func runKubectl() {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	os.Exit(0)
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "service-account-key" {
		if err := writeKey(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "rig:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 {
		if os.Args[1] == "kubectl" {
			os.Args = os.Args[1:]
			runKubectl()
		}
		if run, known := programs[os.Args[1]]; known {
			os.Args = os.Args[1:]
			go endWithStandardInput()
			run()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: rig etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [flags], or rig service-account-key FILE")
	os.Exit(2)
}
