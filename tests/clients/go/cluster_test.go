// Package clients tests client-go against a running kapiserver, which KUBECONFIG names.
package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// waitSeconds bounds each wait for the server.
const waitSeconds = 60

// exchange is a request and what its response said.
type exchange struct {
	method, path, query    string
	sentType, receivedType string
	protocol               string
	status                 int
}

// recorder is a transport that records each exchange.
type recorder struct {
	next http.RoundTripper

	lock      sync.Mutex
	exchanges []exchange
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.exchanges = append(r.exchanges, exchange{
		method:       request.Method,
		path:         request.URL.Path,
		query:        request.URL.RawQuery,
		sentType:     request.Header.Get("Content-Type"),
		receivedType: response.Header.Get("Content-Type"),
		protocol:     response.Proto,
		status:       response.StatusCode,
	})
	return response, nil
}

// all returns the exchanges up to now.
func (r *recorder) all() []exchange {
	r.lock.Lock()
	defer r.lock.Unlock()
	return append([]exchange(nil), r.exchanges...)
}

// connect returns the settings of an administrator's client and the recorder of its requests.
func connect(t *testing.T) (*rest.Config, *recorder) {
	t.Helper()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 1000, 1000
	recorded := &recorder{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		recorded.next = next
		return recorded
	})
	return config, recorded
}

// bounded returns a context that ends with the test, at the latest after waitSeconds.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitSeconds*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// newNamespace creates a namespace for one test and returns its name.
func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"}}
	created, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// must returns a value, or fails the test.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// receive returns the next value of a channel, or fails the test.
func receive[T any](t *testing.T, ctx context.Context, values <-chan T) T {
	t.Helper()
	select {
	case value, open := <-values:
		if !open {
			t.Fatal("the channel is closed")
		}
		return value
	case <-ctx.Done():
		t.Fatal(fmt.Errorf("nothing came: %w", ctx.Err()))
	}
	panic("unreachable")
}
