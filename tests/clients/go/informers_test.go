package clients

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// An informer gets its first objects from a stream (WatchList), without a list, and then each change.
func TestInformerWithWatchList(t *testing.T) {
	config, recorded := connect(t)
	client := must(kubernetes.NewForConfig(config))(t)
	namespace := newNamespace(t, client)
	maps := client.CoreV1().ConfigMaps(namespace)
	ctx := bounded(t)
	for _, name := range []string{"a", "b"} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(maps.Create(ctx, object, metav1.CreateOptions{}))(t)
	}

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps()
	events := make(chan string, 100)
	must(informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { events <- "add " + object.(*corev1.ConfigMap).Name },
		UpdateFunc: func(_, object any) {
			changed := object.(*corev1.ConfigMap)
			events <- "update " + changed.Name + " " + changed.Data["k"]
		},
		DeleteFunc: func(object any) { events <- "delete " + object.(*corev1.ConfigMap).Name },
	}))(t)
	factory.StartWithContext(ctx)
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("%v did not sync", resource)
		}
	}
	names := map[string]bool{}
	for _, object := range must(informer.Lister().List(labels.Everything()))(t) {
		names[object.Name] = true
	}
	if !names["a"] || !names["b"] {
		t.Fatalf("the lister has %v", names)
	}
	first := map[string]bool{receive(t, ctx, events): true, receive(t, ctx, events): true}
	for first["add kube-root-ca.crt"] || len(first) < 2 {
		delete(first, "add kube-root-ca.crt") // a controller created it
		first[receive(t, ctx, events)] = true
	}
	if !first["add a"] || !first["add b"] {
		t.Fatalf("the first events are %v", first)
	}

	changed := must(maps.Get(ctx, "a", metav1.GetOptions{}))(t)
	changed.Data = map[string]string{"k": "v"}
	must(maps.Update(ctx, changed, metav1.UpdateOptions{}))(t)
	if err := maps.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, expected := range []string{"update a v", "delete b"} {
		event := receive(t, ctx, events)
		for event == "add kube-root-ca.crt" {
			event = receive(t, ctx, events)
		}
		if event != expected {
			t.Fatalf("%q came instead of %q", event, expected)
		}
	}

	streams := 0
	for _, each := range recorded.all() {
		if each.method != "GET" || !strings.HasSuffix(each.path, "/configmaps") {
			continue
		}
		if !strings.Contains(each.query, "watch=true") {
			t.Errorf("the informer sent a list: %s", each.query)
		}
		if strings.Contains(each.query, "sendInitialEvents=true") {
			streams++
		}
	}
	if streams != 1 {
		t.Errorf("%d streams had initial events", streams)
	}
}

// An informer that selects by label sees an object come and go as its label changes.
func TestInformerWithSelector(t *testing.T) {
	config, _ := connect(t)
	client := must(kubernetes.NewForConfig(config))(t)
	namespace := newNamespace(t, client)
	ctx := bounded(t)
	factory := informers.NewSharedInformerFactoryWithOptions(
		client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "app=web" }),
	)
	events := make(chan string, 100)
	must(factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { events <- "add" },
		DeleteFunc: func(any) { events <- "delete" },
	}))(t)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())

	maps := client.CoreV1().ConfigMaps(namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	object = must(maps.Create(ctx, object, metav1.CreateOptions{}))(t)
	for _, step := range []struct{ label, event string }{{"web", "add"}, {"other", "delete"}, {"web", "add"}} {
		object.Labels = map[string]string{"app": step.label}
		object = must(maps.Update(ctx, object, metav1.UpdateOptions{}))(t)
		if event := receive(t, ctx, events); event != step.event {
			t.Fatalf("%q came instead of %q", event, step.event)
		}
	}
}
