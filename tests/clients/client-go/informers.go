package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// follower is what the informers call themselves: the journal tells them from who writes.
const follower = "client-go/follower"

// kept is what one informer knows: its store, and what its handlers were told.
type kept struct {
	name     string
	informer cache.SharedIndexInformer
	list     func() (kuberuntime.Object, error)
	lock     sync.Mutex
	told     map[string]map[string]any
}

func keep(name string, informer cache.SharedIndexInformer, list func() (kuberuntime.Object, error)) *kept {
	k := &kept{name: name, informer: informer, list: list, told: map[string]map[string]any{}}
	set := func(object any) {
		k.lock.Lock()
		defer k.lock.Unlock()
		k.told[must(cache.MetaNamespaceKeyFunc(object))] = plain(object.(kuberuntime.Object))
	}
	must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			k.lock.Lock()
			defer k.lock.Unlock()
			delete(k.told, must(cache.DeletionHandlingMetaNamespaceKeyFunc(object)))
		},
	}))
	return k
}

// missing says how the informer differs from what the server holds, and nothing if it does not.
func (k *kept) missing() string {
	held, stored := map[string]map[string]any{}, map[string]map[string]any{}
	done(meta.EachListItem(must(k.list()), func(object kuberuntime.Object) error {
		held[must(cache.MetaNamespaceKeyFunc(object))] = plain(object)
		return nil
	}))
	for _, object := range k.informer.GetStore().List() {
		stored[must(cache.MetaNamespaceKeyFunc(object))] = plain(object.(kuberuntime.Object))
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	return differing(k.name+" in store", held, stored) + differing(k.name+" told", held, k.told)
}

func differing(what string, held, found map[string]map[string]any) string {
	for key, object := range held {
		if !reflect.DeepEqual(object, found[key]) {
			return fmt.Sprintf("%s: %s instead of %s; ", what, text(found[key]), text(object))
		}
	}
	if len(held) != len(found) {
		return fmt.Sprintf("%s: %d objects instead of %d; ", what, len(found), len(held))
	}
	return ""
}

// followers are informers of all sorts: typed, of what has no type here, and of metadata alone. The lists of what there really is
// are asked for under another name.
func followers(ctx context.Context, typed, config *rest.Config) ([]*kept, func()) {
	named := func(config *rest.Config) *rest.Config {
		config = rest.CopyConfig(config)
		config.UserAgent = follower
		return config
	}
	shared := kubeinformers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(named(typed)), 0)
	untyped := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(named(config)), 0)
	partial := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(named(typed)), 0)
	client, others, part := kubernetes.NewForConfigOrDie(typed).CoreV1(), dynamic.NewForConfigOrDie(config), metadata.NewForConfigOrDie(typed)
	all, core := metav1.ListOptions{}, shared.Core().V1()
	kept := []*kept{
		keep("claims", core.PersistentVolumeClaims().Informer(), func() (kuberuntime.Object, error) {
			return client.PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, all)
		}),
		keep("volumes", core.PersistentVolumes().Informer(), func() (kuberuntime.Object, error) {
			return client.PersistentVolumes().List(ctx, all)
		}),
		keep("maps", core.ConfigMaps().Informer(), func() (kuberuntime.Object, error) {
			return client.ConfigMaps(metav1.NamespaceAll).List(ctx, all)
		}),
		keep("things", untyped.ForResource(things).Informer(), func() (kuberuntime.Object, error) {
			return others.Resource(things).List(ctx, all)
		}),
		keep("secrets' metadata", partial.ForResource(secrets).Informer(), func() (kuberuntime.Object, error) {
			return part.Resource(secrets).List(ctx, all)
		}),
	}
	return kept, func() {
		shared.Start(ctx.Done())
		untyped.Start(ctx.Done())
		partial.Start(ctx.Done())
		for _, one := range kept {
			expect(cache.WaitForCacheSync(ctx.Done(), one.informer.HasSynced), "%s are never in step", one.name)
		}
	}
}

// ask sends a request to a path of /_pvbind/, which is beside the API.
func ask(ctx context.Context, request *rest.Request, path string) []byte {
	return must(request.AbsPath("/_pvbind/"+path).SetHeader("Accept", jsonForm).DoRaw(ctx))
}

// begun says how often the followers began to follow each resource, by lists or by watches that begin with what there is; never by
// both.
func begun(ctx context.Context, admin rest.Interface) map[string]int {
	var journal []struct {
		Verb, Resource, UserAgent string
		Query                     [][2]string
		Code                      int
	}
	done(json.Unmarshal(ask(ctx, admin.Get(), "journal"), &journal))
	streams := os.Getenv("KUBE_FEATURE_WatchListClient") != "false"
	times := map[string]int{}
	for _, entry := range journal {
		if entry.UserAgent != follower || entry.Code != 200 {
			continue
		}
		parameters := map[string]string{}
		for _, parameter := range entry.Query {
			parameters[parameter[0]] = parameter[1]
		}
		// That is how client-go checks what a stream brought, where it is asked to.
		if parameters["resourceVersionMatch"] == string(metav1.ResourceVersionMatchExact) {
			continue
		}
		streamed := parameters["sendInitialEvents"] == "true"
		expect(!(entry.Verb == "list" && streams || streamed && !streams), "this is not how it begins: %v", entry)
		if entry.Verb == "list" || streamed {
			times[entry.Resource]++
		}
	}
	return times
}

// informers follow the server through storms, watches that are cut, and versions that are forgotten.
func informers(ctx context.Context, typed, config *rest.Config) {
	others := dynamic.NewForConfigOrDie(config)
	admin := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
	define(ctx, others)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	all, start := followers(follow, typed, config)
	inStep := func() {
		for _, one := range all {
			eventually(one.missing)
		}
	}

	storm(ctx, others, 1)
	start()
	inStep()
	storm(ctx, others, 2)
	inStep()

	// Watches that end are begun again where they ended.
	before := begun(ctx, admin)
	for _, resource := range []schema.GroupVersionResource{claims, volumes, maps, things, secrets} {
		expect(before[resource.Resource] == 1, "%s: one beginning, not %v", resource.Resource, before)
	}
	storming := make(chan struct{})
	go func() {
		defer close(storming)
		storm(ctx, others, 3)
	}()
	cut := func() {
		// A watch that shows nothing, and ends within its first second, is taken for trouble, and begun anew.
		time.Sleep(1100 * time.Millisecond)
		ask(ctx, admin.Post(), "watches/cut")
	}
	cut()
	<-storming
	cut()
	cut()
	storm(ctx, others, 4)
	inStep()
	equal(begun(ctx, admin), before)

	// Kept from watching until nobody knows any more what came where they were, they begin anew.
	ask(ctx, admin.Put().Body([]byte("rules: [{verbs: [watch], answer: {code: 429, retryAfterSeconds: 1}}]")), "faults")
	ask(ctx, admin.Post(), "watches/cut")
	storm(ctx, others, 5)
	ask(ctx, admin.Put().Body([]byte("history: 1")), "faults")
	inStep()
	for resource, times := range begun(ctx, admin) {
		expect(times > before[resource], "%s: begun %d times, as before its version was gone", resource, times)
	}
	ask(ctx, admin.Delete(), "faults")
	storm(ctx, others, 6)
	inStep()
}
