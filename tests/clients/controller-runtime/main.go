// An operator on controller-runtime as people write them: it marks each claim, keeps a ConfigMap for it, colours it as its class is
// coloured, tells of that by a condition and an event, and lets go of a claim that is deleted. One of several does so at a time. Runs
// until it is told to stop.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	finalizer = "clients.pvbind.dev/marked"
	markedBy  = "clients.pvbind.dev/marked-by"
	color     = "color"
	ofClass   = "spec.storageClassName"
	condition = core.PersistentVolumeClaimConditionType("clients.pvbind.dev/Marked")
)

// marker reconciles claims.
type marker struct {
	client.Client
	events   events.EventRecorder
	identity string
}

func (m *marker) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	claim := &core.PersistentVolumeClaim{}
	if err := m.Get(ctx, request.NamespacedName, claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, m.letGo(ctx, claim)
	}
	shade, err := m.shade(ctx, claim)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := claim.DeepCopy()
	controllerutil.AddFinalizer(claim, finalizer)
	meta.SetMetaDataAnnotation(&claim.ObjectMeta, markedBy, m.identity)
	meta.SetMetaDataLabel(&claim.ObjectMeta, color, shade)
	if err := m.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, err
	}
	if err := m.keepMap(ctx, claim, shade); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, m.tell(ctx, claim)
}

// shade is the colour of a claim's class, of which the cache holds the metadata alone.
func (m *marker) shade(ctx context.Context, claim *core.PersistentVolumeClaim) (string, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
		return "none", nil
	}
	class := &meta.PartialObjectMetadata{}
	class.SetGroupVersionKind(storage.SchemeGroupVersion.WithKind("StorageClass"))
	if err := m.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
		return "none", client.IgnoreNotFound(err)
	}
	return class.Labels[color], nil
}

// keepMap keeps a map for a claim, which owns it.
func (m *marker) keepMap(ctx context.Context, claim *core.PersistentVolumeClaim, shade string) error {
	kept := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, m.Client, kept, func() error {
		kept.Data = map[string]string{color: shade}
		return controllerutil.SetControllerReference(claim, kept, m.Scheme())
	})
	return err
}

// tell says once that a claim is marked.
func (m *marker) tell(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	for _, known := range claim.Status.Conditions {
		if known.Type == condition {
			return nil
		}
	}
	before := claim.DeepCopy()
	claim.Status.Conditions = append(claim.Status.Conditions, core.PersistentVolumeClaimCondition{
		Type: condition, Status: core.ConditionTrue, Reason: "Marked", LastTransitionTime: meta.Now(),
	})
	if err := m.Status().Patch(ctx, claim, client.MergeFrom(before)); err != nil {
		return err
	}
	m.events.Eventf(claim, nil, core.EventTypeNormal, "Marked", "Marking", "%s is marked", claim.Name)
	return nil
}

// letGo removes what was made for a claim, and then what keeps it.
func (m *marker) letGo(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if !controllerutil.ContainsFinalizer(claim, finalizer) {
		return nil
	}
	kept := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
	if err := client.IgnoreNotFound(m.Delete(ctx, kept)); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(claim, finalizer)
	if err := m.Update(ctx, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	m.events.Eventf(claim, nil, core.EventTypeNormal, "LetGo", "LettingGo", "%s is let go", claim.Name)
	return nil
}

// claimsOf are asked for anew when their class changes.
func (m *marker) claimsOf(ctx context.Context, class client.Object) []reconcile.Request {
	claims := &core.PersistentVolumeClaimList{}
	if err := m.List(ctx, claims, client.MatchingFields{ofClass: class.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "claims of a class")
	}
	var requests []reconcile.Request
	for _, claim := range claims.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)})
	}
	return requests
}

func (m *marker) setUp(ctx context.Context, manager ctrl.Manager) error {
	index := func(object client.Object) []string {
		if class := object.(*core.PersistentVolumeClaim).Spec.StorageClassName; class != nil {
			return []string{*class}
		}
		return nil
	}
	if err := manager.GetFieldIndexer().IndexField(ctx, &core.PersistentVolumeClaim{}, ofClass, index); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).
		For(&core.PersistentVolumeClaim{}).
		Owns(&core.ConfigMap{}).
		WatchesMetadata(&storage.StorageClass{}, handler.EnqueueRequestsFromMapFunc(m.claimsOf), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(m)
}

func run() error {
	// The kubeconfig's flag is controller-runtime's own.
	identity := flag.String("identity", "", "what claims are marked with")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	lease, renew, retry := 6*time.Second, 4*time.Second, 500*time.Millisecond
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                         cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                       metrics.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "marker",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	m := &marker{Client: manager.GetClient(), events: manager.GetEventRecorder("marker"), identity: *identity}
	if err := m.setUp(ctx, manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "controller-runtime:", err)
		os.Exit(1)
	}
}
