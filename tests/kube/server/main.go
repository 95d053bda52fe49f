// Command server is every Kubernetes program the tests need, in one binary: the first argument says which.
//
// A program ends when its standard input does, if FOGCTL_KUBE_LEASH is set: whoever holds the other end of the
// pipe may die in any way, and nothing of it stays behind.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: server PROGRAM ARGUMENTS…")
		os.Exit(2)
	}
	program := os.Args[1]
	os.Args = os.Args[1:]
	if os.Getenv("FOGCTL_KUBE_LEASH") != "" {
		os.Unsetenv("FOGCTL_KUBE_LEASH")
		go endWithInput()
	}
	switch program {
	case "etcd":
		os.Exit(etcd(os.Args[1:]))
	case "init":
		os.Exit(firstProcess(os.Args[1:]))
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kubectl":
		logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	default:
		fmt.Fprintf(os.Stderr, "no program %q in this binary\n", program)
		os.Exit(2)
	}
}

// endWithInput ends this process when nobody holds the other end of its standard input any more.
func endWithInput() {
	buffer := make([]byte, 16)
	for {
		if _, err := os.Stdin.Read(buffer); err != nil {
			os.Exit(137)
		}
	}
}
