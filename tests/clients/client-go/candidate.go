package main

import (
	"context"
	"fmt"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// candidate runs for the lease default/it until it is told to stop, and lets go of it then. It tells of it by events.
func candidate(ctx context.Context, config *rest.Config, identity string) {
	client := kubernetes.NewForConfigOrDie(config)
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events(namespace)})
	recorder := events.NewRecorder(scheme.Scheme, core.EventSource{Component: identity})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  meta.ObjectMeta{Namespace: namespace, Name: "it"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity, EventRecorder: recorder},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   6 * time.Second,
		RenewDeadline:   4 * time.Second,
		RetryPeriod:     500 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Fprintln(os.Stderr, "leads") },
			OnStoppedLeading: func() { fmt.Fprintln(os.Stderr, "ends") },
		},
	})
}
