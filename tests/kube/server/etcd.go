package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd keeps its data in a folder and answers on the socket "client" in it: no port, no certificate.
func etcd(arguments []string) int {
	if len(arguments) != 1 {
		fmt.Fprintln(os.Stderr, "usage: server etcd FOLDER")
		return 2
	}
	folder := arguments[0]
	if err := os.Chdir(folder); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	config := embed.NewConfig()
	config.Name = "test"
	config.Dir = filepath.Join(folder, "data")
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(folder, "client")}}
	// Nobody but this process uses the addresses below; they must look like a host and a port, and are sockets
	// in the folder all the same.
	config.AdvertiseClientUrls = []url.URL{{Scheme: "unix", Host: "localhost:1"}}
	config.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: "localhost:2"}}
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// A test's cluster need not survive a power cut, and others wait for this disk.
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	config.LogOutputs = []string{"stderr"}
	server, err := embed.StartEtcd(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		fmt.Fprintln(os.Stderr, "etcd: not ready within a minute")
		return 1
	}
	err = <-server.Err()
	fmt.Fprintln(os.Stderr, "etcd:", err)
	return 1
}
