// Prints how each type of the served kinds is written as JSON: one line a type, `Name field:code …`.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

var marshaler = reflect.TypeOf((*json.Marshaler)(nil)).Elem()

var seen = map[reflect.Type]string{}
var lines []string

func name(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	if len(parts) < 2 || parts[len(parts)-2] == "core" {
		return t.Name()
	}
	return parts[len(parts)-2] + "." + t.Name()
}

// code: s string, n number, b bool, q quantity, t time, p port; {Type} struct; [x] list; <x> map; ? other.
func code(t reflect.Type) string {
	switch t.String() {
	case "resource.Quantity":
		return "q"
	case "v1.Time", "v1.MicroTime":
		return "t"
	case "intstr.IntOrString":
		return "p"
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return "?"
	}
	switch t.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Float64:
		return "n"
	case reflect.Struct:
		return "{" + visit(t) + "}"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "[" + code(t.Elem()) + "]"
	case reflect.Map:
		return "<" + code(t.Elem()) + ">"
	case reflect.Ptr:
		return code(t.Elem())
	}
	return "?"
}

func fields(t reflect.Type) []string {
	var out []string
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		opts := strings.Join(tag[1:], ",")
		if f.Anonymous && tag[0] == "" {
			out = append(out, fields(f.Type)...)
			continue
		}
		if tag[0] == "-" || tag[0] == "kind" && f.Name == "Kind" && t.Name() == "TypeMeta" || t.Name() == "TypeMeta" {
			continue
		}
		mark := "!" // written even when it is empty
		if strings.Contains(opts, "omitempty") {
			mark = "-" // left out when it is empty
			if f.Type.Kind() == reflect.Struct && !strings.Contains(opts, "omitzero") {
				mark = "!"
			}
		}
		if strings.Contains(opts, "omitzero") {
			mark = "-"
		}
		if f.Type.Kind() == reflect.Ptr {
			if mark == "-" {
				mark = "*" // left out when it is not there
			} else {
				mark = "0" // null when it is not there
			}
		}
		out = append(out, tag[0]+mark+code(f.Type))
	}
	return out
}

func visit(t reflect.Type) string {
	if n, ok := seen[t]; ok {
		return n
	}
	n := name(t)
	seen[t] = n
	f := fields(t)
	lines = append(lines, n+" "+strings.Join(f, " "))
	return n
}

func main() {
	for _, o := range []any{
		corev1.Namespace{}, corev1.Node{}, corev1.Pod{}, corev1.PersistentVolume{}, corev1.PersistentVolumeClaim{}, corev1.Event{},
		corev1.Service{}, corev1.Endpoints{}, corev1.ConfigMap{}, corev1.Secret{}, corev1.ServiceAccount{}, corev1.ResourceQuota{},
		corev1.LimitRange{}, corev1.ReplicationController{}, appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{},
		resourcev1.DeviceClass{}, resourcev1.ResourceClaim{}, resourcev1.ResourceClaimTemplate{}, resourcev1.ResourceSlice{},
		appsv1.DaemonSet{}, appsv1.ControllerRevision{}, batchv1.Job{}, batchv1.CronJob{}, storagev1.StorageClass{},
		storagev1.VolumeAttachment{}, storagev1.CSINode{}, storagev1.CSIDriver{}, storagev1.CSIStorageCapacity{},
		storagev1.VolumeAttributesClass{}, coordinationv1.Lease{}, eventsv1.Event{}, policyv1.PodDisruptionBudget{},
		schedulingv1.PriorityClass{}, rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{}, rbacv1.Role{}, rbacv1.RoleBinding{},
		autoscalingv2.HorizontalPodAutoscaler{}, discoveryv1.EndpointSlice{}, networkingv1.Ingress{}, networkingv1.IngressClass{}, networkingv1.NetworkPolicy{},
		corev1.PodTemplate{}, nodev1.RuntimeClass{},
	} {
		visit(reflect.TypeOf(o))
	}
	sort.Strings(lines)
	for _, l := range lines {
		fmt.Println(l)
	}
}
