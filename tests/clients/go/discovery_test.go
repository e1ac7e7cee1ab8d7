package clients

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// The discovery cache on disk asks the server once, and gets 304 after it is invalidated.
func TestDiscoveryCache(t *testing.T) {
	config, recorded := connect(t)
	folder := t.TempDir()
	client := must(disk.NewCachedDiscoveryClientForConfig(config, folder+"/discovery", folder+"/http", time.Hour))(t)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(client)
	mapping := must(mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}))(t)
	if mapping.Resource.Version != "v1" || mapping.Resource.Resource != "deployments" {
		t.Fatalf("the mapping is %+v", mapping)
	}
	count := len(recorded.all())
	must(client.ServerPreferredResources())(t)
	if more := recorded.all()[count:]; len(more) > 0 {
		t.Errorf("the cache sent %+v", more)
	}
	client.Invalidate()
	must(client.ServerPreferredResources())(t)
	revalidated := false
	for _, each := range recorded.all()[count:] {
		revalidated = revalidated || each.status == 304
	}
	if !revalidated {
		t.Errorf("no response is 304: %+v", recorded.all()[count:])
	}
}

// Aggregated discovery has all groups in two requests.
func TestAggregatedDiscovery(t *testing.T) {
	config, recorded := connect(t)
	client := memory.NewMemCacheClient(must(discovery.NewDiscoveryClientForConfig(config))(t))
	groups, resources, err := client.ServerGroupsAndResources()
	if err != nil || len(groups) < 10 || len(resources) < 10 {
		t.Fatalf("%d groups, %d lists of resources: %v", len(groups), len(resources), err)
	}
	exchanges := recorded.all()
	if len(exchanges) != 2 {
		t.Errorf("the requests are %+v", exchanges)
	}
	for _, each := range exchanges {
		if !strings.Contains(each.receivedType, "as=APIGroupDiscoveryList") {
			t.Errorf("%s is %s", each.path, each.receivedType)
		}
	}
}

// The server's version and OpenAPI documents can be read.
func TestVersionAndOpenAPI(t *testing.T) {
	config, _ := connect(t)
	client := must(discovery.NewDiscoveryClientForConfig(config))(t)
	if version := must(client.ServerVersion())(t); version.Major != "1" {
		t.Errorf("the version is %+v", version)
	}
	paths := must(client.OpenAPIV3().Paths())(t)
	must(paths["apis/apps/v1"].Schema("application/json"))(t)
	must(client.OpenAPISchema())(t)
}
