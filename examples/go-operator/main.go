// The program of the operator: a manager with the controller and the webhooks of Website.
package main

import (
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	sitesv1 "example.com/website-operator/api/v1"
	"example.com/website-operator/internal/controller"
	"example.com/website-operator/internal/webhook"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, sitesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := (&controller.WebsiteReconciler{Client: manager.GetClient()}).SetupWithManager(manager); err != nil {
		return err
	}
	if err := webhook.SetupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
