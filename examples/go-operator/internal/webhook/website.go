// Package webhook sets the defaults of a Website and refuses invalid ones.
package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	sitesv1 "example.com/website-operator/api/v1"
)

// DefaultImage is the image of a site that names none.
const DefaultImage = "nginx:1.29"

// SetupWithManager serves the webhooks with a manager.
func SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(manager, &sitesv1.Website{}).
		WithDefaulter(defaulter{}).
		WithValidator(validator{}).
		Complete()
}

type defaulter struct{}

// Default sets the image and the number of replicas.
func (defaulter) Default(_ context.Context, site *sitesv1.Website) error {
	if site.Spec.Image == "" {
		site.Spec.Image = DefaultImage
	}
	if site.Spec.Replicas == nil {
		one := int32(1)
		site.Spec.Replicas = &one
	}
	return nil
}

type validator struct{}

// ValidateCreate refuses a host that is no DNS name.
func (validator) ValidateCreate(_ context.Context, site *sitesv1.Website) (admission.Warnings, error) {
	if problems := validation.IsDNS1123Subdomain(site.Spec.Host); len(problems) > 0 {
		return nil, fmt.Errorf("spec.host: %q: %s", site.Spec.Host, problems[0])
	}
	if *site.Spec.Replicas == 0 {
		return admission.Warnings{"spec.replicas is 0: nothing serves the site"}, nil
	}
	return nil, nil
}

// ValidateUpdate also refuses another host.
func (v validator) ValidateUpdate(ctx context.Context, old, site *sitesv1.Website) (admission.Warnings, error) {
	if site.Spec.Host != old.Spec.Host {
		return nil, fmt.Errorf("spec.host: %q cannot be changed to %q", old.Spec.Host, site.Spec.Host)
	}
	return v.ValidateCreate(ctx, site)
}

// ValidateDelete accepts each deletion.
func (validator) ValidateDelete(context.Context, *sitesv1.Website) (admission.Warnings, error) {
	return nil, nil
}
