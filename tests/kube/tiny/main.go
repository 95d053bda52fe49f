// Command tiny is all there is in the tests' own container image: what a pod may want to do, without an
// operating system around it.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	what := "pause"
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	switch what {
	case "pause":
		// Process 1 of a pod takes in the orphans of its containers.
		children := make(chan os.Signal, 1)
		signal.Notify(children, syscall.SIGCHLD)
		go func() {
			for range children {
				for {
					if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
						break
					}
				}
			}
		}()
	case "sleep":
		fmt.Println("asleep")
	case "say":
		fmt.Println(strings.Join(os.Args[2:], " "))
		return
	case "keep":
		if err := os.WriteFile(os.Args[2], []byte(os.Args[3]), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "whoami":
		fmt.Println(whoAmI())
	case "count":
		go func() {
			for number := 0; ; number++ {
				fmt.Println(number)
				time.Sleep(100 * time.Millisecond)
			}
		}()
	case "spin":
		fmt.Println("spinning")
		go func() {
			for turn := 0; ; turn++ {
			}
		}()
	case "serve":
		fmt.Println("serving on", os.Args[2])
		go func() {
			answer := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.Path) }
			fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+os.Args[2], http.HandlerFunc(answer)))
			os.Exit(1)
		}()
	case "fail":
		fmt.Fprintln(os.Stderr, "failing as asked")
		os.Exit(3)
	default:
		fmt.Fprintln(os.Stderr, "tiny: pause | sleep | say TEXT | keep FILE TEXT | count | whoami | spin | serve PORT | fail")
		os.Exit(2)
	}
	<-stop
}

// whoAmI is the user the API server takes this pod for, asked as any program in a pod would.
func whoAmI() string {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err.Error()
	}
	certificate, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err.Error()
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	server := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	const review = `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`
	url := "https://" + server + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	request, err := http.NewRequest("POST", url, strings.NewReader(review))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	var answer struct {
		Status struct {
			UserInfo struct{ Username string }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err.Error()
	}
	return answer.Status.UserInfo.Username
}
