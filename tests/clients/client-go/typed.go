package main

import (
	"context"
	"math"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// api is what typed clients of all kinds have.
type api[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name}
}

// typedClients do in both forms, and in the one that they choose, what programs do; both forms say the same of each object.
func typedClients(ctx context.Context, config *rest.Config) {
	inJSON, jsons := watched(in(config, jsonForm))
	inProtobuf, protobufs := watched(in(config, protobufForm))
	chosen, choices := watched(config)
	clients := []*kubernetes.Clientset{
		kubernetes.NewForConfigOrDie(inJSON), kubernetes.NewForConfigOrDie(inProtobuf), kubernetes.NewForConfigOrDie(chosen),
	}
	for index, client := range clients {
		lifeOfClaims(ctx, client)
		patched(ctx, client)
		applied(ctx, client)
		subresources(ctx, client)
		other := clients[(index+1)%len(clients)]
		bothWays(ctx, client, other)
	}
	jsons.only(jsonForm)
	protobufs.only(protobufForm)
	// To bind a pod, and to evict it, client-go asks in JSON by its own choice.
	choices.only(protobufForm, jsonForm)
}

func claimOf(meta metav1.ObjectMeta) *core.PersistentVolumeClaim {
	size := core.ResourceList{core.ResourceStorage: resource.MustParse("1.5Gi")}
	return &core.PersistentVolumeClaim{ObjectMeta: meta, Spec: core.PersistentVolumeClaimSpec{
		AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
		Resources:   core.VolumeResourceRequirements{Requests: size},
	}}
}

// lifeOfClaims goes from their creation to their end, with what is refused on the way.
func lifeOfClaims(ctx context.Context, client *kubernetes.Clientset) {
	to := client.CoreV1().PersistentVolumeClaims(namespace)
	begin := must(to.List(ctx, metav1.ListOptions{})).ResourceVersion
	first := must(to.Create(ctx, claimOf(metav1.ObjectMeta{GenerateName: "c-", Labels: map[string]string{"of": "typed"}}), metav1.CreateOptions{}))
	expect(len(first.Name) == len("c-")+5 && first.UID != "" && !first.CreationTimestamp.IsZero(), "%s", text(first))
	equal(must(to.Get(ctx, first.Name, metav1.GetOptions{})), first)
	equal(first.Status.Phase, core.ClaimPending)

	changed := first.DeepCopy()
	changed.Annotations = map[string]string{"a": "b"}
	changed.Finalizers = nil
	changed = must(to.Update(ctx, changed, metav1.UpdateOptions{}))
	refused[*core.PersistentVolumeClaim](apierrors.IsConflict)(to.Update(ctx, first, metav1.UpdateOptions{}))
	refused[*core.PersistentVolumeClaim](apierrors.IsAlreadyExists)(to.Create(ctx, claimOf(named(first.Name)), metav1.CreateOptions{}))
	refused[*core.PersistentVolumeClaim](apierrors.IsNotFound)(to.Get(ctx, "nobody", metav1.GetOptions{}))
	invalid := changed.DeepCopy()
	invalid.Spec.AccessModes[0] = core.ReadWriteMany
	_, err := to.Update(ctx, invalid, metav1.UpdateOptions{})
	expect(apierrors.IsInvalid(err) && apierrors.HasStatusCause(err, metav1.CauseTypeForbidden), "%v", err)

	status := changed.DeepCopy()
	status.Status.Phase, status.Spec.VolumeName = core.ClaimLost, "not-by-this-way"
	status = must(to.UpdateStatus(ctx, status, metav1.UpdateOptions{}))
	expect(status.Status.Phase == core.ClaimLost && status.Spec.VolumeName == "", "%s", text(status))

	for range 4 {
		must(to.Create(ctx, claimOf(metav1.ObjectMeta{GenerateName: "c-", Labels: map[string]string{"of": "typed"}}), metav1.CreateOptions{}))
	}
	labelled, pages, count := metav1.ListOptions{LabelSelector: "of=typed", Limit: 2}, 0, 0
	for {
		page := must(to.List(ctx, labelled))
		pages, count, labelled.Continue = pages+1, count+len(page.Items), page.Continue
		if page.Continue == "" {
			break
		}
	}
	equal([]int{pages, count}, []int{3, 5})

	wrong := types.UID("another")
	err = to.Delete(ctx, first.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	expect(apierrors.IsConflict(err), "%v", err)
	done(to.Delete(ctx, first.Name, *metav1.NewPreconditionDeleteOptions(string(first.UID))))
	watchedClaims(ctx, client, begin, first.Name)
	done(to.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=typed"}))
	for _, left := range must(to.List(ctx, metav1.ListOptions{LabelSelector: "of=typed"})).Items {
		expect(left.DeletionTimestamp != nil, "%s goes", left.Name)
		must(to.Patch(ctx, left.Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}))
	}
	equal(len(must(to.List(ctx, metav1.ListOptions{LabelSelector: "of=typed"})).Items), 0)
}

// watchedClaims tells the life of a claim from before it was there.
func watchedClaims(ctx context.Context, client *kubernetes.Clientset, begin, name string) {
	options := metav1.ListOptions{ResourceVersion: begin, FieldSelector: "metadata.name=" + name, AllowWatchBookmarks: true}
	stream := must(client.CoreV1().PersistentVolumeClaims(namespace).Watch(ctx, options))
	defer stream.Stop()
	limit := time.After(patience)
	for _, expected := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Deleted} {
		select {
		case event := <-stream.ResultChan():
			equal(event.Type, expected)
			equal(event.Object.(*core.PersistentVolumeClaim).Name, name)
		case <-limit:
			fail("no event %s", expected)
		}
	}
}

// patched is a Service, in the three ways that a typed client has beside applying.
func patched(ctx context.Context, client *kubernetes.Clientset) {
	to := client.CoreV1().Services(namespace)
	ports := []core.ServicePort{{Name: "a", Port: 80, TargetPort: intstr.FromString("web")}, {Name: "b", Port: 81, TargetPort: intstr.FromInt32(8081)}}
	must(to.Create(ctx, &core.Service{ObjectMeta: named("s"), Spec: core.ServiceSpec{Ports: ports}}, metav1.CreateOptions{}))
	for _, step := range []struct {
		kind types.PatchType
		body string
		name string
		port int32
	}{
		{types.StrategicMergePatchType, `{"spec": {"ports": [{"port": 81, "name": "c"}]}}`, "c", 81},
		{types.JSONPatchType, `[{"op": "test", "path": "/spec/ports/1/port", "value": 81}, {"op": "replace", "path": "/spec/ports/1/port", "value": 82}]`, "c", 82},
		{types.MergePatchType, `{"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 83, "name": "d"}]}}`, "d", 83},
	} {
		after := must(to.Patch(ctx, "s", step.kind, []byte(step.body), metav1.PatchOptions{}))
		equal(len(after.Spec.Ports), 2)
		equal(after.Spec.Ports[1].Name, step.name)
		equal(after.Spec.Ports[1].Port, step.port)
	}
	done(to.Delete(ctx, "s", metav1.DeleteOptions{}))
}

// applied is a map by two who own fields of it, and one of whom insists.
func applied(ctx context.Context, client *kubernetes.Clientset) {
	to := client.CoreV1().ConfigMaps(namespace)
	mine := applycore.ConfigMap("m", namespace).WithData(map[string]string{"a": "1", "b": "1"})
	must(to.Apply(ctx, mine, metav1.ApplyOptions{FieldManager: "first"}))
	theirs := applycore.ConfigMap("m", namespace).WithData(map[string]string{"b": "2"})
	_, err := to.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "second"})
	expect(apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "%v", err)
	after := must(to.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "second", Force: true}))
	equal(after.Data, map[string]string{"a": "1", "b": "2"})
	left := must(applycore.ExtractConfigMap(after, "first"))
	equal(left.Data, map[string]string{"a": "1"})
	after = must(to.Apply(ctx, left.WithData(map[string]string{"c": "1"}), metav1.ApplyOptions{FieldManager: "first"}))
	equal(after.Data, map[string]string{"a": "1", "b": "2", "c": "1"})
	after = must(to.Apply(ctx, applycore.ConfigMap("m", namespace), metav1.ApplyOptions{FieldManager: "first"}))
	equal(after.Data, map[string]string{"b": "2"})
	done(to.Delete(ctx, "m", metav1.DeleteOptions{}))
}

// subresources are asked for what only they do.
func subresources(ctx context.Context, client *kubernetes.Clientset) {
	pods, account := client.CoreV1().Pods(namespace), must(client.CoreV1().ServiceAccounts(namespace).Create(ctx, &core.ServiceAccount{ObjectMeta: named("default")}, metav1.CreateOptions{}))
	labels := map[string]string{"of": "typed"}
	spec := core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}}
	must(pods.Create(ctx, &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}, Spec: spec}, metav1.CreateOptions{}))
	binding := &core.Binding{ObjectMeta: named("p"), Target: core.ObjectReference{Kind: "Node", Name: "n"}}
	done(pods.Bind(ctx, binding, metav1.CreateOptions{}))
	err := pods.Bind(ctx, binding, metav1.CreateOptions{})
	expect(apierrors.IsConflict(err), "a pod is bound once: %v", err)
	equal(must(pods.Get(ctx, "p", metav1.GetOptions{})).Spec.NodeName, "n")
	at := int64(0)
	done(pods.EvictV1(ctx, &policy.Eviction{ObjectMeta: named("p"), DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &at}}))
	refused[*core.Pod](apierrors.IsNotFound)(pods.Get(ctx, "p", metav1.GetOptions{}))

	seconds := int64(3600)
	ask := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token := must(client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account.Name, ask, metav1.CreateOptions{}))
	expect(token.Status.Token != "" && token.Status.ExpirationTimestamp.After(time.Now()), "%s", text(token))
	may := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorization.ResourceAttributes{Verb: "list", Resource: "pods"},
	}}
	review := must(client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, may, metav1.CreateOptions{}))
	equal(review.Status.Allowed, true)
	done(client.CoreV1().ServiceAccounts(namespace).Delete(ctx, account.Name, metav1.DeleteOptions{}))

	deployments := client.AppsV1().Deployments(namespace)
	template := core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	deployment := &apps.Deployment{ObjectMeta: named("d"), Spec: apps.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	must(deployments.Create(ctx, deployment, metav1.CreateOptions{}))
	scale := must(deployments.GetScale(ctx, "d", metav1.GetOptions{}))
	equal([]any{scale.Spec.Replicas, scale.Status.Selector}, []any{int32(1), "of=typed"})
	scale.Spec = autoscaling.ScaleSpec{Replicas: 3}
	must(deployments.UpdateScale(ctx, "d", scale, metav1.UpdateOptions{}))
	equal(*must(deployments.Get(ctx, "d", metav1.GetOptions{})).Spec.Replicas, int32(3))
	done(deployments.Delete(ctx, "d", metav1.DeleteOptions{}))
}

// same makes an object in one form and reads it in another, and the other way around.
func same[T metav1.Object](ctx context.Context, one, other api[T], wanted T) {
	made := must(one.Create(ctx, wanted, metav1.CreateOptions{}))
	read := must(other.Get(ctx, made.GetName(), metav1.GetOptions{}))
	equal(read, made)
	read.SetAnnotations(map[string]string{"read": "ä \u0000"})
	written := must(other.Update(ctx, read, metav1.UpdateOptions{}))
	equal(must(one.Get(ctx, made.GetName(), metav1.GetOptions{})), written)
}

// bothWays are values that the forms write in different ways.
func bothWays(ctx context.Context, one, other *kubernetes.Clientset) {
	meta := metav1.ObjectMeta{GenerateName: "x-"}
	same(ctx, one.CoreV1().Secrets(namespace), other.CoreV1().Secrets(namespace), &core.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": {0, 255}, "b": {}}})
	now := metav1.NewMicroTime(time.Unix(1_700_000_000, 123_456_000))
	holder, turns := "me", int32(math.MaxInt32)
	same(ctx, one.CoordinationV1().Leases(namespace), other.CoordinationV1().Leases(namespace),
		&coordination.Lease{ObjectMeta: meta, Spec: coordination.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &turns, RenewTime: &now}})
	same(ctx, one.AppsV1().ControllerRevisions(namespace), other.AppsV1().ControllerRevisions(namespace),
		&apps.ControllerRevision{ObjectMeta: meta, Revision: math.MaxInt64, Data: runtime.RawExtension{Raw: []byte(`{"a":[1,null,"x"]}`)}})
	selector := core.NodeSelectorRequirement{Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{"n"}}
	terms := []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{selector}}}
	block := core.PersistentVolumeBlock
	same(ctx, one.CoreV1().PersistentVolumes(), other.CoreV1().PersistentVolumes(), &core.PersistentVolume{
		ObjectMeta: meta,
		Spec: core.PersistentVolumeSpec{
			AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteOnce}, VolumeMode: &block,
			Capacity:               core.ResourceList{core.ResourceStorage: resource.MustParse("0.5Gi")},
			PersistentVolumeSource: core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: "/dev/x"}},
			NodeAffinity:           &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: terms}},
		},
	})
	size := resource.MustParse("12345678901234567890m")
	same(ctx, one.StorageV1().CSIStorageCapacities(namespace), other.StorageV1().CSIStorageCapacities(namespace),
		&storage.CSIStorageCapacity{ObjectMeta: meta, StorageClassName: "c", Capacity: &size, NodeTopology: &metav1.LabelSelector{}})
	never := false
	same(ctx, one.StorageV1().StorageClasses(), other.StorageV1().StorageClasses(), &storage.StorageClass{
		ObjectMeta: meta, Provisioner: "p", AllowVolumeExpansion: &never, Parameters: map[string]string{"x": "", "y": "1"}, MountOptions: []string{"ro"},
	})
}
