package clients

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestHTTP2 checks that client-go speaks HTTP/2, as with kube-apiserver, unless it is told not to.
func TestHTTP2(t *testing.T) {
	for _, protocol := range []string{"HTTP/2.0", "HTTP/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			config, recorded := connect(t)
			if protocol == "HTTP/1.1" {
				config.TLSClientConfig.NextProtos = []string{"http/1.1"}
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			watchWhileWriting(t, client)
			for _, each := range recorded.all() {
				if each.protocol != protocol {
					t.Fatalf("%s %s has protocol %s", each.method, each.path, each.protocol)
				}
			}
		})
	}
}

// watchWhileWriting opens watches, creates objects and reads them, and expects all events.
func watchWhileWriting(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const watches, objects = 20, 5
	ctx := bounded(t)
	secrets := client.CoreV1().Secrets(newNamespace(t, client))
	var done sync.WaitGroup
	for range watches {
		watch, err := secrets.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done.Go(func() {
			defer watch.Stop()
			for range objects {
				if event := <-watch.ResultChan(); event.Type != "ADDED" {
					t.Errorf("event %v", event)
				}
			}
		})
	}
	for range objects {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "secret-"}}
		created, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := secrets.Get(ctx, created.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	done.Wait()
}
