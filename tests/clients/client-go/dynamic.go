package main

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
)

// field is a field of an object, or nothing.
func field(object *unstructured.Unstructured, path ...string) any {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	done(err)
	return value
}

// dynamicClient does with objects that have no type here what programs do: built-in ones, and those of a definition.
func dynamicClient(ctx context.Context, config *rest.Config) {
	client := dynamic.NewForConfigOrDie(config)
	define(ctx, client)
	asked := memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(asked)
	for _, resource := range []schema.GroupVersionResource{claims, volumes, things} {
		kind := sample(resource, "x").GroupVersionKind()
		mapped := must(mapper.RESTMapping(kind.GroupKind(), kind.Version))
		equal(mapped.Resource, resource)
		lifeOf(ctx, scoped(client, resource), resource)
		paged(ctx, scoped(client, resource), resource)
	}
	appliedThings(ctx, scoped(client, things))
	scaled(ctx, config, mapper, asked, scoped(client, things))
	followed(ctx, scoped(client, maps), must(rest.RESTClientFor(unversioned(config))))
	// Things go with their definition, and their kind with them.
	done(client.Resource(definitions).Delete(ctx, "things."+group, metav1.DeleteOptions{}))
	eventually(func() string {
		_, err := scoped(client, things).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return "things are served"
	})
}

// unversioned is a configuration for a client of plain paths.
func unversioned(config *rest.Config) *rest.Config {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/"
	return config
}

// lifeOf an object goes from its creation to its end, with what is refused on the way.
func lifeOf(ctx context.Context, to dynamic.ResourceInterface, resource schema.GroupVersionResource) {
	wanted := sample(resource, "o")
	made := must(to.Create(ctx, wanted, metav1.CreateOptions{}))
	equal(must(to.Get(ctx, "o", metav1.GetOptions{})).Object, made.Object)
	refused[*unstructured.Unstructured](apierrors.IsAlreadyExists)(to.Create(ctx, wanted, metav1.CreateOptions{}))
	changed := made.DeepCopy()
	changed.SetLabels(map[string]string{"a": "b"})
	changed = must(to.Update(ctx, changed, metav1.UpdateOptions{}))
	refused[*unstructured.Unstructured](apierrors.IsConflict)(to.Update(ctx, made, metav1.UpdateOptions{}))
	tried := must(to.Patch(ctx, "o", types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "c"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
	equal(tried.GetLabels()["a"], "c")
	equal(must(to.Get(ctx, "o", metav1.GetOptions{})).Object, changed.Object)
	after := must(to.Patch(ctx, "o", types.JSONPatchType, []byte(`[{"op": "remove", "path": "/metadata/labels/a"}]`), metav1.PatchOptions{}))
	equal(len(after.GetLabels()), 0)
	strategic := []byte(`{"metadata": {"finalizers": ["clients.pvbind.dev/kept"]}}`)
	_, err := to.Patch(ctx, "o", types.StrategicMergePatchType, strategic, metav1.PatchOptions{})
	if resource == things {
		expect(apierrors.IsUnsupportedMediaType(err), "nobody knows how to merge custom resources: %v", err)
		must(to.Patch(ctx, "o", types.MergePatchType, strategic, metav1.PatchOptions{}))
	} else {
		done(err)
	}
	done(to.Delete(ctx, "o", metav1.DeleteOptions{}))
	going := must(to.Get(ctx, "o", metav1.GetOptions{}))
	expect(going.GetDeletionTimestamp() != nil, "it waits for its finalizers")
	must(to.Patch(ctx, "o", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}))
	refused[*unstructured.Unstructured](apierrors.IsNotFound)(to.Get(ctx, "o", metav1.GetOptions{}))
}

// paged is a list in parts, all of one moment.
func paged(ctx context.Context, to dynamic.ResourceInterface, resource schema.GroupVersionResource) {
	for _, name := range []string{"p1", "p2", "p3", "p4", "p5"} {
		made := sample(resource, name)
		made.SetLabels(map[string]string{"of": "pages"})
		must(to.Create(ctx, made, metav1.CreateOptions{}))
	}
	asked, versions, names := 0, map[string]bool{}, []string{}
	lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (kuberuntime.Object, error) {
		page, err := to.List(ctx, options)
		if err == nil {
			asked++
			versions[page.GetResourceVersion()] = true
			// What is written between pages is in none of them.
			must(to.Patch(ctx, "p5", types.MergePatchType, []byte(`{"metadata": {"annotations": {"page": "`+page.GetContinue()+`"}}}`), metav1.PatchOptions{}))
		}
		return page, err
	})
	lister.PageSize = 2
	done(lister.EachListItem(ctx, metav1.ListOptions{LabelSelector: "of=pages"}, func(object kuberuntime.Object) error {
		found := object.(*unstructured.Unstructured)
		expect(found.GetAnnotations()["page"] == "", "%s is of another moment", text(found))
		names = append(names, found.GetName())
		return nil
	}))
	equal(names, []string{"p1", "p2", "p3", "p4", "p5"})
	equal([]int{asked, len(versions)}, []int{3, 1})
	done(to.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=pages"}))
}

// appliedThings are merged by their definition: a list of parts by name.
func appliedThings(ctx context.Context, to dynamic.ResourceInterface) {
	apply := func(manager, spec string, force bool) (*unstructured.Unstructured, error) {
		wanted := object(`{"apiVersion": "clients.pvbind.dev/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": ` + spec + `}`)
		return to.Apply(ctx, "t", wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	made := must(apply("first", `{"size": 1, "parts": [{"name": "a", "weight": 1}]}`, false))
	equal(field(made, "spec", "color"), "blue")
	after := must(apply("second", `{"parts": [{"name": "b", "weight": 2}]}`, false))
	expected := []any{map[string]any{"name": "a", "weight": int64(1)}, map[string]any{"name": "b", "weight": int64(2)}}
	equal(field(after, "spec", "parts"), expected)
	_, err := apply("second", `{"size": 2, "parts": [{"name": "b", "weight": 2}]}`, false)
	expect(apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "%v", err)
	after = must(apply("second", `{"size": 2}`, true))
	equal(field(after, "spec", "size"), int64(2))
	equal(field(after, "spec", "parts"), expected[:1])
	_, err = apply("second", `{"size": 0}`, true)
	expect(apierrors.IsInvalid(err), "%v", err)
	status := object(`{"apiVersion": "clients.pvbind.dev/v1", "kind": "Thing", "metadata": {"name": "t"}, "status": {"size": 2}}`)
	after = must(to.ApplyStatus(ctx, "t", status, metav1.ApplyOptions{FieldManager: "first"}))
	equal(field(after, "status", "size"), int64(2))
}

// scaled is what a client that knows no kind does by the subresource alone.
func scaled(ctx context.Context, config *rest.Config, mapper scale.PreferredResourceMapper, asked discovery.DiscoveryInterface, to dynamic.ResourceInterface) {
	client := must(scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(asked)))
	now := must(client.Scales(namespace).Get(ctx, things.GroupResource(), "t", metav1.GetOptions{}))
	equal([]int32{now.Spec.Replicas, now.Status.Replicas}, []int32{2, 2})
	now.Spec.Replicas = 5
	must(client.Scales(namespace).Update(ctx, things.GroupResource(), now, metav1.UpdateOptions{}))
	equal(field(must(to.Get(ctx, "t", metav1.GetOptions{})), "spec", "size"), int64(5))
}

// followed is a watch that goes on where it ended, however often it ends.
func followed(ctx context.Context, to dynamic.ResourceInterface, admin rest.Interface) {
	begin := must(to.List(ctx, metav1.ListOptions{})).GetResourceVersion()
	stream := must(watchtools.NewRetryWatcherWithContext(ctx, begin, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return to.Watch(ctx, options)
		},
	}))
	defer stream.Stop()
	next := func() watch.Event {
		select {
		case event := <-stream.ResultChan():
			return event
		case <-time.After(patience):
			fail("no event")
			panic("it has ended")
		}
	}
	for _, name := range []string{"f1", "f2", "f3"} {
		must(to.Create(ctx, sample(maps, name), metav1.CreateOptions{}))
		ask(ctx, admin.Post(), "watches/cut")
		done(to.Delete(ctx, name, metav1.DeleteOptions{}))
		for _, expected := range []watch.EventType{watch.Added, watch.Deleted} {
			event := next()
			equal(event.Type, expected)
			equal(event.Object.(*unstructured.Unstructured).GetName(), name)
		}
	}
	// What is too old is told so, and this client leaves it to whoever listens.
	ask(ctx, admin.Put().Body([]byte("history: 1")), "faults")
	for _, name := range []string{"f4", "f5"} {
		must(to.Create(ctx, sample(maps, name), metav1.CreateOptions{}))
	}
	stale := must(to.Watch(ctx, metav1.ListOptions{ResourceVersion: begin}))
	defer stale.Stop()
	event := <-stale.ResultChan()
	equal(event.Type, watch.Error)
	err := apierrors.FromObject(event.Object)
	expect(apierrors.IsResourceExpired(err), "%v", err)
	ask(ctx, admin.Delete(), "faults")
}
