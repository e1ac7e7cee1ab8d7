// Command http2load loads a server by client-go over HTTP/1.1 or HTTP/2.
//
// DISABLE_HTTP2=1 makes client-go speak HTTP/1.1, as in kubectl. Each kind of work is one line on
// standard output: the work, the number of operations, and the protocol of the responses.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// protocolRecorder remembers the protocol of the last response.
type protocolRecorder struct {
	next     http.RoundTripper
	protocol *atomic.Value
}

func (r protocolRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil {
		r.protocol.Store(response.Proto)
	}
	return response, err
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "file of the kubeconfig")
	work := flag.String("work", "get", "prepare, get, create, list or watch")
	count := flag.Int("count", 1000, "number of operations; of events for each watch")
	workers := flag.Int("workers", 1, "number of goroutines; of watches")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	config.QPS, config.Burst = -1, -1
	var protocol atomic.Value
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return protocolRecorder{next, &protocol}
	})
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "http2load"))
	check(err)
	run(client, *work, *count, *workers)
	fmt.Println(*work, *count, protocol.Load())
}

func run(client kubernetes.Interface, work string, count, workers int) {
	maps := client.CoreV1().ConfigMaps("default")
	background := context.Background()
	switch work {
	case "prepare":
		each(count, workers, func(number int) {
			_, err := maps.Create(background, configMap(fmt.Sprintf("map-%d", number)), metav1.CreateOptions{})
			check(err)
		})
	case "get":
		each(count, workers, func(number int) {
			_, err := maps.Get(background, fmt.Sprintf("map-%d", number%500), metav1.GetOptions{})
			check(err)
		})
	case "create":
		each(count, workers, func(number int) {
			created := configMap("")
			created.GenerateName = "created-"
			_, err := client.CoreV1().ConfigMaps("kube-public").Create(background, created, metav1.CreateOptions{})
			check(err)
		})
	case "list":
		each(count, workers, func(int) {
			_, err := maps.List(background, metav1.ListOptions{})
			check(err)
		})
	case "watch":
		watch(client, count, workers)
	}
}

// watch opens watches, writes so many times, and returns when each watch has all events.
func watch(client kubernetes.Interface, count, watches int) {
	background := context.Background()
	maps := client.CoreV1().ConfigMaps("kube-system")
	list, err := maps.List(background, metav1.ListOptions{})
	check(err)
	var received sync.WaitGroup
	for range watches {
		watch, err := maps.Watch(background, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		check(err)
		received.Go(func() {
			for range count {
				<-watch.ResultChan()
			}
			watch.Stop()
		})
	}
	each(count, 1, func(int) {
		created := configMap("")
		created.GenerateName = "event-"
		_, err := maps.Create(background, created, metav1.CreateOptions{})
		check(err)
	})
	received.Wait()
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"key": strings.Repeat("x", 1000)},
	}
}

// each calls a function with the numbers from 0, in so many goroutines.
func each(count, workers int, operate func(number int)) {
	var next atomic.Int64
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for number := int(next.Add(1)) - 1; number < count; number = int(next.Add(1)) - 1 {
				operate(number)
			}
		})
	}
	done.Wait()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
