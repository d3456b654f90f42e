package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// group is that of custom resources.
const group = "clients.pvbind.dev"

var (
	claims      = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	maps        = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	volumes     = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	things      = schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// samples are the fields of objects beside their metadata.
var samples = map[schema.GroupVersionResource]string{
	claims:  `"kind": "PersistentVolumeClaim", "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}`,
	maps:    `"kind": "ConfigMap", "data": {"a": "b"}, "binaryData": {"c": "AP8="}`,
	secrets: `"kind": "Secret", "stringData": {"a": "b"}`,
	volumes: `"kind": "PersistentVolume", "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1.5Gi"}, "hostPath": {"path": "/srv"}}`,
	things:  `"kind": "Thing", "spec": {"size": 3}`,
}

// definition is that of things: they have a size, a status, and a scale.
const definition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "things.clients.pvbind.dev"},
	"spec": {
		"group": "clients.pvbind.dev", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
		"versions": [{
			"name": "v1", "served": true, "storage": true,
			"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {
					"size": {"type": "integer", "minimum": 1},
					"color": {"type": "string", "default": "blue"},
					"parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
						"type": "object", "required": ["name"],
						"properties": {"name": {"type": "string"}, "weight": {"type": "integer"}}
					}}
				}},
				"status": {"type": "object", "properties": {"size": {"type": "integer"}}}
			}}}
		}]
	}
}`

// object is what a text in JSON says.
func object(text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	done(json.Unmarshal([]byte(text), &object.Object))
	return object
}

func sample(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	return object(fmt.Sprintf(`{"apiVersion": %q, "metadata": {"name": %q}, %s}`, resource.GroupVersion(), name, samples[resource]))
}

// define makes things known, and waits until they are served.
func define(ctx context.Context, client dynamic.Interface) {
	must(client.Resource(definitions).Create(ctx, object(definition), metav1.CreateOptions{}))
	eventually(func() string {
		found := must(client.Resource(definitions).Get(ctx, "things."+group, metav1.GetOptions{}))
		conditions, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
		done(err)
		for _, condition := range conditions {
			fields := condition.(map[string]any)
			if fields["type"] == "Established" && fields["status"] == "True" {
				return ""
			}
		}
		return "the definition is not established: " + text(conditions)
	})
}

func scoped(client dynamic.Interface, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == volumes {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace(namespace)
}

// storm writes and deletes at random, all kinds at once; the same numbers are drawn each time.
func storm(ctx context.Context, client dynamic.Interface, seed int64) {
	var writers sync.WaitGroup
	for number, resource := range []schema.GroupVersionResource{claims, maps, volumes, secrets, things} {
		writers.Go(func() {
			drawn := rand.New(rand.NewSource(10*seed + int64(number)))
			to := scoped(client, resource)
			for step := range 60 {
				write(ctx, to, sample(resource, fmt.Sprintf("o%d", drawn.Intn(25))), drawn.Intn(4) == 0, step)
			}
		})
	}
	writers.Wait()
}

// write deletes an object, or makes it, or changes it if it is there.
func write(ctx context.Context, to dynamic.ResourceInterface, wanted *unstructured.Unstructured, gone bool, step int) {
	name, options := wanted.GetName(), metav1.PatchOptions{}
	if gone {
		// Nobody else removes what protects claims and volumes.
		_, err := to.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), options)
		expect(err == nil || apierrors.IsNotFound(err), "%v", err)
		err = to.Delete(ctx, name, metav1.DeleteOptions{})
		expect(err == nil || apierrors.IsNotFound(err), "%v", err)
		return
	}
	_, err := to.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		change := fmt.Sprintf(`{"metadata": {"annotations": {"step": "%d"}}}`, step)
		_, err = to.Patch(ctx, name, types.MergePatchType, []byte(change), options)
	}
	done(err)
}
