package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusFirst reports that an object is set up before it sets it up.
//
// NiFiKop and other operators that Sieve tested recorded progress in a status and did the work
// afterwards, or remembered that they had done it. After a crash between both, the status says that
// nothing is left to do, and the members are never created. The corrected twin writes the status
// last.
func statusFirst(repaired bool) Reconcile {
	return func(ctx context.Context, c client.Client, database *unstructured.Unstructured) error {
		if phase, _, _ := unstructured.NestedString(database.Object, "status", "phase"); phase != "" {
			return nil
		}
		if !repaired {
			if err := setPhase(ctx, c, database, "Created"); err != nil {
				return err
			}
		}
		for index := range replicas(database) {
			err := c.Create(ctx, configMap(database, member(database, index)))
			if client.IgnoreAlreadyExists(err) != nil {
				return err
			}
		}
		if repaired {
			return setPhase(ctx, c, database, "Created")
		}
		return nil
	}
}

func setPhase(ctx context.Context, c client.Client, database *unstructured.Unstructured, phase string) error {
	if current, _, _ := unstructured.NestedString(database.Object, "status", "phase"); current == phase {
		return nil
	}
	before := client.MergeFrom(database.DeepCopy())
	if err := unstructured.SetNestedField(database.Object, phase, "status", "phase"); err != nil {
		return err
	}
	return c.Status().Patch(ctx, database, before)
}
