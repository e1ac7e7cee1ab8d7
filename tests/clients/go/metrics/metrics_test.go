package metrics

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/metrics/pkg/client/clientset/versioned"
)

// The client of metrics.k8s.io reads what an extension API server behind the aggregator serves.
func TestMetrics(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	client := versioned.NewForConfigOrDie(config).MetricsV1beta1()
	ctx := context.Background()
	nodes, err := client.NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("nodes: %+v, %v", nodes, err)
	}
	if cpu := nodes.Items[0].Usage.Cpu().MilliValue(); cpu != 500 {
		t.Errorf("the node uses %dm", cpu)
	}
	if nodes.Items[0].Window.Duration <= 0 || nodes.Items[0].Timestamp.IsZero() {
		t.Errorf("window and timestamp: %+v", nodes.Items[0])
	}
	pod, err := client.PodMetricses("default").Get(ctx, "web-1", metav1.GetOptions{})
	if err != nil || len(pod.Containers) != 1 {
		t.Fatalf("pod: %+v, %v", pod, err)
	}
	if memory := pod.Containers[0].Usage.Memory().Value(); memory != 64<<20 {
		t.Errorf("the container uses %d bytes", memory)
	}
}

// Discovery shows the resources of the extension API server beside those of the host.
func TestDiscovery(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			kinds[list.GroupVersion+" "+resource.Kind] = true
		}
	}
	for _, kind := range []string{"metrics.k8s.io/v1beta1 NodeMetrics", "metrics.k8s.io/v1beta1 PodMetrics", "v1 Pod", "apps/v1 Deployment"} {
		if !kinds[kind] {
			t.Errorf("discovery has no %s", kind)
		}
	}
}
