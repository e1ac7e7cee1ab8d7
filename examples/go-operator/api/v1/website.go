// Package v1 holds the API of the operator: one kind, Website.
package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and the version of Website.
var GroupVersion = schema.GroupVersion{Group: "sites.example.com", Version: "v1"}

// WebsiteSpec says what to run.
type WebsiteSpec struct {
	// Host is the name under which the site is reached. It cannot be changed.
	Host string `json:"host"`
	// Image is the container image of the web server. Default: nginx.
	Image string `json:"image,omitempty"`
	// Replicas is the number of pods. Default: 1.
	Replicas *int32 `json:"replicas,omitempty"`
}

// WebsiteStatus says what runs.
type WebsiteStatus struct {
	// ReadyReplicas is the number of pods that serve requests.
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Conditions has the condition Ready, which is true if all pods serve requests.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Website is a site that a deployment serves behind a service.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteList is a list of sites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Website `json:"items"`
}

// Labels selects the pods of the site.
func (w *Website) Labels() map[string]string {
	return map[string]string{"sites.example.com/website": w.Name}
}

// Container returns the container that serves the site.
func (w *Website) Container() corev1.Container {
	return corev1.Container{
		Name:  "web",
		Image: w.Spec.Image,
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		Env:   []corev1.EnvVar{{Name: "HOST", Value: w.Spec.Host}},
	}
}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyInto copies the site to another.
func (w *Website) DeepCopyInto(to *Website) {
	*to = *w
	w.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	if w.Spec.Replicas != nil {
		replicas := *w.Spec.Replicas
		to.Spec.Replicas = &replicas
	}
	to.Status.Conditions = nil
	for _, condition := range w.Status.Conditions {
		to.Status.Conditions = append(to.Status.Conditions, *condition.DeepCopy())
	}
}

// DeepCopyObject returns a copy.
func (w *Website) DeepCopyObject() runtime.Object {
	to := new(Website)
	w.DeepCopyInto(to)
	return to
}

// DeepCopyObject returns a copy.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	to := &WebsiteList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&to.ListMeta)
	to.Items = make([]Website, len(l.Items))
	for at := range l.Items {
		l.Items[at].DeepCopyInto(&to.Items[at])
	}
	return to
}
