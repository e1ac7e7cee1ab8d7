package main

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// creationByCache creates members until the cache shows enough of them.
//
// A cache shows a write only when its event has come. Kubernetes' own controllers keep
// "expectations" for this reason; operators that only count, under generated names, create members
// twice as soon as something else makes them reconcile before, and delete the surplus later. The
// corrected twin gives each member a name of its own, so that a second creation is refused.
func creationByCache(repaired bool) Reconcile {
	return func(ctx context.Context, c client.Client, database *unstructured.Unstructured) error {
		if repaired {
			return createNamed(ctx, c, database)
		}
		var members corev1.ConfigMapList
		labels := client.MatchingLabels{"database": database.GetName()}
		if err := c.List(ctx, &members, labels, client.InNamespace(database.GetNamespace())); err != nil {
			return err
		}
		if len(members.Items) < replicas(database) {
			created := configMap(database, "")
			created.GenerateName = database.GetName() + "-"
			if err := c.Create(ctx, created); err != nil {
				return err
			}
			return setPhase(ctx, c, database, "Scaling") // whose event brings the next member
		}
		slices.SortFunc(members.Items, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
		for _, surplus := range members.Items[replicas(database):] {
			if err := c.Delete(ctx, &surplus); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return setPhase(ctx, c, database, "Ready")
	}
}

func createNamed(ctx context.Context, c client.Client, database *unstructured.Unstructured) error {
	for index := range replicas(database) {
		err := c.Create(ctx, configMap(database, member(database, index)))
		if client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}
