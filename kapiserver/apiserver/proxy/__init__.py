"""The reverse proxy: passes requests on to pods, services, kubelets, and their responses back."""
