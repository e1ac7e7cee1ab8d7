package clients

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// testApply applies as two managers: the second conflicts, and forces; a field that is no longer
// applied is removed.
func testApply(t *testing.T) {
	config, _ := connect(t)
	client := must(kubernetes.NewForConfig(config))(t)
	namespace := newNamespace(t, client)
	ctx := bounded(t)
	maps := client.CoreV1().ConfigMaps(namespace)
	first, second := metav1.ApplyOptions{FieldManager: "first"}, metav1.ApplyOptions{FieldManager: "second"}
	applied := must(maps.Apply(ctx, coreapply.ConfigMap("a", namespace).WithData(map[string]string{"x": "1", "y": "1"}), first))(t)
	if applied.Data["x"] != "1" || applied.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Fatalf("applied %+v", applied)
	}
	other := coreapply.ConfigMap("a", namespace).WithData(map[string]string{"x": "2"})
	_, err := maps.Apply(ctx, other, second)
	if !apierrors.IsConflict(err) {
		t.Fatalf("the error is %v", err)
	}
	status := err.(apierrors.APIStatus).Status()
	if status.Details.Causes[0].Field != ".data.x" {
		t.Errorf("the causes are %+v", status.Details.Causes)
	}
	second.Force = true
	must(maps.Apply(ctx, other, second))(t)
	applied = must(maps.Apply(ctx, coreapply.ConfigMap("a", namespace), first))(t)
	if len(applied.Data) != 1 || applied.Data["x"] != "2" {
		t.Errorf("the data is %v", applied.Data)
	}
	extracted := must(coreapply.ExtractConfigMap(applied, "second"))(t)
	if extracted.Data["x"] != "2" {
		t.Errorf("extracted %v", extracted.Data)
	}
}

func TestServerSideApply(t *testing.T) {
	testApply(t)
}

func TestServerSideApplyInCBOR(t *testing.T) {
	clientfeaturestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	clientfeaturestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	testApply(t)
}

// Two managers own different containers of a deployment; status is applied on its own.
func TestApplyOfListsAndStatus(t *testing.T) {
	config, _ := connect(t)
	client := must(kubernetes.NewForConfig(config))(t)
	namespace := newNamespace(t, client)
	ctx := bounded(t)
	deployments := client.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "web"}
	deployment := func(container string) *appsapply.DeploymentApplyConfiguration {
		pod := coreapply.PodSpec().WithContainers(coreapply.Container().WithName(container).WithImage("image"))
		return appsapply.Deployment("web", namespace).WithSpec(appsapply.DeploymentSpec().
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
	}
	must(deployments.Apply(ctx, deployment("a"), metav1.ApplyOptions{FieldManager: "first"}))(t)
	applied := must(deployments.Apply(ctx, deployment("b"), metav1.ApplyOptions{FieldManager: "second"}))(t)
	if len(applied.Spec.Template.Spec.Containers) != 2 {
		t.Fatalf("the containers are %+v", applied.Spec.Template.Spec.Containers)
	}
	status := appsapply.Deployment("web", namespace).WithStatus(appsapply.DeploymentStatus().WithReplicas(3))
	applied = must(deployments.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "controller"}))(t)
	if applied.Status.Replicas != 3 {
		t.Errorf("the status is %+v", applied.Status)
	}
	scaled := must(deployments.GetScale(ctx, "web", metav1.GetOptions{}))(t)
	scaled.Spec.Replicas = 5
	must(deployments.UpdateScale(ctx, "web", scaled, metav1.UpdateOptions{}))(t)
	if changed := must(deployments.Get(ctx, "web", metav1.GetOptions{}))(t); *changed.Spec.Replicas != 5 {
		t.Errorf("%d replicas", *changed.Spec.Replicas)
	}
}

// An update of an old object conflicts; RetryOnConflict succeeds. Patches of each type are applied.
func TestUpdatesAndPatches(t *testing.T) {
	config, _ := connect(t)
	client := must(kubernetes.NewForConfig(config))(t)
	maps := client.CoreV1().ConfigMaps(newNamespace(t, client))
	ctx := bounded(t)
	old := must(maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}))(t)
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/data","value":{"k":"json"}}]`,
		types.MergePatchType:          `{"data":{"k":"merge"}}`,
		types.StrategicMergePatchType: `{"data":{"k":"strategic"}}`,
	} {
		must(maps.Patch(ctx, "a", kind, []byte(patch), metav1.PatchOptions{}))(t)
	}
	if _, err := maps.Update(ctx, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("the error is %v", err)
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return setDone(ctx, client, old.Namespace) }); err != nil {
		t.Fatal(err)
	}
}

func setDone(ctx context.Context, client kubernetes.Interface, namespace string) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	object, err := maps.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.Data["done"] = "yes"
	_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	return err
}
