package clients

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Of two candidates one leads; when it releases the lease, the other does.
func TestLeaderElection(t *testing.T) {
	config, _ := connect(t)
	client := must(kubernetes.NewForConfig(config))(t)
	namespace := newNamespace(t, client)
	ctx := bounded(t)
	leaders := make(chan string, 10)
	run := func(ctx context.Context, identity string) {
		lock := must(resourcelock.New(
			resourcelock.LeasesResourceLock, namespace, "lock", client.CoreV1(),
			client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity},
		))(t)
		elector := must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, Name: "lock",
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
			RetryPeriod: 100 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leaders <- identity },
				OnStoppedLeading: func() {},
			},
		}))(t)
		go elector.Run(ctx)
	}

	firstContext, release := context.WithCancel(ctx)
	run(firstContext, "first")
	if leader := receive(t, ctx, leaders); leader != "first" {
		t.Fatalf("%s leads", leader)
	}
	run(ctx, "second")
	release()
	if leader := receive(t, ctx, leaders); leader != "second" {
		t.Fatalf("%s leads", leader)
	}
	lease := must(client.CoordinationV1().Leases(namespace).Get(ctx, "lock", metav1.GetOptions{}))(t)
	if *lease.Spec.HolderIdentity != "second" || *lease.Spec.LeaseTransitions < 1 {
		t.Fatalf("the lease is %+v", lease.Spec)
	}
}
