// Package controller keeps a deployment and a service for each Website.
package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	sitesv1 "example.com/website-operator/api/v1"
)

// Ready is the condition that is true if all pods of a site serve requests.
const Ready = "Ready"

// WebsiteReconciler reconciles sites.
type WebsiteReconciler struct {
	client.Client
}

// SetupWithManager starts the controller with a manager.
func (r *WebsiteReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		For(&sitesv1.Website{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Complete(r)
}

// Reconcile creates or changes the deployment and the service of a site, and reports its status.
func (r *WebsiteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &sitesv1.Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	deployment, err := r.applyDeployment(ctx, site)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.applyService(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.updateStatus(ctx, site, deployment)
}

func (r *WebsiteReconciler) applyDeployment(ctx context.Context, site *sitesv1.Website) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		spec := &deployment.Spec
		spec.Replicas = site.Spec.Replicas
		spec.Selector = &metav1.LabelSelector{MatchLabels: site.Labels()}
		spec.Template.Labels = site.Labels()
		wanted := site.Container()
		if containers := spec.Template.Spec.Containers; len(containers) == 1 {
			// The server has set defaults in the others fields of the container.
			containers[0].Image, containers[0].Env = wanted.Image, wanted.Env
		} else {
			spec.Template.Spec.Containers = []corev1.Container{wanted}
		}
		return controllerutil.SetControllerReference(site, deployment, r.Scheme())
	})
	return deployment, err
}

func (r *WebsiteReconciler) applyService(ctx context.Context, site *sitesv1.Website) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.Selector = site.Labels()
		if len(service.Spec.Ports) == 0 {
			port := corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}
			service.Spec.Ports = []corev1.ServicePort{port}
		}
		return controllerutil.SetControllerReference(site, service, r.Scheme())
	})
	return err
}

func (r *WebsiteReconciler) updateStatus(ctx context.Context, site *sitesv1.Website, deployment *appsv1.Deployment) error {
	ready := metav1.Condition{
		Type: Ready, Status: metav1.ConditionFalse, Reason: "PodsNotReady",
		ObservedGeneration: site.Generation,
	}
	replicas := deployment.Spec.Replicas
	if replicas != nil && deployment.Status.ReadyReplicas == *replicas {
		ready.Status, ready.Reason = metav1.ConditionTrue, "PodsReady"
	}
	before := site.DeepCopyObject().(*sitesv1.Website)
	site.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	meta.SetStatusCondition(&site.Status.Conditions, ready)
	return r.Status().Patch(ctx, site, client.MergeFrom(before))
}
