package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// program is something a node runs for as long as it lives.
type program struct {
	Argv []string `json:"argv"`
	Log  string   `json:"log"`
}

// firstProcess is process 1 of a node's PID namespace: it starts the node's programs, takes in whatever they
// leave behind, and takes everything with it when it ends. It ends when one of its programs does.
func firstProcess(arguments []string) int {
	var programs []program
	if len(arguments) != 1 || json.Unmarshal([]byte(arguments[0]), &programs) != nil {
		fmt.Fprintln(os.Stderr, `usage: server init '[{"argv": […], "log": FILE}, …]'`)
		return 2
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	started := map[int]string{}
	for _, wanted := range programs {
		pid, err := start(wanted)
		if err != nil {
			fmt.Fprintln(os.Stderr, "init:", err)
			return 1
		}
		started[pid] = wanted.Argv[0]
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if name, ours := started[pid]; ours || err != nil {
			fmt.Fprintf(os.Stderr, "init: %s ended: exit %d, signal %d (%v)\n", name, status.ExitStatus(), status.Signal(), err)
			return 1
		}
	}
}

func start(wanted program) (int, error) {
	path, err := exec.LookPath(wanted.Argv[0])
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile(wanted.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	process, err := os.StartProcess(path, wanted.Argv, &os.ProcAttr{Files: []*os.File{null, log, log}})
	if err != nil {
		return 0, err
	}
	return process.Pid, nil
}
