package clients

import (
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// defineCells creates the custom resource cells in a group of its own and waits until it is
// established.
func defineCells(t *testing.T, ctx context.Context, config *rest.Config, group string) schema.GroupVersionResource {
	t.Helper()
	client := must(apiextensions.NewForConfig(config))(t).ApiextensionsV1().CustomResourceDefinitions()
	anything := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "cells." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "cells", Kind: "Cell"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &anything,
					},
				},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				},
			}},
		},
	}
	stream := must(client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + definition.Name}))(t)
	defer stream.Stop()
	must(client.Create(ctx, definition, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = client.Delete(context.Background(), definition.Name, metav1.DeleteOptions{})
	})
	for {
		changed := receive(t, ctx, stream.ResultChan()).Object.(*apiextensionsv1.CustomResourceDefinition)
		for _, condition := range changed.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "cells"}
			}
		}
	}
}

func cell(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": int64(3), "ratio": 0.5, "tags": []any{"x", nil}},
	}}
}

// testCells creates, lists, watches, patches and deletes custom objects with the dynamic client.
func testCells(t *testing.T, group string) []exchange {
	config, recorded := connect(t)
	namespace := newNamespace(t, must(kubernetes.NewForConfig(config))(t))
	ctx := bounded(t)
	resource := defineCells(t, ctx, config, group)
	cells := must(dynamic.NewForConfig(config))(t).Resource(resource).Namespace(namespace)

	object := cell("a")
	object.SetAPIVersion(group + "/v1")
	object.SetKind("Cell")
	created := must(cells.Create(ctx, object, metav1.CreateOptions{}))(t)
	size, _, err := unstructured.NestedInt64(created.Object, "spec", "size")
	if err != nil || size != 3 {
		t.Fatalf("size is %d: %v", size, err)
	}
	stream := must(cells.Watch(ctx, metav1.ListOptions{ResourceVersion: created.GetResourceVersion()}))(t)
	defer stream.Stop()
	patch := []byte(`{"status":{"phase":"Ready"}}`)
	must(cells.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
	event := receive(t, ctx, stream.ResultChan())
	phase, _, _ := unstructured.NestedString(event.Object.(*unstructured.Unstructured).Object, "status", "phase")
	if event.Type != watch.Modified || phase != "Ready" {
		t.Fatalf("the event is %+v", event)
	}
	list := must(cells.List(ctx, metav1.ListOptions{}))(t)
	if len(list.Items) != 1 || list.GetKind() != "CellList" {
		t.Fatalf("the list is %+v", list)
	}
	if err := cells.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := receive(t, ctx, stream.ResultChan()); event.Type != watch.Deleted {
		t.Fatalf("the event is %+v", event)
	}
	return recorded.all()
}

// The dynamic client works with custom objects in JSON.
func TestDynamicClient(t *testing.T) {
	for _, each := range testCells(t, "json.example.com") {
		if strings.Contains(each.path, "/cells") && each.status < 300 && !strings.HasPrefix(each.receivedType, "application/json") {
			t.Errorf("%s %s is %s", each.method, each.path, each.receivedType)
		}
	}
}

// A dynamic informer sees custom objects.
func TestDynamicInformer(t *testing.T) {
	config, _ := connect(t)
	namespace := newNamespace(t, must(kubernetes.NewForConfig(config))(t))
	ctx := bounded(t)
	resource := defineCells(t, ctx, config, "informer.example.com")
	client := must(dynamic.NewForConfig(config))(t)
	object := cell("a")
	object.SetAPIVersion("informer.example.com/v1")
	object.SetKind("Cell")
	must(client.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{}))(t)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	lister := factory.ForResource(resource).Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	must(lister.ByNamespace(namespace).Get("a"))(t)
}
