// The operators of the corpus that are written with controller-runtime. The first argument names the
// operator; with --repaired its corrected twin runs.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var databases = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

// Reconcile brings what belongs to a database into the state that the database declares.
type Reconcile func(context.Context, client.Client, *unstructured.Unstructured) error

func main() {
	if len(os.Args) < 2 {
		log.Fatal("name an operator")
	}
	repaired := slices.Contains(os.Args, "--repaired")
	operators := map[string]Reconcile{
		"status-first":      statusFirst(repaired),
		"creation-by-cache": creationByCache(repaired),
	}
	reconcile, ok := operators[os.Args[1]]
	if !ok {
		log.Fatalf("there is no operator %s", os.Args[1])
	}
	if err := run(reconcile); err != nil {
		log.Fatal(err)
	}
}

func run(each Reconcile) error {
	ctrl.SetLogger(zap.New())
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}},
	})
	if err != nil {
		return err
	}
	database := newDatabase()
	reconciler := func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		database := newDatabase()
		if err := manager.GetClient().Get(ctx, request.NamespacedName, database); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if database.GetDeletionTimestamp() != nil {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, each(ctx, manager.GetClient(), database)
	}
	err = ctrl.NewControllerManagedBy(manager).
		Named("databases").
		For(database).
		Owns(&corev1.ConfigMap{}).
		Complete(reconcile.Func(reconciler))
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func newDatabase() *unstructured.Unstructured {
	database := &unstructured.Unstructured{}
	database.SetGroupVersionKind(databases)
	return database
}

// configMap returns a ConfigMap that the garbage collector deletes with the database.
func configMap(database *unstructured.Unstructured, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		Namespace:       database.GetNamespace(),
		Labels:          map[string]string{"database": database.GetName()},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(database, databases)},
	}}
}

func replicas(database *unstructured.Unstructured) int {
	count, _, _ := unstructured.NestedInt64(database.Object, "spec", "replicas")
	return int(count)
}

func member(database *unstructured.Unstructured, index int) string {
	return fmt.Sprintf("%s-%d", database.GetName(), index)
}
