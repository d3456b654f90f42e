// An external provisioner as people write them, on sig-storage-lib-external-provisioner: each volume is a directory
// below one folder. It is what the end-to-end scenarios of dynamic provisioning run against.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// directories makes volumes below the folder that it is.
type directories string

// pathParameter lets a class say below which path its volumes are, as their node sees it.
const pathParameter = "path"

func (folder directories) Provision(_ context.Context, wanted controller.ProvisionOptions) (*core.PersistentVolume, controller.ProvisioningState, error) {
	claim := wanted.PVC
	if claim.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s/%s: spec.selector: a new directory has no labels", claim.Namespace, claim.Name)
	}
	// Made again after a failure, it is the same one.
	path := filepath.Join(string(folder), wanted.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	if below, ok := wanted.StorageClass.Parameters[pathParameter]; ok {
		path = filepath.Join(below, wanted.PVName)
	}
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: wanted.PVName},
		Spec: core.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *wanted.StorageClass.ReclaimPolicy,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			MountOptions:                  wanted.StorageClass.MountOptions,
			Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			PersistentVolumeSource:        core.PersistentVolumeSource{HostPath: &core.HostPathVolumeSource{Path: path}},
		},
	}
	if wanted.SelectedNodeName != "" {
		only := core.NodeSelectorRequirement{Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{wanted.SelectedNodeName}}
		term := core.NodeSelectorTerm{MatchExpressions: []core.NodeSelectorRequirement{only}}
		volume.Spec.NodeAffinity = &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{term}}}
	}
	return volume, controller.ProvisioningFinished, nil
}

func (folder directories) Delete(_ context.Context, volume *core.PersistentVolume) error {
	return os.RemoveAll(filepath.Join(string(folder), volume.Name))
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig; the pod's service account without one")
	folder := flag.String("folder", "", "the folder below which volumes are made")
	name := flag.String("name", "e2e.pvbind.dev/directory", "the provisioner's name, as classes have it")
	flag.Parse()
	if *folder == "" {
		return fmt.Errorf("-folder: say below which folder volumes are made")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	controller.NewProvisionController(ctx, client, *name, directories(*folder), controller.LeaderElection(false)).Run(ctx)
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}
