package clients

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// useConfigMaps creates, lists, watches and deletes objects with a typed client.
func useConfigMaps(t *testing.T, config *rest.Config) {
	t.Helper()
	client := must(kubernetes.NewForConfig(config))(t)
	ctx := bounded(t)
	maps := client.CoreV1().ConfigMaps(newNamespace(t, client))
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Data:       map[string]string{"text": "ü"},
		BinaryData: map[string][]byte{"bytes": {0, 255, 1}},
	}
	created := must(maps.Create(ctx, object, metav1.CreateOptions{}))(t)
	stream := must(maps.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=a", ResourceVersion: created.ResourceVersion,
	}))(t)
	defer stream.Stop()
	list := must(maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"}))(t)
	if len(list.Items) != 1 || list.Items[0].BinaryData["bytes"][1] != 255 || list.Items[0].Data["text"] != "ü" {
		t.Fatalf("the list is %+v", list)
	}
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := receive(t, ctx, stream.ResultChan()); event.Type != watch.Deleted {
		t.Fatalf("the event is %+v", event)
	}
}

// checkTypes fails the test unless all requests and responses of ConfigMaps have a content type.
func checkTypes(t *testing.T, exchanges []exchange, expected string) {
	t.Helper()
	count := 0
	for _, each := range exchanges {
		if !strings.Contains(each.path, "/configmaps") && !strings.Contains(each.path, "/cells") {
			continue
		}
		count++
		if !strings.HasPrefix(each.receivedType, expected) {
			t.Errorf("%s %s?%s is %s", each.method, each.path, each.query, each.receivedType)
		}
		if each.method == "POST" && each.sentType != expected {
			t.Errorf("%s %s was sent as %s", each.method, each.path, each.sentType)
		}
	}
	if count < 4 {
		t.Errorf("only %d exchanges", count)
	}
}

// A typed client sends and receives Protobuf, in watch streams too.
func TestProtobuf(t *testing.T) {
	config, recorded := connect(t)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	useConfigMaps(t, config)
	checkTypes(t, recorded.all(), "application/vnd.kubernetes.protobuf")
}

// A typed client sends and receives CBOR.
func TestCBOR(t *testing.T) {
	clientfeaturestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	clientfeaturestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	config, recorded := connect(t)
	config.ContentType = "application/cbor"
	config.AcceptContentTypes = "application/cbor,application/json"
	useConfigMaps(t, config)
	checkTypes(t, recorded.all(), "application/cbor")
}

// The dynamic client sends and receives CBOR if its feature gates say so.
func TestDynamicCBOR(t *testing.T) {
	clientfeaturestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	clientfeaturestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	checkTypes(t, testCells(t, "cbor.example.com"), "application/cbor")
}
