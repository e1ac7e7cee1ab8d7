package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	sitesv1 "example.com/website-operator/api/v1"
	"example.com/website-operator/internal/controller"
	sitewebhook "example.com/website-operator/internal/webhook"
)

// api is a client of the test environment, in which the operator runs.
var api client.WithWatch

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

// runTests starts kube-apiserver and etcd of KUBEBUILDER_ASSETS and the operator, and runs the tests.
// The variable turns on controllers in kapiserver; envtest's own kube-apiserver ignores it.
func runTests(m *testing.M) int {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	check(os.Setenv("KAPISERVER_CONTROLLERS", "garbage-collector-controller,namespace-controller"))
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{"config/crd"},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"config/webhook"}},
	}
	config := must(environment.Start())
	defer func() { check(environment.Stop()) }()
	scheme := runtime.NewScheme()
	check(clientgoscheme.AddToScheme(scheme))
	check(sitesv1.AddToScheme(scheme))
	api = must(client.NewWithWatch(config, client.Options{Scheme: scheme}))

	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	manager := newManager(config, scheme, &environment.WebhookInstallOptions)
	go func() { stopped <- manager.Start(ctx) }()
	defer func() { stop(); check(<-stopped) }()
	check(wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return manager.GetWebhookServer().StartedChecker()(nil) == nil, nil
	}))
	return m.Run()
}

func newManager(config *rest.Config, scheme *runtime.Scheme, options *envtest.WebhookInstallOptions) ctrl.Manager {
	manager := must(ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host:    options.LocalServingHost,
			Port:    options.LocalServingPort,
			CertDir: options.LocalServingCertDir,
		}),
	}))
	check((&controller.WebsiteReconciler{Client: manager.GetClient()}).SetupWithManager(manager))
	check(sitewebhook.SetupWithManager(manager))
	return manager
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// newSite creates a namespace and a site in it.
func newSite(t *testing.T, spec sitesv1.WebsiteSpec) *sitesv1.Website {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sites-"}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	site := &sitesv1.Website{
		ObjectMeta: metav1.ObjectMeta{Name: "site", Namespace: namespace.Name},
		Spec:       spec,
	}
	if err := api.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	return site
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return holds() })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// exists reports whether an object of the site's name is there.
func exists(t *testing.T, site *sitesv1.Website, object client.Object) (bool, error) {
	err := api.Get(t.Context(), client.ObjectKeyFromObject(site), object)
	return err == nil, client.IgnoreNotFound(err)
}

// A site gets a deployment and a service, which follow it.
func TestDeployment(t *testing.T) {
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	eventually(t, "the deployment", func() (bool, error) { return exists(t, site, deployment) })
	eventually(t, "the service", func() (bool, error) { return exists(t, site, service) })
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != sitewebhook.DefaultImage {
		t.Errorf("the image is %s", image)
	}
	if !metav1.IsControlledBy(deployment, site) || !metav1.IsControlledBy(service, site) {
		t.Error("the site does not own its objects")
	}
	change := client.MergeFrom(site.DeepCopyObject().(client.Object))
	three := int32(3)
	site.Spec.Replicas = &three
	if err := api.Patch(t.Context(), site, change); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three replicas", func() (bool, error) {
		_, err := exists(t, site, deployment)
		return *deployment.Spec.Replicas == 3, err
	})
}

// The status follows that of the deployment, which no controller of Kubernetes sets here.
func TestStatus(t *testing.T) {
	if podsRun() {
		t.Skip("the controllers of Kubernetes set the status of the deployment")
	}
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	isReady := func(status metav1.ConditionStatus) func() (bool, error) {
		return func() (bool, error) {
			_, err := exists(t, site, site)
			return meta.IsStatusConditionPresentAndEqual(site.Status.Conditions, controller.Ready, status), err
		}
	}
	eventually(t, "the condition is false", isReady(metav1.ConditionFalse))
	deployment := &appsv1.Deployment{}
	eventually(t, "the deployment", func() (bool, error) { return exists(t, site, deployment) })
	deployment.Status.Replicas, deployment.Status.ReadyReplicas = 1, 1
	if err := api.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the condition is true", isReady(metav1.ConditionTrue))
	if site.Status.ReadyReplicas != 1 {
		t.Errorf("%d replicas are ready", site.Status.ReadyReplicas)
	}
}

// A site is ready when all pods of its deployment are, also after a change.
func TestRollout(t *testing.T) {
	if !podsRun() {
		t.Skip("no pods run without KAPISERVER_SIMULATE")
	}
	three := int32(3)
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com", Replicas: &three})
	isReady := func() (bool, error) {
		_, err := exists(t, site, site)
		return meta.IsStatusConditionTrue(site.Status.Conditions, controller.Ready) &&
			site.Status.ReadyReplicas == *site.Spec.Replicas, err
	}
	eventually(t, "three pods are ready", isReady)
	change := client.MergeFrom(site.DeepCopyObject().(client.Object))
	five := int32(5)
	site.Spec.Replicas = &five
	if err := api.Patch(t.Context(), site, change); err != nil {
		t.Fatal(err)
	}
	eventually(t, "five pods are ready", isReady)
}

// podsRun reports whether kapiserver simulates nodes, so that the pods of a deployment get ready.
func podsRun() bool {
	return os.Getenv("KAPISERVER_SIMULATE") != ""
}

// A deployment that somebody deletes comes back.
func TestDeletedDeploymentComesBack(t *testing.T) {
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	deployment := &appsv1.Deployment{}
	eventually(t, "the deployment", func() (bool, error) { return exists(t, site, deployment) })
	uid := deployment.UID
	if err := api.Delete(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another deployment", func() (bool, error) {
		found, err := exists(t, site, deployment)
		return found && deployment.UID != uid, err
	})
}

// The garbage collector deletes the objects of a deleted site. envtest's own programs have none.
func TestGarbageCollection(t *testing.T) {
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		eventually(t, "an object of the site", func() (bool, error) { return exists(t, site, object) })
	}
	if err := api.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		eventually(t, "the deletion of an object", func() (bool, error) {
			found, err := exists(t, site, object)
			return !found, err
		})
	}
}

// A deleted namespace goes away with its site. With envtest's own programs it stays for ever.
func TestNamespaceDeletion(t *testing.T) {
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site.Namespace}}
	if err := api.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion of the namespace", func() (bool, error) {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// The webhooks set defaults, warn, and refuse an invalid host and a change of the host.
func TestWebhooks(t *testing.T) {
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	if site.Spec.Image != sitewebhook.DefaultImage || *site.Spec.Replicas != 1 {
		t.Errorf("the defaults are %+v", site.Spec)
	}
	invalid := &sitesv1.Website{
		ObjectMeta: metav1.ObjectMeta{Name: "invalid", Namespace: site.Namespace},
		Spec:       sitesv1.WebsiteSpec{Host: "no host"},
	}
	if err := api.Create(t.Context(), invalid); !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v", err)
	}
	change := client.MergeFrom(site.DeepCopyObject().(client.Object))
	site.Spec.Host = "other.example.com"
	if err := api.Patch(t.Context(), site, change); !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v", err)
	}
}

// A watch sees the states of a site in their order.
func TestWatch(t *testing.T) {
	site := newSite(t, sitesv1.WebsiteSpec{Host: "www.example.com"})
	stream, err := api.Watch(t.Context(), &sitesv1.WebsiteList{}, client.InNamespace(site.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	if err := api.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	var types []string
	for event := range stream.ResultChan() {
		types = append(types, string(event.Type))
		if event.Type == "DELETED" {
			break
		}
	}
	if !slices.Contains(types, "ADDED") {
		t.Errorf("the events are %v", types)
	}
}
